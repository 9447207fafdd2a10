#!/bin/sh
# Installs packages of the distribution, and says for what: `install.sh jq jq`. It prints nothing on standard output, where other
# scripts print what they have.
set -eu

what="$1"
shift
say() { echo "$what: $*" >&2; }

as_root=""
if ! command -v apt-get >/dev/null; then
    say "there is no apt-get; install what Debian calls $*"
    exit 1
elif [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { say "as root: apt-get install $*"; exit 1; }
    as_root=sudo
fi
say "installing $*"
install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null; }
# The lists of packages may be missing or old.
install "$@" >/dev/null 2>&1 || { $as_root apt-get update -qq && install "$@"; } >&2
