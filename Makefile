# SPDX-License-Identifier: MIT
# One Makefile, no configure step. `make help` lists the targets.
#
# MODE: release (default) | debug | asan | hard | cov | fuzz. Objects lie in build/obj/MODE, and
# binaries in build/MODE or, of the release mode, in build/.

MODE ?= release
CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif

# As many jobs as there are CPUs; -j1 or any other -j on the command line wins.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

B := build$(if $(filter release,$(MODE)),,/$(MODE))
O := build/obj/$(MODE)

# V=1 shows every command in full.
Q := $(if $(V),,@)
WARN := -Wall -Wextra -Werror -Wvla -Wshadow -Wpointer-arith -Wstrict-prototypes \
        -Wmissing-prototypes -Wundef -Wwrite-strings -Wno-unused-parameter
# Contraction is off so that every twin of a kernel rounds alike; fused operations are written out.
# The same sources give the same bytes, in whatever folder they lie.
CFLAGS_release := -O2 -g1 -ffile-prefix-map=$(CURDIR)=.
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
# Beside each object: the stack that each function takes, and its calls. tools/stack reads it.
CALLGRAPH := $(if $(findstring clang,$(CC)),,-fcallgraph-info=su)
LDFLAGS_STATIC := $(if $(filter asan fuzz,$(MODE)),,-static)
LDLIBS_core := -l:libbearssl.a -lm -lpthread
LDLIBS_inih := -l:libinih.a $(LDLIBS_core)
LDLIBS_json := -l:libjansson.a

# ---- recipes -------------------------------------------------------------------------------------
# $(call say,VERB): one line for each thing that is made.
say = @mkdir -p $(@D); echo "  $(1)  $@"
# $(call compile,FLAGS[,NOTE]): the first prerequisite into an object.
define compile
@mkdir -p $(@D); echo "  CC    $<$(2)"
$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(1) $(WARN) -c $< -o $@
endef
# $(call link,FLAGS,LIBRARIES): the first prerequisite if it is a source, all objects, all archives:
# a test may include other sources. A source needs $(FROM_C) in FLAGS.
define link
$(call say,LINK)
$(Q)$(CC) $(CFLAGS) $(1) -o $@ $(filter %.c,$<) $(filter %.o,$^) $(filter %.a,$^) $(2)
endef
FROM_C = $(CPPFLAGS) $(WARN)

# ---- what is built -------------------------------------------------------------------------------
objects = $(patsubst %.c,$(O)/%.o,$(1))
# The part of the GPU engine that needs no driver.
GPU_TOLD := kernels/cuda/driver/images.c kernels/cuda/plan.c
# One library of the same objects serves the appliance, the tests, the lab and the simulator.
LIB := $(O)/libcore.a
CORE_OBJ := $(call objects,$(wildcard config/*.c config/*/*.c net/*.c net/*/*.c sched/*.c \
    sched/*/*.c sched/*/*/*.c kvmem/*.c kernels/*.c kernels/round/*.c kernels/ref/*.c \
    kernels/cpu/*.c kernels/weights/*.c) $(GPU_TOLD)) \
    $(O)/config/vocab/unicode_classes.o
MAIN_OBJ := $(call objects,$(filter-out appliance/gpu/%,\
    $(wildcard appliance/*.c appliance/*/*.c appliance/*/*/*.c)) \
    $(wildcard selftest/post/*.c)) $(O)/appliance/embedded.o $(O)/appliance/gpu/embedded.o
# The appliance without its main and its malloc, for tests of the loop and the text port.
APPLIANCE_LIB := $(O)/libappliance.a
APPLIANCE_OBJ := $(filter-out $(O)/appliance/main.o $(O)/appliance/seal/heap.o,$(MAIN_OBJ))
MISBEHAVE_OBJ := $(call objects,selftest/misbehave/misbehave.c selftest/misbehave/forbidden.c)
SDK_OBJ := $(call objects,$(wildcard tools/sdk/*.c net/wire*.c config/chat/*.c) config/address.c \
    config/base/status.c config/base/assert.c config/base/say.c)
TRACE_OBJ := $(call objects,$(wildcard tools/trace/*.c tools/trace/*/*.c))
FLOW_OBJ := $(call objects,$(wildcard tools/flow/*.c))
COMMAND_LINE_OBJ := $(O)/tools/command_line.o
# The command line client; the library serves the tests of its parts.
AGX_OBJ := $(call objects,$(wildcard tools/agx/*.c tools/agx/*/*.c)) $(TRACE_OBJ) $(FLOW_OBJ) \
    $(COMMAND_LINE_OBJ)
