#!/bin/sh
# The measurements of docs/PERFORMANCE.md.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p zklock-bench
bench="target/release/zklock-bench"
"$bench" compare --scenario free --clients 1 --cycles 1000 --rtt-ms 1
"$bench" compare --scenario contended --clients 8 --cycles 500 --rtt-ms 1
"$bench" compare --scenario contended --clients 8 --cycles 2000 --rtt-ms 0
"$bench" compare --scenario contended --clients 2 --cycles 1000 --rtt-ms 1
"$bench" compare --scenario contended --clients 2 --cycles 200 --rtt-ms 1 --hold-ms 5
"$bench" compare --scenario contended --clients 2 --cycles 300 --rtt-ms 0 --hold-ms 5
"$bench" compare --scenario queue --clients 10 --cycles 20
"$bench" compare --scenario queue --clients 1000 --cycles 20
"$bench" memory --waiters 10000
