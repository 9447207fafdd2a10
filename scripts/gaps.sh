#!/bin/sh
# How long the end of one command is before the begin of the next, for docs/CLI.md: REPETITIONS times (5 unless given).
set -eu
cd "$(dirname "$0")/.."

cargo nextest run -p zklock-cli --test cli \
    -E 'test(/^(loss|run|terminal)::/) & test(/gone|cut_off|black_hole|operator|killed|told|stopped|asked|began/)' \
    --profile strict --stress-count "${1:-5}" 2>&1 \
    | awk -F': ' '
        /FAIL|error/ { print > "/dev/stderr"; failed = 1 }
        $1 ~ /gap$/ && $3 ~ /^[+-][0-9.]+ s$/ {
            sub(/ s$/, "", $3)
            if (!($2 in number)) order[++rows] = $2
            gaps[$2, ++number[$2]] = $3 + 0
        }
        END {
            print "| what happens to the holder | times | least gap | median |"
            print "|---|---|---|---|"
            for (row = 1; row <= rows; row++) {
                name = order[row]; n = number[name]
                for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (gaps[name, j] < gaps[name, i]) {
                    swap = gaps[name, i]; gaps[name, i] = gaps[name, j]; gaps[name, j] = swap
                }
                printf "| %s | %d | %.3f s | %.3f s |\n", name, n, gaps[name, 1], gaps[name, int((n + 1) / 2)]
            }
            exit failed
        }'
