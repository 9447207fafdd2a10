#!/usr/bin/env bash
# Builds the program as one file that needs no library, and runs it in a container that has nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."
say() { echo "static: $*"; }

target="$(uname -m)-unknown-linux-musl"
command -v musl-gcc >/dev/null || scripts/install.sh static musl-tools || true
if ! command -v musl-gcc >/dev/null || ! timeout 120 rustup --quiet target add "$target" 2>/dev/null; then
    target="${target%musl}gnu"
    export RUSTFLAGS="-C target-feature=+crt-static"
    say "no compiler or no standard library for musl, so with glibc: names of servers are resolved only where the same glibc is installed"
fi
cargo build --quiet --release --target "$target" -p zklock-cli
binary="${CARGO_TARGET_DIR:-target}/$target/release/zklock"
if readelf --dynamic "$binary" | grep NEEDED; then
    say "$binary needs these libraries"
    exit 1
fi
say "$binary has $(stat --format %s "$binary") bytes, and needs no library"

if ! docker version >/dev/null 2>&1 || ! testcontainers/image/build.sh; then
    say "no container engine answers, or it has no ZooKeeper, so the program was not tried without a system around it"
    exit
fi
id="zklock-static-$$"
trap 'docker rm --force --volumes "$id" >/dev/null 2>&1; docker network rm "$id" >/dev/null; docker rmi "$id" >/dev/null' EXIT
tar --create --directory "$(dirname "$binary")" zklock | docker import - "$id" >/dev/null
docker network create "$id" >/dev/null
docker run --detach --name "$id" --network "$id" --network-alias zk zookeeper:3.9 >/dev/null
address="$(docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$id")"
alone() { docker run --rm --read-only --user 65532 --network "$id" "$id" /zklock "$@"; }
alone --version
until alone ls --servers "$address:2181" >/dev/null 2>&1; do
    [ $((tries = ${tries:-0} + 1)) -lt 10 ] || { say "no server answers at $address"; exit 1; }
done
alone run --servers "$address:2181" /lock/static -- /zklock --version
[ "$target" != "${target%musl}musl" ] || alone run --servers zk:2181 /lock/static -- /zklock --version
say "in an empty container it has held a lock"
