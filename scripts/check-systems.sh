#!/bin/sh
# The library compiles for systems on which nobody runs its tests. TLS is left out: its C code needs a compiler for each system.
set -eu
cd "$(dirname "$0")/.."

for target in x86_64-apple-darwin x86_64-unknown-freebsd; do
    if ! rustup target list --installed 2>/dev/null | grep -qx "$target" && ! timeout 120 rustup --quiet target add "$target" >/dev/null 2>&1; then
        echo "systems: the standard library for $target is not installed and not to be had, so it was not tried"
        continue
    fi
    cargo clippy -p zklock-recipe -p zklock --features zklock/cancellation-token,zklock/metrics,zklock/sasl-digest-md5,zklock/serde \
        --target "$target" --quiet -- -D warnings
    echo "systems: zklock compiles for $target"
done
