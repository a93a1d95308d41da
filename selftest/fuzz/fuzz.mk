# SPDX-License-Identifier: MIT
# How the fuzzers are built and run; the Makefile includes this. docs/testing.md.

.PHONY: fuzz fuzz-short fuzz-corpus fuzz-ledger fuzzers
FUZZ := ini boot gguf wire frame proxy text sdk vocab keys predictor chat answer door http flow \
    trace core
FUZZ_RUN := PYTHONDONTWRITEBYTECODE=1 python3 selftest/fuzz/run.py
fuzz fuzz-short fuzz-corpus: build/.setup-fuzz
fuzz:  ## fuzz with a corpus that grows in build/fuzz; FUZZ_RUNS= or FUZZ_SECONDS= each, F='ini sdk'
	$(MAKE) MODE=fuzz CC=clang fuzzers
	$(FUZZ_RUN) long $(F)
fuzz-short:  ## fuzz from the checked-in corpus, seconds each; in test-long
	@if $(FUZZ_RUN) can; then $(MAKE) MODE=fuzz CC=clang $(FUZZ_SHORT:%=fuzzed-%); \
	    else echo "fuzz-short: SKIPPED: no clang with libFuzzer here (clang, libclang-rt-dev)"; fi
FUZZ_SHORT := $(or $(F),$(FUZZ))
.PHONY: $(FUZZ:%=fuzzed-%)
$(FUZZ:%=fuzzed-%): fuzzed-%: $(B)/fuzz_%.dict
	@$(FUZZ_RUN) short $*
fuzz-corpus:  ## add to selftest/fuzz/corpus what reaches code that it does not soon lead to
	$(MAKE) MODE=fuzz CC=clang fuzzers
	$(FUZZ_RUN) corpus $(F)
fuzz-ledger:  ## add the executions of build/fuzz/ledger to docs/testing.md
	$(FUZZ_RUN) ledger
fuzzers: $(FUZZ:%=$(B)/fuzz_%.dict)
# Make keeps these, although only pattern rules name them; it makes any other deleted file again.
.SECONDARY: $(FUZZ:%=$(B)/fuzz_%) $(O)/selftest/fuzz/dictionary.o $(FAKE_OBJ) $(EMULATED_OBJ)
$(B)/fuzz_%.dict: $(B)/fuzz_%
	$(Q)$< --dictionary >$@
# The core's input is a tape of the simulator, which its fuzzer links too. Make puts these
# prerequisites after those of the pattern: hence the group, in which archives need no order.
$(B)/fuzz_core: $(filter-out $(O)/selftest/sim/main.o $(FAKE_OBJ),$(SIM_OBJ)) $(APPLIANCE_LIB)
$(B)/fuzz_text $(B)/fuzz_boot: $(APPLIANCE_LIB)
$(B)/fuzz_flow: $(FLOW_OBJ)
$(B)/fuzz_trace: $(TRACE_OBJ)
# The unit tests' door, without sockets or with its HTTP, and their assertions.
$(B)/fuzz_door $(B)/fuzz_http: $(DOOR_LIB) $(DOOR_ALSO)
$(B)/fuzz_door $(B)/fuzz_http: LDLIBS_inih := -lcmocka -lmicrohttpd $(LDLIBS_inih)
$(B)/fuzz_%: selftest/fuzz/fuzz_%.c $(O)/selftest/fuzz/dictionary.o $(FAKE_OBJ) $(B)/libagx.a $(LIB)
	$(call link,$(FROM_C) -fsanitize=fuzzer $(GROUP),$(GROUP_END) $(LDLIBS_json) $(LDLIBS_inih))
GROUP := -Wl,--start-group
GROUP_END := -Wl,--end-group
