# Everything there is to do here. `make demo` and `make test` work on a fresh Debian-like machine with a Rust
# toolchain; each installs what it lacks and says so.

.PHONY: help demo test tools compiled containers interop older verify fix package image servers nextest mdbook units container book bench compare memcheck model margins simulate breaks torture fuzz deny static

# Starts the server that tests share, and runs what stands behind it.
with-server := $${CARGO_TARGET_DIR:-target}/debug/with-server

help: ## Say what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: servers ## Five processes contend; a holder and a server are killed, a late write is refused; a verdict
	cargo run -p contend

test: ## Run every test, on real ZooKeeper servers
	$(MAKE) --no-print-directory --jobs 2 tools compiled
	home="$$(scripts/have-newest-zookeeper.sh)" && export ZKLOCK_TEST_BACKEND=local ZOOKEEPER_HOME="$$home" && \
		cargo test --quiet --workspace --doc && \
		$(with-server) cargo nextest run --workspace --no-fail-fast $(if $(CI),--profile ci)
	cd simulation && cargo test --quiet --workspace `# a workspace of its own; one test is a hundred seeds`

tools: # one after the other, because only one can install packages
	scripts/have-peers.sh
	scripts/have-postgres.sh
	scripts/have-systemd.sh
	scripts/have-promtool.sh
	scripts/try/manifests.sh

compiled: nextest # all at once: for a package alone, cargo would build its dependencies again, with other features
	cargo build --quiet --workspace --all-targets

containers: servers nextest ## Run the tests of zklock-testcontainers in containers, if an engine answers
	cargo nextest run --workspace -E 'package(zklock-testcontainers)' --no-fail-fast $(if $(CI),--profile ci) \
		--test-threads 4 `# each server has a minute to start, and eight ensembles at once took longer on two cores`

units: ## Boot two machines with systemd, in containers, and run the units of contrib/systemd on them: a minute
	scripts/try/units.sh

container: ## Build the image of contrib/container, and run it without root and rights
	scripts/try/container.sh

static: ## Build the program as one file that needs no library, and run it in an empty container
	scripts/try/static.sh

book: mdbook ## Make one book of all pages, with a search: target/book/index.html
	scripts/book.sh

interop: compiled ## Contend with real locks of Curator, kazoo and go-zookeeper
	scripts/have-peers.sh
	home="$$(scripts/have-newest-zookeeper.sh)" && ZKLOCK_TEST_BACKEND=local ZOOKEEPER_HOME="$$home" \
		$(with-server) cargo nextest run --workspace -E 'binary_id(zklock::servers) & test(/interop/)' --no-fail-fast

older: servers compiled ## Run the library's tests on the container image, which has an older ZooKeeper
	scripts/have-peers.sh
	$(with-server) cargo nextest run --workspace -E 'binary_id(zklock::servers)' --no-fail-fast

verify: ## Check format, lints, docs, layers, pages and the minimum Rust version; change nothing
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	cd simulation && cargo fmt --all --check && cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --quiet
	scripts/check-layers.py
	scripts/breaks.py --check
	scripts/check-pages.py
	scripts/check-api.py
	scripts/check-msrv.sh
	scripts/check-systems.sh

fix: ## Format, and apply what clippy suggests
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	cargo fmt --all

package: ## Pack the crates that are published, and build each from its packed files alone
	scripts/try/packages.sh

deny: ## Check the licences, sources and duplicates of all dependencies, and known vulnerabilities, if their database can be had
	scripts/have-deny.sh
	cargo deny --workspace check --hide-inclusion-graph bans licenses sources
	@if timeout 120 cargo deny --workspace fetch db >/dev/null 2>&1; then \
		cargo deny --workspace check --hide-inclusion-graph advisories && echo "deny: known vulnerabilities and yanked versions were checked, too"; \
	else echo "deny: the database of vulnerabilities cannot be had, so NEITHER vulnerabilities NOR yanked versions were checked"; fi

image: ## Have the container image zookeeper:3.9, pulled or built
	testcontainers/image/build.sh

servers:
	scripts/have-servers.sh

nextest:
	scripts/have-nextest.sh

mdbook:
	scripts/have-mdbook.sh

compare: ## Measure zklock beside Curator, kazoo, go-zookeeper, zookeeper-client, etcd and PostgreSQL (docs/PERFORMANCE.md)
	scripts/have-peers.sh all
	home="$$(scripts/have-newest-zookeeper.sh)" && ZKLOCK_TEST_BACKEND=local ZOOKEEPER_HOME="$$home" \
		cargo run --release -p zklock-proof -- compare

bench: ## Measure locks by key, several locks, permits and bare requests beside one lock (docs/PERFORMANCE.md)
	scripts/have-peers.sh
	home="$$(scripts/have-newest-zookeeper.sh)" && ZKLOCK_TEST_BACKEND=local ZOOKEEPER_HOME="$$home" \
		cargo run --release -p zklock-proof -- compare --peers several,keys,permits,curator-permits,raw --clients 1,8,64 --repetitions 0

memcheck: servers compiled ## Run the tests of watches under valgrind: of their removal, of observers and of asks
	home="$$(scripts/have-newest-zookeeper.sh)" && ZKLOCK_TEST_BACKEND=local ZOOKEEPER_HOME="$$home" \
		$(with-server) cargo --config "target.'cfg(all())'.runner='valgrind -q --error-exitcode=9'" \
		test -p zklock --test servers --features rustix/use-libc `# valgrind has no vDSO` -- watches:: observe:: ask::

model: nextest ## Explore the protocol's largest models, of millions of states
	cargo nextest run --release -p zklock-recipe --profile model

simulate: ## Run the library on simulated servers, network and clocks, by random seeds (MINUTES=, MODE=; SEED= runs one, with TRACE=1 line by line; LEDGER=1 notes it in simulation/ledger.csv)
	cd simulation && cargo run --release -- $(if $(SEED),--seed $(SEED),--minutes $(or $(MINUTES),10)) $(if $(MODE),--mode $(MODE)) $(if $(TRACE),--trace) $(if $(LEDGER),--ledger ledger.csv)

breaks: ## Break the library by each patch in simulation/breaks/, and see which breaks the simulation finds: hours (BREAKS= their numbers)
	scripts/breaks.py $(BREAKS)

torture: servers ## Take servers and clients apart for ten minutes, and look for two holders of any member (MEMBER= for one of them, or program for `zklock run`; SECONDS=, SEED=)
	$(if $(filter program,$(MEMBER)),cargo build --release -p zklock-cli -p zklock-proof)
	cargo run --release -p zklock-proof -- torture $(if $(MEMBER),--member $(MEMBER)) --clients 8 --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

fuzz: nextest ## Run the tests that read random input, `any_*`, over and over (SECONDS=)
	@end=$$(($$(date +%s) + $(or $(SECONDS),60))); while [ $$(date +%s) -lt $$end ]; do \
		PROPTEST_CASES=5000 cargo nextest run --cargo-quiet --status-level fail --lib --bins -E 'test(/(^|::)any_/)' \
			-p zklock -p zklock-cli -p zklock-recipe -p zklock-testcontainers || exit; done

margins: servers ## Measure who is told first when something fails (docs/STRICTNESS.md; REPETITIONS=)
	cargo run --release -p zklock-proof -- margins $(if $(REPETITIONS),--repetitions $(REPETITIONS))

