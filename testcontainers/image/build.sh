#!/bin/sh
# Makes the image `zookeeper:3.9` available to the local container engine, and does nothing when it already is, unless it is
# a stand-in built from other files than these.
#
# The official image is pulled where a registry answers. Elsewhere a stand-in with the same name, environment variables
# and directories is built from Debian packages.
#
#   ZOOKEEPER_IMAGE   another name for the image        (default zookeeper:3.9)
#   PULL_TIMEOUT      seconds to wait for a registry    (default 60; 0 skips the pull)
#   DEBIAN_MIRROR     where debootstrap gets its packages
set -eu

image="${ZOOKEEPER_IMAGE:-zookeeper:3.9}"
base=zklock-debian:trixie
here="$(cd "$(dirname "$0")" && pwd)"

say() { echo "image: $*"; }
fail() { echo "image: $*" >&2; exit 1; }

command -v docker >/dev/null || fail "no docker command; install one (apt-get install docker.io)"
docker version >/dev/null 2>&1 || fail "the docker engine does not answer; start it (service docker start)"

# The official image has no such label.
label=zklock.stand-in
built_from="$(cat "$here/Dockerfile" "$here/docker-entrypoint.sh" | sha256sum | cut -c 1-12)"
if found="$(docker image inspect --format "{{with .Config.Labels}}{{index . \"$label\"}}{{end}}" "$image" 2>/dev/null)"; then
    if [ -z "$found" ] || [ "$found" = "$built_from" ]; then
        say "$image is already here"
        exit 0
    fi
    say "$image is a stand-in from other files"
fi

if [ "${PULL_TIMEOUT:-60}" != 0 ]; then
    say "pulling $image (at most ${PULL_TIMEOUT:-60} s)"
    if timeout "${PULL_TIMEOUT:-60}" docker pull --quiet "$image"; then
        say "$image is pulled"
        exit 0
    fi
    say "no registry gave us $image; building a stand-in from Debian packages"
fi

PULL_TIMEOUT=0 "$here/debian.sh" trixie
say "building $image (installs a Java runtime and ZooKeeper)"
docker build --quiet --build-arg BASE="$base" --label "$label=$built_from" --tag "$image" "$here"
say "$image is built"
