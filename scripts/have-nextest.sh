#!/bin/sh
# Makes sure that there is a test runner which gives each test a process of its own.
set -eu
if ! cargo nextest --version >/dev/null 2>&1; then
    echo "nextest: installing cargo-nextest (some minutes)"
    cargo install --locked --quiet cargo-nextest
fi
