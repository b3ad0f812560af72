#!/bin/sh
# Elects one of several processes: leader.sh a & leader.sh b &
# The leader says twice a second that it leads, in an object that only the holder of its lease can write.
set -eu
name=$1
lease=$FENCEGATE_URL/v1/leases/report:leader

number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
text() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

# What each request has in common. Secrets stand in a file of ours, where no list of processes shows them.
config=$(mktemp) grant=$(mktemp)
with() { # the id of the grant, if there is one
	id=$1
	{
		printf '%s\n' silent show-error fail
		[ -z "${FENCEGATE_AUTH_TOKEN-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$FENCEGATE_AUTH_TOKEN"
		[ -z "$id" ] || printf 'header = "X-Lease-Id: %s"\n' "$id"
	} >"$config"
}

with ''
trap 'kill $! 2>/dev/null || :; [ -z "$id" ] || curl -K "$config" -X DELETE "$lease"; rm -f "$config" "$grant"; exit 0' TERM INT

while :; do
	# In the background, so that a signal need not wait for the answer.
	curl -K "$config" --json "{\"ttl\":\"5s\",\"wait\":\"1h\",\"holder\":\"$name\"}" "$lease" >"$grant" &
	if wait $!; then
		with "$(text id <"$grant")"
		token=$(number token <"$grant")
		echo "$name leads"
		# Each round renews the lease and spends the next token. It ends when either is refused, or takes too long.
		while curl -K "$config" -m 2 -X PUT --json '{"ttl":"5s"}' -o /dev/null "$lease" &&
			curl -K "$config" -m 2 -X PUT --data "$name" -H "X-Fence-Token: $token" -o /dev/null "$FENCEGATE_URL/v1/objects/reports/leader"; do
			token=$((token + 1))
			sleep 0.5
		done
		with ''
	fi
	echo "$name does not lead"
	sleep 1
done
