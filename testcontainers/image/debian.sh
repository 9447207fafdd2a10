#!/bin/sh
# Makes the image `zklock-debian:RELEASE` available to the local container engine: a Debian of this release, for example trixie. It is
# pulled where a registry answers, and else made by debootstrap.
#
#   PULL_TIMEOUT      seconds to wait for a registry    (default 60; 0 skips the pull)
#   DEBIAN_MIRROR     where debootstrap gets its packages
set -eu

release="$1"
image="zklock-debian:$release"

say() { echo "image: $*"; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

if docker image inspect "$image" >/dev/null 2>&1; then
    say "$image is already here"
    exit 0
fi
if [ "${PULL_TIMEOUT:-60}" != 0 ] && timeout "${PULL_TIMEOUT:-60}" docker pull --quiet "debian:$release-slim"; then
    docker tag "debian:$release-slim" "$image"
    exit 0
fi
if ! command -v debootstrap >/dev/null; then
    say "installing debootstrap"
    as_root apt-get update -qq
    as_root apt-get install -y -qq --no-install-recommends debootstrap debian-archive-keyring
fi
root="$(mktemp -d)"
trap 'as_root rm -rf "$root"' EXIT
say "debootstrap of Debian $release into $root (about half a minute)"
as_root debootstrap --variant=minbase "$release" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$root.log" 2>&1 \
    || { tail -n 20 "$root.log" >&2; echo "image: debootstrap failed; its log is $root.log" >&2; exit 1; }
rm -f "$root.log"
as_root rm -rf "$root/var/cache/apt/archives"/*.deb "$root/var/lib/apt/lists"/*
say "importing it as $image"
as_root tar -C "$root" -c . | docker import - "$image" >/dev/null
