#!/bin/sh
# Ships the lines of a growing file to another one, from where the last leader left off.
#
#     tenure run --name shipper --state store -- ./ship.sh SOURCE SINK
#
# The same as ship.py, with curl.
set -eu
source=$1
sink=$2
url=http://localhost/v1/state/shipper/place
batch=$(mktemp)
trap 'rm -f "$batch" "$batch.answer"' EXIT

# ask METHOD [BODY]: prints the status; the answer is in $batch.answer
ask() {
    if [ $# -eq 1 ]; then set -- "$1" ''; fi
    curl -s --unix-socket "$TENURE_SOCKET" -o "$batch.answer" -w '%{http_code}' \
        -X "$1" --data-binary "$2" "$url"
}

case $(ask GET) in
200) place=$(cat "$batch.answer") ;;
404) place=0 ;;
*) cat "$batch.answer" >&2; exit 1 ;;
esac
echo >>"$sink" # whatever an earlier one left half written ends here
while :; do
    # Whole lines only: what follows the last newline is for the next time.  The mark behind it
    # makes sure that there is something to leave away.
    { tail -c "+$((place + 1))" "$source" | head -c 4096; printf mark; } |
        awk '{ if (NR > 1) print line; line = $0 }' >"$batch"
    size=$(wc -c <"$batch")
    if [ "$size" -eq 0 ]; then
        sleep 0.02
        continue
    fi
    cat "$batch" >>"$sink"
    sync -d "$sink"
    place=$((place + size))
    status=$(ask PUT "$place")
    while [ "$status" = 503 ]; do # nobody knows, or not now: the same again is harmless
        sleep 0.1
        status=$(ask PUT "$place")
    done
    if [ "$status" != 200 ]; then # fenced: somebody else goes on from here
        cat "$batch.answer" >&2
        exit 1
    fi
done
