#!/bin/sh
# The measurements of docs/PERFORMANCE.md.
set -eu
cd "$(dirname "$0")/.."
scripts/have-peers.sh
cargo build --release --quiet -p zklock-bench
bench="target/release/zklock-bench"
"$bench" scenario free --clients 1 --cycles 1000 --rtt-ms 1
"$bench" scenario contended --clients 8 --cycles 500 --rtt-ms 1
"$bench" scenario contended --clients 8 --cycles 2000 --rtt-ms 0
"$bench" scenario contended --clients 2 --cycles 1000 --rtt-ms 1
"$bench" scenario contended --clients 2 --cycles 1000 --rtt-ms 0
"$bench" scenario contended --clients 2 --cycles 200 --rtt-ms 1 --hold-ms 5
"$bench" scenario contended --clients 2 --cycles 300 --rtt-ms 0 --hold-ms 5
"$bench" scenario contended --clients 8 --cycles 500 --rtt-ms 1 --hold-ms 5
"$bench" scenario contended --clients 8 --cycles 500 --rtt-ms 0 --hold-ms 5
"$bench" scenario queue --clients 10 --cycles 20
"$bench" scenario queue --clients 1000 --cycles 20
"$bench" scenario multi --clients 1 --cycles 1000 --rtt-ms 1
"$bench" scenario readers --clients 1 --cycles 200
"$bench" scenario readers --clients 10 --cycles 200
"$bench" scenario readers --clients 1000 --cycles 20
"$bench" scenario keys --clients 8 --tasks 8 --cycles 40 --rtt-ms 1
"$bench" scenario permits --clients 64 --cycles 20 --rtt-ms 1
