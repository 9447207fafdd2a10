#!/bin/sh
# The measurements of docs/STRICTNESS.md: every scenario of tests/strict, ZKLOCK_STRICT_REPETITIONS times (10 unless set),
# one after the other; then the table of their rows. Fails if a scenario does.
set -eu
cd "$(dirname "$0")/.."
export ZKLOCK_STRICT_REPETITIONS="${ZKLOCK_STRICT_REPETITIONS:-10}"

output="$(mktemp)"
trap 'rm -f "$output"' EXIT
echo "strictness: $ZKLOCK_STRICT_REPETITIONS repetitions of each scenario"
# A pipe tells its last command's status only.
{ cargo nextest run -p zklock --test strict --profile strict 2>&1 || echo "strictness: FAILED"; } | tee "$output"

echo
echo "| what happens to the holder | repetitions | least margin | median |"
echo "|---|---|---|---|"
sed -n 's/^ *\(| .* |\)$/\1/p' "$output"
! grep -q '^strictness: FAILED$' "$output"
