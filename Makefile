# Everything a contributor runs. Works with the GNU make 3.81 of macOS.

VERSITYGW   := v1.8.0
STATICCHECK := v0.8.2

TOOLS := $(CURDIR)/.cache/bin
SHELL := /bin/bash

.DEFAULT_GOAL := help
.PHONY: help build install release demo test soak mutants model bench bench-leases bench-objects fuzz deps testdeps tools peers lint fmt clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/fencegate
	go build -o bin/fencegate ./cmd/fencegate

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
PREFIX    ?= /usr/local
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

install: ## Install bin/fencegate, which make build has made, into PREFIX/bin (/usr/local/bin)
	@[ -x bin/fencegate ] || { echo "make: bin/fencegate is missing: make build, as yourself" >&2; exit 1; }
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 bin/fencegate "$(DESTDIR)$(PREFIX)/bin/fencegate"

release: export SCRIPT = $(value release_archives)
release: export RELEASE_VERSION = $(VERSION)
release: export RELEASE_PLATFORMS = $(PLATFORMS)
release: ## Build dist/: archives for linux and darwin, amd64 and arm64, and their SHA256SUMS
	@bash -euo pipefail -c "$$SCRIPT"

demo: deps build ## Watch a paused worker wake up and be refused; needs nothing that runs already
	bin/fencegate demo $(ARGS)

# The longest packages first, so that none of them is left to run alone. Vet is a part of make lint. A compiler that collects
# less often is faster by a sixth, which the tests' own memory must not see: so all is compiled before, and go test says what
# does not.
test: deps testdeps tools ## Run all tests with the race detector, against real servers
	cd internal/composetest && go test -vet=off -timeout 5m ./...
	cd internal/openapitest && go test -vet=off -count 1 -timeout 5m ./...
	@GOGC=400 go list -race -export -test -f '{{""}}' ./... 2>/dev/null || true
	FENCEGATE_TEST_S3_CLIENTS=1 go test -race -vet=off -timeout 15m ./e2e ./stores/pgstore ./...

SEED     ?= 0
SOAK     ?= 1h
FUZZTIME ?= 10s
FUZZ     ?= .

soak: deps testdeps tools ## Disturb a deployment for an hour and check its history (SOAK=10m SEED=7)
	go test -race -timeout 0 -count 1 -v -run 'TestFaults$$' ./e2e -args -faults.duration=$(SOAK) -faults.seed=$(SEED)

MUTANTS  ?= .
DURATION ?= 45s

mutants: deps testdeps tools ## Show that the checkers find mistakes: each is made on purpose (MUTANTS='NoSeal|Replay')
	go test -race -tags mutants -timeout 40m -count 1 -v -run 'TestMutants/$(MUTANTS)' ./e2e -args -mutants.duration=$(DURATION)

model: testdeps ## Search the protocol's model with the larger bounds
	go test ./e2e/model -count 1 -v -parallel 2 -timeout 90m -args -model.long

# The program in the foreground: what ends make ends it, and it the servers.
bench: deps build peers ## Compare a fenced write with an unfenced one, into bench/results.md and .json (QUICK=1: 3 minutes)
	cd bench && go build -o "$(TOOLS)/bench-rows" ./rows
	cd bench && exec "$(TOOLS)/bench-rows" -gateway ../bin/fencegate -peers ../.cache/peers -data ../.cache -out . $(if $(QUICK),-quick) $(ARGS)

bench-leases: deps testdeps ## Measure leases beside other libraries', for two minutes (ARGS=-quick)
	cd bench && go run ./leases $(ARGS)

bench-objects: deps tools build ## Measure uploads and downloads through a gateway beside the SDK alone (ARGS=-quick)
	cd bench && go run ./objects $(ARGS)

fuzz: export SCRIPT = $(value run_fuzz)
fuzz: ## Fuzz each parser for 10 s (FUZZTIME=1m FUZZ=./gateway)
	@FUZZTIME=$(FUZZTIME) FUZZ="$(FUZZ)" bash -euo pipefail -c "$$SCRIPT"

# A linter that collects less often takes three quarters of the time, and 1.2 GB.
lint: export GOGC = 400
lint: tools ## Check formatting, vet, staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted (make fmt): $$unformatted"; exit 1; fi
	go vet ./...
	GOOS=darwin go vet ./internal/localservers
	go vet -tags mutants ./stores/pgstore ./e2e
	"$(TOOLS)/staticcheck" ./...
	cd internal/composetest && go vet ./... && "$(TOOLS)/staticcheck" ./...
	cd internal/openapitest && go vet ./... && "$(TOOLS)/staticcheck" ./...
	cd bench && go vet ./... && "$(TOOLS)/staticcheck" ./...

