#!/bin/sh
# Makes sure that there is a cargo-deny, which checks the licences and sources of dependencies.
set -eu
if ! cargo deny --version >/dev/null 2>&1; then
    echo "deny: installing cargo-deny (some minutes)"
    cargo install --locked --quiet cargo-deny
fi
