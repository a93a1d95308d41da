# SPDX-License-Identifier: MIT
# One Makefile, no configure step. `make help` lists the targets.
#
# MODE: release (default) | debug | asan | hard | cov     objects lie in build/obj/MODE, programs of
# the release mode directly in build/, of the others in build/MODE.

MODE ?= release
CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif

B := build$(if $(filter release,$(MODE)),,/$(MODE))
O := build/obj/$(MODE)

# V=1 shows every command in full.
Q := $(if $(V),,@)
WARN := -Wall -Wextra -Werror -Wvla -Wshadow -Wpointer-arith -Wstrict-prototypes \
        -Wmissing-prototypes -Wundef -Wwrite-strings -Wno-unused-parameter
# Contraction is off so that every twin of a kernel rounds alike; fused operations are written out.
CFLAGS_release := -O2 -g1
CFLAGS_debug   := -O0 -g -DAGENTIX_VERIFY
CFLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -DAGENTIX_VERIFY \
                  -DAGENTIX_NO_TRAP
CFLAGS_hard    := -O2 -g -DAGENTIX_VERIFY
CFLAGS_cov     := -O0 -g --coverage -fprofile-update=atomic -DAGENTIX_NO_TRAP
# Comparisons are not traced: docs/decisions/0029-fuzzers-do-not-trace-comparisons.md.
CFLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
                  -fno-sanitize-coverage=trace-cmp -DAGENTIX_VERIFY -DAGENTIX_NO_TRAP
CFLAGS  := -std=gnu11 $(CFLAGS_$(MODE)) -ffp-contract=off -fno-strict-aliasing \
           -fstack-protector-strong
CPPFLAGS := -I. -D_GNU_SOURCE -MMD -MP
# What each function takes of the stack and calls, beside each object: tools/stack reads it.
CALLGRAPH := $(if $(findstring clang,$(CC)),,-fcallgraph-info=su)
LDFLAGS_STATIC := $(if $(filter asan fuzz,$(MODE)),,-static)
LDLIBS_inih := -l:libinih.a
LDLIBS_core := -l:libbearssl.a -lm -lpthread

