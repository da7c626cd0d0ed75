# `make help` lists the targets. Everything is installed into .venv from a lock file, by hash.

PYTHON ?= python3
export PYTHON

BIN := .venv/bin
RUNTIME := .venv/.runtime
DEV := .venv/.dev

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(RUNTIME): requirements.lock pyproject.toml tools/venv
	@tools/venv requirements.lock
	@touch $@

$(DEV): requirements-dev.lock pyproject.toml tools/venv
	@tools/venv requirements-dev.lock
	@touch $@ $(RUNTIME)

.PHONY: demo
demo: $(RUNTIME) ## Audit a real cluster's dump and try admission, with no cluster (needs Python 3.11+ only)
	@examples/demo

.PHONY: lint
lint: $(DEV) ## ruff, mypy --strict, import contracts, prose and workflows
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.prose

.PHONY: prose
prose: $(DEV) ## Vale on the documentation and the CLI's texts, actionlint on the workflows
	$(BIN)/python -m tools.prose

.PHONY: check
check: $(DEV) ## Lint, types, and the unit tests that the change since main affects; under a minute
	$(BIN)/python -m tools.check

.PHONY: format
format: $(DEV) ## Format the code, and apply ruff's fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: unit
unit: $(DEV) ## Tests that need no Go, no server and no browser; five minutes
	$(BIN)/python -m pytest -m "not server and not browser and not checkout" -n 2 -q

.PHONY: smoke
smoke: ## Install without extras into out/smoke, and run the commands on files (needs Python 3.11+ only)
	$(PYTHON) -m tools.smoke

.PHONY: size
size: ## Lines and modules of the product and of the tests, beside their targets
	@$(PYTHON) -m tools.size

.PHONY: coverage
coverage: $(DEV) ## Branch coverage by package from the unit tests; SERVERS=1 adds the tests with real servers
	$(BIN)/python -m tools.coverage $(if $(SERVERS),--servers)

.PHONY: test
test: $(DEV) ## All tests, with real servers (built while the unit tests run) and a fresh random sample
	@tools/test

.PHONY: fresh
fresh: ## README's commands in an empty Debian 12 and 13 (root and debootstrap, or a container); DEBIAN=, COMMAND=
	@$(PYTHON) -m tools.fresh $(if $(DEBIAN),--debian $(DEBIAN)) $(if $(COMMAND),--command "$(COMMAND)")

.PHONY: oldest
oldest: ## Tests of the processes on the oldest Python, which is Debian 12's (needs root and debootstrap)
	@$(PYTHON) -m tools.fresh --debian bookworm --command "make .venv/.dev" \
		--command ".venv/bin/python -m pytest -q -m 'not server' $(OLDEST)"

# Where work must end in time although its task is being cancelled.
OLDEST := tests/unit/kube/test_timeouts.py tests/unit/runtime tests/unit/schedulerplugin/history tests/unit/webhooks

.PHONY: test-versions
test-versions: $(DEV) ## Network tests on the lowest and the newest versions that pyproject.toml allows
	@tools/test-versions

.PHONY: e2e
e2e: $(DEV) ## Podium's image in clusters of real nodes, with real Jobs (needs root on Debian or Ubuntu)
	$(SUDO) $(BIN)/python -m pytest -m e2e tests/e2e --ignore tests/e2e/neighbours -n 4 --dist loadscope --durations 20 -q

.PHONY: neighbours
neighbours: $(DEV) ## Podium beside other projects' controllers in a cluster of real nodes (needs root)
	$(SUDO) $(BIN)/python -m pytest -m e2e tests/e2e/neighbours --durations 20 -q

.PHONY: soak
soak: $(DEV) ## All tests at length: differentials in full, Hypothesis, 100 rounds, an hour of churn
	HYPOTHESIS_PROFILE=soak PODIUM_DIFFERENTIAL=full $(BIN)/python -m pytest -q --timeout 3600

.PHONY: simulate
simulate: $(DEV) ## Podium's processes in simulated clusters under drawn faults; SEED=, COUNT=, SHORTEN=1, LOG=1
	@PYTHONHASHSEED=0 $(BIN)/python -m podium.simulation $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(SHORTEN),--shorten) $(if $(LOG),--log)

.PHONY: record
record: $(DEV) ## Record the answers of real servers into tests/conformance/recorded/
	$(BIN)/python -m tests.support.admission.record
	$(BIN)/python -m tests.support.preemption.differential.record
	$(BIN)/python -m tests.support.filters.podschema
	$(BIN)/python -m tests.support.rules.incomplete
	$(BIN)/python -m tests.support.devices.record

.PHONY: bench
bench: $(DEV) ## Time the audit and the rules against their peers; writes bench/RESULTS.md
	$(BIN)/python -m bench

