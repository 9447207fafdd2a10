#!/bin/sh
# Makes sure that there is a Postgres server to start, and prints the directory of its programs: those on PATH, else the
# distribution's package. (The package also runs a server of its own, at the usual port; ours are started apart from it.)
set -eu

# Debian keeps the server's programs off PATH, one directory a version.
directory() {
    for initdb in $(command -v initdb || true) $(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -rV); do
        dirname "$(readlink -f "$initdb")"
        return
    done
}

[ -n "$(directory)" ] || "$(dirname "$0")/install.sh" postgres postgresql
directory