# ---- what is built -------------------------------------------------------------------------------
# One library of the same objects serves the appliance, the tests, the lab and the simulator.
# Of the GPU engine what is known without a driver.
GPU_TOLD := kernels/cuda/driver/images.c kernels/cuda/plan.c
CORE_SRC := $(wildcard config/*.c config/*/*.c net/*.c sched/*.c sched/*/*.c kvmem/*.c kernels/*.c \
              kernels/ref/*.c kernels/cpu/*.c) $(GPU_TOLD)
MAIN_SRC := $(filter-out appliance/gpu/%,$(wildcard appliance/*.c appliance/*/*.c)) \
              $(wildcard selftest/post/*.c)
SDK_SRC  := $(wildcard tools/sdk/*.c net/wire*.c) config/address.c config/base/status.c
AGX_SRC  := $(wildcard tools/agx/*.c tools/trace/*.c)
CORE_OBJ := $(CORE_SRC:%.c=$(O)/%.o) $(O)/config/vocab/unicode_classes.o
MAIN_OBJ := $(MAIN_SRC:%.c=$(O)/%.o) $(O)/appliance/embedded.o $(O)/appliance/gpu/embedded.o
MISBEHAVE_OBJ := $(O)/selftest/misbehave/misbehave.o $(O)/selftest/misbehave/forbidden.o
SDK_OBJ  := $(SDK_SRC:%.c=$(O)/%.o) $(O)/config/base/assert.o $(O)/config/base/say.o
AGX_OBJ  := $(AGX_SRC:%.c=$(O)/%.o)
# The lab has no copy of a stage: it links the archives of the appliance (tools/check sees to it).
LAB_SRC  := $(wildcard tools/lab/*.c) tools/trace/trace.c tools/trace/prompt.c tools/trace/timer.c \
            tools/trace/chrome.c
LAB_OBJ  := $(LAB_SRC:%.c=$(O)/%.o)
LAB_LIB  := $(O)/liblab.a
# Nor has the simulator.
SIM_SRC  := $(wildcard selftest/sim/*.c) selftest/fake/fake_engine.c selftest/fake/gguf_file.c \
            $(wildcard selftest/fake/naive_*.c) selftest/fake/sched_view.c
SIM_OBJ  := $(SIM_SRC:%.c=$(O)/%.o)
LIB := $(O)/libcore.a
# The appliance less its main and its malloc, for tests of the loop and the text port.
APPLIANCE_LIB := $(O)/libappliance.a
APPLIANCE_OBJ := $(filter-out $(O)/appliance/main.o $(O)/appliance/seal/heap.o,$(MAIN_OBJ))
# The command line client, for tests of its parts.
CLIENT_LIB := $(O)/libclient.a

# The GPU worker's own: nothing of the core links it, for a static program opens no libraries.
GPU_SRC := $(filter-out $(GPU_TOLD),$(wildcard kernels/cuda/*.c kernels/cuda/driver/*.c)) \
    $(wildcard selftest/burn/*.c) selftest/post/fault.c
GPU_MAIN_SRC := $(wildcard appliance/gpu/*.c) appliance/control.c appliance/seal/filter.c \
    appliance/log.c appliance/runner.c
GPU_MAIN_OBJ := $(GPU_MAIN_SRC:%.c=$(O)/%.o) $(O)/kernels/cuda/embedded.o
GPU_LIB := $(O)/libgpu.a
# A driver library for machines without a GPU, for tests: selftest/fake/softgpu.
SOFTGPU_SRC := $(wildcard selftest/fake/softgpu/*.c) kernels/format.c config/base/assert.c \
    config/base/say.c selftest/misbehave/forbidden.c
SOFTGPU := $(B)/libsoftgpu.so
# Kernels for the chip: one image with code for each architecture. NVCC= builds without.
CUDA ?= /usr/local/cuda
ifeq ($(origin NVCC),undefined)
NVCC := $(or $(shell command -v nvcc),$(wildcard $(CUDA)/bin/nvcc))
endif
GPU_ARCHS := sm_80 sm_90a sm_100
GPU_PTX := compute_80
# One that knows the last of them, and has the compiler that it calls.
NVCC_LACKS := $(if $(NVCC),$(shell $(NVCC) --list-gpu-code | grep -qx $(lastword $(GPU_ARCHS)) || \
    echo "$(lastword $(GPU_ARCHS)) (CUDA 12.8 has it)"; command -v g++ >/dev/null || echo g++))
ifneq ($(NVCC_LACKS),)
override NVCC :=
endif
GPU_IMAGE := $(if $(NVCC),build/cuda/kernels.fatbin)
CU_SRC := $(wildcard kernels/cuda/device/*.cu)
# One rounding for each operation that is written, as on the CPU.
NVCCFLAGS := -O3 -fmad=false -Werror all-warnings -I. --threads 0 \
    $(foreach arch,$(GPU_ARCHS),-gencode arch=$(arch:sm_%=compute_%),code=$(arch)) \
    -gencode arch=$(GPU_PTX),code=$(GPU_PTX)

UNIT_SRC := $(wildcard selftest/unit/*/test_*.c)
UNIT_BIN := $(UNIT_SRC:selftest/unit/%.c=$(B)/unit/%)
FAKE_OBJ := $(patsubst %.c,$(O)/%.o,$(wildcard selftest/fake/*.c))
# The kernels of the GPU, as C, and what runs them on a CPU: for tests and the soft GPU only.
HOST_CU_KERNELS := $(CU_SRC:%=$(O)/%.o)
HOST_CU_OBJ := $(HOST_CU_KERNELS) $(O)/selftest/fake/softgpu/host.o \
    $(O)/selftest/fake/softgpu/fiber.o
HOST_CU_LIB := $(O)/libhostcu.a
# The AVX-512 kernels again, for CPUs with AVX2.
EMULATED_OBJ := $(patsubst %.c,$(O)/emulated/%.o,$(wildcard kernels/cpu/*_avx512*.c))

.PHONY: all
all: $(B)/agentix $(B)/agx $(B)/libagx.a $(B)/agentix-lab  ## build it all (default)
all: $(B)/agentix-sim

AVX2   := -mavx2 -mfma -mf16c
# Tuned for no CPU, GCC keeps addresses in vector registers, and their moves take turns from the
# products: 0.95 times.
AVX512 := $(AVX2) -mtune=skylake-avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
$(O)/%_avx2.o: CFLAGS += $(AVX2) -O3
# Sanitizers would make minutes of the unrolled tiles; the emulated ones have them, in MODE=asan.
BARE := $(if $(filter fuzz,$(MODE)),-fno-sanitize=all)
# Not those in $(O)/emulated.
NATIVE := $(O)/kernels/cpu $(O)/tools/bench
$(addsuffix /%_avx512.o,$(NATIVE)): CFLAGS += $(AVX512) -O3 $(BARE)
$(addsuffix /%_avx512bf16.o,$(NATIVE)): CFLAGS += $(AVX512) -mavx512bf16 -O3 $(BARE)
$(O)/kernels/ref/%.o: CFLAGS += -O2

$(O)/%.o: %.c | build/.setup
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(CALLGRAPH) $(WARN) -c $< -o $@

$(O)/kernels/cuda/device/%.cu.o: kernels/cuda/device/%.cu | build/.setup
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARN) -x c -c $< -o $@
$(HOST_CU_OBJ): CFLAGS += -fPIC

# Classes of code points, from Debian's unicode-data.
build/unicode_classes.c: tools/mkunicode.py | build/.setup
	$(Q)python3 $< >$@.new && mv $@.new $@

$(O)/config/vocab/unicode_classes.o: build/unicode_classes.c config/vocab/unicode.h
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(CALLGRAPH) $(WARN) -c $< -o $@

# ---- kernels for the chip ------------------------------------------------------------------------
# All kernels are one unit: nvcc's own start costs more than most of them. Written again when there
# are other kernels, architectures, or another nvcc.
build/cuda/kernels.cu: FORCE | build/.setup
	@mkdir -p $(@D)
	@$(if $(NVCC),,echo "  NVCC  $(if $(NVCC_LACKS),lacks $(NVCC_LACKS),not found):" \
	    "no GPU kernels in this build (NVCC=/path/of/nvcc)")
	@{ echo '/* $(or $(NVCC),no nvcc): $(GPU_ARCHS) $(GPU_PTX) */'; \
	    printf '#include "%s"\n' $(CU_SRC); } >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
.PHONY: FORCE
build/cuda/kernels.fatbin: build/cuda/kernels.cu
	@echo "  NVCC  $@"
	$(Q)$(NVCC) $(NVCCFLAGS) -fatbin -MD -MP -MF $@.d -MT $@ -o $@ $<
IMAGES_FLAGS = -DIMAGES_ARCHS='$(GPU_ARCHS:%="%",) "$(GPU_PTX)",' \
    -DIMAGES_TOOLKIT=`$(NVCC) --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]\).*/\10\20/p'`
$(O)/kernels/cuda/driver/images.o: CPPFLAGS += $(if $(NVCC),$(IMAGES_FLAGS))
$(O)/kernels/cuda/driver/images.o: build/cuda/kernels.cu
$(O)/kernels/cuda/embedded.o: kernels/cuda/embedded.S build/cuda/kernels.cu $(GPU_IMAGE)
	@mkdir -p $(@D)
	$(Q)$(CC) $(if $(GPU_IMAGE),-DGPU_IMAGE='"$(GPU_IMAGE)"') -c $< -o $@

$(LIB): $(CORE_OBJ)
	@echo "  AR    $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

$(APPLIANCE_LIB): $(APPLIANCE_OBJ)
	@echo "  AR    $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

$(HOST_CU_LIB): $(HOST_CU_OBJ)
	@echo "  AR    $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

$(CLIENT_LIB): $(AGX_OBJ)
	@echo "  AR    $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

$(GPU_LIB): $(GPU_SRC:%.c=$(O)/%.o) $(O)/kernels/cuda/embedded.o
	@echo "  AR    $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

# Dynamic, embedded in the static one, and started from memory.
$(B)/agentix-gpu-worker: $(GPU_MAIN_OBJ) $(GPU_LIB) $(LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -s -o $@ $(GPU_MAIN_OBJ) $(GPU_LIB) $(LIB) -lm -lpthread
$(O)/appliance/gpu/embedded.o: appliance/gpu/embedded.S $(B)/agentix-gpu-worker
	@mkdir -p $(@D)
	$(Q)$(CC) -DGPU_PROGRAM='"$(B)/agentix-gpu-worker"' -c $< -o $@

$(O)/pic/%.o: %.c | build/.setup
	@mkdir -p $(@D)
	@echo "  CC    $< (shared)"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -fvisibility=hidden $(WARN) -c $< -o $@

$(SOFTGPU): $(SOFTGPU_SRC:%.c=$(O)/pic/%.o) $(HOST_CU_KERNELS)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) -shared -o $@ $^ -lm -lpthread

$(B)/libagx.a: $(SDK_OBJ)
	@mkdir -p $(@D)
	@echo "  AR    $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

$(B)/agentix: $(MAIN_OBJ) $(LIB) tools/symbols
	@mkdir -p $(@D)
	@echo "  GATE  tools/symbols"
	$(Q)python3 tools/symbols $(CORE_OBJ) $(MAIN_OBJ)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS_STATIC) -o $@ $(MAIN_OBJ) $(LIB) $(LDLIBS_inih) $(LDLIBS_core)

# The appliance with acts that the seal must punish; only selftest/e2e/test_seal.py runs it.
$(B)/agentix-misbehave: $(MISBEHAVE_OBJ) $(MAIN_OBJ) $(LIB)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS_STATIC) -Wl,--wrap=loop_pass,--wrap=control_await -o $@ \
	    $(MISBEHAVE_OBJ) $(MAIN_OBJ) $(LIB) $(LDLIBS_inih) $(LDLIBS_core)

