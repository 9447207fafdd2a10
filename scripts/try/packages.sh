#!/usr/bin/env bash
# Packs the crates that are published, unpacks them in an empty folder, and builds and installs what is there. Patches stand in for
# the registry, which has none of them yet.
set -euo pipefail
cd "$(dirname "$0")/../.."

crates=(zklock-recipe zklock-ensemble zklock-testcontainers zklock zklock-cli zklock-sqlx)
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cargo package --quiet --no-verify --allow-dirty --target-dir "$folder" "${crates[@]/#/--package=}"
for file in "$folder"/package/*.crate; do tar --extract --gzip --file "$file" --directory "$folder"; done

patches=()
for crate in "${crates[@]}"; do
    mv "$folder/$crate"-[0-9]* "$folder/$crate"
    patches+=(--config "patch.crates-io.$crate.path = '$folder/$crate'")
    for licence in LICENSE-APACHE LICENSE-MIT; do
        cmp "$licence" "$folder/$crate/$licence"
    done
    rm "$folder/$crate/Cargo.lock" # it names crates of the registry
done
for crate in "${crates[@]}"; do
    features=()
    [ "$crate" != zklock-sqlx ] || features=(--all-features)
    cargo "${patches[@]}" build --quiet --manifest-path "$folder/$crate/Cargo.toml" "${features[@]}"
    echo "packages: $crate builds from its $(du -bs "$folder/$crate" | cut -f 1) bytes, $(find "$folder/$crate" -type f | wc -l) files"
done
cargo "${patches[@]}" install --quiet --debug --path "$folder/zklock-cli" --root "$folder/installed"
"$folder/installed/bin/zklock" --version
