# Two commands for everyone: `make demo` and `make test`. The rest is for those who measure and those who look for trouble.
SHELL := /bin/bash
TARGET := $(or $(CARGO_TARGET_DIR),target)
BIN := $(TARGET)/release
PYTHON := target/python/bin/python
GUESTS := target/guests
CARGO := cargo

.PHONY: help demo test test-rocksdb soak mutants bench bench-rocksdb bench-big-state bench-flink build guests lint clean-demo

help:
	@sed -n 's/^## //p' Makefile

## make demo        a business day of sales through three WebAssembly components, killed twice, checked alert for alert
demo: build guests $(PYTHON)
	$(PYTHON) examples/larkspur/demo.py --tidemill $(BIN)/tidemill --larkspur $(BIN)/larkspur --python $(PYTHON) \
	  --guests $(GUESTS) --work target/demo

## make test        everything: lints, unit tests, simulations, end-to-end runs with SIGKILL
test: guests lint $(PYTHON)
	TIDEMILL_PYTHON=$(abspath $(PYTHON)) $(CARGO) test --workspace --release --locked
	$(BIN)/tidemill test tests/conformance
	cd guests && CARGO_TARGET_DIR=$(abspath $(TARGET))/guest-tests $(CARGO) test --locked
	$(PYTHON) -m unittest discover -s examples/larkspur -p 'test_*.py'

## make soak        1,000 SIGKILLs, a long simulation, ten million changed answers, thousands of random programs
soak: build guests $(PYTHON)
	TIDEMILL_PYTHON=$(abspath $(PYTHON)) TIDEMILL_KILLS=1000 TIDEMILL_SEEDS=20000 TIDEMILL_ANSWERS=10000000 TIDEMILL_PROGRAMS=10000 \
	  $(CARGO) test --release --locked -p tidemill-tests --test kills --test simulation --test answers --test programs -- --nocapture

## make mutants     breaks the engine in a thousand places, and shows which of them no test notices
mutants:
	scripts/mutants.sh

## make bench       the cost of the WebAssembly boundary, and the whole job
bench: build guests $(PYTHON)
	$(CARGO) run --release --locked -p tidemill-tests --bin bench -- boundary
	$(CARGO) run --release --locked -p tidemill-tests --bin bench -- job --tidemill $(BIN)/tidemill --guests $(GUESTS) --work target/bench

## make bench-rocksdb  the whole job on RocksDB and in memory, in alternation (builds RocksDB: some 20 minutes; needs g++ and libclang)
bench-rocksdb: guests $(PYTHON)
	$(CARGO) build --release --locked -p tidemill --features rocksdb
	$(CARGO) run --release --locked -p tidemill-tests --features rocksdb --bin bench -- job --tidemill $(BIN)/tidemill --guests $(GUESTS) --work target/bench --backends memory,rocksdb

## make bench-big-state  ten million keys with a timer each on RocksDB, with ever less memory (needs 4 GB of disk; some 10 minutes)
bench-big-state: guests
	$(CARGO) build --release --locked -p tidemill --features rocksdb
	$(CARGO) run --release --locked -p tidemill-tests --features rocksdb --bin bench -- big-state --tidemill $(BIN)/tidemill --guests $(GUESTS) --work target/bench-big-state

## make test-rocksdb   what `make test` tests of state, on RocksDB
test-rocksdb: guests $(PYTHON)
	$(CARGO) build --release --locked -p tidemill --features rocksdb
	$(CARGO) clippy --release --locked -p tidemill -p tidemill-tests --features tidemill-tests/rocksdb --all-targets -- -D warnings
	TIDEMILL_PYTHON=$(abspath $(PYTHON)) $(CARGO) test --release --locked -p tidemill --features rocksdb --lib state
	TIDEMILL_PYTHON=$(abspath $(PYTHON)) $(CARGO) test --release --locked -p tidemill-tests --features rocksdb --test rocksdb --test kills --test scenario --test conformance
	$(BIN)/tidemill test tests/conformance

## make bench-flink the same job on Apache Flink 2.3.0 and here, in alternation; with BACKEND=rocksdb, both on RocksDB
bench-flink: guests $(PYTHON)
	$(CARGO) build --release --locked -p tidemill $(if $(filter rocksdb,$(BACKEND)),--features rocksdb)
	BACKEND=$(BACKEND) tests/peers/flink/compare.sh $(BIN)/tidemill $(GUESTS) target/bench-flink

build:
	$(CARGO) build --release --locked --workspace

guests:
	scripts/build-guests.sh

lint:
	$(CARGO) fmt --all --check
	cd guests && $(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --release --all-targets --locked -- -D warnings
	scripts/tidy.sh

$(PYTHON): examples/larkspur/requirements.txt
	scripts/python.sh target/python examples/larkspur/requirements.txt
