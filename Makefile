# Needs Go 1.26, a C compiler, Node 20 with npm, Python 3.11 with pip and venv, Maven. Their package
# clients fetch everything else, pinned.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

GO_SRC  := $(shell find . -name '*.go' -not -path './web/node_modules/*' -not -path './test/*' -not -name '*_test.go') go.mod go.sum $(wildcard store/migrations/*.sql domain/setup/sample/*)
WEB_SRC := $(shell find web/src web/public web/scripts -type f 2>/dev/null) $(wildcard web/*.json web/*.ts web/*.mjs web/*.html web/*.cjs graph/schema/*.graphqls)
# DuckDB's extensions; the engine embeds them.
EXTENSIONS := agent/engine/extensions/.stamp
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Trino for the tests: outside the repository, installed once for all its copies.
ENGINES := $${MILLPOND_ENGINES_DIR:-$${XDG_CACHE_HOME:-$$HOME/.cache}/millpond/engines}
# The same flags everywhere, so that lint, the binary and the tests' binary share compiled packages.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
GOTEST  := go tool gotestsum --format pkgname-and-test-fails --hide-summary=skipped
# A package's tests wait for databases, agents and tasks about as long as they compute. Two
# packages at once keep two cores busy. Lint has vetted them.
RACE    := -race -vet=off -p 2 -timeout 40m
# Packages start in this order, so that no long one runs alone at the end.
LONGEST := ./agent/engine/enginetest ./test/fault ./test/e2e ./agent/worker ./store ./test/spec ./rest ./agent/engine ./graph
# The tests' events, for scripts/slowest.py.
EVENTS  := .cache/tests.json
CONSOLE := .cache/console.log

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.PHONY: run
run: build ## Start the platform with everything embedded and run its sample
	./millpond serve

.PHONY: build
build: millpond ## Build the binary with the console

millpond: web/dist/index.html $(EXTENSIONS) $(GO_SRC)
	go build -ldflags "-X main.version=$(VERSION)" -o $@ .

$(EXTENSIONS): scripts/extensions.sh scripts/extensions.txt
	scripts/extensions.sh && touch $@

web/node_modules/.stamp: web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error && touch node_modules/.stamp

web/dist/index.html: web/node_modules/.stamp $(WEB_SRC)
	cd web && npm run --silent codegen && npm run --silent typecheck && npm run --silent build

# Neither the Go tests nor the console's keep the processors busy, so they run side by side.
.PHONY: test
test: millpond ## Run all tests and print the slowest
	@rm -f $(EVENTS); status=0; $(MAKE) --no-print-directory -k -j 2 test-go $(CONSOLE) || status=$$?; \
	cat $(CONSOLE); [ ! -f $(EVENTS) ] || scripts/slowest.py $(EVENTS); exit $$status

.PHONY: $(CONSOLE)
$(CONSOLE):
	@mkdir -p $(@D) && $(MAKE) --no-print-directory -k -j 1 test-web e2e > $@ 2>&1

.PHONY: test-go
test-go: millpond pyiceberg mlflow trino ## Test the Go packages, against a real PostgreSQL and real processes
	@mkdir -p $(dir $(EVENTS))
	MILLPOND_E2E_BINARY=$(CURDIR)/millpond $(GOTEST) --jsonfile $(EVENTS) -- $(RACE) $(LONGEST) ./...

.PHONY: soak
soak: $(EXTENSIONS) pyiceberg trino ## Run the random tests with other seeds for hours: make soak HOURS=8
	scripts/soak.sh $(HOURS)

.PHONY: pyiceberg
pyiceberg:
	@scripts/pyiceberg.sh > /dev/null

.PHONY: mlflow
mlflow:
	@scripts/mlflow.sh > /dev/null

.PHONY: trino
trino: millpond ## Install Trino for the tests, in the user's cache
	@MILLPOND_ENGINES_DIR="$(ENGINES)" ./millpond engine install trino

.PHONY: test-web
test-web: web/dist/index.html ## Test the console's parts and check its size
	cd web && npm run --silent test && npm run --silent budget

.PHONY: e2e
e2e: millpond ## Test the console in a real browser, on the real binary
	scripts/e2e.sh

.PHONY: lint
lint: web/node_modules/.stamp $(EXTENSIONS) ## Check style, imports and that generated code is fresh
	@test -z "$$(go tool gofumpt -l $$(git ls-files '*.go' | grep -v generated))" || { echo "gofumpt would change:"; go tool gofumpt -l $$(git ls-files '*.go' | grep -v generated); exit 1; }
	go vet ./...
	go vet -tags duckdb_arrow ./test/bench
	go tool -modfile=tools/go.mod staticcheck ./...
	cd web && npm run --silent lint
	scripts/fresh.sh

.PHONY: generate
generate: web/node_modules/.stamp ## Regenerate the generated code
	go generate ./graph
	cd web && npm run --silent codegen

.PHONY: golden
golden: ## Update the golden files: schema.sql, openapi.yaml, permissions.md
	UPDATE_GOLDEN=1 go test ./store ./domain -run 'Schema|PermissionsPage' -count=1
	go test ./rest -run OpenAPI -count=1 -update

.PHONY: bench
bench: millpond $(EXTENSIONS) trino ## Measure: ratios within one run, see docs/performance.md
	@scripts/mlflow.sh server > /dev/null
	go test -tags duckdb_arrow -run '^$$' -bench . -benchtime 1x -timeout 60m ./test/bench

.PHONY: compat
compat: millpond ## Run the flows of MLflow's older and newer clients against the binary
	scripts/compat.sh

.PHONY: clean
clean: ## Remove build results
	rm -rf millpond web/dist/* web/node_modules $(EXTENSIONS) agent/engine/extensions/*/*.gz && touch web/dist/.gitkeep
