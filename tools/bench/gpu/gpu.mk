# SPDX-License-Identifier: MIT
# Part of the Makefile: the benchmark of the GPU engine (tools/bench/gpu).

# Dynamic, as the GPU's worker is: it opens the driver's library.
$(B)/bench-gpu: $(call objects,$(wildcard tools/bench/gpu/*.c)) $(COMMAND_LINE_OBJ) $(GPU_LIB) $(LIB)
	$(call link,,-lm -lpthread)
# All that tools/gpu-first runs, on the soft GPU.
e2e-parts: $(patsubst build/%,$(B)/%,$(shell sh tools/gpu-first --programs))
