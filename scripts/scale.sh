#!/bin/sh
# The measurements of docs/SCALE.md that fit into five minutes, and into two cores. The page names the commands of the others.
set -eu
cd "$(dirname "$0")/.."
scripts/have-peers.sh >&2
home="$(scripts/have-newest-zookeeper.sh)"
cargo build --release --quiet -p zklock-bench
export ZKLOCK_TEST_BACKEND=local ZOOKEEPER_HOME="$home"
# Tests' servers are small and start fast. These have more memory, and compile as long as Java does by default.
export _JAVA_OPTIONS="-Xmx1g -XX:TieredStopAtLevel=4"
scale="target/release/zklock-bench scale --window 10"
# The first one warms the servers up.
$scale --what idle,curator,pinging,plain,idle,holding,waiting,observing --sessions 300
$scale --what holding,waiting,observing,keys,permits --sessions 1 --each 1000 --servers 1
$scale --what cycling,handing --sessions 64
$scale --what cycling,handing --sessions 64 --force-sync
