# Everything that this project does from a checkout. `make help` lists it.
PYTHON ?= python3
VENV := .venv
APACHE_VENV := .venv-apache
BIN := $(VENV)/bin
PYTEST_ARGS ?=
# The oldest PySpark supported; Apache Hudi's Spark 3.5 bundles run on it too.
OLDEST_PYSPARK := 3.5.0
# The oldest of the other packages, as pyproject.toml has them; for newer Pythons there are none of some.
OLDEST := pyarrow==20.0.0 numpy==1.26.* pandas==2.2.* fastavro==1.9.* google-crc32c==1.5.* isal==1.7.* xxhash==3.4.* rich==13.0.* sqlglot==30.22.* typer==0.20.0 duckdb==1.2.*
PACKAGES := table_format pushdown catalog table_writer spark_writer hudi_catalog

.DEFAULT_GOAL := help

# Hundreds of files are fetched from a repository: one that fails is asked for again.
export MAVEN_OPTS ?= -Dmaven.wagon.http.retryHandler.count=5 -Daether.connector.http.retryHandler.count=5

# Tests start hundreds of processes; each would compile the packages anew where the environment forbids bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(APACHE_VENV)/bin/.installed: Makefile
	$(PYTHON) -m venv $(APACHE_VENV)
	$(APACHE_VENV)/bin/python -m pip install --quiet --only-binary :all: $(OLDEST) || $(APACHE_VENV)/bin/python -m pip install --quiet pyarrow 'pandas<3' numpy fastavro google-crc32c isal xxhash rich sqlglot typer duckdb
	$(APACHE_VENV)/bin/python -m pip install --quiet 'pyspark==$(OLDEST_PYSPARK)'
	$(APACHE_VENV)/bin/python -m pip install --quiet --no-deps --editable .
	@touch $@

.PHONY: install
install: $(BIN)/.installed ## make the environment in .venv (hudi-catalog is .venv/bin/hudi-catalog)

.PHONY: engines
engines: $(BIN)/.installed $(APACHE_VENV)/bin/.installed hudi_catalog/hive/hudi-hive-handler.jar ## fetch the real engines that the engine tests run (Apache Hudi on Spark 3.5, Trino, Presto, Hive)
	@$(BIN)/python -m tools.fetch_engines

.PHONY: hive-jar
hive-jar: hudi_catalog/hive/hudi-hive-handler.jar ## build Hive's storage handler, and run its tests (needs Maven and a JDK)

hudi_catalog/hive/hudi-hive-handler.jar: hive_handler/pom.xml $(shell find hive_handler/src -name '*.java')
	mvn --quiet --batch-mode --file hive_handler/pom.xml package
	@cp hive_handler/target/hudi-hive-handler.jar $@.part && mv $@.part $@

# Trino's class files are of Java 24 (476) or 25 (483): the compiler is that of a JDK of this version or later, else
# Eclipse's on the runtime that Trino itself needs. Where neither can be had, the rest of the project works.
.PHONY: trino-jar
trino-jar: $(BIN)/.installed ## build Trino's connector, a jar for each release, and with a JDK 25 run its tests (needs Maven)
	@$(BIN)/python -m tools.engines.trino_jar

.PHONY: trino
trino: $(BIN)/.installed ## run Trino 476 over a small warehouse (or WAREHOUSE=folder), with the service and the gateway beside it
	@$(BIN)/python -m tools.engines $(if $(WAREHOUSE),--warehouse '$(WAREHOUSE)')

.PHONY: hive
hive: $(BIN)/.installed hudi_catalog/hive/hudi-hive-handler.jar ## run Hive 4.0.1 over a small warehouse (or WAREHOUSE=folder), with a metastore and the service beside it
	@$(BIN)/python -m tools.engines.hive $(if $(WAREHOUSE),--warehouse '$(WAREHOUSE)')

.PHONY: demo
demo: $(BIN)/.installed ## the main job on real data: write, correct, delete, plan, read, compare, sync, query by name
	@$(BIN)/python demo/flights.py

# The engines are fetched beside the tests that need none, since one waits for the network and the other for processors.
.PHONY: test
test: ## all checks and tests, the real engines included
	@$(MAKE) --no-print-directory --jobs 2 engines checks
	@$(MAKE) --no-print-directory test-spark

.PHONY: checks
checks: $(BIN)/.installed
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test-unit

.PHONY: lint
lint: $(BIN)/.installed ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: test-unit
test-unit: $(BIN)/.installed ## tests that need no JVM, documentation examples included
	$(BIN)/python -m pytest -q -n 3 --dist loadscope --no-loadscope-reorder -m 'not spark and not engine' --doctest-modules tests $(PACKAGES) docs README.md $(PYTEST_ARGS)

.PHONY: test-fast
test-fast: $(BIN)/.installed ## the tests to run while working: unit tests and contracts, less the slowest (under 3 minutes)
	$(BIN)/python -m pytest -q -n 3 --dist loadscope -m 'not spark and not engine and not slow' tests/unit tests/contracts $(PYTEST_ARGS)

.PHONY: test-spark
test-spark: engines ## tests on PySpark and on the real engines
	$(BIN)/python -m pytest -q -n 2 --dist loadscope --no-loadscope-reorder -m 'spark or engine' tests/engines tests/spark tests/property $(PYTEST_ARGS)

.PHONY: test-nightly
test-nightly: engines ## property tests with 20,000 examples each where plans rest on them, 100,000 filters against PySpark, 1,000 rounds of writers at once, a stream killed 50 times; each case with each release of Apache Hudi (hours)
	HUDI_CATALOG_ALL_CASES=1 $(BIN)/python -m pytest -q -n 2 --dist loadscope -m engine tests/engines $(PYTEST_ARGS)
	HUDI_CATALOG_ALL_CASES=1 HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -q -n 2 --dist loadscope tests/property tests/spark $(PYTEST_ARGS)

.PHONY: bench
bench: engines ## measure against Apache Hudi 1.2.0 in one run (about 10 minutes)
	$(BIN)/python -m benchmarks

.PHONY: format
format: $(BIN)/.installed ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: clean
clean: ## delete the environments and everything made by tests
	rm -rf $(VENV) $(APACHE_VENV) hive_handler/target hudi_catalog/hive/*.jar hudi_catalog/trino/connector/*.jar trino_connector/target .work .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
