# Needs: Go 1.26, a C compiler, Node 20 with npm, Python 3.11 with pip and venv, Maven. Everything else is fetched, pinned, by their own package clients.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

GO_SRC  := $(shell find . -name '*.go' -not -path './web/node_modules/*' -not -name '*_test.go') go.mod go.sum $(wildcard store/migrations/*.sql domain/sample/*)
WEB_SRC := $(shell find web/src web/public web/scripts -type f 2>/dev/null) $(wildcard web/*.json web/*.ts web/*.mjs web/*.html web/*.cjs graph/schema/*.graphqls)
# DuckDB's extensions, which the engine embeds.
EXTENSIONS := agent/engine/extensions/.stamp
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Where the tests find Trino: outside of the repository, and installed once for all of its copies.
ENGINES := $${MILLPOND_ENGINES_DIR:-$${XDG_CACHE_HOME:-$$HOME/.cache}/millpond/engines}
# A package's tests may start a database, agents and tasks of their own: two packages at once is what two cores carry.
GOTEST  := go tool gotestsum --format pkgname-and-test-fails --hide-summary=skipped --
RACE    := -race -p 2 -timeout 40m

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.PHONY: run
run: build ## Start the platform with everything embedded and its sample at work
	./millpond serve

.PHONY: build
build: millpond ## Build the binary, the console in it

millpond: web/dist/index.html $(EXTENSIONS) $(GO_SRC)
	go build -trimpath -ldflags "-X main.version=$(VERSION)" -o $@ .

$(EXTENSIONS): scripts/extensions.sh scripts/extensions.txt
	scripts/extensions.sh && touch $@

web/node_modules/.stamp: web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error && touch node_modules/.stamp

web/dist/index.html: web/node_modules/.stamp $(WEB_SRC)
	cd web && npm run --silent codegen && npm run --silent typecheck && npm run --silent build

.PHONY: test
test: test-web test-go e2e ## Pass all tests

.PHONY: test-go
test-go: web/dist/index.html $(EXTENSIONS) pyiceberg trino ## Test the Go packages, against a real PostgreSQL and real processes
	$(GOTEST) $(RACE) ./...

.PHONY: pyiceberg
pyiceberg:
	@scripts/pyiceberg.sh > /dev/null

.PHONY: trino
trino: millpond ## Install Trino for the tests, in the user's cache
	@MILLPOND_ENGINES_DIR="$(ENGINES)" ./millpond engine install trino

.PHONY: test-web
test-web: web/dist/index.html ## Test the console's parts, and hold it to its size
	cd web && npm run --silent test && npm run --silent budget

.PHONY: e2e
e2e: millpond ## Walk through the console in a real browser, on the real binary
	scripts/e2e.sh

.PHONY: lint
lint: web/node_modules/.stamp $(EXTENSIONS) ## Check style, imports and that generated code is fresh
	@test -z "$$(go tool gofumpt -l $$(git ls-files '*.go' | grep -v generated))" || { echo "gofumpt would change:"; go tool gofumpt -l $$(git ls-files '*.go' | grep -v generated); exit 1; }
	go vet ./...
	go vet -tags duckdb_arrow ./bench
	go tool -modfile=tools/go.mod staticcheck ./...
	cd web && npm run --silent lint
	scripts/fresh.sh

.PHONY: generate
generate: web/node_modules/.stamp ## Write the generated code again
	go generate ./graph
	cd web && npm run --silent codegen

.PHONY: golden
golden: ## Write the golden files again: schema.sql, openapi.yaml, permissions.md
	UPDATE_GOLDEN=1 go test ./store ./domain -run 'Schema|PermissionsPage' -count=1
	go test ./rest -run OpenAPI -count=1 -update

.PHONY: bench
bench: millpond $(EXTENSIONS) trino ## Measure: ratios within one run, see docs/performance.md
	go test -tags duckdb_arrow -run '^$$' -bench . -benchtime 1x -timeout 60m ./bench/...

.PHONY: clean
clean: ## Remove what was built
	rm -rf millpond web/dist/* web/node_modules $(EXTENSIONS) agent/engine/extensions/*/*.gz && touch web/dist/.gitkeep