$(B)/agx: $(AGX_OBJ) $(B)/libagx.a $(LIB)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS_STATIC) -o $@ $(AGX_OBJ) $(B)/libagx.a $(LIB) \
	    -l:libjansson.a $(LDLIBS_core)

$(LAB_LIB): $(filter-out $(O)/tools/lab/main.o,$(LAB_OBJ))
	@echo "  AR    $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

$(B)/agentix-lab: $(LAB_OBJ) $(APPLIANCE_LIB) $(LIB)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS_STATIC) -o $@ $(LAB_OBJ) $(APPLIANCE_LIB) $(LIB) $(LDLIBS_inih) \
	    -l:libjansson.a $(LDLIBS_core)

$(B)/agentix-sim: $(SIM_OBJ) $(B)/libagx.a $(APPLIANCE_LIB) $(LIB)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS_STATIC) -o $@ $(SIM_OBJ) $(B)/libagx.a $(APPLIANCE_LIB) $(LIB) \
	    $(LDLIBS_inih) $(LDLIBS_core)

# The demo's tasks are in the program.
$(O)/tools/agx/demo.o: tools/agx/demo.tasks

# ---- models --------------------------------------------------------------------------------------
# The embedded one is trained (tools/model) and checked in. Tests and benchmarks make random ones.
build/tools/mkmodel: tools/mkmodel.c tools/quants.c tools/quants.h config/model/family.def \
    | build/.setup
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(CC) -O2 -std=gnu11 $(WARN) -I. -D_GNU_SOURCE -o $@ $(filter %.c,$^) -lm

