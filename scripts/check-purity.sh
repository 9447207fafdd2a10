#!/bin/sh
# The protocol and the lease arithmetic are pure: they import nothing but std and each other, and ask no clock.
set -eu
cd "$(dirname "$0")/.."

pure="src/lease.rs $(find src/lease src/recipe -name '*.rs' ! -path '*/tests*')"
# Test modules may use what they like; they come last in a file.
impure="$(for file in $pure; do
    sed '/#\[cfg(test)\]/,$d' "$file" | grep -nE \
        '(^|[^a-z_])(tokio|futures|tracing|zookeeper_client|rustix|uuid|serde)::|std::(time::(Instant|SystemTime)|net|fs|io|thread|sync|process|env)' \
        | grep -vE '^[0-9]+: *//' | sed "s|^|$file:|" || true
done)"
outside="$(for file in $pure; do
    sed '/#\[cfg(test)\]/,$d' "$file" | grep -nE '^ *(pub )?use crate::' | grep -vE 'use crate::(recipe|lease)' | sed "s|^|$file:|" || true
done)"
clients="$(grep -rln 'zookeeper_client' src --include='*.rs' | grep -vE '^src/(driver\.rs|session/)' || true)"

fail=0
[ -z "$impure" ] || { echo "purity: these pure modules do I/O, ask a clock, or import a crate:"; echo "$impure"; fail=1; }
[ -z "$outside" ] || { echo "purity: these pure modules depend on the rest of the crate:"; echo "$outside"; fail=1; }
[ -z "$clients" ] || { echo "purity: only driver and session may name zookeeper_client:"; echo "$clients"; fail=1; }
[ "$fail" = 0 ] && echo "purity: the pure modules are pure"
exit "$fail"
