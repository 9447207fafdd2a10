#!/bin/sh
# Makes sure that tests and benchmarks can have a real Curator: the distribution's package and a Java compiler, and our
# small programs, compiled.
set -eu
cd "$(dirname "$0")/.."

say() { echo "curator: $*"; }

jars=/usr/share/java
class_path="$jars/curator-recipes.jar:$jars/curator-framework.jar:$jars/zookeeper.jar"
classes=target/curator

if [ ! -e "$jars/curator-recipes.jar" ] || ! command -v javac >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        say "there is no $jars/curator-recipes.jar or no javac, and no apt-get to install them; the tests of tests/servers/curator.rs need both"
        exit 1
    elif [ "$(id -u)" = 0 ]; then
        as_root=""
    elif command -v sudo >/dev/null; then
        as_root=sudo
    else
        say "as root: apt-get install libcurator-recipes-java default-jdk-headless"
        exit 1
    fi
    say "installing Curator and a Java compiler"
    $as_root apt-get update -qq
    $as_root apt-get install -y -qq --no-install-recommends libcurator-recipes-java default-jdk-headless >/dev/null
fi
for source in tests/curator/Peer.java bench/curator/Permits.java; do
    class="$classes/$(basename "$source" .java).class"
    if [ ! "$class" -nt "$source" ]; then
        say "compiling $source"
        javac -d "$classes" -cp "$class_path" "$source"
    fi
done
