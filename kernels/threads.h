/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a fixed number of threads that run one function together, and the barrier between its
 * phases.
 *
 *   caller: kernels_threads_run()  --> every thread (0 is the caller) runs work(context, thread)
 *   inside: kernels_threads_wait() --> no thread goes on before all have come
 *
 * A waiting thread spins for a while (a phase of a small model takes microseconds), then sleeps on
 * a futex, so more threads than CPUs still make progress. Between two runs all threads but the
 * caller soon sleep.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/bounds.h"

#define KERNELS_THREADS_MAX   BOUND_THREADS
#ifdef __SANITIZE_THREAD__              /* its runtime needs most of a megabyte itself */
#define KERNELS_STACK_BYTES   (2u << 20)
#else
#define KERNELS_STACK_BYTES   (256u << 10)
#endif

/* A number whose change threads wait for; alone in its cache line. */
struct kernels_gate {
    _Alignas(ARENA_ALIGN_BYTES) _Atomic uint32_t passed;
    _Atomic uint32_t sleepers;
};

struct kernels_threads {
    uint32_t count;                 /* the caller included */
    uint32_t active;                /* in the present run: count, or 1 */
    /* private: only threads.c */
    uint32_t spins;
    void (*work)(void *context, uint32_t thread);
    void *context;
    _Atomic uint32_t started;       /* threads that are past what the C library does first */
    struct kernels_gate start;      /* opens when a run begins, and to end all threads */
    struct kernels_gate barrier;
    _Alignas(ARENA_ALIGN_BYTES) _Atomic uint32_t arrived;
    bool stopping;
    pthread_t threads[KERNELS_THREADS_MAX];
};

void kernels_threads_plan_memory(struct memory_plan *plan, uint32_t count);
/* BOOT_ONLY. Starts count - 1 threads with all signals blocked and stacks from the arena, and waits
 * until each needs no other system call than to wait and to wake. CONFIG_ENGINE: the system refused
 * a thread; those that had started are ended. */
MUST_CHECK enum status kernels_threads_init(struct kernels_threads *threads, uint32_t count,
                                            void (*work)(void *context, uint32_t thread),
                                            void *context, struct arena *arena);
/* Runs work() on every thread, or on the caller alone, and returns when all have returned. */
void kernels_threads_run(struct kernels_threads *threads, bool alone);
/* The barrier; every thread of a run must call it, equally often. */
void kernels_threads_wait(struct kernels_threads *threads);
/* Ends all threads but the caller. */
void kernels_threads_stop(struct kernels_threads *threads);