CLIENT_LIB := $(O)/libclient.a
# The front door: HTTP in front of the appliance. Dynamic: libmicrohttpd pulls in GnuTLS.
DOOR_ALSO := $(call objects,appliance/seal/filter.c appliance/seal/rights.c \
    appliance/boot/inherited.c appliance/log.c \
    tools/agx/chat/conversation.c) $(O)/appliance/embedded.o
DOOR_OBJ := $(call objects,$(wildcard tools/door/*.c tools/door/*/*.c)) $(DOOR_ALSO) \
    $(COMMAND_LINE_OBJ)
DOOR_LIB := $(O)/libdoor.a
# The lab has no copy of a stage: it links the appliance's archives (tools/check enforces this).
LAB_OBJ := $(call objects,$(wildcard tools/lab/*.c tools/lab/*/*.c)) $(TRACE_OBJ) $(FLOW_OBJ) \
    $(COMMAND_LINE_OBJ)
LAB_LIB := $(O)/liblab.a
# The same holds for the simulator.
SIM_OBJ := $(call objects,$(wildcard selftest/sim/*.c selftest/sim/*/*.c) \
    selftest/fake/fake_engine.c selftest/fake/store_trap.c \
    selftest/fake/gguf_file.c $(wildcard selftest/fake/naive_*.c selftest/fake/sched_view.c)) \
    $(COMMAND_LINE_OBJ)

