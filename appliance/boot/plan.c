/* SPDX-License-Identifier: MIT */
/*
 * What: the memory plan, from limits to rows, and the choice of the number of KV blocks.
 * Invariant: more KV blocks never make a plan smaller, so the choice is a binary search for the
 * largest plan that fits. The sums that bound it are in config/limits.c.
 * Why a search and not a division: blocks also have entries in tables, in a hash that grows in
 * powers of two, and in a step's record; the rows of the plan know all that.
 * Owner: the keeper, before it forks. BOOT_ONLY.
 */
#include "appliance/boot/plan.h"

#include <string.h>

#include "appliance/boot/boot.h"
#include "appliance/loop.h"
#include "config/base/assert.h"
#include "kernels/cuda/plan.h"

/* ---- settings and rows ---- */

static enum kernels_simd simd_of(const struct boot *boot)
{
    switch (option_engine_simd(&boot->options)) {
    case OPTION_ENGINE_SIMD_AUTO:
        break;
    case OPTION_ENGINE_SIMD_PLAIN:
        return KERNELS_PLAIN;
    case OPTION_ENGINE_SIMD_AVX2:
        return KERNELS_AVX2;
    case OPTION_ENGINE_SIMD_AVX512:
        return KERNELS_AVX512;
    case OPTION_ENGINE_SIMD_AVX512BF16:
        return KERNELS_AVX512BF16;
    }
    return boot->simd_best;
}

static enum kernels_kv_type kv_type_of(const struct boot *boot)
{
    switch (option_kv_type(&boot->options)) {
    case OPTION_KV_TYPE_F32:
        return KERNELS_KV_F32;
    case OPTION_KV_TYPE_Q8:
        return KERNELS_KV_Q8;
    case OPTION_KV_TYPE_F16:
        break;
    }
    return KERNELS_KV_F16;
}

static void engine_settings_fill(struct boot *boot)
{
    const struct limits *limits = &boot->limits;
    boot->engine = (struct kernels_settings){
        .simd = simd_of(boot),
        .weights_as_bfloats = option_model_weights(&boot->options) == OPTION_MODEL_WEIGHTS_BF16,
        .threads = limits->engine_threads,
        .batch_calls = limits->batch_calls,
        .standby_calls = limits->standby_calls,
        .past_tokens = limits->past_tokens,
        .steps_per_plan = limits->steps_per_plan,
        .step_tokens = limits->step_tokens,
        .context_tokens = limits->context_tokens,
        .kv_block_tokens = limits->kv_block_tokens,
        .kv_type = kv_type_of(boot),
        .kv_blocks = limits->kv_blocks + limits->canary_blocks,
        .kv_host_blocks = limits->kv_host_blocks,
        .blocks_per_call = limits->blocks_per_call,
    };
}

/* The rows of the weights are the same for any number of KV blocks, and to find all tensors by name
 * takes a thousand times as long as the rest: they are kept. */
static void add_weights(struct boot *boot)
{
    struct memory_plan *kept = boot->serves_by_gpu
                                   ? &boot->gpu_weights_plan
                                   : &boot->weights_plans[boot->engine.weights_as_bfloats];
    if (kept->rows_count == 0 && boot->serves_by_gpu) {
        gpu_weights_plan_memory(kept, boot->gguf);
    } else if (kept->rows_count == 0) {
        kernels_weights_plan_memory(kept, boot->gguf, boot->engine.weights_as_bfloats);
    }
    for (uint32_t i = 0; i < kept->rows_count; i++) {
        const struct memory_plan_row *row = &kept->rows[i];
        memory_plan_add(&boot->plan, row->kind, row->owner, row->count, row->size_bytes);
    }
}

bool plan_has_next_core(const struct boot *boot)
{
    return boot->options.appliance_core_failures.number != 1;
}

static void fill(struct boot *boot)
{
    const struct limits *limits = &boot->limits;
    boot->plan = (struct memory_plan){0};
    boot->step.layout = loop_step_layout(limits);
    memory_plan_add(&boot->plan, MEMORY_SHARED, "control page", 1, control_bytes(limits->engines));
    memory_plan_add(&boot->plan, MEMORY_SHARED, "step record", limits->engines,
                    boot->step.layout.total_bytes);
    loop_plan_memory(&boot->plan, &boot->options, limits, &boot->gguf->vocab);
    vocab_plan_memory(&boot->plan, &boot->gguf->vocab);
    config_prefixes_plan_memory(&boot->plan, &boot->prefixes);
    predictor_plan_memory(&boot->plan, &boot->predictor);
    add_weights(boot);
    if (boot->serves_by_gpu) {
        gpu_plan_memory(&boot->plan, &boot->engine, &boot->gguf->shape);
    } else {
        kernels_plan_memory(&boot->plan, &boot->engine, &boot->gguf->shape);
    }
    if (plan_has_next_core(boot)) {
        memory_plan_add(&boot->plan, MEMORY_NEXT, "the next core", 1,
                        memory_plan_bytes(&boot->plan, MEMORY_CORE));
    }
}

/* ---- sums ---- */