build/model-%.gguf: build/tools/mkmodel
	build/tools/mkmodel --out $@ --preset $* --seed 1
define MODEL_OF_TYPE
build/model-%-$(1).gguf: build/tools/mkmodel
	build/tools/mkmodel --out $$@ --preset $$* --type $(1) --seed 1
endef
$(foreach type,f16 bf16 q8_0 q4_0 q4_k q6_k,$(eval $(call MODEL_OF_TYPE,$(type))))

# The KV of eight billion parameters (32 layers, 8 heads of 128), and little else.
build/model-kv8b.gguf: build/tools/mkmodel
	build/tools/mkmodel --out $@ --preset tiny --layers 32 --dim 1024 --heads 8 --kv-heads 8 \
	    --ffn 32 --vocab 512 --type q8_0 --seed 1

$(O)/appliance/embedded.o: appliance/embedded.S appliance/embedded.gguf
	@mkdir -p $(@D)
	$(Q)$(CC) -c $< -o $@

# ---- tests ---------------------------------------------------------------------------------------
$(O)/emulated/%.o: %.c selftest/fake/avx512.h | build/.setup
	@mkdir -p $(@D)
	@echo "  CC    $< (emulated)"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(AVX2) -O1 -Wno-psabi -include selftest/fake/avx512.h $(WARN) \
	    -c $< -o $@

