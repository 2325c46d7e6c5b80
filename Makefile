# Everything a person or CI runs. `make check` is CI and nothing else is.

GO        ?= go
CC        ?= cc
BUILD     := build
BIN       := bin/stweaver
# Inputs a fuzz target tries: a count, for a time limit makes `go test` fail when it expires
# at the wrong moment ("context deadline exceeded", golang/go#75804) and tests less where CPUs are slow.
FUZZTIME  ?= 50000x
DATA      ?= ../shared/data
TABLE     ?= plans
ONLY      ?=
STATICCHECK_VERSION := v0.8.2

# go-nvml wraps functions that NVIDIA has deprecated.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

DEMO_PROFILE := testdata/profiles/llama24_ckpt.pickle.gz
DEMO_PLAN    := $(BUILD)/demo.plan

.DEFAULT_GOAL := build
.PHONY: build demo check check-torch test race asan fmt vet staticcheck tidy fuzz golden bench determinism static survey clean help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | LC_ALL=C sort | expand -t 18

build: ## the command, with the C runtime in it
	$(GO) build -trimpath -o $(BIN) ./cmd/stweaver

demo: build ## compile a plan for a shipped profile, verify it, replay ten iterations
	@mkdir -p $(BUILD)
	$(BIN) compile $(DEMO_PROFILE) -o $(DEMO_PLAN)
	@echo
	$(BIN) verify $(DEMO_PLAN) $(DEMO_PROFILE)
	@echo
	$(BIN) replay $(DEMO_PLAN) $(DEMO_PROFILE) --iterations 10

check: fmt vet staticcheck tidy static test race asan ctest exports fuzz determinism ## all that CI runs
	@echo "check: ok"

check-torch: build so ## the tests in real PyTorch, on the CPU and the phantom GPU; downloads several GB once
	python/tests/check.sh $(TESTS)
	@echo "check-torch: ok"

fmt: ## gofmt leaves nothing to change
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt needed:"; echo "$$out"; exit 1; fi

vet: ## go vet
	$(GO) vet ./...

staticcheck: ## honnef.co/go/tools, pinned
	$(GO) run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION) ./...

tidy: ## go.mod and go.sum say what is used
	$(GO) mod tidy -diff

static: ## the command without cgo is one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BUILD)/stweaver-static ./cmd/stweaver

test: ## unit, property, golden and command tests
	$(GO) test ./...

race: ## the same under the race detector, where goroutines are
	$(GO) test -race -short ./heuristics/... ./compiler/... ./runtime/... ./simulate

asan: ## the C core reached through Go, under the address sanitizer
	$(GO) test -asan -short ./runtime/...

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "fuzz $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg >$(BUILD)/fuzz.log 2>&1 || { cat $(BUILD)/fuzz.log; exit 1; }; \
	  done; done

golden: ## rewrite the golden files; commit them by themselves
	UPDATE_GOLDEN=1 $(GO) test ./...
	git diff --stat

bench: ## benchmarks of Go and C
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(MAKE) cbench

determinism: build ## two processes, different GOMAXPROCS: the same plan bytes
	@mkdir -p $(BUILD)
	@for p in testdata/profiles/*.gz testdata/profiles/*.csv testdata/profiles/*.stwp; do \
	  GOMAXPROCS=1 $(BIN) compile $$p -o $(BUILD)/one.plan >/dev/null || exit 1; \
	  GOMAXPROCS=4 $(BIN) compile $$p -o $(BUILD)/many.plan >/dev/null || exit 1; \
	  cmp $(BUILD)/one.plan $(BUILD)/many.plan || exit 1; done
	@GOMAXPROCS=1 $(BIN) compile --effort fast --rules lang/examples/dense.rules $(DEMO_PROFILE) -o $(BUILD)/one.plan >/dev/null 2>&1
	@GOMAXPROCS=4 $(BIN) compile --effort fast --rules lang/examples/dense.rules $(DEMO_PROFILE) -o $(BUILD)/many.plan >/dev/null 2>&1
	@cmp $(BUILD)/one.plan $(BUILD)/many.plan; echo "determinism: ok"

survey: build ## one row for every profile under DATA; TABLE: plans, efforts, periodic, packers, unseen, streams
	$(GO) run ./internal/survey -data $(DATA) -table $(TABLE) -only "$(ONLY)"

clean: ## remove what was built
	rm -rf $(BUILD) bin

include runtime/build.mk
