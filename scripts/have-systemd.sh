#!/bin/sh
# Makes sure that there is systemd-analyze, which checks the unit files: the one on PATH, else the distribution's package.
set -eu

if command -v systemd-analyze >/dev/null; then
    exit 0
elif ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    echo "systemd: there is no systemd-analyze; install your distribution's package systemd"
    exit 1
fi
echo "systemd: installing the systemd package"
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends systemd >/dev/null
