#!/bin/sh
# Makes sure that tests can have the newest ZooKeeper, and prints the directory to give as ZOOKEEPER_HOME.
#
# Debian has older versions. The Python package pyspark carries the jars of a ZooKeeper server, and of Curator, which tests
# meet. It has 450 MB, of which 18 MB stay.
set -eu
cd "$(dirname "$0")/.."

pyspark=4.3.0
zookeeper=3.9.5
home="$PWD/target/zookeeper-$zookeeper"

say() { echo "newest: $*" >&2; }

if ! command -v java >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
    scripts/install.sh newest default-jre-headless python3-pip
fi
if [ ! -e "$home/curator" ]; then
    scratch="$(mktemp -d)"
    trap 'rm -rf "$scratch"' EXIT
    say "downloading pyspark $pyspark, for ZooKeeper $zookeeper"
    python3 -m pip download --quiet --no-deps --no-binary pyspark --dest "$scratch" "pyspark==$pyspark" >&2
    # The server, what it logs by, and Netty, by which it speaks TLS. Its admin server needs Jetty, which is not there.
    set -- zookeeper slf4j-api log4j-api log4j-core log4j-slf4j2-impl metrics-core snappy-java commons-cli commons-io \
        jackson-annotations jackson-core jackson-databind audience-annotations netty-buffer netty-codec netty-codec-base \
        netty-common netty-handler netty-resolver netty-transport netty-transport-classes-epoll netty-transport-native-unix-common \
        curator-client curator-framework curator-recipes guava failureaccess
    wanted="*/jars/zookeeper-jute-$zookeeper.jar"
    for jar in "$@"; do
        wanted="$wanted */jars/$jar-[0-9]*.jar"
    done
    mkdir "$scratch/lib"
    set -f # tar matches these, and fails if one of them matches nothing
    tar -xzf "$scratch/pyspark-$pyspark.tar.gz" --directory "$scratch/lib" --strip-components=3 --wildcards $wanted
    set +f
    rm -rf "$home" "$scratch/pyspark-$pyspark.tar.gz"
    mkdir -p "$home" "$scratch/curator"
    for jar in curator-client curator-framework curator-recipes guava failureaccess; do
        mv "$scratch/lib/$jar"-[0-9]*.jar "$scratch/curator"
    done
    mv "$scratch/lib" "$home/lib"
    mv "$scratch/curator" "$home/curator"
    rm -rf "$scratch"
    say "$(ls "$home/lib" "$home/curator" | grep -c jar) jars are in $home"
fi
if [ ! -e "$home/classes.jsa" ]; then
    say "archiving the server's classes, so that it starts in little more than half the time"
    scratch="$(mktemp -d)"
    trap 'rm -rf "$scratch"' EXIT
    printf 'dataDir=%s\nclientPortAddress=127.93.5.1\nclientPort=21810\nadmin.enableServer=false\n' "$scratch/data" >"$scratch/zoo.cfg"
    "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Dorg.apache.logging.log4j.level=info -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit="$home/classes.jsa" \
        -cp "$home/lib/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$scratch/zoo.cfg" >"$scratch/log" 2>&1 &
    tries=600
    while [ $((tries -= 1)) -gt 0 ] && kill -0 $! 2>/dev/null && ! grep -qs "binding to port" "$scratch/log"; do sleep 0.1; done
    kill $! 2>/dev/null || true
    wait $! || [ -e "$home/classes.jsa" ] || say "no archive: $(tail -n 1 "$scratch/log")"
fi
echo "$home"
