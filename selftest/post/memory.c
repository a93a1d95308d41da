/* SPDX-License-Identifier: MIT */
/*
 * What: memory patterns. A pattern is a function that fills a page-sized piece with the words for a
 * place. The piece is compared with memory and copied there, so nothing else must be stored.
 * Bounds: PIECE_WORDS of stack; the time is that of reading and writing the area.
 */
#include "selftest/post/memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PIECE_WORDS      512u
#define QUICK_BYTES_MAX  (UINT64_C(256) << 20)
#define WALKING_ROUNDS   8u         /* at level full; soak has all 64 */
#define WALKING_STRIDE   9u         /* odd: 64 rounds are 64 shifts; 8 reach each bit of a byte */

static void fill_own_address(uint64_t *piece, uint64_t first, uint64_t seed, uint64_t round)
{
    for (uint64_t i = 0; i < PIECE_WORDS; i++) {
        piece[i] = (first + i) * sizeof *piece;
    }
}

static void fill_solid(uint64_t *piece, uint64_t first, uint64_t seed, uint64_t round)
{
    memset(piece, 0, PIECE_WORDS * sizeof *piece);
}

static void fill_checkerboard(uint64_t *piece, uint64_t first, uint64_t seed, uint64_t round)
{
    for (uint64_t i = 0; i < PIECE_WORDS; i++) {
        piece[i] = UINT64_C(0x5555555555555555) << ((first + i) & 1);
    }
}

static void fill_walking_bit(uint64_t *piece, uint64_t first, uint64_t seed, uint64_t round)
{
    for (uint64_t i = 0; i < PIECE_WORDS; i++) {
        piece[i] = UINT64_C(1) << ((first + i + round * WALKING_STRIDE) & 63);
    }
}

static void fill_random(uint64_t *piece, uint64_t first, uint64_t seed, uint64_t round)
{
    for (uint64_t i = 0; i < PIECE_WORDS; i++) {
        piece[i] = splitmix_at(splitmix_at(seed, round), first + i);
    }
}

static void (*const fills[POST_PATTERNS])(uint64_t *piece, uint64_t first, uint64_t seed,
                                          uint64_t round) = {
    [POST_OWN_ADDRESS] = fill_own_address,
    [POST_SOLID] = fill_solid,
    [POST_CHECKERBOARD] = fill_checkerboard,
    [POST_WALKING_BIT] = fill_walking_bit,
    [POST_RANDOM] = fill_random,
};

static void invert(uint64_t *piece)
{
    for (uint64_t i = 0; i < PIECE_WORDS; i++) {
        piece[i] = ~piece[i];
    }
}

static void compare(const struct post_area *area, uint64_t first, uint64_t count,
                    const uint64_t *piece, struct post_faults *faults)
{
    struct post_pair pair = {.found = area->words + first, .expected = piece, .count = count};
    while (post_pair_differs(&pair)) {
        post_fault_word(faults, &pair, "word %llu of the area",
                        (unsigned long long)(first + post_pair_at(&pair)));
    }
}

static void run_piece(const struct post_area *area, uint64_t first, uint64_t end,
                      struct post_faults *faults)
{
    uint64_t piece[PIECE_WORDS];
    uint64_t count = end - first < PIECE_WORDS ? end - first : PIECE_WORDS;
    enum post_step step = area->pass.step;
    fills[area->pass.pattern](piece, first, area->seed, area->pass.round);
    if (step == POST_STEP_DOWN) {
        invert(piece);
    }
    if (step != POST_STEP_WRITE) {
        compare(area, first, count, piece, faults);
    }
    if (step == POST_STEP_UP || step == POST_STEP_DOWN) {
        invert(piece);
    }
    if (step != POST_STEP_READ) {
        memcpy(area->words + first, piece, count * sizeof *piece);
    }
}

/* One thread's part of the area, piece by piece, in the direction of the step. */
static void area_work(void *context, uint32_t thread)
{
    struct post_area *area = context;
    uint64_t pieces = (area->count + PIECE_WORDS - 1) / PIECE_WORDS;
    uint64_t first = pieces * thread / area->threads.count;
    uint64_t end = pieces * (thread + 1) / area->threads.count;
    for (uint64_t i = first; i < end; i++) {
        uint64_t piece = area->pass.step == POST_STEP_DOWN ? end - 1 - (i - first) : i;
        run_piece(area, piece * PIECE_WORDS, area->count, &area->faults[thread]);
    }
}

static uint32_t threads_of(const struct post_cpus *cpus, bool alone)
{
    return alone ? 1 : cpus->threads;
}

