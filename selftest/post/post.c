/* SPDX-License-Identifier: MIT */
/*
 * What: the checks of each level, and how a check runs: in a child of its own. So a check that
 * crashes (an uncorrectable memory error is a SIGBUS) or corrupts its memory fails alone, and the
 * next check can have the same memory. The weights are read once and inherited.
 * Invariants: a check takes exactly what it planned, then its process is sealed, like core and
 * worker. Every check runs, also after one has failed.
 */
#include "selftest/post/post.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "appliance/seal/heap.h"
#include "appliance/log.h"
#include "config/base/bounds.h"
#include "selftest/burn/burn.h"
#include "selftest/post/check.h"

#define QUICK  (1u << POST_QUICK | 1u << POST_FULL | 1u << POST_SOAK)
#define FULL   (1u << POST_FULL | 1u << POST_SOAK)
#define SOAK   (1u << POST_SOAK)
#define INJECT (1u << POST_INJECT)

#define SECOND_US      UINT64_C(1000000)
#define FULL_ROUNDS_US (10 * SECOND_US)
#define SOAK_SHARE     8u           /* of the time: each wait, each check with rounds */
#define SOAK_ROUNDS_US (120 * SECOND_US)
#define SOAK_FADE_US   (90 * 60 * SECOND_US)

struct row {
    const char *name;
    const struct post_check *check;
    uint32_t variant;
    uint32_t levels;
};

static const struct row rows[] = {
    {"cpu", &post_cpu, 0, QUICK},
    {"clock", &post_clock, 0, QUICK},
    {"sockets", &post_sockets, 0, QUICK},
    {"file modes", &post_files, 0, QUICK},
    {"locked memory", &post_lock, 0, QUICK},
    {"memory own address", &post_memory, POST_OWN_ADDRESS, QUICK},
    {"memory solid", &post_memory, POST_SOLID, FULL},
    {"memory checkerboard", &post_memory, POST_CHECKERBOARD, QUICK},
    {"memory walking bit", &post_memory, POST_WALKING_BIT, QUICK},
    {"memory random", &post_memory, POST_RANDOM, FULL},
    {"memory fade", &post_fade, 0, SOAK},
    {"weights against the file", &post_weights, 0, QUICK},
    {"kernels against plain", &post_kernels, 0, QUICK},
    {"products on every CPU", &post_product, 0, FULL},
    {"swap to host and back", &post_swap, 0, FULL},
    {"calls, socket to socket", &post_call, 0, QUICK},
    {"gpu", &post_gpu, BURN_DEVICE, QUICK},
    {"gpu memory own address", &post_gpu, BURN_OWN_ADDRESS, QUICK},
    {"gpu memory solid", &post_gpu, BURN_SOLID, FULL},
    {"gpu memory checkerboard", &post_gpu, BURN_CHECKERBOARD, QUICK},
    {"gpu memory walking bit", &post_gpu, BURN_WALKING_BIT, QUICK},
    {"gpu memory random", &post_gpu, BURN_RANDOM, FULL},
    {"gpu products", &post_gpu, BURN_PRODUCT, QUICK},
    {"gpu swap to host and back", &post_gpu, BURN_SWAP, FULL},
    {"gpu health", &post_gpu, BURN_HEALTH, QUICK},
    {"flips in memory", &post_inject, POST_PLACE_MEMORY, INJECT},
    {"flips in staged blocks", &post_inject, POST_PLACE_STAGED, INJECT},
    {"flips in swapped blocks", &post_inject, POST_PLACE_SWAPPED, INJECT},
    {"flips in products", &post_inject, POST_PLACE_PRODUCT, INJECT},
    {"flips in weights", &post_inject, POST_PLACE_WEIGHTS, INJECT},
};
#define ROWS_COUNT (sizeof rows / sizeof *rows)

/* ---- memory and time of a level ---- */

static uint64_t rounds_us(enum post_level level, uint64_t share_us)
{
    switch (level) {
    case POST_FULL:
        return FULL_ROUNDS_US;
    case POST_SOAK:
        return lesser(share_us, SOAK_ROUNDS_US);
    default:
        return 0;
    }
}