fmt: ## Format the Go files
	gofmt -w .

clean: ## Remove what make built; the data in .fencegate stays
	rm -rf bin dist .cache

# $(value) hands the scripts below to the shell as they stand.
deps: export SCRIPT = $(value require)$(value require_servers)
deps: ## Check for Go, PostgreSQL and Redis; install the missing servers with apt-get or brew
	@bash -euo pipefail -c "$$SCRIPT"

# The race detector and the model need a C compiler, the test of the README's commands curl, that of the examples Python's requests.
testdeps: export SCRIPT = $(value require)$(value require_testdeps)
testdeps:
	@bash -euo pipefail -c "$$SCRIPT"

tools: ## Build the test S3 server and the linter into .cache/bin
	@$(call install,versitygw,github.com/versity/versitygw,/cmd/versitygw,$(VERSITYGW))
	@$(call install,staticcheck,honnef.co/go/tools,/cmd/staticcheck,$(STATICCHECK))

peers: export SCRIPT = $(value install_peers)
peers:
	@bash -euo pipefail -c "$$SCRIPT"

# install: program, module, package in the module, version
define install
go version -m "$(TOOLS)/$(1)" 2>/dev/null | grep -Eq '^[[:space:]]mod[[:space:]]$(2)[[:space:]]$(4)[[:space:]]' \
	|| { echo "building $(1) $(4)"; GOBIN="$(TOOLS)" go install $(2)$(3)@$(4); }
endef

# Without the peers the rest is measured all the same, and says that they are missing.
define install_peers
from=bench/rows/peers to=.cache/peers
mkdir -p $to
cp -R $from/. $to
cmp -s $from/package-lock.json $to/installed.json && exit
rm -f $to/installed.json
echo "installing the programs that rows are compared with, with npm"
if ! command -v npm >/dev/null; then
	echo "make: npm is missing, and they are left out: apt-get install npm, or brew install node" >&2
elif (cd $to && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then
	cp $from/package-lock.json $to/installed.json
else
	echo "make: npm has failed, and they are left out" >&2
fi
endef

define require
fail() { echo "make: $*" >&2; exit 1; }

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"
	elif command -v sudo >/dev/null; then sudo "$@"
	else fail "installing packages needs root or sudo; as root: $*"
	fi
}

apt_install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }

endef

define require_servers
has_postgres() {
	local initdb
	command -v initdb >/dev/null && command -v postgres >/dev/null && return
	for initdb in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb /opt/homebrew/opt/postgresql@*/bin/initdb /usr/local/opt/postgresql@*/bin/initdb; do
		[ -x "$initdb" ] && return
	done
	return 1
}

has_redis() { command -v redis-server >/dev/null; }

command -v go >/dev/null || fail "Go 1.26 or newer is needed: https://go.dev/dl/"
version=$(go env GOVERSION) || fail "Go 1.26 or newer is needed: https://go.dev/dl/"
minor=$(echo "$version" | sed -E 's/^go1\.([0-9]+).*/\1/')
[[ "$minor" =~ ^[0-9]+$ ]] && [ "$minor" -ge 26 ] || fail "Go 1.26 or newer is needed, this is $version: https://go.dev/dl/"

if ! has_postgres || ! has_redis; then
	if command -v apt-get >/dev/null; then
		as_root apt-get update -q
		if ! has_postgres; then
			echo "installing PostgreSQL with apt-get, without a cluster of the system's: fencegate starts its own"
			apt_install postgresql-common
			as_root sed -i -E 's/^#?[[:space:]]*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
			apt_install postgresql
		fi
		if ! has_redis; then
			echo "installing Redis with apt-get; fencegate starts its own and leaves the system's alone"
			apt_install redis-server
		fi
	elif command -v brew >/dev/null; then
		if ! has_postgres; then echo "installing PostgreSQL with brew"; brew install postgresql@17; fi
		if ! has_redis; then echo "installing Redis with brew"; brew install redis; fi
	fi
fi
has_postgres || fail "PostgreSQL's server is missing: apt-get install postgresql, or brew install postgresql@17"
has_redis || fail "redis-server is missing: apt-get install redis-server, or brew install redis"
endef

define require_testdeps
has_compiler() { command -v "${CC:-gcc}" >/dev/null || command -v clang >/dev/null; }

if ! has_compiler && command -v apt-get >/dev/null; then
	echo "installing a C compiler for the race detector with apt-get"
	as_root apt-get update -q
	apt_install gcc libc6-dev
fi
if ! command -v curl >/dev/null && command -v apt-get >/dev/null; then
	echo "installing curl, which the README's examples use, with apt-get"
	as_root apt-get update -q
	apt_install curl ca-certificates
