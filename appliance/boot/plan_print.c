/* SPDX-License-Identifier: MIT */
/*
 * What: the memory plan as text: a row for each owner, the sums, and where the memory goes.
 * BOOT_ONLY: stdio.
 */
#include <stdio.h>

#include "appliance/boot/boot.h"
#include "appliance/boot/plan.h"

/* The rows of an engine are in the plan once, and each engine takes them. */
static bool is_of_each(const struct boot *boot, enum memory_kind kind)
{
    return boot->limits.engines > 1 && (kind == MEMORY_ENGINE || kind == MEMORY_DEVICE);
}

static void print_rows(const struct boot *boot)
{
    const struct memory_plan *plan = &boot->plan;
    char each[32];
    snprintf(each, sizeof each, ", each of %u", boot->limits.engines);
    printf("%-32s %12s   %14s %14s  %s\n", "owner", "count", "bytes each", "MiB", "kind");
    for (uint32_t i = 0; i < plan->rows_count; i++) {
        const struct memory_plan_row *row = &plan->rows[i];
        printf("%-32s %12llu x %14llu %14.3f  %s%s\n", row->owner, (unsigned long long)row->count,
               (unsigned long long)row->size_bytes,
               (double)row->count * (double)row->size_bytes / (1 << 20),
               memory_kind_name(row->kind), is_of_each(boot, row->kind) ? each : "");
    }
}

static void print_sums(const struct boot *boot)
{
    const struct memory_plan *plan = &boot->plan;
    for (uint32_t kind = 0; kind < MEMORY_COUNT; kind++) {
        bool is_rare = kind == MEMORY_DEVICE || kind == MEMORY_SELFTEST || kind == MEMORY_NEXT;
        if (is_rare && memory_plan_bytes(plan, kind) == 0) {
            continue;
        }
        printf("%-32s %12s   %14s %14.3f  %s%s\n", "sum", "", "",
               plan_mib(plan_kind_bytes(boot, kind)), memory_kind_name(kind),
               !is_of_each(boot, kind) ? "" : kind == MEMORY_DEVICE ? ", each" : ", all");
    }
    printf("%-32s %12s   %14s %14.3f\n", "total", "", "", plan_mib(plan_total_bytes(boot)));
}

/* ---- where the memory goes ---- */

static void print_line(const char *what, uint64_t bytes, const char *why)
{
    if (bytes == MEMORY_UNBOUNDED) {
        printf("  %-12s %14s  %s\n", what, "no limit", why);
    } else {
        printf("  %-12s %14.1f  %s\n", what, plan_mib(bytes), why);
    }
}

static void print_bounds(const struct boot *boot)
{
    const struct memory_bounds *bounds = &boot->bounds;
    bool is_group = bounds->group < bounds->machine;
    print_line("machine", bounds->machine, is_group ? "MemAvailable" : "MemAvailable: the bound");
    print_line("group", bounds->group, is_group ? "left in the control groups: the bound"
                                                : "left in the control groups");
    print_line("locked", bounds->locked,
               option_memory_lock(&boot->options) == OPTION_MEMORY_LOCK_YES
                   ? "that each process may lock (ulimit -l)"
                   : "not counted: memory.lock is not yes");
    if (boot->serves_by_gpu) {
        char why[64] = "free on the GPU";
        if (boot->limits.engines > 1) {
            snprintf(why, sizeof why, "free on GPU %u, which has the least", boot->gpu.device);
        }
        print_line("gpu", boot->gpu.free_bytes, why);
    }
}

/* How the number of KV blocks came about. */
static const char *choice_name(const struct boot *boot)
{
    const struct limits *limits = &boot->limits;
    uint32_t blocks = limits->kv_blocks - limits->prefix_blocks;
    if (boot->options.kv_device_blocks.number != 0) {
        return "kv.device_blocks says so";
    }
    if (blocks == limits->kv_blocks_most) {
        return "all that calls can use";
    }
    if (blocks > limits->kv_blocks_busy) {
        return "for a full batch, and for ended calls what a quarter of the memory leaves";
    }
    if (blocks == limits->kv_blocks_busy) {
        return "for a full batch";
    }
    return blocks == limits->kv_blocks_least ? "the least: one call of the whole context"
                                             : "what the reserve leaves";
}

