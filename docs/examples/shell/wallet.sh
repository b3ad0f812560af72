#!/bin/sh
# The wallet of the articles about locks: it holds 100, and fifty spenders need 10 each. Ten are served.
set -eu

fencegate() { # method, path, and what else curl is to know
	method=$1 path=$2
	shift 2
	curl -sS -X "$method" ${FENCEGATE_AUTH_TOKEN:+-H "Authorization: Bearer $FENCEGATE_AUTH_TOKEN"} "$@" "$FENCEGATE_URL/v1/$path"
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
	fencegate DELETE leases/wallet:42 -H "X-Lease-Id: $(echo "$grant" | text id)"
}

served=$(
	for _ in $(seq 50); do spend & done
	wait
)
echo "$(echo "$served" | grep -c served) of 50 were served"
