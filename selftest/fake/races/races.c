/* SPDX-License-Identifier: MIT
 *
 * What: the calls that gcc's -fsanitize=thread inserts, and the watcher of launches. It reports
 * the first race of a launch, at its end: until then it runs on the stack of a CUDA thread.
 *
 * A CUDA thread's own variables are no matter. Where an access is in the sources, addr2line says,
 * as far as it is here.
 *
 * Bounds: one launch at a time (host.c).
 */
#include "selftest/fake/races/races.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/device/gpu.h"
#include "selftest/fake/softgpu/watch.h"

#define SITE_BYTES 256

extern const char __executable_start[];         /* by the linker */

/* The launch in progress, or the last one. */
static struct watched {
    const char *kernel;
    bool runs;
    struct gpu_host_span stacks, shared;
    struct race race;
} watched;

const struct race *races_found(void)
{
    return &watched.race;
}

/* ---- reports ---- */

/* "decode.cu:143", or its address within the program. */
static const char *site_name(uint32_t site, char *name)
{
    char command[SITE_BYTES];
    snprintf(name, SITE_BYTES, "+%#x", site);
    /* The call is before the address that it returns to. */
    snprintf(command, sizeof command, "addr2line -s -e /proc/%d/exe %#x 2>&1", (int)getpid(),
             site - 1);
    FILE *said = popen(command, "r");
    char line[SITE_BYTES];
    if (said != NULL && fgets(line, sizeof line, said) != NULL && strchr(line, ':') != NULL &&
        strchr(line, '?') == NULL) {
        snprintf(name, SITE_BYTES, "%.*s", (int)strcspn(line, "\n "), line);
    }
    if (said != NULL) {
        pclose(said);
    }
    return name;
}

static void say_where(const struct shadow_now *now)
{
    uint64_t at = now->address - (now->is_shared ? watched.shared.first : 0);
    fprintf(stderr, "%u bytes of %s memory at %#lx", now->bytes,
            now->is_shared ? "shared" : "global", (unsigned long)at);
}

static void race_say(const struct race *race)
{
    static const char *const does[] = {"reads", "writes", "adds to"};
    static const char *const lacks[] = {
        [RACE_OF_LANES] = "no __syncwarp() is between",
        [RACE_OF_WARPS] = "no __syncthreads() is between",
        [RACE_OF_THREAD_BLOCKS] = "nothing orders thread blocks",
    };
    char name[SITE_BYTES];
    const struct shadow_now *now = &race->now;
    fprintf(stderr, "gpu_host: %s: %s: CUDA thread %u of thread block %u %u %u %s ", watched.kernel,
            race->kind == MISALIGNED ? "misaligned" : "race", now->thread, race->thread_block[0],
            race->thread_block[1], race->thread_block[2], does[now->access]);
    say_where(now);
    fprintf(stderr, " (%s)", site_name(now->site, name));
    if (race->kind != MISALIGNED) {
        fprintf(stderr, ", which ");
        if (race->other.is_of_thread_block) {
            fprintf(stderr, "CUDA thread %u", race->other.thread);
        } else {
            fprintf(stderr, "another thread block");
        }
        fprintf(stderr, " %s (%s): %s", does[race->other.access],
                site_name(race->other.site, name), lacks[race->kind]);
    }
    fprintf(stderr, "\n");
}

/* ---- accesses ---- */

static enum race_kind kind_of(const struct shadow_now *now, const struct shadow_other *other)
{
    return !other->is_of_thread_block                               ? RACE_OF_THREAD_BLOCKS
           : other->thread / GPU_WARP == now->thread / GPU_WARP ? RACE_OF_LANES
                                                                    : RACE_OF_WARPS;
}

static void found(enum race_kind kind, const struct shadow_now *now,
                  const struct shadow_other *other)
{
    watched.race = (struct race){kind, {blockIdx.x, blockIdx.y, blockIdx.z}, *now, *other};
}

/* An address that is no multiple of `alignment` is misaligned. */
static void touch(const void *at, long bytes, uint32_t alignment, enum shadow_access access,
                  const void *site)
{
    struct shadow_now now = {
        .address = (uintptr_t)at,
        .bytes = (uint32_t)bytes,
        .access = access,
        .thread = threadIdx.x,
        .site = (uint32_t)((uintptr_t)site - (uintptr_t)__executable_start),
        .is_shared = gpu_host_span_holds(&watched.shared, (uintptr_t)at),
    };
    struct shadow_other other = {0};
    if (!watched.runs || watched.race.kind != RACE_NONE ||
        gpu_host_span_holds(&watched.stacks, now.address)) {
        return;
    }
    if (now.address % alignment != 0) {
        found(MISALIGNED, &now, &other);
    } else if (shadow_touch(&now, &other)) {
        found(kind_of(&now, &other), &now, &other);
    }
}

/* ---- what gcc calls ---- */

#define ENTRY(name, parameters, bytes, alignment, access)                  \
    void __tsan_##name parameters;                                         \
    void __tsan_##name parameters                                          \
    {                                                                      \
        touch(at, bytes, alignment, access, __builtin_return_address(0));  \
    }
#define NUMBER(bytes)                                                      \
    ENTRY(read##bytes, (void *at), bytes, bytes, SHADOW_READ)        \
    ENTRY(write##bytes, (void *at), bytes, bytes, SHADOW_WRITE)
NUMBER(1)
NUMBER(2)
NUMBER(4)
NUMBER(8)
NUMBER(16)
/* Records whose alignment is not that of their size. */
ENTRY(read_range, (void *at, long bytes), bytes, 1, SHADOW_READ)
ENTRY(write_range, (void *at, long bytes), bytes, 1, SHADOW_WRITE)

#define ATOMIC(bits)                                                                         \
    uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile void *at, uint##bits##_t value,  \
                                                   int order);                               \
    uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile void *at, uint##bits##_t value,  \
                                                   int order)                                \
    {                                                                                        \
        uint##bits##_t *word = (uint##bits##_t *)(uintptr_t)at, before = *word;              \
        touch(word, sizeof *word, sizeof *word, SHADOW_ATOMIC, __builtin_return_address(0)); \
        *word = before + value;                                                              \
        return before;                                                                       \
    }
ATOMIC(32)
ATOMIC(64)

/* ---- the watcher ---- */

static void launch_begin(const char *kernel, struct gpu_host_span stacks,
                         struct gpu_host_span shared)
{
    watched = (struct watched){kernel, true, stacks, shared, {0}};
    shadow_launch_begin();
}

static bool launch_end(void)
{
    watched.runs = false;
    if (watched.race.kind != RACE_NONE) {
        race_say(&watched.race);
    }
    return watched.race.kind == RACE_NONE;
}

/* Each object that is compiled so calls it before main(). */
void __tsan_init(void);
void __tsan_init(void)
{
    static const struct gpu_host_watcher watcher = {
        launch_begin, shadow_thread_block_begin, shadow_thread_block_order, shadow_warp_order,
        shadow_fence, launch_end};
    gpu_host_watch(&watcher);
}
