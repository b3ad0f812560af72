#!/bin/sh
# Elects one of several processes: leader.sh a & leader.sh b &
# The leader says twice a second that it leads, in an object that only the holder of its lease can write.
set -eu
name=$1
lease=$FENCEGATE_URL/v1/leases/report:leader

number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
text() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

request() { # curl with what each request has in common; fails when it is refused
	curl -sS -f ${FENCEGATE_AUTH_TOKEN:+-H "Authorization: Bearer $FENCEGATE_AUTH_TOKEN"} "$@"
}

id=
trap 'kill $! 2>/dev/null || :; [ -z "$id" ] || request -X DELETE -H "X-Lease-Id: $id" "$lease"; exit 0' TERM INT

while :; do
	# In the background, so that a signal need not wait for the answer.
	grant=$(mktemp)
	request --json "{\"ttl\":\"5s\",\"wait\":\"1h\",\"holder\":\"$name\"}" "$lease" >"$grant" &
	if wait $!; then
		id=$(text id <"$grant") token=$(number token <"$grant")
		echo "$name leads"
		# Each round renews the lease and spends the next token. It ends when either is refused, or takes too long.
		while request -m 2 -X PUT --json '{"ttl":"5s"}' -H "X-Lease-Id: $id" -o /dev/null "$lease" &&
			request -m 2 -X PUT --data "$name" -H "X-Fence-Token: $token" -o /dev/null "$FENCEGATE_URL/v1/objects/reports/leader"; do
			token=$((token + 1))
			sleep 0.5
		done
		id=
	fi
	rm -f "$grant"
	echo "$name does not lead"
	sleep 1
done
