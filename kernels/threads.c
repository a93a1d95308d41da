/* SPDX-License-Identifier: MIT
 *
 * What: the compute threads (kernels/threads.h).
 *
 * Invariants: `arrived` counts the threads at the barrier. The last one resets it and opens the
 * gate, so no thread can come to the next barrier before the reset. A gate only counts up, so a
 * thread that read the number before the change cannot miss the change. The thread that opens a
 * gate wakes sleepers only if there are any: a sleeper announces itself first, and the system
 * compares the number again before the thread sleeps, so either the sleeper sees the change or the
 * opener sees the sleeper.
 *
 * Bounds: a wait spins at most `spins` times. With fewer CPUs than threads it hardly spins, because
 * the thread that it waits for may need this very CPU.
 *
 * Why no thread has one CPU: the core's own thread shares the CPUs. A pinned thread that lost its
 * CPU to it could not move to a free one, while all others wait for it.
 */
#include "kernels/threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/assert.h"

#define SPINS_OWN_CPU     4000          /* 50 to 100 us: longer than a phase of a small model */
#define SPINS_SHARED_CPU  20

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void gate_sleep(struct kernels_gate *gate, uint32_t seen)
{
    atomic_fetch_add(&gate->sleepers, 1);
    while (atomic_load(&gate->passed) == seen) {
        /* EINTR and EAGAIN both mean: read the number again. */
        syscall(SYS_futex, &gate->passed, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    }
    atomic_fetch_sub(&gate->sleepers, 1);
}

static void gate_wait(struct kernels_gate *gate, uint32_t seen, uint32_t spins)
{
    for (uint32_t i = 0; i < spins; i++) {
        if (atomic_load_explicit(&gate->passed, memory_order_acquire) != seen) {
            return;
        }
        cpu_relax();
    }
    gate_sleep(gate, seen);
}

static void gate_open(struct kernels_gate *gate)
{
    atomic_fetch_add(&gate->passed, 1);
    if (atomic_load(&gate->sleepers) != 0) {
        syscall(SYS_futex, &gate->passed, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    }
}

void kernels_threads_wait(struct kernels_threads *threads)
{
    if (threads->active == 1) {
        return;
    }
    uint32_t seen = atomic_load_explicit(&threads->barrier.passed, memory_order_relaxed);
    if (atomic_fetch_add(&threads->arrived, 1) + 1 == threads->count) {
        atomic_store_explicit(&threads->arrived, 0, memory_order_relaxed);
        gate_open(&threads->barrier);
        return;
    }
    gate_wait(&threads->barrier, seen, threads->spins);
}

/* The argument of a thread's start; lies at the low end of its stack, which it never reaches. */
struct thread_argument {
    struct kernels_threads *threads;
    uint32_t thread;
};

static void *thread_main(void *argument)
{
    const struct thread_argument *own = argument;
    struct kernels_threads *threads = own->threads;
    uint32_t thread = own->thread;
    atomic_fetch_add(&threads->started, 1);
    for (uint32_t seen = 0;; seen++) {
        gate_wait(&threads->start, seen, threads->spins);
        if (threads->stopping) {
            return NULL;
        }
        threads->work(threads->context, thread);
        kernels_threads_wait(threads);
    }
}

void kernels_threads_run(struct kernels_threads *threads, bool alone)
{
    ASSERT(!threads->stopping);
    ASSERT(threads->count == 1 || threads->arrived == 0);
    threads->active = alone ? 1 : threads->count;
    if (threads->active > 1) {
        gate_open(&threads->start);
    }
    threads->work(threads->context, 0);
    kernels_threads_wait(threads);
}

void kernels_threads_stop(struct kernels_threads *threads)
{
    ASSERT(!threads->stopping);
    threads->stopping = true;
    gate_open(&threads->start);
    for (uint32_t i = 1; i < threads->count; i++) {
        int error = pthread_join(threads->threads[i], NULL);
        ASSERT(error == 0);
    }
}

static uint32_t cpus_usable(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    return (uint32_t)CPU_COUNT(&set);
}

void kernels_threads_plan_memory(struct memory_plan *plan, uint32_t count)
{
    ASSERT(count >= 1 && count <= KERNELS_THREADS_MAX);
    memory_plan_add(plan, MEMORY_ENGINE, "kernels thread stacks", count - 1, KERNELS_STACK_BYTES);
}

static int thread_start(struct kernels_threads *threads, uint32_t thread, uint8_t *stack)
{
    pthread_attr_t attributes;
    struct thread_argument *own = (struct thread_argument *)(void *)stack;
    *own = (struct thread_argument){.threads = threads, .thread = thread};
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        error = pthread_attr_setstack(&attributes, stack, KERNELS_STACK_BYTES);
    }
    if (error == 0) {
        error = pthread_create(&threads->threads[thread], &attributes, thread_main, own);
        pthread_attr_destroy(&attributes);
    }
    return error;
}

enum status kernels_threads_init(struct kernels_threads *threads, uint32_t count,
                                 void (*work)(void *context, uint32_t thread), void *context,
                                 struct arena *arena)
{
    ASSERT(count >= 1 && count <= KERNELS_THREADS_MAX);
    *threads = (struct kernels_threads){
        .count = 1,
        .active = 1,
        .spins = count <= cpus_usable() ? SPINS_OWN_CPU : SPINS_SHARED_CPU,
        .work = work,
        .context = context,
    };
    uint8_t *stacks = arena_take(arena, count - 1, KERNELS_STACK_BYTES);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    while (error == 0 && threads->count < count) {
        uint32_t thread = threads->count;
        uint8_t *stack = stacks + (uint64_t)(thread - 1) * KERNELS_STACK_BYTES;
        error = thread_start(threads, thread, stack);
        threads->count += error == 0 ? 1 : 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (atomic_load(&threads->started) + 1 != threads->count) {
        sched_yield();
    }
    if (error != 0) {
        kernels_threads_stop(threads);
        return STATUS_CONFIG_ENGINE;
    }
    return STATUS_OK;
}