# Where there is a cuda.h, our own declarations are compared with it.
$(B)/unit/cuda/%: CPPFLAGS += -DSOFTGPU='"$(SOFTGPU)"' -isystem $(CUDA)/include
$(filter $(B)/unit/cuda/%,$(UNIT_BIN)): $(SOFTGPU)
$(B)/unit/%: selftest/unit/%.c $(LAB_LIB) $(LIB) $(APPLIANCE_LIB) $(FAKE_OBJ) $(EMULATED_OBJ) \
    $(CLIENT_LIB) $(B)/libagx.a $(GPU_LIB) $(HOST_CU_LIB)
	@mkdir -p $(@D)
	@echo "  TEST  $@"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(filter-out -Wmissing-prototypes,$(WARN)) -o $@ $< $(FAKE_OBJ) \
	    $(EMULATED_OBJ) $(LAB_LIB) $(CLIENT_LIB) $(B)/libagx.a $(HOST_CU_LIB) $(APPLIANCE_LIB) \
	    $(GPU_LIB) $(LIB) $(LDLIBS_inih) -l:libjansson.a -lcmocka $(LDLIBS_core)

.PHONY: test unit e2e check demo sim sim-short
test: all check unit sim-short e2e fuzz-short  ## rules, unit tests, simulated and real runs, fuzz

unit: $(UNIT_BIN)  ## unit tests; T=folder/noun runs one
	@set -e; for t in $(if $(T),$(B)/unit/$(dir $(T))test_$(notdir $(T)),$(UNIT_BIN)); do \
	    echo "== $$t"; $$t; done

e2e soak: build/model-tiny.gguf build/model-tiny-q4_0.gguf
e2e: $(B)/agentix-misbehave $(SOFTGPU) $(B)/unit/cuda/test_product
e2e: all  ## end-to-end tests against the real binary; T=module or module.test runs some
	PYTHONDONTWRITEBYTECODE=1 python3 selftest/e2e/run.py $(T)

check: all build/docgen  ## rules of the house: includes, sizes, bans, generated docs
	python3 tools/check
	@python3 tools/stack $(filter-out $(O)/selftest/%,$(CORE_OBJ) $(MAIN_SRC:%.c=$(O)/%.o))

# Fixed seeds: the same runs each time.
sim-short: $(B)/agentix-sim
	$(B)/agentix-sim --seeds 1-200 --twice
	$(B)/agentix-sim --nth-fault 2
	$(B)/agentix-sim --exhaust 4
sim: $(B)/agentix-sim  ## simulate new seeds, for ever or for MINUTES
	$(B)/agentix-sim --minutes $(or $(MINUTES),0) --steps $(or $(STEPS),4000)

demo: all  ## start the appliance with the embedded model and watch four agents
	sh tools/demo

# ---- generated documents -------------------------------------------------------------------------
build/docgen: tools/docgen.c $(LIB)
	@echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARN) -o $@ $< $(LIB) $(LDLIBS_inih) $(LDLIBS_core)

