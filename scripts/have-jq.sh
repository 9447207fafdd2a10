#!/bin/sh
# Makes sure that there is a jq, with which the guide puts logs in order.
set -eu

if command -v jq >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "jq: there is no jq, and no apt-get to install it; install jq 1.6 or later"
    exit 1
elif [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    echo "jq: there is no jq; as root: apt-get install jq"
    exit 1
fi
echo "jq: installing the jq package"
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends jq >/dev/null
