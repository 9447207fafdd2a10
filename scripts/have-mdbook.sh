#!/bin/sh
# Makes sure that there is an mdbook, which makes one book of all pages.
set -eu
if ! command -v mdbook >/dev/null; then
    echo "mdbook: installing mdbook (some minutes)"
    cargo install --locked --quiet --version 0.5.4 --no-default-features --features search mdbook
fi