static struct post post_of(struct boot *boot, const struct post_settings *settings)
{
    uint64_t share_us = settings->minutes * 60 * SECOND_US / SOAK_SHARE;
    struct post post = {
        .boot = boot,
        .settings = *settings,
        .memory_bytes = settings->memory_bytes,
        .rounds_us = rounds_us(settings->level, share_us),
        .fade_us = lesser(share_us, SOAK_FADE_US),
        .is_embedded = boot->options.model_path.text[0] == '\0',
    };
    if (post.memory_bytes == 0) {
        post.memory_bytes = memory_plan_bytes(&boot->plan, MEMORY_CORE) +
                            memory_plan_bytes(&boot->plan, MEMORY_ENGINE);
    }
    post.memory_bytes &= ~(uint64_t)(sizeof(uint64_t) - 1);
    return post;
}

static uint64_t check_bytes(const struct post *post, const struct post_check *check)
{
    struct memory_plan plan = {.rows_count = 0};
    uint64_t bytes = 0;
    if (check->plan != NULL) {
        check->plan(post, &plan);
    }
    for (uint32_t kind = 0; kind < MEMORY_COUNT; kind++) {
        bytes += memory_plan_bytes(&plan, (enum memory_kind)kind);
    }
    return bytes;
}

/* A check may use the memory of core and engine; the plan adds only what is beyond it. */
void post_plan_memory(struct boot *boot, const struct post_settings *settings)
{
    struct post post = post_of(boot, settings);
    uint64_t room = memory_plan_bytes(&boot->plan, MEMORY_CORE) +
                    memory_plan_bytes(&boot->plan, MEMORY_ENGINE);
    uint64_t most = room;
    for (uint32_t i = 0; i < ROWS_COUNT; i++) {
        if ((rows[i].levels & 1u << settings->level) != 0) {
            uint64_t bytes = check_bytes(&post, rows[i].check);
            most = bytes > most ? bytes : most;
        }
    }
    memory_plan_add(&boot->plan, MEMORY_SELFTEST, "selftest outcome", 1,
                    sizeof(struct post_outcome));
    memory_plan_add(&boot->plan, MEMORY_SELFTEST, "selftest beyond core and engine", 1,
                    most - room);
}

/* ---- one check ---- */

static void run_in_child(const struct post *post, const struct row *row,
                         struct post_outcome *outcome)
{
    const struct post_check *check = row->check;
    struct arena arena = {.base = NULL};
    void *state = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (check->init != NULL) {
        uint64_t bytes = check_bytes(post, check);
        if (arena_map(&arena, bytes, false) != STATUS_OK) {
            post_fault_say(&outcome->faults, "cannot map %llu bytes: %s",
                           (unsigned long long)bytes, strerror(errno));
            return;
        }
        state = check->init(post, &arena);
        if (state == NULL) {
            post_fault_say(&outcome->faults, "cannot start: %s", strerror(errno));
            return;
        }
        ASSERT(arena.used_bytes == bytes);
        arena_seal(&arena);
    }
    heap_seal();
    check->run(state, post, row->variant, outcome);
}

static void run_check(const struct post *post, const struct row *row,
                      struct post_outcome *outcome)
{
    int status = 0;
    memset(outcome, 0, sizeof *outcome);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run_in_child(post, row, outcome);
        _exit(0);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child < 0) {
        post_fault_say(&outcome->faults, "fork: %s", strerror(errno));
    } else if (WIFSIGNALED(status)) {
        post_fault_say(&outcome->faults, "ended by signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        post_fault_say(&outcome->faults, "ended with status %d", WEXITSTATUS(status));
    }
}

/* ---- a level ---- */

struct tally {
    uint64_t checks, failed, planted, found;
};

