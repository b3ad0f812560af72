# Everything a contributor runs. Works with the GNU make 3.81 of macOS.

VERSITYGW   := v1.8.0
STATICCHECK := v0.8.2

TOOLS := $(CURDIR)/.cache/bin
SHELL := /bin/bash

.DEFAULT_GOAL := help
.PHONY: help build demo test deps testdeps tools lint fmt clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/fencegate
	go build -o bin/fencegate ./cmd/fencegate

demo: deps build ## Watch a paused worker wake up and be refused; needs nothing that runs already
	bin/fencegate demo $(ARGS)

test: deps testdeps tools ## Run all tests with the race detector, against real servers
	go test -race -timeout 10m ./...

lint: tools ## Check formatting, vet, staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted (make fmt): $$unformatted"; exit 1; fi
	go vet ./...
	GOOS=darwin go vet ./internal/localservers
	"$(TOOLS)/staticcheck" ./...

fmt: ## Format the Go files
	gofmt -w .

clean: ## Remove what make built; the data in .fencegate stays
	rm -rf bin .cache

# $(value) hands the scripts below to the shell as they stand.
deps: export SCRIPT = $(value require)$(value require_servers)
deps: ## Check for Go, PostgreSQL and Redis; install the missing servers with apt-get or brew
	@bash -euo pipefail -c "$$SCRIPT"

# The race detector needs a C compiler, the test of the README's commands curl.
testdeps: export SCRIPT = $(value require)$(value require_testdeps)
testdeps:
	@bash -euo pipefail -c "$$SCRIPT"

tools: ## Build the test S3 server and the linter into .cache/bin
	@$(call install,versitygw,github.com/versity/versitygw,/cmd/versitygw,$(VERSITYGW))
	@$(call install,staticcheck,honnef.co/go/tools,/cmd/staticcheck,$(STATICCHECK))

# install: program, module, package in the module, version
define install
go version -m "$(TOOLS)/$(1)" 2>/dev/null | grep -Eq '^[[:space:]]mod[[:space:]]$(2)[[:space:]]$(4)[[:space:]]' \
	|| { echo "building $(1) $(4)"; GOBIN="$(TOOLS)" go install $(2)$(3)@$(4); }
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
has_compiler || fail "a C compiler is missing, which the race detector needs: apt-get install gcc libc6-dev, or xcode-select --install"
endef
