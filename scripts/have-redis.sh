#!/bin/sh
# Makes sure that there is a redis-server to start: the one on PATH, else the distribution's package. (The package also runs
# a server of its own, at the usual port; ours are started apart from it.)
set -eu

say() { echo "redis: $*"; }

if command -v redis-server >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    say "there is no redis-server, and no apt-get to install it; install Redis 6 or later"
    exit 1
elif [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    say "there is no redis-server; as root: apt-get install redis-server"
    exit 1
fi
say "installing the redis-server package"
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends redis-server >/dev/null