.PHONY: docs
docs: build/docgen  ## write the generated pages again
	build/docgen config >docs/config.md
	build/docgen stats >docs/stats.md
	build/docgen events >docs/events.md
	build/docgen sample >docs/agentix.ini
	build/docgen policies >build/policies.md
	sed -i -e '/^<!-- policies -->/,/^<!-- end -->/{/^|/d}' \
	    -e '/^<!-- policies -->/r build/policies.md' docs/scheduling.md
	build/docgen frames >selftest/e2e/frames.py
	build/docgen protocol >build/protocol.md && cp build/protocol.md docs/protocol.md

# ---- a machine with a GPU, which may have no compiler --------------------------------------------
GPU_CARRIED := $(B)/agentix $(B)/agx $(filter $(B)/unit/cuda/%,$(UNIT_BIN))
.PHONY: gpu-carry
gpu-carry: $(GPU_CARRIED)  ## build what tools/gpu-check runs, and say what to carry to the GPU
	@mkdir -p $(B)/lib
	$(Q)cp -L "`$(CC) -print-file-name=libcmocka.so.0`" $(B)/lib/
	@echo "carry, as they lie: tools/gpu-check $(B)/agentix $(B)/agx $(B)/unit/cuda $(B)/lib"

# ---- benchmarks ----------------------------------------------------------------------------------
BENCH := $(B)/bench-sched $(B)/bench-moves $(B)/bench-vocab $(B)/bench-prefix $(B)/bench \
    $(B)/bench-scores
CEILING_OBJ := $(patsubst %.c,$(O)/%.o,$(wildcard tools/bench/ceiling*.c))
$(B)/bench: tools/bench/bench.c $(CEILING_OBJ) $(LIB)
$(B)/bench-scores: tools/bench/scores.c $(LIB)
$(B)/bench-sched: tools/bench/sched.c $(LIB)
$(B)/bench-moves: tools/bench/moves.c $(LIB)
$(B)/bench-vocab: tools/bench/vocab.c $(LIB)
$(B)/bench-prefix: tools/bench/prefix.c $(LIB)
$(B)/constant-time: tools/bench/constant_time.c $(LIB)
$(BENCH) $(B)/constant-time:
	@echo "  LINK  $@"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS_STATIC) $(WARN) -o $@ $(filter %.c %.o %.a,$^) \
	    $(LDLIBS_core)