static void print_kv(const struct boot *boot)
{
    const struct limits *limits = &boot->limits;
    char why[256], times[32] = "";
    if (limits->engines > 1) {
        snprintf(times, sizeof times, "%u times ", limits->engines);
    }
    snprintf(why, sizeof why, "%s%u blocks of %u tokens (%llu tokens), %u on the host: %s", times,
             limits->kv_blocks, limits->kv_block_tokens,
             (unsigned long long)limits->kv_blocks * limits->kv_block_tokens,
             limits->kv_host_blocks, choice_name(boot));
    print_line(boot->serves_by_gpu ? "kv, host" : "kv", plan_kv_bytes(boot), why);
}

static void print_weights(const struct boot *boot)
{
    uint64_t weights = memory_plan_bytes(&boot->plan, MEMORY_WEIGHTS);
    char why[80] = "";
    if (boot->serves_by_gpu && boot->limits.engines > 1) {
        snprintf(why, sizeof why, "%.1f on each GPU: a model must fit one",
                 plan_mib(memory_plan_bytes(&boot->gpu_weights_plan, MEMORY_DEVICE)));
    } else if (boot->serves_by_gpu) {
        snprintf(why, sizeof why, "on the GPU");
    } else if (boot->limits.engines > 1) {
        snprintf(why, sizeof why, "once, for all workers");
    }
    print_line("weights", weights, why);
}

static void print_account(const struct boot *boot)
{
    uint64_t available = plan_available_bytes(boot), total = plan_total_bytes(boot);
    uint64_t weights = memory_plan_bytes(&boot->plan, MEMORY_WEIGHTS);
    printf("\nwhere the memory goes, in MiB\n");
    print_bounds(boot);
    if (total == UINT64_MAX) {
        printf("  the plan is larger than 64 bits count\n");
        return;
    }
    print_weights(boot);
    print_kv(boot);
    uint64_t next = plan_kind_bytes(boot, MEMORY_NEXT);
    if (next > 0) {
        print_line("next core", next, "it waits to take over, should the core die");
    }
    print_line("rest", total - weights - plan_kv_bytes(boot) - next, "all other rows");
    if (total > available) {
        print_line("missing", total - available, "");
    } else if (available != MEMORY_UNBOUNDED) {
        char why[64];
        snprintf(why, sizeof why, "of them %.1f are the reserve, which chosen KV leaves",
                 plan_mib(available - config_budget(available).busy_bytes));
        print_line("left", available - total, why);
    }
}

static void print_predictor(const struct predictor *predictor)
{
    if (predictor->count > 0) {
        printf("\nsched.predictor: %u classes, %u samples\n", predictor->count,
               predictor->samples);
    }
}

static void print_notes(const struct boot *boot)
{
    for (uint32_t i = 0; i < boot->prefixes.count; i++) {
        const struct config_prefix *prefix = &boot->prefixes.each[i];
        printf("%sprefix.%u: %u of %u token ids in %u kv blocks\n", i == 0 ? "\n" : "",
               prefix->option + 1, prefix->tokens_count, prefix->file_tokens,
               prefix->tokens_count / boot->limits.kv_block_tokens);
    }
    print_predictor(&boot->predictor);
    if (boot->access.tcp_needs_key) {
        printf("\nkeys: %u, trust domains: %u\n", boot->keys->count, boot->keys->domains_count);
    }
}

void plan_print(const struct boot *boot)
{
    print_rows(boot);
    print_sums(boot);
    print_account(boot);
    print_notes(boot);
}
