#!/bin/sh
# A job that cron starts on several machines, and that is to be done once a day. fencegate run holds the lease, ends the
# script when it is lost, and does nothing when somebody else has it:
#
#   0 3 * * *  fencegate run --lease "report:nightly/$(date +\%F).csv" --if-held skip --max-hold 2h -- nightly.sh
set -eu

report=nightly/$(date +%F).csv
body=$(mktemp) answer=$(mktemp) config=$(mktemp)
trap 'rm -f "$body" "$answer" "$config"' EXIT

seq 1000 | awk '{ print $1 "," $1 * $1 }' >"$body"

# In a file of ours no list of processes shows the secret.
[ -z "${FENCEGATE_AUTH_TOKEN-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$FENCEGATE_AUTH_TOKEN" >"$config"

# The token is refused if the lease has passed on; If-None-Match refuses a second report of the day.
curl -sS -T "$body" -H "X-Fence-Token: $FENCE_TOKEN" -H 'If-None-Match: *' -H 'Content-Type: text/csv' \
	-o "$answer" --retry 3 -K "$config" "$FENCEGATE_URL/v1/objects/reports/$report"
case $(cat "$answer") in
*'"sha256":'*) echo published ;;
*'"code":"precondition-failed"'*) echo "it was done before" ;;
*) cat "$answer" >&2 && exit 1 ;;
esac