.PHONY: controlplane
controlplane: $(DEV) ## Build the local control planes of all minors from Go modules
	$(BIN)/python -m tools.devcluster build

# `export KUBECONFIG=$(make -s cluster)`: the path is the only output. `python -m tools.devcluster up --help` lists what ARGS may be.
UP = up $(if $(NAME),--name $(NAME)) $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(if $(NODES),--nodes $(NODES)) $(ARGS)

.PHONY: cluster
cluster: $(RUNTIME) ## Start a control plane with fake nodes, and print its kubeconfig; KUBERNETES=1.36, NODES=, NAME=, ARGS=
	@$(BIN)/python -m tools.devcluster $(UP)

.PHONY: cluster-real
cluster-real: $(RUNTIME) ## The same with nodes that run containers (needs root on Debian or Ubuntu)
	@$(SUDO) $(BIN)/python -m tools.devcluster $(UP) --real

.PHONY: cluster-down
cluster-down: $(RUNTIME) ## Stop a cluster of either kind and remove its data; NAME=
	@$(SUDO) $(BIN)/python -m tools.devcluster down $(if $(NAME),--name $(NAME))

.PHONY: image
image: $(RUNTIME) ## Build the image podium:dev (needs Docker)
	$(BIN)/python -m tools.kind --build-only

.PHONY: kind
kind: $(RUNTIME) ## Podium in a kind cluster; KUBERNETES=1.36, KIND_IMAGE=... (needs Docker, kind, kubectl)
	$(BIN)/python -m tools.kind $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(if $(KIND_IMAGE),--image $(KIND_IMAGE))

.PHONY: manifests
manifests: $(DEV) ## Render manifests/rendered and the dashboard (needs kubectl)
	$(BIN)/python -m tools.manifests.render

.PHONY: podfields
podfields: $(DEV) ## Generate the table of pod fields from the recorded schema
	$(BIN)/python -m tools.podfields

.PHONY: docs
docs: $(DEV) ## Generate parts of docs/ from the code
	$(BIN)/python -m tools.docs

.PHONY: docs-check
docs-check: $(DEV) ## Check the documentation: links, index, generated parts, examples
	$(BIN)/python -m pytest -q -n 2 -m "not server" tests/docs

# ADDRESS is the repository to which links out of docs/ lead.
SITE = PATH="$(CURDIR)/$(BIN):$$PATH" NO_MKDOCS_2_WARNING=1 $(if $(ADDRESS),PODIUM_ADDRESS=$(ADDRESS))

.PHONY: site
site: $(DEV) ## Build the site of docs/ into out/site, with strict links; seconds
	$(SITE) mkdocs build

.PHONY: site-publish
site-publish: $(DEV) ## Push the site of this version to the branch gh-pages
	$(SITE) mike deploy --push --update-aliases "$$($(BIN)/python -c 'from podium.version import VERSION; print(VERSION.rpartition(".")[0])')" latest
	$(SITE) mike set-default --push latest

.PHONY: examples
examples: $(DEV) ## Dump real control planes into examples/
	$(BIN)/python -m tools.examples.take

.PHONY: screenshots
screenshots: $(DEV) ## Take the pictures in docs/ with a real browser
	$(BIN)/python -m tests.support.ui.screenshots

.PHONY: lock
lock: $(DEV) ## Resolve the dependencies into the lock files
	$(BIN)/uv pip compile pyproject.toml --extra server --group build $(LOCK) --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra server --group dev $(LOCK) --output-file requirements-dev.lock
	$(BIN)/uv pip compile tools/release/requirements.in $(LOCK) --output-file tools/release/requirements.lock

# Only releases that are a week old: most bad releases are withdrawn by then.
LOCK := --quiet --upgrade --exclude-newer "7 days" --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url

# IMAGE, DIGEST and ADDRESS are those that are published; STRICT=1 requires every Python and the scan.
.PHONY: release-check
release-check: $(DEV) ## Build all that a release consists of into out/release, and check it; six minutes
	$(BIN)/python -m tools.release $(if $(IMAGE),--image $(IMAGE)) $(if $(DIGEST),--digest $(DIGEST)) \
		$(if $(ADDRESS),--address $(ADDRESS)) $(if $(STRICT),--strict)

.PHONY: release-version
release-version: ## Print version=VERSION; an error if the tag in GITHUB_REF_NAME is another
	@$(PYTHON) -m tools.release.version

.PHONY: vulnerabilities
vulnerabilities: $(DEV) ## Known vulnerabilities of the locked packages (needs PyPI's advisories)
	$(BIN)/python -m tools.release.scan

.PHONY: clean
clean: ## Remove the targets' output here (not the control planes in the cache)
	rm -rf .venv out dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
