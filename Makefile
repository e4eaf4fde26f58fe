# A thin front to Meson and Ninja.  `make help` lists the targets.
MAKEFLAGS += --no-print-directory
BUILD ?= build
FUZZ_SECONDS ?= 300
PREFIX ?= /usr/local
# Below PREFIX.  Debian's loader looks in /usr/local/lib, and in no lib64.
LIBDIR ?= lib

.PHONY: all deps demo test test-all test-packages coverage bench bench-agent stale trials fuzz model soak format check-format clean install help

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@scripts/deps --check build
	@meson setup $(BUILD) --prefix $(PREFIX) --libdir $(LIBDIR)

deps:
	@scripts/deps build test bench demo

demo:
	@scripts/deps demo
	@echo 'building (a minute or two; the log is in $(BUILD).log)'
	@$(MAKE) all >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@scripts/demo

test:
	@scripts/deps test
	@scripts/test

# As test, but what that leaves out where it is not installed must be there: servers of other Debian suites;
# kube-apiserver, helm and kustomize, built if need be beside the first stages, and a browser.
test-all:
	@scripts/deps test page
	@tests/page/install >/dev/null
	@scripts/suite-server consul >/dev/null && scripts/suite-server nats-server >/dev/null
	@{ scripts/kube-server && scripts/kube-tools; } >/dev/null & TENURE_KUBE=required TENURE_PAGE=required TENURE_SERVERS=required scripts/test; \
	    status=$$?; wait; exit $$status

# The packages, and make install, in fresh roots of Debian.
test-packages:
	@scripts/deps test packages
	@TENURE_BUILD=$(abspath $(BUILD)) /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/packages

coverage:
	@scripts/deps test
	@scripts/coverage

bench:
	@scripts/deps bench
	@$(MAKE) all
	@bench/run.py --write
	@bench/agent.py --write

bench-agent:
	@scripts/deps bench
	@$(MAKE) all
	@bench/agent.py --write

trials: all
	@scripts/deps test
	@TENURE_BUILD=$(abspath $(BUILD)) tests/trials/run.py --write
	@TENURE_BUILD=$(abspath $(BUILD)) tests/trials/kube.py --write
	@TENURE_BUILD=$(abspath $(BUILD)) tests/trials/latency.py --write
	@TRIALS=500 STATES=10000 TENURE_BUILD=$(abspath $(BUILD)) /usr/bin/python3 -m pytest -q -s \
	    -p no:cacheprovider tests/e2e/test_shipper.py tests/fault/test_crash_states.py
	@$(BUILD)/tests/unit/test_state_history 1 100000
	@TENURE_BUILD=$(abspath $(BUILD)) /usr/bin/python3 -m pytest -q -rs -p no:cacheprovider -k 's3 and not s3cr3t' tests/fault
	@HISTORIES=200 TENURE_BUILD=$(abspath $(BUILD)) /usr/bin/python3 -m pytest -q -s \
	    -p no:cacheprovider tests/fault/test_state_histories.py

stale: all
	@scripts/deps test
	@for scheme in file sqlite; do tests/fault/with_store.sh $$scheme \
	    $(BUILD)/tests/unit/test_state_stale 1000000 || exit 1; done
	@STALE=100000 TENURE_BUILD=$(abspath $(BUILD)) /usr/bin/python3 -m pytest -q \
	    -p no:cacheprovider tests/fault/test_state_stale.py

fuzz:
	@scripts/deps test
	@scripts/fuzz $(FUZZ_SECONDS)

model: all
	@$(BUILD)/tests/model/explore --nodes 2 --faults 2
	@$(BUILD)/tests/model/explore --nodes 3 --faults 1

soak: all
	@$(BUILD)/tenure-sim --soak $(BUILD)/soak

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

check-format:
	@git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror

clean:
	@rm -rf $(BUILD) build-clang build-asan build-tsan build-fuzz $(BUILD).log

# The prefix is compiled in, so that another one means to build again.
install:
	@[ ! -f $(BUILD)/build.ninja ] || meson configure $(BUILD) -Dprefix=$(PREFIX) -Dlibdir=$(LIBDIR)
	@$(MAKE) all
	@meson install -C $(BUILD) --no-rebuild

help:
	@echo 'make               build the program, the library and the tests in build/'
	@echo 'make demo          see a leader die and another take over'
	@echo 'make test          run every test; the last line counts them'
	@echo 'make test-all      the same, with a real kube-apiserver, helm and a real browser, which it gets once'
	@echo 'make test-packages install the Debian packages in fresh roots; needs root, and Debian'\''s mirror'
	@echo 'make coverage      which lines and branches of the core its timelines reach'
	@echo 'make bench         measure, beside peers'
	@echo 'make bench-agent   measure the HTTP side, beside peers'
	@echo 'make stale         a million stale commits on each embedded store, 100,000 on each server'
	@echo 'make trials        the long runs: faults by the thousand under load; 500 kills,'
	@echo '                   100,000 histories'
	@echo 'make fuzz          fuzz each decoder for FUZZ_SECONDS (default 300)'
	@echo 'make model         every history of two and three candidates, with faults'
	@echo 'make soak          the simulator, until it is stopped; goes on where it was'
	@echo 'make format        format the sources; make check-format only looks'
	@echo 'make install       install under PREFIX (default /usr/local; DESTDIR is respected)'
	@echo 'make deps          install all Debian packages that any of these need'
	@echo 'make clean         remove what was built'