fi
command -v curl >/dev/null || fail "curl is missing: apt-get install curl, or brew install curl"
has_requests() { python3 -c 'import requests' 2>/dev/null; }
if ! has_requests && command -v apt-get >/dev/null; then
	echo "installing python3-requests, which the Python examples use, with apt-get"
	as_root apt-get update -q
	apt_install python3-requests
fi
has_requests || fail "Python's requests is missing: apt-get install python3-requests, or pip3 install requests"
has_compiler || fail "a C compiler is missing, which the race detector needs: apt-get install gcc libc6-dev, or xcode-select --install"

install_missing() {  # program, Debian package, Homebrew package, what for
	has_program "$1" && return
	if command -v apt-get >/dev/null; then
		echo "installing $2, $4, with apt-get"
		as_root apt-get update -q
		apt_install "$2"
	elif command -v brew >/dev/null; then
		echo "installing $3, $4, with brew"
		brew install "$3"
	fi
	has_program "$1" || fail "$1 is missing, $4: apt-get install $2, or brew install $3"
}

# Debian's PgBouncer and etcd start services of the system's, which nobody here uses.
has_program() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ]; }
if ! has_program pgbouncer && command -v systemctl >/dev/null; then as_root systemctl mask pgbouncer.service >/dev/null 2>&1 || true; fi
if ! has_program etcd && command -v systemctl >/dev/null; then as_root systemctl mask etcd.service >/dev/null 2>&1 || true; fi

install_missing spin spin spin "which searches the protocol's model"
install_missing pgbouncer pgbouncer pgbouncer "which the store is tested through"
install_missing etcd etcd-server etcd "which keeps leases in tests"

has_s3_clients() { has_program aws && has_program s3cmd && has_program rclone; }
if ! has_s3_clients; then
	if command -v apt-get >/dev/null; then
		echo "installing awscli, s3cmd and rclone, which write through the S3 front, with apt-get"
		as_root apt-get update -q
		apt_install awscli s3cmd rclone
	elif command -v brew >/dev/null; then
		echo "installing awscli, s3cmd and rclone, which write through the S3 front, with brew"
		brew install awscli s3cmd rclone
	fi
fi
has_s3_clients || fail "aws, s3cmd or rclone is missing, which write through the S3 front: apt-get install awscli s3cmd rclone, or brew install awscli s3cmd rclone"
endef

# The same commit and the same Go give the same bytes: nothing of the builder's folder, clock, user or umask gets in.
define release_archives
tar=$(command -v gtar || command -v tar)
"$tar" --version | grep -q GNU || { echo "make: GNU tar is needed (brew install gnu-tar)" >&2; exit 1; }
checksum=(sha256sum)
command -v sha256sum >/dev/null || checksum=(shasum -a 256)
epoch=$(git log -1 --format=%ct 2>/dev/null || echo 0)
rm -rf dist
mkdir dist
for platform in $RELEASE_PLATFORMS; do
	name=fencegate_${RELEASE_VERSION#v}_${platform%/*}_${platform#*/}
	echo "building $name"
	mkdir "dist/$name"
	env GOFLAGS= GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=0 GOOS="${platform%/*}" GOARCH="${platform#*/}" \
		go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$RELEASE_VERSION" -o dist/program ./cmd/fencegate
	# A copy: the linker maps its output, whose time can change after it has ended, and tar takes that for a write.
	install -m 755 dist/program "dist/$name/fencegate"
	cp -R LICENSE README.md CHANGELOG.md docs "dist/$name/"
	"$tar" -C dist --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w --format=ustar -cf - "$name" | gzip -9n > "dist/$name.tar.gz"
	rm -r "dist/$name"
done
rm dist/program
cd dist
"${checksum[@]}" ./*.tar.gz | sed 's# \./# #' > SHA256SUMS
cat SHA256SUMS
endef

define run_fuzz
# One instrumented binary for each package: go test would link one for each target.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=
for folder in $(grep -rl '^func Fuzz' --include='*_test.go' --exclude-dir=.cache $FUZZ | xargs -n1 dirname | sort -u); do
	go test -c -fuzz . -o "$work/fuzz" "$folder"
	cache=$(go env GOCACHE)/fuzz/$(go list "$folder")
	for target in $("$work/fuzz" -test.list '^Fuzz'); do
		echo "$folder $target"
		log=$(cd "$folder" && "$work/fuzz" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$FUZZTIME" -test.parallel 2 -test.fuzzcachedir "$cache" 2>&1) && continue
		# At the end of its time Go itself may fail with its own deadline (go.dev/issue/75804).
		if grep -q '^    context deadline exceeded$' <<<"$log" && ! grep -q 'Failing input' <<<"$log"; then continue; fi
		echo "$log"
		failed=1
	done
done
[ -z "$failed" ]
endef
