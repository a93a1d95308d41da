/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: struct boot for tests of the plan: models by their shapes, machines by their bounds,
 * options by --set; and whether a command that is advised fits.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "appliance/boot/advice.h"
#include "appliance/boot/boot.h"
#include "appliance/boot/plan.h"
#include "config/model/tensors.h"
#include "config/options.h"
#include "selftest/fuzz/message.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static struct boot boot;
static struct gguf gguf;
static struct config_error error;

/* ---- models ---- */

struct model {
    const char *name;
    uint32_t family, layers, dim, heads, kv_heads, head_dim, ffn, context, vocab;
    bool tied;
    enum gguf_type type;
};
static const struct model usual[] = {
    {"Qwen3-0.6B", 2, 28, 1024, 16, 8, 128, 3072, 40960, 151936, true, GGUF_Q4_0},
    {"Qwen3-1.7B", 2, 28, 2048, 16, 8, 128, 6144, 40960, 151936, true, GGUF_Q4_0},
    {"Qwen3-4B", 2, 36, 2560, 32, 8, 128, 9728, 40960, 151936, true, GGUF_Q4_0},
    {"Llama-3.2-1B", 0, 16, 2048, 32, 8, 64, 8192, 131072, 128256, true, GGUF_Q4_0},
    {"Llama-3.2-3B", 0, 28, 3072, 24, 8, 128, 8192, 131072, 128256, true, GGUF_Q4_0},
    {"Llama-3.1-8B", 0, 32, 4096, 32, 8, 128, 14336, 131072, 128256, false, GGUF_Q4_0},
};
#define USUAL (sizeof usual / sizeof usual[0])

static inline void add_tensor(uint32_t index, enum gguf_type type)
{
    struct model_tensor entry;
    if (!model_tensor_find(&entry, &gguf, index)) {
        return;
    }
    struct gguf_tensor *tensor = &gguf.tensors[gguf.tensors_count++];
    uint64_t rows = entry.outputs != 0 ? entry.outputs : 1;
    *tensor = (struct gguf_tensor){.type = entry.outputs != 0 ? type : GGUF_F32,
                                   .dims_count = entry.outputs != 0 ? 2 : 1,
                                   .dims = {entry.columns, rows, 1, 1}};
    memcpy(tensor->name, entry.name, sizeof tensor->name);
    tensor->bytes = gguf_row_bytes((enum gguf_type)tensor->type, entry.columns) * rows;
}

static inline void load(const struct model *model)
{
    gguf = (struct gguf){.has_model = true};
    gguf.shape = (struct model_shape){
        .family = &model_families[model->family], .layers = model->layers, .dim = model->dim,
        .heads = model->heads, .kv_heads = model->kv_heads, .head_dim = model->head_dim,
        .ffn_dim = model->ffn, .vocab_tokens = model->vocab, .context_tokens = model->context,
        .rope_dim = model->head_dim, .rope_base = 10000, .rope_scale = 1, .norm_epsilon = 1e-5f,
        .tied_output = model->tied};
    gguf.vocab = (struct gguf_vocab_info){
        .kind = VOCAB_BPE, .tokens = model->vocab, .merges = model->vocab,
        .text_bytes = 8 * (uint64_t)model->vocab, .bos_id = 1, .eos_id = 2,
        .unk_id = GGUF_NO_TOKEN, .eot_id = GGUF_NO_TOKEN, .token_bytes_max = 128};
    for (uint32_t i = 0; i < model_tensors_count(&gguf.shape); i++) {
        add_tensor(i, model->type);
    }
}

static inline void start(const struct model *model, uint64_t available)
{
    load(model);
    boot = (struct boot){.gguf = &gguf, .machine = {.cpus = 4},
                         .bounds = {available, MEMORY_UNBOUNDED, MEMORY_UNBOUNDED}};
    config_defaults(&boot.options);
}

static inline enum status make(void)
{
    TRY(config_check(&boot.options, &error));
    return plan_make(&boot, &error);
}

static inline void set(const char *assignment)
{
    assert_status(STATUS_OK, config_set(&boot.options, assignment, &error));
}

/* The options of a command, as the shell and main.c would read them. Returns how many --set. */
static inline uint32_t take_command(const char *command, struct options *options)
{
    char words[ADVICE_BYTES];
    uint32_t sets = 0;
    config_defaults(options);
    snprintf(words, sizeof words, "%s", command);
    for (char *at = strstr(words, " --set "); at != NULL; sets++) {
        char *value = at + strlen(" --set ");
        at = strstr(value, " --set ");
        if (at != NULL) {
            *at = '\0';
        }
        size_t length = strlen(value);
        if (value[0] == '\'') {
            value[length - 1] = '\0';
            value++;
        }
        assert_status(STATUS_OK, config_set(options, value, &error));
        if (at != NULL) {
            *at = ' ';
        }
    }
    return sets;
}

/* True when there is a command; then its plan fits. */
static inline bool check_advice(const char **command)
{
    static char text[ADVICE_BYTES];
    static struct boot before;
    before = boot;
    bool found = advice_find(&boot, text);
    assert_memory_equal(&before, &boot, sizeof boot);
    *command = text;
    if (!found) {
        return false;
    }
    assert_memory_equal(text, "agentix", 7);
    (void)take_command(text, &boot.options);
    assert_status(STATUS_OK, make());
    assert_true(plan_fits(&boot));
    boot = before;
    return true;
}
