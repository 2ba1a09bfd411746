# Everything a checkout needs: `make demo` and `make test` do their own set-up.
# Needed on the machine: Go, Node with npm (azurite), gcc (the race detector), bash.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory
# The stages of `make test` report one after the other, also under make -j.
.NOTPARALLEL:

# Only for the version stamp; a tree without git builds too.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# make fuzz FUZZTIME=5m
FUZZTIME ?= 10s
# make soak SOAK=1h
SOAK ?= 10m
# make reliability ROWS=soak,fuzz; the other rows stay as they were measured
ROWS ?=
# Packages tested at once: more than cores, since those with servers wait much.
TEST_PARALLEL ?= 4
# Packages that take longest begin first, so that none of them runs alone at the end.
TEST_FIRST := ./mirror ./internal/e2e ./attachments ./cmd/mirror
# make test-readers READERS=DuckDB; all engines when empty
READERS ?=
# For one package, all its tests together.
TEST_TIMEOUT ?= 20m
# make test PKG=./internal/feed/...
PKG ?= ./...

BIN := bin/mirror
OUT := .tools/out
# -trimpath everywhere but in tests, so that build, vet and lint share one build cache.
BUILD_FLAGS := -trimpath -buildvcs=false
LDFLAGS := -s -w -X main.version=$(VERSION)

.PHONY: help tools build demo test lint golangci-tool golangci vet race fuzz cover readers-tools test-readers soak reliability acceptance clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

tools: ## install the pinned tools and test servers into .tools/ (minutes the first time, nothing after)
	@scripts/tools

build: ## build the static program bin/mirror
	@echo "building $(BIN) $(VERSION)"
	CGO_ENABLED=0 go build $(BUILD_FLAGS) -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/mirror

demo: build ## build, then mirror a simulated feed into a folder: no key, no cloud
	@$(BIN) demo

test: tools golangci vet race ## install the tools, then lint, vet and run every test with the race detector; a skipped test fails

lint: golangci-tool golangci ## golangci-lint, with the import rules of the packages

golangci-tool:
	@scripts/tools golangci-lint

# Serial: two runs at once on a machine, say of two checkouts, wait for each other.
golangci:
	@echo "golangci-lint $(PKG)"
	CGO_ENABLED=0 GOFLAGS="$$(go env GOFLAGS) -trimpath" .tools/bin/golangci-lint run --allow-serial-runners $(PKG)

vet:
	@echo "go vet $(PKG)"
	CGO_ENABLED=0 go vet $(BUILD_FLAGS) -tags readers $(PKG)

race:
	@mkdir -p $(OUT)
	echo "go test -race $(PKG)"
	go build $(BUILD_FLAGS) -o $(OUT)/testcheck ./internal/tools/testcheck
	go test -race -vet=off -p $(TEST_PARALLEL) -timeout $(TEST_TIMEOUT) -json $(if $(filter ./...,$(PKG)),$(TEST_FIRST)) $(PKG) | $(OUT)/testcheck

fuzz: ## run each fuzz target for FUZZTIME (default 10s); KEEP=1 keeps new interesting inputs under testdata/fuzz
	@scripts/fuzz $(if $(KEEP),--keep) $(FUZZTIME)

cover: tools ## test with coverage; prints the total and writes .tools/out/cover.html
	@mkdir -p $(OUT)
	go build $(BUILD_FLAGS) -o $(OUT)/testcheck ./internal/tools/testcheck
	go test -p $(TEST_PARALLEL) -timeout $(TEST_TIMEOUT) -json -coverpkg=./... -coverprofile=$(OUT)/cover.out $(PKG) | $(OUT)/testcheck
	go tool cover -func=$(OUT)/cover.out | tail -n 1
	go tool cover -html=$(OUT)/cover.out -o $(OUT)/cover.html

readers-tools:
	@scripts/tools versitygw
	scripts/readers-tools
	scripts/readers-jvm

test-readers: readers-tools ## install pinned query engines and let them read what was mirrored (READERS=DuckDB for one)
	@echo "go test -tags readers ./internal/readers"
	go test -count=1 -tags readers -v -timeout 24m $(if $(READERS),-run '$(READERS)') ./internal/readers

soak: tools ## let several processes work on one bucket for SOAK (default 10m) while every side fails at random
	@FEEDMIRROR_LONG=1 FEEDMIRROR_SOAK=$(SOAK) go test -count=1 -v -timeout 24h -run '^TestSoak$$' ./internal/soak

reliability: tools build ## run the long forms of the tests and write docs/reliability.md (an hour or more; ROWS= for some)
	@scripts/reliability $(if $(ROWS),--only $(ROWS))

acceptance: tools build ## measure what the README promises and write docs/acceptance.md
	@scripts/acceptance

clean: ## remove what was built; the tools stay (rm -rf .tools removes them)
	@rm -rf bin dist $(OUT)
