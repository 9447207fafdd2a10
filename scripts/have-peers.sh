#!/bin/sh
# Makes sure that tests and benchmarks can have the real clients that zklock meets: Curator, kazoo and go-zookeeper, with our small
# programs for them (tests/peers). Prints the directory that has them.
#
# With `all`, also what only `make compare` needs: the servers of etcd and PostgreSQL, and etcd's client. (Debian's packages also
# run servers of their own, at the usual ports; ours are started apart from them.)
set -eu
cd "$(dirname "$0")/.."

kazoo=2.11.0
home="$(scripts/have-newest-zookeeper.sh)" # with Curator's jars
peers="$PWD/target/peers"
go=/usr/share/gocode/src

say() { echo "peers: $*" >&2; }

# The Go program NAME of tests/peers, from peer.go and what is for this client.
compile() {
    if [ ! "$peers/$1" -nt tests/peers/peer.go ] || [ ! "$peers/$1" -nt "tests/peers/$2" ]; then
        say "compiling tests/peers/$2"
        GO111MODULE=off GOPATH="${go%/src}" go build -o "$peers/$1" tests/peers/peer.go "tests/peers/$2" >&2
    fi
}

if ! command -v javac >/dev/null || ! command -v go >/dev/null || [ ! -e "$go/github.com/samuel/go-zookeeper" ]; then
    scripts/install.sh peers default-jdk-headless golang-go golang-github-samuel-go-zookeeper-dev
fi
mkdir -p "$peers"
if [ ! -e "$peers/kazoo-$kazoo" ]; then
    say "installing kazoo $kazoo"
    python3 -m pip install --quiet --no-deps --target "$peers/kazoo-$kazoo" "kazoo==$kazoo" >&2
fi
if [ ! "$peers/Peer.class" -nt tests/peers/Peer.java ]; then
    say "compiling tests/peers/Peer.java"
    javac -d "$peers" -cp "$home/lib/*:$home/curator/*" tests/peers/Peer.java >&2
fi
compile peer zookeeper.go
if [ "${1:-}" = all ]; then
    scripts/have-postgres.sh >/dev/null
    if ! command -v etcd >/dev/null || [ ! -e "$go/go.etcd.io/etcd" ]; then
        scripts/install.sh peers etcd-server golang-etcd-server-dev
    fi
    compile etcd-peer etcd.go
fi
echo "$peers"
