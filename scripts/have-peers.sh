#!/bin/sh
# Makes sure that tests and benchmarks can have the real clients that zklock meets: Curator, kazoo and go-zookeeper, with our small
# programs for them (tests/peers, bench/curator). Prints the directory that has them.
set -eu
cd "$(dirname "$0")/.."

kazoo=2.11.0
home="$(scripts/have-newest-zookeeper.sh)" # with Curator's jars
peers="$PWD/target/peers"
go=/usr/share/gocode

say() { echo "peers: $*" >&2; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

if ! command -v javac >/dev/null || ! command -v go >/dev/null || [ ! -e "$go/src/github.com/samuel/go-zookeeper" ]; then
    say "installing a Java compiler, Go and go-zookeeper"
    as_root apt-get update -qq >&2
    as_root apt-get install -y -qq --no-install-recommends \
        default-jdk-headless golang-go golang-github-samuel-go-zookeeper-dev >&2
fi
mkdir -p "$peers"
if [ ! -e "$peers/kazoo-$kazoo" ]; then
    say "installing kazoo $kazoo"
    python3 -m pip install --quiet --no-deps --target "$peers/kazoo-$kazoo" "kazoo==$kazoo" >&2
fi
for source in tests/peers/Peer.java bench/curator/Permits.java bench/curator/Idle.java; do
    if [ ! "$peers/$(basename "$source" .java).class" -nt "$source" ]; then
        say "compiling $source"
        javac -d "$peers" -cp "$home/lib/*:$home/curator/*" "$source" >&2
    fi
done
if [ ! "$peers/peer" -nt tests/peers/peer.go ]; then
    say "compiling tests/peers/peer.go"
    GO111MODULE=off GOPATH="$go" go build -o "$peers/peer" tests/peers/peer.go >&2
fi
echo "$peers"
