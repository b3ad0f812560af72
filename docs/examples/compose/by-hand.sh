#!/usr/bin/env bash
# Plays docker-compose.yml without Docker: starts the programs that its services run, with their environment and commands
# as the file says them, on free loopback ports; then tries the gateways, and stops everything. Needs the servers that
# "make deps tools" installs. The exit code tells. FENCEGATE and COMPOSE_SHELL name programs that are built already.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/fencegate-by-hand.XXXXXX")
pids=()

say() { printf '%s\n' "$*"; }
fail() { say "FAILED: $*" >&2; for log in "$work"/*.log; do [ -s "$log" ] && { say "--- ${log##*/}"; tail -n 20 "$log"; } >&2; done; exit 1; }

# Last started, first stopped. Whatever does not go in time is killed: nothing is left behind.
cleanup() {
	trap - EXIT
	local i
	for ((i = ${#pids[@]} - 1; i >= 0; i--)); do [ -z "${pids[i]}" ] || stop "${pids[i]}" 10 || true; done
	kill "$watchdog" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'fail "interrupted, or out of time"' INT TERM
(trap - EXIT INT TERM; for ((i = 0; i < 120; i++)); do sleep 1; kill -0 $$ 2>/dev/null || exit 0; done; kill -TERM $$) >/dev/null 2>&1 &
watchdog=$!

# stop PID SECONDS: SIGTERM, and SIGKILL when that does not help. Returns the exit code.
stop() {
	kill -TERM "$1" 2>/dev/null || true
	ended "$@"
}

# ended PID SECONDS: what stop does once the signal was sent; a second SIGTERM would end a gateway at once.
ended() {
	local i code=0
	for ((i = 0; i < $2 * 10; i++)); do kill -0 "$1" 2>/dev/null || break; sleep 0.1; done
	kill -KILL "$1" 2>/dev/null || true
	wait "$1" || code=$?
	# Its number may be somebody else's from now on.
	for ((i = 0; i < ${#pids[@]}; i++)); do [ "${pids[i]}" != "$1" ] || pids[i]=; done
	return "$code"
}

# PostgreSQL refuses to run as root, and the gateways need no rights: root becomes somebody else.
as=()
if [ "$(id -u)" = 0 ]; then
	user=nobody
	id postgres >/dev/null 2>&1 && user=postgres
	command -v setpriv >/dev/null || fail "as root this needs setpriv (util-linux); or run it as an ordinary user"
	as=(setpriv --reuid "$(id -u "$user")" --regid "$(id -g "$user")" --clear-groups)
	chown "$(id -u "$user"):$(id -g "$user")" "$work"
fi
chmod 711 "$work"
cd "$work"

export PATH="$work:$root/.cache/bin:$PATH"
for bin in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin; do
	[ -x "$bin/initdb" ] && PATH="$bin:$PATH"
done
for program in initdb postgres psql pg_isready redis-server redis-cli versitygw curl; do
	command -v "$program" >/dev/null || fail "$program is not installed: make deps tools"
done

# Into the work folder, which the other user can enter; the checkout may be private, with the tools in it.
case $(command -v versitygw) in "$root"/*) cp "$(command -v versitygw)" versitygw && chmod 755 versitygw ;; esac
if [ -n "${FENCEGATE:-}" ]; then cp "$FENCEGATE" fencegate; else (cd "$root" && go build -o "$work/fencegate" ./cmd/fencegate); fi
if [ -n "${COMPOSE_SHELL:-}" ]; then cp "$COMPOSE_SHELL" shell; else (cd "$root/internal/composetest" && go build -o "$work/shell" ./shell); fi
install -m 644 "$root/docs/examples/compose/principals.yaml" "$root/docs/examples/compose/wallets.sql" .
chmod 755 fencegate
# eval "$(…)" would go on when the program has failed.
assignments=$(./shell ports 7) || fail "no free ports"
eval "$assignments"
postgres=127.0.0.1:${ports[0]} redis=127.0.0.1:${ports[1]} s3=127.0.0.1:${ports[2]}
listen=("" "127.0.0.1:${ports[3]}" "127.0.0.1:${ports[4]}")
admin=("" "127.0.0.1:${ports[5]}" "127.0.0.1:${ports[6]}")

# service NAME [FROM=TO ...]: reads environment, command and health of a service, with the containers' names replaced.
service() {
	local name=$1
	shift
	local assignments
	assignments=$(./shell service "$root" "$name" "postgres:5432=$postgres" "redis:6379=$redis" "s3:7070=$s3" \
		"/etc/fencegate/principals.yaml=$work/principals.yaml" "$@") || fail "the compose file tells no service $name"
	eval "$assignments"
}

# start NAME WORDS...: a program with the environment of the service, and nothing else of this one's.
start() {
	local name=$1
	shift
	"${as[@]+"${as[@]}"}" env -i PATH="$PATH" HOME="$work" "${environment[@]+"${environment[@]}"}" "$@" >"$name.log" 2>&1 &
	pids+=($!)
}

# healthy NAME WORDS...: waits for the health check of the service just started.
healthy() {
	local name=$1 i
	shift
	for ((i = 0; i < 300; i++)); do
		env -i PATH="$PATH" "${environment[@]+"${environment[@]}"}" "$@" >health.log 2>&1 && { say "healthy: $name"; return; }
		kill -0 "${pids[${#pids[@]} - 1]}" 2>/dev/null || fail "$name has ended"
		sleep 0.1
	done
	fail "$name does not become healthy"
}

value() { local e; for e in "${environment[@]}"; do [ "${e%%=*}" = "$1" ] && { printf '%s' "${e#*=}"; return; }; done; fail "no $1 in the service"; }

# The image's entry point makes the user and the database, and runs the scripts of /docker-entrypoint-initdb.d.
service postgres
(umask 077; value POSTGRES_PASSWORD >password)
[ ${#as[@]} = 0 ] || chown "$user" password
"${as[@]+"${as[@]}"}" initdb -D "$work/data" -U "$(value POSTGRES_USER)" --pwfile=password -A scram-sha-256 -E UTF8 --locale=C -N >initdb.log 2>&1 || fail "initdb"
start postgres postgres -D "$work/data" -p "${ports[0]}" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off
environment+=("PGPORT=${ports[0]}")
healthy postgres "${health[@]}"
sql() { PGPASSWORD=$(value POSTGRES_PASSWORD) psql -X -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "${ports[0]}" -U "$(value POSTGRES_USER)" "$@" >sql.log 2>&1 || fail "psql $*"; }
sql -d postgres -c "CREATE DATABASE $(value POSTGRES_DB)"
sql -d "$(value POSTGRES_DB)" -f wallets.sql

service redis "redis-cli ping=redis-cli -p ${ports[1]} ping"
mkdir redis-data
[ ${#as[@]} = 0 ] || chown "$user" redis-data
start redis "${command[@]}" --port "${ports[1]}" --bind 127.0.0.1 --dir "$work/redis-data"
healthy redis "${health[@]}"

service s3 "/data=$work/s3" "--port :7070=--port $s3" "127.0.0.1:7070=$s3"
mkdir s3
[ ${#as[@]} = 0 ] || chown "$user" s3
start s3 "${command[@]}"
healthy s3 curl -fsS -m 3 "${health[${#health[@]} - 1]}" # the image has wget, this machine curl

service setup
for expected in "is now protected" "is already protected"; do
	"${as[@]+"${as[@]}"}" env -i "${environment[@]}" ./fencegate "${command[@]}" >setup.log 2>&1 || fail "setup"
	[ "$(grep -c "$expected" setup.log)" = 3 ] || fail "setup does not say three times: $expected"
done
say "set up, twice"

for n in 1 2; do
	service "gateway-$n" "0.0.0.0:8080=${listen[n]}" "0.0.0.0:9090=${admin[n]}"
	[ "${health[0]}" = /fencegate ] || fail "the health check of gateway-$n is not the program's own"
	health[0]=$work/fencegate
	start "gateway-$n" "$work/fencegate" "${command[@]}"
	gateways[n]=$!
	healthy "gateway-$n" "${health[@]}"
done

a=fg_demo_worker_a_not_a_secret b=fg_demo_worker_b_not_a_secret operator=fg_demo_operator_not_a_secret

# call STATUS GATEWAY SECRET PATH [CURL...]: the answer is left in the file answer.
call() {
	local want=$1 gateway=$2 secret=$3 path=$4 got
	shift 4
	got=$(curl -sS -m 20 -o answer -w '%{http_code}' ${secret:+-H "Authorization: Bearer $secret"} "$@" "http://${listen[gateway]}$path") || fail "curl $path"
	[ "$got" = "$want" ] || fail "$path through gateway $gateway: $got, want $want: $(cat answer)"
	say "$got $path (gateway $gateway)"
}
acquire() { call 201 "$@" -X POST -H 'Content-Type: application/json'; token=$(sed 's/.*"token":\([0-9]*\).*/\1/' answer); }
patch() { local status=$1 gateway=$2 secret=$3 token=$4 body=$5; call "$status" "$gateway" "$secret" /v1/rows/wallets/42 -X PATCH -H 'Content-Type: application/json' -H "X-Fence-Token: $token" -d "$body"; }
contains() { grep -q "$1" answer || fail "no $1 in: $(cat answer)"; }

call 401 1 "" /v1/rows/wallets/42
call 401 2 wrong /v1/rows/wallets/42
acquire 1 "$a" /v1/leases/wallet:42 -d '{"ttl":"1s","holder":"worker-a"}'
late=$token
patch 200 2 "$a" "$late" '{"balance":90}'
acquire 2 "$b" /v1/leases/wallet:42 -d '{"ttl":"30s","holder":"worker-b","wait":"10s"}'
patch 200 1 "$b" "$token" '{"balance":50}'
patch 412 2 "$a" "$((late + 1))" '{"balance":70}'
contains stale-token
patch 403 1 "$operator" "$token" '{"balance":0}'
call 200 2 "$operator" /v1/rows/wallets/42
contains '"balance":50'

head -c 300000 /dev/urandom >report
acquire 1 "$a" /v1/leases/report:2026%2Fa.bin -d '{"ttl":"30s"}'
call 201 1 "$a" /v1/objects/reports/2026/a.bin -T report -H "X-Fence-Token: $token"
call 200 2 "$b" /v1/objects/reports/2026/a.bin
cmp -s report answer || fail "another object than was written"

# Both at once, as docker compose stop does: each has its grace period.
for n in 1 2; do kill -TERM "${gateways[n]}"; done
for n in 1 2; do
	code=0
	ended "${gateways[n]}" "$grace" || code=$?
	[ "$code" = 0 ] || fail "gateway-$n ended with $code"
	say "gateway-$n ended with 0"
done
say "all as it should be"