void post_area_plan_memory(struct memory_plan *plan, uint64_t bytes, bool alone)
{
    struct post_cpus cpus;
    post_cpus_init(&cpus);
    memory_plan_add(plan, MEMORY_SELFTEST, "memory area", 1, sizeof(struct post_area));
    memory_plan_add(plan, MEMORY_SELFTEST, "memory words", bytes / sizeof(uint64_t),
                    sizeof(uint64_t));
    memory_plan_add(plan, MEMORY_SELFTEST, "memory faults", threads_of(&cpus, alone),
             sizeof(struct post_faults));
    kernels_threads_plan_memory(plan, threads_of(&cpus, alone));
}

struct post_area *post_area_init(struct arena *arena, uint64_t bytes, bool alone, uint64_t seed)
{
    struct post_area *area = arena_take(arena, 1, sizeof *area);
    area->seed = seed;
    area->count = bytes / sizeof *area->words;
    area->words = arena_take(arena, area->count, sizeof *area->words);
    post_cpus_init(&area->cpus);
    uint32_t threads_count = threads_of(&area->cpus, alone);
    area->faults = arena_take(arena, threads_count, sizeof *area->faults);
    enum status status =
        kernels_threads_init(&area->threads, threads_count, area_work, area, arena);
    return status == STATUS_OK ? area : NULL;
}

void post_area_pass(struct post_area *area, const struct post_pass *pass,
                    struct post_faults *faults)
{
    area->pass = *pass;
    memset(area->faults, 0, area->threads.count * sizeof *area->faults);
    kernels_threads_run(&area->threads, false);
    for (uint32_t i = 0; i < area->threads.count; i++) {
        post_faults_add(faults, &area->faults[i]);
    }
}

/* ---- the check of one pattern ---- */

/* Level quick takes little memory, unless the amount was given. */
static uint64_t bytes_of(const struct post *post)
{
    bool asked = post->settings.level != POST_QUICK || post->settings.memory_bytes != 0;
    return asked || post->memory_bytes < QUICK_BYTES_MAX ? post->memory_bytes : QUICK_BYTES_MAX;
}

static void plan_memory(const struct post *post, struct memory_plan *plan)
{
    post_area_plan_memory(plan, bytes_of(post), false);
}

/* Locked, so that the test is of memory and not of swap. Where that is not allowed, the check
 * "locked memory" says so. */
static void *init_memory(const struct post *post, struct arena *arena)
{
    (void)!mlock(arena->base, arena->size_bytes);
    return post_area_init(arena, bytes_of(post), false, post->settings.seed);
}

static uint64_t rounds_of(const struct post *post, enum post_pattern pattern)
{
    static const uint64_t walking[] = {
        [POST_QUICK] = 1, [POST_FULL] = WALKING_ROUNDS, [POST_SOAK] = 64};
    return pattern == POST_WALKING_BIT ? walking[post->settings.level] : 1;
}

static void run_memory(void *state, const struct post *post, uint32_t variant,
                       struct post_outcome *outcome)
{
    struct post_area *area = state;
    struct post_pass pass = {.pattern = (enum post_pattern)variant};
    uint64_t rounds = rounds_of(post, pass.pattern);
    for (pass.round = 0; pass.round < rounds; pass.round++) {
        for (pass.step = 0; pass.step < POST_STEPS; pass.step++) {
            post_area_pass(area, &pass, &outcome->faults);
        }
    }
    snprintf(outcome->amount, sizeof outcome->amount, "%.1f MiB x %llu",
             post_mib(area->count * sizeof *area->words), (unsigned long long)rounds);
}

const struct post_check post_memory = {plan_memory, init_memory, run_memory};

/* ---- the check that bits do not fade ---- */

static void wait_us(uint64_t us)
{
    struct timespec left = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000) * 1000};
    while (nanosleep(&left, &left) != 0) {
    }
}

/* Zeros, then ones, each left alone for some time. */
static void run_fade(void *state, const struct post *post, uint32_t variant,
                     struct post_outcome *outcome)
{
    struct post_pass pass = {.pattern = POST_SOLID};
    for (pass.step = 0; pass.step < POST_STEPS; pass.step++) {
        post_area_pass(state, &pass, &outcome->faults);
        if (pass.step < POST_STEP_DOWN) {
            wait_us(post->fade_us);
        }
    }
    snprintf(outcome->amount, sizeof outcome->amount, "2 x %llu s",
             (unsigned long long)(post->fade_us / 1000000));
}

const struct post_check post_fade = {plan_memory, init_memory, run_fade};
