#!/bin/sh
# Makes sure that there is a jq, with which the guide puts logs in order.
set -eu
command -v jq >/dev/null || "$(dirname "$0")/install.sh" jq jq
