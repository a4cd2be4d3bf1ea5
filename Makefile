# Two commands for everyone: `make demo` and `make test`. The rest is for those who measure and those who look for trouble.
SHELL := /bin/bash
TARGET := $(or $(CARGO_TARGET_DIR),target)
BIN := $(TARGET)/release
PYTHON := target/python/bin/python
GUESTS := target/guests
CARGO := cargo
# RocksDB takes long to compile, once, and needs g++ and libclang: `make test ROCKSDB=no` leaves it out.
ROCKSDB := yes
FEATURES := $(if $(filter yes,$(ROCKSDB)),--features tidemill-tests/rocksdb)

.PHONY: help demo test test-debian rocksdb soak mutants bench bench-rocksdb bench-big-state bench-flink build guests lint clean-demo

help:
	@sed -n 's/^## //p' Makefile

## make demo        a business day of sales through three WebAssembly components, killed twice, checked alert for alert
demo: $(PYTHON)
	$(CARGO) build --release --locked -p tidemill -p larkspur
	scripts/build-guests.sh guests/first_copy guests/basket_lines guests/stock_out
	$(PYTHON) examples/larkspur/demo.py --tidemill $(BIN)/tidemill --larkspur $(BIN)/larkspur --python $(PYTHON) \
	  --guests $(GUESTS) --work target/demo

## make test        everything, on all state backends: lints, unit tests, simulations, end-to-end runs with SIGKILL
test: rocksdb lint guests $(PYTHON)
	$(CARGO) build --release --locked --workspace $(FEATURES)
	TIDEMILL_PYTHON=$(abspath $(PYTHON)) $(CARGO) test --workspace --release --locked $(FEATURES)
	$(BIN)/tidemill test tests/conformance
	cd guests && CARGO_TARGET_DIR=$(abspath $(TARGET))/guest-tests $(CARGO) test --locked
	$(PYTHON) -m unittest discover -s examples/larkspur -p 'test_*.py'

## make test-debian what a bare Debian lacks is installed (needs root and debootstrap; five minutes of network)
test-debian:
	scripts/tests/debian.sh

## make soak        1,500 SIGKILLs, a long simulation, ten million changed answers, thousands of random programs
soak: build guests rocksdb $(PYTHON)
	TIDEMILL_PYTHON=$(abspath $(PYTHON)) TIDEMILL_KILLS=1000 TIDEMILL_SEEDS=20000 TIDEMILL_ANSWERS=10000000 TIDEMILL_PROGRAMS=10000 \
	  $(CARGO) test --release --locked -p tidemill-tests --test kills --test simulation --test answers --test programs -- --nocapture
	$(if $(FEATURES),$(CARGO) build --release --locked -p tidemill --features rocksdb)
	$(if $(FEATURES),TIDEMILL_PYTHON=$(abspath $(PYTHON)) TIDEMILL_KILLS=500 TIDEMILL_SEEDS=50 $(CARGO) test --release --locked -p tidemill-tests $(FEATURES) --test rocksdb --test round_trips -- --nocapture kills state_stays)

## make mutants     breaks the engine in a thousand places, and shows which of them no test notices
mutants:
	scripts/mutants.sh

## make bench       the cost of the WebAssembly boundary, the whole job, and restores
bench: build guests $(PYTHON)
	$(CARGO) run --release --locked -p tidemill-tests --bin bench -- boundary
	$(CARGO) run --release --locked -p tidemill-tests --bin bench -- job --tidemill $(BIN)/tidemill --guests $(GUESTS) --work target/bench
	$(CARGO) run --release --locked -p tidemill-tests --bin bench -- restore --work target/bench-restore

## make bench-rocksdb  the whole job on RocksDB and in memory, in alternation, and restores (builds RocksDB: some 20 minutes; needs g++ and libclang)
bench-rocksdb: guests rocksdb $(PYTHON)
	$(CARGO) build --release --locked -p tidemill --features rocksdb
	$(CARGO) run --release --locked -p tidemill-tests --features rocksdb --bin bench -- job --tidemill $(BIN)/tidemill --guests $(GUESTS) --work target/bench --backends memory,rocksdb
	$(CARGO) run --release --locked -p tidemill-tests --features rocksdb --bin bench -- restore --work target/bench-restore

## make bench-big-state  ten million keys with a timer each on RocksDB, with ever less memory (10 GB of disk, some 10 minutes)
bench-big-state: guests rocksdb
	$(CARGO) build --release --locked -p tidemill --features rocksdb
	$(CARGO) run --release --locked -p tidemill-tests --features rocksdb --bin bench -- big-state --tidemill $(BIN)/tidemill --guests $(GUESTS) --work target/bench-big-state

## make bench-flink the same job on Apache Flink 2.3.0 and here, in alternation; with BACKEND=rocksdb, both on RocksDB
bench-flink: guests $(if $(filter rocksdb,$(BACKEND)),rocksdb) $(PYTHON)
	$(CARGO) build --release --locked -p tidemill $(if $(filter rocksdb,$(BACKEND)),--features rocksdb)
	BACKEND=$(BACKEND) tests/peers/flink/compare.sh $(BIN)/tidemill $(GUESTS) target/bench-flink

build:
	$(CARGO) build --release --locked --workspace

guests:
	scripts/build-guests.sh

# What RocksDB needs to be compiled.
rocksdb:
	$(if $(FEATURES),scripts/rocksdb.sh)

# With RocksDB and without: both are programs that people build. What takes a second comes first.
lint: rocksdb
	$(CARGO) fmt --all --check
	cd guests && $(CARGO) fmt --all --check
	scripts/tidy.sh
	scripts/tests/rocksdb.sh
	$(CARGO) clippy --workspace --release --all-targets --locked -- -D warnings
	$(if $(FEATURES),$(CARGO) clippy --workspace --release --all-targets --locked $(FEATURES) -- -D warnings)

$(PYTHON): examples/larkspur/requirements.txt
	scripts/python.sh target/python examples/larkspur/requirements.txt
