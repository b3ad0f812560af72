#!/bin/sh
# The wallet of the articles about locks: it holds 100, and fifty spenders need 10 each. Ten are served.
set -eu

fencegate() { # method, path, and what else curl is to know
	method=$1 path=$2
	shift 2
	secrets | curl -sS -X "$method" -K - "$@" "$FENCEGATE_URL/v1/$path"
}

secrets() { # for curl, which gets them where no list of processes shows them
	[ -z "${FENCEGATE_AUTH_TOKEN-}" ] || printf 'header = "Authorization: Bearer %s"\n' "$FENCEGATE_AUTH_TOKEN"
	[ -z "${id-}" ] || printf 'header = "X-Lease-Id: %s"\n' "$id"
}

number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
text() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

spend() {
	grant=$(fencegate POST leases/wallet:42 --json '{"ttl":"30s","wait":"1m"}')
	balance=$(fencegate GET rows/wallets/42 | number balance)
	if [ "$balance" -ge 10 ] &&
		fencegate PATCH rows/wallets/42 --json "{\"balance\":$((balance - 10))}" -H "X-Fence-Token: $(echo "$grant" | number token)" -f -o /dev/null; then
		echo served
	fi
	id=$(echo "$grant" | text id)
	fencegate DELETE leases/wallet:42
}

served=$(
	for _ in $(seq 50); do spend & done
	wait
)
echo "$(echo "$served" | grep -c served) of 50 were served"
