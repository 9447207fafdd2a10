#!/bin/sh
# Makes sure that there is a redis-server to start: the one on PATH, else the distribution's package. (The package also runs
# a server of its own, at the usual port; ours are started apart from it.)
set -eu
command -v redis-server >/dev/null || "$(dirname "$0")/install.sh" redis redis-server
