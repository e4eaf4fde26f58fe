#!/bin/sh
# with_store.sh SCHEME[?PARAMETERS] PROGRAM ARGS... - run PROGRAM URL ARGS... on a fresh embedded
# store.
set -eu
scheme=${1%%\?*}
params=${1#"$scheme"}
program=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
case $scheme in
file) url=file:$dir/store$params ;;
sqlite) url=sqlite:$dir/store.db$params ;;
*) echo "with_store.sh: unknown scheme $scheme" >&2; exit 2 ;;
esac
"$program" "$url" "$@"
