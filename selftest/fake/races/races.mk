# SPDX-License-Identifier: MIT
# Part of the Makefile: races and misaligned accesses of kernels (docs/testing.md).

# The kernels with gcc's instrumentation of accesses, and a runtime of our own that finds races. Each
# access is as it is written: nothing is vectorised or moved. AddressSanitizer does not go with it.
# Where bit-ccp proves an address misaligned, gcc would call the access one of bytes.
RACED_FLAGS := -fsanitize=thread --param tsan-instrument-func-entry-exit=0 -O1 -fno-tree-bit-ccp
RACED_LIB := $(O)/libraced.a
RACED_OBJ := $(CU_SRC:%=$(O)/raced/%.o) $(filter-out $(HOST_CU_KERNELS),$(HOST_CU_OBJ)) \
    $(call objects,$(wildcard selftest/fake/races/*.c))
RACED_BIN := $(if $(filter asan fuzz cov,$(MODE)),,$(patsubst %,$(B)/unit/races/test_%,\
    advance attention draft kv_copy logprob number pattern product races rms_norm rope sample \
    settle))
UNIT_BIN := $(filter-out %/cuda/test_races,$(UNIT_BIN)) $(RACED_BIN)

$(O)/raced/%.cu.o: %.cu | build/.setup
	$(call compile,-x c $(RACED_FLAGS), (raced))
$(O)/raced/selftest/%.o: selftest/%.c | build/.setup-tests
	$(call compile,$(RACED_FLAGS), (raced))
$(RACED_LIB): $(RACED_OBJ)

# Tests of kernels once more, with the instrumented ones; that of races has such kernels itself.
$(B)/unit/races/test_%: selftest/unit/cuda/test_%.c $(RACED_LIB) $(GPU_LIB) $(LIB) \
    | build/.setup-tests
	$(call link,$(filter-out -Wmissing-prototypes,$(FROM_C)),-lcmocka $(LDLIBS_core))
$(B)/unit/races/test_races: $(O)/raced/selftest/unit/cuda/test_races.o $(RACED_LIB) $(GPU_LIB) \
    $(LIB)
	$(call link,,-lcmocka $(LDLIBS_core))
