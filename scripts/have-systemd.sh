#!/bin/sh
# Makes sure that there is systemd-analyze, which checks the unit files: the one on PATH, else the distribution's package.
set -eu
command -v systemd-analyze >/dev/null || "$(dirname "$0")/install.sh" systemd systemd
