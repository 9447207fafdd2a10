#!/bin/sh
# The minimum Rust version in Cargo.toml holds for every dependency; and if that toolchain is here, it builds.
set -eu
cd "$(dirname "$0")/.."

msrv="$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
newer="$(cargo metadata --format-version 1 --locked \
    | tr '{' '\n' | grep -oE '"rust_version":"[0-9.]+"' | grep -oE '[0-9]+\.[0-9]+' | sort -Vu \
    | awk -v msrv="$msrv" '{ split($1, a, "."); split(msrv, b, "."); if (a[1] > b[1] || (a[1] == b[1] && a[2] > b[2])) print }')"
if [ -n "$newer" ]; then
    echo "msrv: rust-version is $msrv, but dependencies need" $newer
    exit 1
fi
if rustup toolchain list 2>/dev/null | grep -q "^$msrv"; then
    cargo "+$msrv" check --workspace --all-features --quiet
    echo "msrv: $msrv builds it"
else
    echo "msrv: no dependency needs more than $msrv (that toolchain is not installed, so it was not tried)"
fi
