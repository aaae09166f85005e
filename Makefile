# What one does with leasehold. `make` alone lists it; each target calls a script or a program that does one thing.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The JDK that Maven takes is the one that runs what it builds. Where rustup and Go put themselves, for shells that do not know
# yet, and where the set-up unpacks Debian's etcd.
export PATH := $(if $(JAVA_HOME),$(JAVA_HOME)/bin:)$(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin:$(CURDIR)/.cache/debian-etcd/usr/bin
# The same directory for whatever is called, from wherever.
export CARGO_TARGET_DIR := $(shell scripts/target)

# One target after the other, and each in its own way: cargo and the scripts know best how much to do at once.
.NOTPARALLEL:
unexport MAKEFLAGS MFLAGS

.PHONY: help demo sample test build install-c dist-c lint fmt gen docs bench conformance sim search fuzz teeth fresh doctor

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Set up what is needed, start an etcd, and show one queue, a killed holder and a refused stale write; ARGS="--help" tells more.
	@scripts/setup.sh demo
	@scripts/demo.sh $(ARGS)

sample: ## Play the flash sale: a Spring Boot service under 500 customers, killed and frozen; ARGS="--help" tells more.
	@scripts/setup.sh sample
	@scripts/maven.sh --untested package -pl ../tests/samples/flash-sale -am
	@tests/samples/flash-sale/run $(ARGS)

test: ## Set up what is needed and run every check and test; the last line counts them; FULL=1 runs all in all its length, for a night; ONLY=… the stages whose names start so.
	@scripts/setup.sh test
	@scripts/test.py $(if $(ONLY),--only "$(ONLY)")

build: ## Build everything.
	@scripts/setup.sh build
	cargo build --workspace --all-targets
	scripts/bindings.sh

install-c: ## Install the C library: PREFIX=/usr/local, DESTDIR=, LIBDIR=, INCLUDEDIR=; LINKER=zig for older systems than this one.
	@scripts/setup.sh install-c
	@$(install_c) --check
	cargo build --profile dist -p leasehold-ffi-c
	@$(install_c)

dist-c: ## Pack the C library, headers and all into one relocatable archive under dist/; LINKER=cc for this machine's glibc.
	@scripts/setup.sh dist-c
	cargo build --profile dist -p leasehold-ffi-c
	@$(if $(LINKER),LINKER='$(LINKER)') ffi-c/install/dist

install_c = env $(foreach name,PREFIX DESTDIR LIBDIR INCLUDEDIR LINKER,$(if $($(name)),$(name)='$($(name))')) ffi-c/install/run

lint: ## Check format, lints, documentation warnings, and licences and sources of crates (the first stages of `make test`).
	@scripts/setup.sh lint
	@scripts/test.py --only lint

fmt: ## Format the code.
	@scripts/setup.sh fmt
	cargo fmt --all
	cd bindings-node && ./dependencies && npm run --silent format
	bindings-python/venv && .cache/python/venv/bin/ruff format --quiet bindings-python tests/bench tests/conformance tests/demo

gen: ## Write generated files anew; `make gen CHECK=1` only says which are stale.
	@scripts/setup.sh gen
	@cargo build --quiet --workspace --exclude leasehold-ffi-c --bin leasehold-gen
	@"$$CARGO_TARGET_DIR/debug/leasehold-gen" $(if $(CHECK),--check)
	@cargo build --quiet --workspace --lib
	@bindings-node/dependencies && node bindings-node/scripts/types.js "$$CARGO_TARGET_DIR" $(if $(CHECK),--check)

docs: ## Make the site of the documentation with mdBook, and check that no link in it is dead.
	@scripts/setup.sh docs
	@mdbook=$$(tools/book/mdbook) && scripts/book.py "$$mdbook" "$$CARGO_TARGET_DIR/book"

bench: ## Measure against raw etcd calls, data on disk and in memory, and every language against Rust; ARGS="--help" tells more; COMPARE=node sets npm's etcd3 and redlock beside it.
	@scripts/setup.sh bench
	@cargo build --release -p leasehold-bench --features echo
	@tests/bench/baseline/build
	@cargo build --profile dist -p leasehold-bench -p leasehold-node -p leasehold-ffi-c -p leasehold-python
	@$(MAKE) --silent -C ffi-c PROFILE=dist bench-worker
	@bindings-node/build
	@if command -v mvn >/dev/null; then scripts/maven.sh --untested package -pl ../tests/bench/workers/java -am; fi
	@$(if $(COMPARE),tests/bench/workers/$(COMPARE)/compare,"$$CARGO_TARGET_DIR/release/leasehold-bench") $(ARGS)

conformance: ## Play the conformance scenarios; ARGS="…" goes to the runner.
	@scripts/setup.sh conformance
	tests/conformance/play $(ARGS)

sim: ## Play seeded disasters in virtual time: SEEDS=… how many, FROM=… the first; TRACE=… shows everything that one seed does.
	@scripts/setup.sh sim
	tests/sim/play $(if $(TRACE),--trace $(TRACE),--seeds $(or $(SEEDS),10000) --from $(or $(FROM),0))

search: ## Search every order of events of small clusters; STATES=… how many of each.
	@scripts/setup.sh search
	tests/sim/play --search $(or $(STATES),300000)

fuzz: ## Look for bytes from outside that do harm, with cargo-fuzz: SECONDS=… for each way in (default 60), WAYS=… some of them.
	@scripts/setup.sh fuzz
	tests/fuzz/run $(or $(SECONDS),60) $(WAYS)

teeth: ## Plant faults in a copy of the core and see the simulation and the search find them; ONLY=… some of them.
	@scripts/setup.sh teeth
	tests/sim/teeth.py --only "$(ONLY)"

fresh: ## Play both commands and the packages on bare Debian roots, as root and as a plain user; needs root; ARGS="--help" tells more.
	@tests/fresh/run.py $(ARGS)

doctor: ## Say what each target needs, what of it is missing on this machine and how to get it; changes nothing.
	@scripts/setup.sh --check