/* Sum of these kinds; the plan has the rows of one engine, which `engines` of them take. */
static uint64_t kinds_bytes(const struct boot *boot, uint32_t kinds, uint32_t engines)
{
    uint64_t total = 0;
    for (uint32_t kind = 0; kind < MEMORY_COUNT; kind++) {
        uint64_t bytes = (kinds & 1u << kind) != 0 ? memory_plan_bytes(&boot->plan, kind) : 0;
        uint64_t times = kind == MEMORY_ENGINE ? engines : 1;
        if (__builtin_mul_overflow(bytes, times, &bytes) ||
            __builtin_add_overflow(total, bytes, &total)) {
            return UINT64_MAX;
        }
    }
    return total;
}

uint64_t plan_kind_bytes(const struct boot *boot, enum memory_kind kind)
{
    return kinds_bytes(boot, 1u << kind, boot->limits.engines);
}

uint64_t plan_total_bytes(const struct boot *boot)
{
    return boot->plan.overflow
               ? UINT64_MAX
               : kinds_bytes(boot, ~(1u << MEMORY_DEVICE), boot->limits.engines);
}

uint64_t plan_process_bytes(const struct boot *boot)
{
    const uint32_t both = 1u << MEMORY_SHARED | 1u << MEMORY_MODEL;
    const uint32_t of_worker = both | 1u << MEMORY_WEIGHTS | 1u << MEMORY_ENGINE;
    uint64_t core = kinds_bytes(boot, both | 1u << MEMORY_CORE | 1u << MEMORY_KEPT, 0);
    /* A GPU's worker locks nothing: its driver pins what it needs. */
    uint64_t worker = boot->serves_by_gpu ? 0 : kinds_bytes(boot, of_worker, 1);
    return core > worker ? core : worker;
}

uint64_t plan_kv_bytes(const struct boot *boot)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < boot->plan.rows_count; i++) {
        const struct memory_plan_row *row = &boot->plan.rows[i];
        bool is_kv = row->kind == MEMORY_ENGINE && strstr(row->owner, "kv blocks") != NULL;
        bytes += is_kv ? row->count * row->size_bytes : 0;
    }
    return bytes * boot->limits.engines;
}

/* ---- what fits ---- */

struct room {                       /* bytes */
    uint64_t machine, process, device;
};

uint64_t plan_available_bytes(const struct boot *boot)
{
    const struct memory_bounds *bounds = &boot->bounds;
    return bounds->machine < bounds->group ? bounds->machine : bounds->group;
}

static struct room room_of(const struct boot *boot)
{
    return (struct room){
        .machine = plan_available_bytes(boot),
        .process = boot->bounds.locked,
        .device = boot->serves_by_gpu ? boot->gpu.free_bytes : MEMORY_UNBOUNDED,
    };
}

static bool fits(const struct boot *boot, const struct room *room)
{
    uint64_t total = plan_total_bytes(boot);
    return total != UINT64_MAX && total <= room->machine &&
           plan_process_bytes(boot) <= room->process &&
           memory_plan_bytes(&boot->plan, MEMORY_DEVICE) <= room->device;
}

bool plan_fits(const struct boot *boot)
{
    struct room room = room_of(boot);
    return fits(boot, &room);
}

static struct room busy_room(const struct room *all)
{
    return (struct room){config_budget(all->machine).busy_bytes,
                         config_budget(all->process).busy_bytes,
                         config_budget(all->device).busy_bytes};
}

static struct room spare_room(const struct room *all)
{
    return (struct room){config_budget(all->machine).spare_bytes,
                         config_budget(all->process).spare_bytes,
                         config_budget(all->device).spare_bytes};
}

/* ---- the choice ---- */

static void try(struct boot *boot, uint32_t blocks)
{
    config_limits_choose_kv(&boot->limits, blocks);
    engine_settings_fill(boot);
    fill(boot);
}

/* The most blocks, `least` to `most`, with which the plan fits; `least` if it does with none. */
static uint32_t most_that_fit(struct boot *boot, uint32_t least, uint32_t most,
                              const struct room *room)
{
    while (least < most) {
        uint32_t middle = least + (most - least + 1) / 2;
        try(boot, middle);
        if (fits(boot, room)) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    return least;
}

static void choose_kv(struct boot *boot)
{
    const struct limits *limits = &boot->limits;
    const struct room all = room_of(boot), busy = busy_room(&all), spare = spare_room(&all);
    uint32_t blocks =
        most_that_fit(boot, limits->kv_blocks_least, limits->kv_blocks_busy, &busy);
    if (blocks == limits->kv_blocks_busy) {
        blocks = most_that_fit(boot, blocks, limits->kv_blocks_most, &spare);
    }
    try(boot, blocks);
}

enum status plan_limits(struct boot *boot, struct config_error *error)
{
    boot->machine.has_device = boot->serves_by_gpu;
    TRY(config_limits(&boot->limits, &boot->options, &boot->gguf->shape, &boot->machine, error));
    TRY(config_quotas_check(boot->keys, &boot->limits, error));
    TRY(config_prefixes_fit(&boot->prefixes, &boot->options, &boot->limits, error));
    engine_settings_fill(boot);
    return STATUS_OK;
}

enum status plan_make(struct boot *boot, struct config_error *error)
{
    TRY(plan_limits(boot, error));
    choose_kv(boot);
    return STATUS_OK;
}

enum status plan_least(struct boot *boot, struct config_error *error)
{
    TRY(plan_limits(boot, error));
    try(boot, boot->limits.kv_blocks_least);
    return STATUS_OK;
}