/* The first check of a GPU says whether there is a GPU for the others. */
static bool is_due(const struct post *post, const struct row *row, bool has_gpu)
{
    bool is_of_level = (row->levels & 1u << post->settings.level) != 0;
    bool is_first = row->variant == BURN_DEVICE && post->settings.gpu != POST_NO_GPU;
    return is_of_level && (row->check != &post_gpu || is_first || has_gpu);
}

static void run_rows(const struct post *post, struct post_outcome *outcome, struct tally *tally)
{
    bool has_gpu = false;
    for (uint32_t i = 0; i < ROWS_COUNT; i++) {
        if (!is_due(post, &rows[i], has_gpu)) {
            continue;
        }
        uint64_t start_us = clock_us(CLOCK_MONOTONIC);
        run_check(post, &rows[i], outcome);
        has_gpu |= outcome->has_gpu;
        bool failed = outcome->faults.count > 0;
        printf("%-26s %-34s %-6s %8.2f\n", rows[i].name, outcome->amount,
               failed ? "FAILED" : "ok", (double)(clock_us(CLOCK_MONOTONIC) - start_us) / 1e6);
        post_faults_print(&outcome->faults, rows[i].name);
        tally->checks++;
        tally->failed += failed;
        tally->planted += outcome->planted;
        tally->found += outcome->found;
    }
}

static enum boot_exit verdict(const struct post *post, const struct tally *tally)
{
    if (post->settings.level == POST_INJECT) {
        printf("%s: %llu of %llu flips found\n", tally->failed == 0 ? "PASS" : "FAIL",
               (unsigned long long)tally->found, (unsigned long long)tally->planted);
    } else {
        printf("%s: %llu of %llu checks\n", tally->failed == 0 ? "PASS" : "FAIL",
               (unsigned long long)(tally->checks - tally->failed),
               (unsigned long long)tally->checks);
    }
    return tally->failed == 0 ? BOOT_EXIT_OK : BOOT_EXIT_SELFTEST;
}

static enum boot_exit load_model(struct post *post)
{
    static struct boot_load load;
    struct boot *boot = post->boot;
    struct config_error error;
    post->source = boot->source;
    if (!post->is_embedded && gguf_source_open(&post->source, boot->options.model_path.text,
                                               &error) != STATUS_OK) {
        log_event(LOG_ERROR, "selftest: %s", error.text);
        return BOOT_EXIT_MODEL;
    }
    enum boot_exit exit_status = boot_load_begin(boot, &load);
    while (exit_status == BOOT_EXIT_OK && !boot_load_is_done(&load)) {
        exit_status = boot_load_next(&load, NULL);
    }
    if (exit_status == BOOT_EXIT_OK) {
        boot_load_end(boot, &load);
    }
    return exit_status;
}

enum boot_exit post_run(struct boot *boot, const struct post_settings *settings)
{
    static const char *const names[] = {
        [POST_QUICK] = "quick", [POST_FULL] = "full", [POST_SOAK] = "soak",
        [POST_INJECT] = "inject"};
    struct post post = post_of(boot, settings);
    struct tally tally = {.checks = 0};
    struct arena shared;
    log_role("selftest");
    enum boot_exit exit_status = load_model(&post);
    if (exit_status != BOOT_EXIT_OK) {
        return exit_status;
    }
    if (arena_map(&shared, sizeof(struct post_outcome), true) != STATUS_OK) {
        return BOOT_EXIT_MEMORY;
    }
    struct post_outcome *outcome = (struct post_outcome *)(void *)shared.base;
    printf("selftest %s of %s, seed %llu\n%-26s %-34s %-6s %8s\n", names[settings->level],
           boot->source.name, (unsigned long long)settings->seed, "check", "amount", "result",
           "seconds");
    uint64_t end_us = clock_us(CLOCK_MONOTONIC) + settings->minutes * 60 * SECOND_US;
    do {
        run_rows(&post, outcome, &tally);
        post.settings.seed = splitmix_at(post.settings.seed, 0);
    } while (settings->level == POST_SOAK && clock_us(CLOCK_MONOTONIC) < end_us);
    return verdict(&post, &tally);
}
