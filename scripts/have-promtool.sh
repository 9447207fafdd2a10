#!/bin/sh
# Makes sure that there is target/promtool, which evaluates the alerts. It comes out of the distribution's package, which is not
# installed: that would start a Prometheus.
set -eu
cd "$(dirname "$0")/.."

[ ! -x target/promtool ] || exit 0
if promtool="$(command -v promtool)"; then
    mkdir -p target
    ln -sf "$promtool" target/promtool
    exit 0
elif ! command -v apt-get >/dev/null; then
    echo "promtool: there is no promtool; install Prometheus, of which it is a part"
    exit 1
fi
echo "promtool: unpacking it from the prometheus package"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch" # for apt's own user
if ! (cd "$scratch" && apt-get download -qq prometheus 2>/dev/null); then
    as_root=""
    [ "$(id -u)" = 0 ] || as_root=sudo
    $as_root apt-get update -qq
    (cd "$scratch" && apt-get download -qq prometheus)
fi
dpkg-deb -x "$scratch"/prometheus_*.deb "$scratch/package"
mkdir -p target
mv "$scratch/package/usr/bin/promtool" target/promtool