# Only the GPU worker links these: a static binary, like the core, opens no libraries.
GPU_LIB := $(O)/libgpu.a
GPU_OBJ := $(call objects,$(filter-out $(GPU_TOLD),$(wildcard kernels/cuda/*.c \
    kernels/cuda/driver/*.c)) $(wildcard selftest/burn/*.c) selftest/post/fault.c) \
    $(O)/kernels/cuda/embedded.o
GPU_MAIN_OBJ := $(call objects,$(wildcard appliance/gpu/*.c) appliance/control.c \
    appliance/seal/filter.c appliance/log.c appliance/runner.c) $(O)/kernels/cuda/embedded.o
# A driver library for machines without a GPU, for tests: selftest/fake/softgpu.
SOFTGPU_SRC := $(wildcard selftest/fake/softgpu/*.c) kernels/weights/format.c config/base/assert.c \
    config/base/say.c selftest/misbehave/forbidden.c
SOFTGPU := $(B)/libsoftgpu.so
# Kernels for the chip: one image with code for each architecture. NVCC= builds without.
CUDA ?= /usr/local/cuda
ifeq ($(origin NVCC),undefined)
NVCC := $(or $(shell command -v nvcc),$(wildcard $(CUDA)/bin/nvcc))
endif
GPU_ARCHS := sm_80 sm_90a sm_100
GPU_PTX := compute_80
# An nvcc that knows the last of them, and has the compiler that it calls.
NVCC_LACKS := $(if $(NVCC),$(shell $(NVCC) --list-gpu-code | grep -qx $(lastword $(GPU_ARCHS)) || \
    echo "$(lastword $(GPU_ARCHS)) (CUDA 12.8 has it)"; command -v g++ >/dev/null || echo g++))
ifneq ($(NVCC_LACKS),)
override NVCC :=
endif
GPU_IMAGE := $(if $(NVCC),build/cuda/kernels.fatbin)
CU_SRC := $(wildcard kernels/cuda/device/*.cu kernels/cuda/device/*/*.cu)
# As on the CPU, each operation that is written rounds once.
NVCCFLAGS := -O3 -fmad=false -Werror all-warnings -I. --threads 0 -Xfatbin -compress-all \
    $(foreach arch,$(GPU_ARCHS),-gencode arch=$(arch:sm_%=compute_%),code=$(arch)) \
    -gencode arch=$(GPU_PTX),code=$(GPU_PTX)

UNIT_BIN := $(patsubst selftest/unit/%.c,$(B)/unit/%,$(wildcard selftest/unit/*/test_*.c))
FAKE_OBJ := $(call objects,$(wildcard selftest/fake/*.c))
# The kernels of the GPU, as C, and what runs them on a CPU: for tests and the soft GPU only.
HOST_CU_KERNELS := $(CU_SRC:%=$(O)/%.o)
HOST_CU_OBJ := $(HOST_CU_KERNELS) \
    $(call objects,$(addprefix selftest/fake/softgpu/,host.c fiber.c copies.c mma.c))
HOST_CU_LIB := $(O)/libhostcu.a
# The AVX-512 kernels compiled for CPUs with AVX2.
EMULATED_OBJ := $(patsubst %.c,$(O)/emulated/%.o,$(wildcard kernels/cpu/*_avx512*.c))

.PHONY: all
all: $(B)/agentix $(B)/agx $(B)/libagx.a $(B)/agentix-lab  ## build it all (default)
all: $(B)/agentix-door $(B)/agentix-sim $(B)/agentix-predict

AVX2   := -mavx2 -mfma -mf16c
# Without -mtune GCC keeps addresses in vector registers, and the moves take slots of the products:
# 0.95 times the speed.
AVX512 := $(AVX2) -mtune=skylake-avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
$(O)/%_avx2.o: CFLAGS += $(AVX2) -O3
# With sanitizers, unrolled tiles take minutes. In MODE=asan the emulated kernels have them.
BARE := $(if $(filter fuzz,$(MODE)),-fno-sanitize=all)
# The kernels in $(O)/emulated have flags of their own.
NATIVE := $(O)/kernels/cpu $(O)/tools/bench
$(addsuffix /%_avx512.o,$(NATIVE)): CFLAGS += $(AVX512) -O3 $(BARE)
$(addsuffix /%_avx512bf16.o,$(NATIVE)): CFLAGS += $(AVX512) -mavx512bf16 -O3 $(BARE)
$(O)/kernels/ref/%.o: CFLAGS += -O2

$(O)/%.o: %.c | build/.setup
	$(call compile,$(CALLGRAPH))
$(O)/kernels/cuda/device/%.cu.o: kernels/cuda/device/%.cu | build/.setup
	$(call compile,-x c)
$(HOST_CU_OBJ): CFLAGS += -fPIC
$(O)/pic/%.o: %.c | build/.setup
	$(call compile,-fPIC -fvisibility=hidden, (shared))
$(O)/emulated/%.o: %.c selftest/fake/avx512.h | build/.setup-tests
	$(call compile,$(AVX2) -O1 -Wno-psabi -include selftest/fake/avx512.h, (emulated))
# A file as an object; EMBED names it where its path is not fixed.
$(O)/%/embedded.o: %/embedded.S | build/.setup
	@mkdir -p $(@D)
	$(Q)$(CC) $(EMBED) -c $< -o $@

# Classes of code points, from Debian's unicode-data.
build/unicode_classes.c: config/vocab/mkunicode.py | build/.setup
	$(Q)python3 $< >$@.new && mv $@.new $@

$(O)/config/vocab/unicode_classes.o: build/unicode_classes.c config/vocab/unicode.h
	$(call compile,$(CALLGRAPH))

# The version is written again when it changes, and programs are linked again then.
build/version.c: FORCE tools/package/version
	@mkdir -p build
	@tools/package/version --c >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
VERSION_OBJ := $(O)/version.o
$(VERSION_OBJ): build/version.c appliance/boot/version.h
	$(call compile)

# ---- kernels for the chip ------------------------------------------------------------------------
# All kernels are one unit: nvcc's own start costs more than most of them. The unit is written again
# when the kernels, the architectures or nvcc change.
build/cuda/kernels.cu: FORCE | build/.setup
	@mkdir -p $(@D)
	@$(if $(NVCC),,echo "  NVCC  $(if $(NVCC_LACKS),lacks $(NVCC_LACKS),not found):" \
	    "no GPU kernels in this build (NVCC=/path/of/nvcc)")
	@{ echo '/* $(or $(NVCC),no nvcc): $(GPU_ARCHS) $(GPU_PTX) */'; \
	    printf '#include "%s"\n' $(CU_SRC); } >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
.PHONY: FORCE
PTXAS_SAID := build/cuda/kernels.ptxas
build/cuda/kernels.fatbin: build/cuda/kernels.cu
	$(call say,NVCC)
	$(Q)$(NVCC) $(NVCCFLAGS) -fatbin -Xptxas -v -MD -MP -MF $@.d -MT $@ -o $@ $< 2>$(PTXAS_SAID) || \
	    { cat $(PTXAS_SAID); exit 1; }
IMAGES_FLAGS = -DIMAGES_ARCHS='$(GPU_ARCHS:%="%",) "$(GPU_PTX)",' \
    -DIMAGES_TOOLKIT=`$(NVCC) --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]\).*/\10\20/p'`
$(O)/kernels/cuda/driver/images.o: CPPFLAGS += $(if $(NVCC),$(IMAGES_FLAGS))
$(O)/kernels/cuda/driver/images.o: build/cuda/kernels.cu
$(O)/kernels/cuda/embedded.o: private EMBED = $(GPU_IMAGE:%=-DGPU_IMAGE='"%"')
$(O)/kernels/cuda/embedded.o: build/cuda/kernels.cu $(GPU_IMAGE)

# ---- archives and binaries -----------------------------------------------------------------------
$(LIB): $(CORE_OBJ)
$(APPLIANCE_LIB): $(APPLIANCE_OBJ)
$(CLIENT_LIB): $(AGX_OBJ)
$(DOOR_LIB): $(filter $(O)/tools/door/%,$(filter-out %/main.o,$(DOOR_OBJ)))
$(LAB_LIB): $(filter-out $(O)/tools/lab/main.o,$(LAB_OBJ))
$(GPU_LIB): $(GPU_OBJ)
$(HOST_CU_LIB): $(HOST_CU_OBJ)
$(B)/libagx.a: $(SDK_OBJ)
%.a:
	$(call say,AR  )
	@rm -f $@
	$(Q)ar rcs $@ $^

# Dynamic, embedded in the static one, and started from memory.
$(B)/agentix-gpu-worker: $(GPU_MAIN_OBJ) $(GPU_LIB) $(LIB)
	$(call link,-s,-lm -lpthread)
$(O)/appliance/gpu/embedded.o: private EMBED = -DGPU_BINARY='"$(B)/agentix-gpu-worker"'
$(O)/appliance/gpu/embedded.o: $(B)/agentix-gpu-worker
$(O)/appliance/embedded.o: appliance/embedded.gguf

$(SOFTGPU): $(SOFTGPU_SRC:%.c=$(O)/pic/%.o) $(HOST_CU_KERNELS)
	$(call link,-shared,-lm -lpthread)

$(B)/agentix: $(MAIN_OBJ) $(VERSION_OBJ) $(LIB) tools/symbols
	@echo "  GATE  tools/symbols"
	$(Q)python3 tools/symbols $(CORE_OBJ) $(MAIN_OBJ)
	$(call link,$(LDFLAGS_STATIC),$(LDLIBS_inih))
# The appliance with acts that the seal must punish; only selftest/e2e/test_seal.py runs it.
$(B)/agentix-misbehave: $(MISBEHAVE_OBJ) $(MAIN_OBJ) $(VERSION_OBJ) $(LIB)
	$(call link,$(LDFLAGS_STATIC) $(WRAPPED),$(LDLIBS_inih))
WRAPPED := -Wl,--wrap=loop_pass,--wrap=control_await,--wrap=notify_tick,--wrap=boot_measure
$(B)/agx: $(AGX_OBJ) $(VERSION_OBJ) $(B)/libagx.a $(LIB)
	$(call link,$(LDFLAGS_STATIC),$(LDLIBS_json) $(LDLIBS_core))
$(B)/agentix-door: $(DOOR_OBJ) $(VERSION_OBJ) $(B)/libagx.a $(LIB)
	$(call link,,-lmicrohttpd $(LDLIBS_json) $(LDLIBS_inih))
$(B)/agentix-lab: $(LAB_OBJ) $(B)/libagx.a $(APPLIANCE_LIB) $(LIB)
	$(call link,$(LDFLAGS_STATIC),$(LDLIBS_json) $(LDLIBS_inih))
$(B)/agentix-predict: $(O)/tools/predict/predict.o $(COMMAND_LINE_OBJ) $(LIB)
	$(call link,$(LDFLAGS_STATIC),$(LDLIBS_json) $(LDLIBS_core))
$(B)/agentix-sim: $(SIM_OBJ) $(B)/libagx.a $(APPLIANCE_LIB) $(LIB)
	$(call link,$(LDFLAGS_STATIC),$(LDLIBS_inih))

# The appliance as a machine of its own: docs/image.md. IMAGE= takes options of tools/image.
.PHONY: image
image: $(B)/agentix | build/.setup-image  ## a kernel and an initramfs that boot to service
	python3 tools/image --binary $(B)/agentix $(IMAGE)
# In the image of a test alone: kills a process when it is told to.
$(B)/killer: $(O)/selftest/misbehave/killer.o
	$(call link,$(LDFLAGS_STATIC))

# The demo's tasks are in the binary.
$(O)/tools/agx/agents/demo.o: tools/agx/agents/demo.tasks

# ---- models --------------------------------------------------------------------------------------
# The embedded model is trained (tools/model) and checked in. Tests and benchmarks make random ones.
build/tools/mkmodel: $(wildcard tools/mkmodel/*.[ch]) tools/command_line.c tools/command_line.h \
    config/model/family.def tools/mkmodel/presets.def | build/.setup
	$(call say,LINK)
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

# ---- tests ---------------------------------------------------------------------------------------
include selftest/fake/races/races.mk
# A test compares our own declarations with cuda.h where there is one.
$(B)/unit/cuda/%: CPPFLAGS += -DSOFTGPU='"$(SOFTGPU)"' -isystem $(CUDA)/include
$(B)/unit/cuda/test_images: CPPFLAGS += -DPTXAS_SAID='"$(PTXAS_SAID)"'
$(filter $(B)/unit/cuda/%,$(UNIT_BIN)): $(SOFTGPU)
$(B)/unit/door/test_seal: $(O)/selftest/misbehave/forbidden.o
$(B)/unit/%: selftest/unit/%.c $(FAKE_OBJ) $(EMULATED_OBJ) $(DOOR_LIB) $(LAB_LIB) $(CLIENT_LIB) \
    $(B)/libagx.a $(HOST_CU_LIB) $(APPLIANCE_LIB) $(GPU_LIB) $(LIB) | build/.setup-tests
	$(call link,$(filter-out -Wmissing-prototypes,$(FROM_C)),$(LDLIBS_json) -lcmocka $(LDLIBS_inih))

.PHONY: test test-long unit e2e e2e-long e2e-parts check demo sim sim-short
# Two steps: nothing else runs beside the end-to-end tests.
test:  ## rules, unit tests, simulated and real runs
	@$(MAKE) --no-print-directory all check unit sim-short e2e-parts
	@$(MAKE) --no-print-directory e2e
test-long:  ## what takes longer: the longest end-to-end tests, fuzzing, more seeds
	@$(MAKE) --no-print-directory fuzz-short
	@SCHED_SEEDS=1001-4000 $(MAKE) --no-print-directory unit T=sched/random
	@$(MAKE) --no-print-directory e2e-long

# One test is run here, the others each by a job; what they say is then in build/unit/*/*.log.
UNIT_RAN := $(UNIT_BIN:%=%.ran)
UNIT_ONE := $(if $(T),$(B)/unit/$(dir $(T))test_$(notdir $(T)))
unit: $(or $(UNIT_ONE),$(UNIT_RAN))  ## unit tests; T=folder/noun runs one
	$(UNIT_ONE)
.PHONY: $(UNIT_RAN)
$(UNIT_RAN): $(B)/unit/%.ran: $(B)/unit/%
	@if $< >$<.log 2>&1; then echo "  UNIT  $*"; grep '^skipped: ' $<.log || :; \
	    else cat $<.log; echo "  UNIT  $*: FAILED"; exit 1; fi

e2e-parts soak: build/model-tiny.gguf build/model-tiny-q4_0.gguf
e2e-parts: all $(B)/agentix-misbehave $(SOFTGPU) $(B)/unit/cuda/test_product
e2e-parts: | build/.setup-fleet build/.setup-door build/.setup-metrics
E2E_RUN := PYTHONDONTWRITEBYTECODE=1 python3 selftest/e2e/run.py
e2e: e2e-parts  ## end-to-end tests against the real binary; T=module or module.test runs some
	$(E2E_RUN) $(T)
e2e-long: e2e-parts $(B)/killer | build/.setup-image
	$(E2E_RUN) --long

# The fuzzers are built by clang, which warns of other things than gcc: found here in seconds.
LINTED := $(if $(shell command -v clang),$(patsubst %.c,build/obj/lint/%.ok,\
    $(shell git ls-files '*.c' 2>/dev/null | grep -v -e _avx -e ^tools/bench/ -e ^selftest/unit/)))
build/obj/lint/%.ok: %.c | build/.setup
	@mkdir -p $(@D)
	$(Q)clang -fsyntax-only -std=gnu11 $(CPPFLAGS) -MF $(@:.ok=.d) -MT $@ $(WARN) $< && touch $@
.PHONY: lint
lint: $(LINTED)  ## every source of the product through clang's warnings (part of check)
	@$(if $(LINTED),:,echo "lint: SKIPPED: no clang or no git here")

check: | build/.setup-tests
check: all lint build/docgen lab-check  ## rules of the house: includes, sizes, bans, generated docs
	python3 tools/check
	@python3 tools/stack $(filter-out $(O)/selftest/% %/embedded.o,$(CORE_OBJ) $(MAIN_OBJ))

# Fixed seeds: the same runs each time.
sim-short: $(B)/agentix-sim
	$(B)/agentix-sim --seeds 1-200 --twice
	$(B)/agentix-sim --seeds 1-100 --engines 1-4
	$(B)/agentix-sim --nth-fault 2
	$(B)/agentix-sim --exhaust 4
	$(B)/agentix-sim --tenants 1-20 --engines 1-2
sim: $(B)/agentix-sim  ## simulate new seeds, for ever or for MINUTES
	$(B)/agentix-sim --minutes $(or $(MINUTES),0) --steps $(or $(STEPS),4000)

demo: all  ## the same agents under fcfs and under the default policy, side by side: how much sooner
	sh tools/demo

# ---- generated documents -------------------------------------------------------------------------
build/docgen: tools/docgen.c $(O)/tools/docgen_tables.o $(LIB)
	$(call link,$(FROM_C),$(LDLIBS_inih))

.PHONY: docs
docs: build/docgen  ## write the generated pages again
	build/docgen config >docs/config.md
	build/docgen stats >docs/stats.md
	build/docgen events >docs/events.md
	build/docgen sample >docs/agentix.ini
	build/docgen frames >selftest/e2e/frames.py
	build/docgen frames >tools/sdk/python/agentix/frames.py
	@set -e; for page in protocol scheduling operations; do \
	    build/docgen page docs/$$page.md >build/page.md; cp build/page.md docs/$$page.md; done

include tools/package/package.mk

# ---- the Python client ---------------------------------------------------------------------------
.PHONY: wheel
wheel:  ## the Python client as a wheel in build/, for pip
	@mkdir -p build
	@python3 tools/sdk/python/wheel.py build

# ---- a machine with a GPU, which may have no compiler --------------------------------------------
# A tree of its own: tools/gpu-first, gpu-check, and stripped what they run, and what that needs.
CARRY := $(B)/gpu-carry
CARRY_KIB_MAX := 40960
CARRIED := $(addprefix $(CARRY)/,tools/gpu-first tools/gpu-check build/lib/libcmocka.so.0 \
    $(shell sh tools/gpu-first --programs))
.PHONY: gpu-carry
gpu-carry: $(CARRIED)  ## make what to carry to a machine with a GPU, for tools/gpu-first there
	@kib=$$(du -sk $(CARRY) | cut -f1); if [ $$kib -gt $(CARRY_KIB_MAX) ]; then \
	    echo "$(CARRY): $$kib KiB, at most $(CARRY_KIB_MAX) may be carried"; exit 1; fi; \
	    echo "carry $(CARRY) ($$kib KiB), and run tools/gpu-first in it"
$(CARRY)/tools/%: tools/%
	$(call say,COPY)
	$(Q)cp $< $@
$(CARRY)/build/lib/libcmocka.so.0: | build/.setup-tests
	$(call say,COPY)
	$(Q)cp -L "`$(CC) -print-file-name=libcmocka.so.0`" $@
$(CARRY)/build/%: $(B)/%
	$(call say,STRIP)
	$(Q)strip -o $@ $<
$(CARRY)/build/unit/cuda/test_%: CPPFLAGS += -DSOFTGPU='"$(SOFTGPU)"'
$(CARRY)/build/unit/cuda/test_%: selftest/unit/cuda/test_%.c $(HOST_CU_LIB) $(GPU_LIB) $(LIB) \
    | build/.setup-tests
	$(call link,-s $(filter-out -Wmissing-prototypes,$(FROM_C)),-lcmocka $(LDLIBS_core))

# ---- benchmarks ----------------------------------------------------------------------------------
BENCH := $(B)/bench \
    $(addprefix $(B)/bench-,sched predictor moves vocab prefix scores rounds context drafts)
$(filter-out %-drafts,$(filter $(B)/bench-%,$(BENCH))): $(B)/bench-%: tools/bench/%.c
$(B)/bench-drafts: tools/bench/drafts/search.c
$(B)/bench: tools/bench/bench.c
$(B)/bench $(B)/bench-context: $(call objects,$(wildcard tools/bench/ceiling*.c))
$(B)/constant-time: tools/bench/constant_time.c
$(BENCH) $(B)/constant-time: $(COMMAND_LINE_OBJ) $(LIB)
$(BENCH) $(B)/constant-time:
	$(call link,$(LDFLAGS_STATIC) $(FROM_C),$(LDLIBS_core))

include tools/bench/gpu/gpu.mk

.PHONY: bench
VOCABULARIES = appliance/embedded.gguf $(wildcard ../shared/vocab/*.gguf)
BENCH_MODELS ?= 15m 15m-q8_0 110m
BENCH_FILES := $(BENCH_MODELS:%=build/model-%.gguf)
bench: all $(BENCH) $(BENCH_FILES) build/model-110m.gguf build/model-kv8b.gguf
bench:  ## speed, a line each in build/bench.jsonl (BENCH_MODELS="1.1b 1.1b-q8_0"); agents right
	$(B)/bench-sched
	$(B)/bench-predictor
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
.PHONY: lab lab-draw lab-check
TRACES ?= ../shared/traces
RESULTS := PYTHONDONTWRITEBYTECODE=1 python3 tools/lab/results
lab: $(B)/agentix-lab  ## run what docs/results.md shows; TRACES=/path, LAB=--quick for less
	$(RESULTS) --traces $(TRACES) $(LAB)
lab-draw:  ## draw the figures of docs/results.md again, from their data and titles
	$(RESULTS) --draw
lab-check:  ## are the claims of docs/results.md those of its tables and figures? (part of check)
	$(RESULTS) --check

include selftest/fuzz/fuzz.mk

# ---- longer proofs, not part of test -------------------------------------------------------------
.PHONY: soak cov configs
configs: all $(B)/unit/appliance/test_plan build/tools/mkmodel
configs:  ## drawn configurations: 20,000 of the binary, 100,000 within a process
	$(B)/unit/appliance/test_plan 100000 $(or $(SEED),1)
	CONFIGS=20000 CONFIGS_SEED=$(or $(SEED),1) PYTHONDONTWRITEBYTECODE=1 python3 \
	    selftest/e2e/run.py plan.test_drawn_configurations_end_in_a_known_status_and_a_sentence

cov:  ## what the unit tests reach of sched, kvmem, net, config; what they do not, and why (gcovr)
	@mkdir -p build/obj/cov; find build/obj/cov -name "*.gcda" -delete
	$(MAKE) MODE=cov unit >build/cov.log 2>&1 || { tail -30 build/cov.log; exit 1; }
	tools/coverage build/obj/cov

soak: all  ## 10^7 calls, 10^6 visits, 1000 kills: memory must not change, tokens must not either
	KILLS=1000 SOAK_CALLS=10000000 SOAK_VISITS=1000000 SOAK_LEAVERS=100000 \
	    AGENTIX_HANG_S=1800 PYTHONDONTWRITEBYTECODE=1 \
	    python3 selftest/e2e/run.py --jobs 1 memory \
	    serve.test_a_worker_that_is_killed_costs_nothing_but_time

# Debian packages, each when it is first needed, and one after the other; for the door, of PyPI too.
build/.setup: SETUP = build
build/.setup-tests: SETUP = tests
build/.setup-fleet: SETUP = fleet
build/.setup-door: SETUP = door
build/.setup-metrics: SETUP = metrics
build/.setup-fuzz: SETUP = fuzz
build/.setup-package: SETUP = package
build/.setup-image: SETUP = image
build/.setup-tests: | build/.setup
build/.setup-fleet build/.setup-fuzz build/.setup-metrics: | build/.setup-tests
build/.setup-package build/.setup-image: | build/.setup-tests
build/.setup-door: selftest/e2e/clients.txt | build/.setup-fleet
build/.setup $(addprefix build/.setup-,tests fleet door metrics fuzz package image): tools/setup
	@mkdir -p build
	@sh tools/setup $(SETUP)
	@touch $@

.PHONY: help clean
clean:  ## remove build/
	rm -rf build
help:  ## this list
	@grep -hE '^[a-z][a-z0-9-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

# Packages are built, and those of others lie, in folders of their own.
OTHERS := -path build/deb -prune -o -path build/load -prune -o
-include $(shell find build $(OTHERS) -name '*.d' -type f -print 2>/dev/null)
