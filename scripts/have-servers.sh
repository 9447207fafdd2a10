#!/bin/sh
# Makes sure that tests and demo can start ZooKeeper servers: in containers if there is an engine, else as local
# processes from the distribution's package. ZKLOCK_TEST_BACKEND=docker|local forces one.
set -eu
cd "$(dirname "$0")/.."

say() { echo "servers: $*"; }

have_local() { command -v java >/dev/null && [ -e /usr/share/java/zookeeper.jar ]; }

use_local() {
    if have_local; then
        say "Java and the zookeeper package are here"
        return
    fi
    scripts/install.sh servers default-jre-headless zookeeper
}

case "${ZKLOCK_TEST_BACKEND:-}" in
docker) testcontainers/image/build.sh ;;
local) use_local ;;
*)
    if docker version >/dev/null 2>&1 && testcontainers/image/build.sh; then
        say "using containers"
    else
        say "no container engine, or no image for it; using local processes"
        use_local
    fi
    ;;
esac