.PHONY: bench
VOCABULARIES = appliance/embedded.gguf $(wildcard ../shared/vocab/*.gguf)
BENCH_MODELS ?= 15m 15m-q8_0 110m
BENCH_FILES := $(BENCH_MODELS:%=build/model-%.gguf)
bench: all $(BENCH) $(BENCH_FILES) build/model-110m.gguf build/model-kv8b.gguf
bench:  ## speed, a line each in build/bench.jsonl (BENCH_MODELS="1.1b 1.1b-q8_0"); agents right
	$(B)/bench-sched
	$(B)/bench-moves appliance/embedded.gguf
	$(B)/bench-moves build/model-110m.gguf
	$(B)/bench-moves build/model-kv8b.gguf
	$(B)/bench-vocab /usr/share/common-licenses/GPL-3 sched/engine/settle.c $(VOCABULARIES)
	$(B)/bench-prefix build/model-110m.gguf
	@set -e; for m in $(BENCH_FILES) appliance/embedded.gguf; do \
	    $(B)/bench $$m --json build/bench.jsonl; done
	PYTHONDONTWRITEBYTECODE=1 tools/model/eval --least 95

.PHONY: constant-time
constant-time: $(B)/constant-time  ## does the time of authentication tell of secrets? minutes
	$(B)/constant-time

# ---- the papers' figures in the lab --------------------------------------------------------------
.PHONY: lab
TRACES ?= ../shared/traces
lab: $(B)/agentix-lab  ## run what docs/results.md shows; TRACES=/path, LAB=--quick for less
	PYTHONDONTWRITEBYTECODE=1 python3 tools/lab/results --traces $(TRACES) $(LAB)

# ---- fuzzing -------------------------------------------------------------------------------------
.PHONY: fuzz fuzz-short fuzz-corpus fuzz-ledger fuzzers
FUZZ := ini gguf wire frame text sdk vocab keys core
FUZZ_RUN := PYTHONDONTWRITEBYTECODE=1 python3 selftest/fuzz/run.py
fuzz:  ## fuzz with a corpus that grows in build/fuzz; FUZZ_RUNS= or FUZZ_SECONDS= each, F='ini sdk'
	$(MAKE) MODE=fuzz CC=clang fuzzers
	$(FUZZ_RUN) long $(F)
fuzz-short:  ## a minute of fuzzing from the checked-in corpus (part of test)
	@if $(FUZZ_RUN) can; then $(MAKE) MODE=fuzz CC=clang fuzzers && $(FUZZ_RUN) short $(F); \
	    else echo "fuzz-short: SKIPPED: no clang with libFuzzer here (clang, libclang-rt-dev)"; fi
fuzz-corpus:  ## add to selftest/fuzz/corpus what reaches code that it does not soon lead to
	$(MAKE) MODE=fuzz CC=clang fuzzers
	$(FUZZ_RUN) corpus $(F)
fuzz-ledger:  ## add the executions of build/fuzz/ledger to docs/testing.md
	$(FUZZ_RUN) ledger
fuzzers: $(FUZZ:%=$(B)/fuzz_%.dict)
# Only what no rule names; all else that somebody deletes is made again.
.SECONDARY: $(FUZZ:%=$(B)/fuzz_%) $(O)/selftest/fuzz/dictionary.o $(FAKE_OBJ) $(EMULATED_OBJ)
$(B)/fuzz_%.dict: $(B)/fuzz_%
	$(Q)$< --dictionary >$@
# The core's input is a tape of the simulator.
FUZZ_SIM := $(filter-out $(O)/selftest/sim/main.o $(FAKE_OBJ),$(SIM_OBJ)) $(APPLIANCE_LIB)
$(B)/fuzz_core: $(FUZZ_SIM)
$(B)/fuzz_core: FUZZ_MORE := $(FUZZ_SIM)
$(B)/fuzz_%: selftest/fuzz/fuzz_%.c $(O)/selftest/fuzz/dictionary.o $(LIB) $(FAKE_OBJ) $(B)/libagx.a
	@mkdir -p $(@D)
	@echo "  FUZZ  $@"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARN) -fsanitize=fuzzer -o $@ $< \
	    $(O)/selftest/fuzz/dictionary.o $(FUZZ_MORE) $(FAKE_OBJ) $(B)/libagx.a $(LIB) \
	    $(LDLIBS_inih) $(LDLIBS_core)

# ---- longer proofs, not part of test -------------------------------------------------------------
.PHONY: soak cov
cov:  ## what the unit tests reach of sched, kvmem, net, config; what they do not, and why (gcovr)
	@mkdir -p build/obj/cov; find build/obj/cov -name "*.gcda" -delete
	$(MAKE) MODE=cov unit >build/cov.log 2>&1 || { tail -30 build/cov.log; exit 1; }
	tools/coverage build/obj/cov

soak: all  ## 10^7 calls, 10^6 visits, 1000 kills: memory must not change, tokens must not either
	KILLS=1000 SOAK_CALLS=10000000 SOAK_VISITS=1000000 SOAK_LEAVERS=100000 \
	    AGENTIX_HANG_S=1800 PYTHONDONTWRITEBYTECODE=1 \
	    python3 selftest/e2e/run.py memory serve.test_a_worker_that_is_killed_costs_nothing_but_time

build/.setup: tools/setup
	@mkdir -p build
	sh tools/setup
	@touch $@

.PHONY: help clean
clean:  ## remove build/
	rm -rf build
help:  ## this list
	@grep -hE '^[a-z][a-z0-9-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

-include $(shell find build -name '*.d' 2>/dev/null)
