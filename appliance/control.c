/* SPDX-License-Identifier: MIT */
/* What: the control pages (appliance/control.h). */
#include "appliance/control.h"

#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/assert.h"

STATIC_ASSERT(sizeof(struct control) == STEP_PAGE_BYTES, "engines begin with a page");
STATIC_ASSERT(sizeof(struct control_engine) == 2 * STEP_PAGE_BYTES, "one page is the worker's");

uint64_t control_bytes(uint32_t engines)
{
    return sizeof(struct control) + engines * sizeof(struct control_engine);
}

bool control_confine(struct control *control, uint32_t engine, const struct step *step)
{
    uint8_t *own = (uint8_t *)&control->engines[engine] + offsetof(struct control_engine, done);
    uint8_t *begin = (uint8_t *)control, *end = begin + control_bytes(control->engines_count);
    uint8_t *next = own + STEP_PAGE_BYTES;
    ASSERT(engine < control->engines_count);
    ASSERT((uintptr_t)control % STEP_PAGE_BYTES == 0);
    ASSERT((uintptr_t)step->base % STEP_PAGE_BYTES == 0);
    return mprotect(begin, (size_t)(own - begin), PROT_READ) == 0 &&
           mprotect(next, (size_t)(end - next), PROT_READ) == 0 &&
           mprotect(step->base, step->layout.worker_offset, PROT_READ) == 0;
}

/* An eventfd write fails only by overflow, which means that the bell rings already. */
void control_ring(int bell)
{
    uint64_t one = 1;
    ssize_t ignored = write(bell, &one, sizeof one);
    (void)ignored;
}

void control_hush(int bell)
{
    uint64_t count = 0;
    ssize_t ignored = read(bell, &count, sizeof count);
    (void)ignored;
}

void control_begin(struct control_engine *control, uint32_t epoch)
{
    uint8_t *own = (uint8_t *)control + offsetof(struct control_engine, done);
    memset(own, 0, STEP_PAGE_BYTES);
    atomic_store(&control->worker_epoch, epoch);
}

void control_leave(struct control_engine *control)
{
    atomic_store(&control->left, atomic_load(&control->submitted));
    control_ask(control);               /* the core may have died before it woke the worker */
}

void control_begin_core(struct control *control, bool was_killed)
{
    for (uint32_t i = 0; i < control->engines_count; i++) {
        control_leave(&control->engines[i]);
    }
    atomic_store(&control->health, 0);
    atomic_store(&control->is_quiet, 0);
    atomic_store(&control->waits, 0);
    atomic_store(&control->serves, 0);
    atomic_store(&control->admissions_taken, atomic_load(&control->admissions));
    atomic_store(&control->core_was_killed, was_killed);
    atomic_fetch_add(&control->core_restarts, 1);
    syscall(SYS_futex, &control->core_restarts, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void control_await_core(struct control *control, uint32_t core_restarts)
{
    while (atomic_load(&control->core_restarts) == core_restarts) {
        syscall(SYS_futex, &control->core_restarts, FUTEX_WAIT, core_restarts, NULL, NULL, 0);
    }
}

void control_adopt(struct control_view *view, const struct control_engine *control)
{
    *view = (struct control_view){.sequence = atomic_load(&control->submitted),
                                  .condemned = atomic_load(&control->condemned)};
}

bool control_is_finishing(const struct control_engine *control)
{
    uint32_t left = atomic_load(&control->left);
    return atomic_load(&control->submitted) == left && atomic_load(&control->done) != left &&
           atomic_load(&control->submitted_epoch) == atomic_load(&control->worker_epoch);
}

void control_ask(struct control_engine *control)
{
    atomic_fetch_add(&control->asked, 1);
    syscall(SYS_futex, &control->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void control_submit(struct control_view *view, struct control_engine *control)
{
    ASSERT(!view->in_flight);
    view->in_flight = true;
    atomic_store(&control->submitted_epoch, view->epoch);
    atomic_store(&control->submitted, ++view->sequence);
    control_ask(control);
}

/* What the worker of this epoch says is taken once: it cannot take it back. */
static void see_ready(struct control_view *view, struct control_engine *control)
{
    bool has_said = atomic_load(&control->worker_ready) == view->epoch ||
                    atomic_load(&control->ready) == view->epoch;    /* to the core before */
    if (!view->is_ready && has_said && !control_is_finishing(control)) {
        view->is_ready = true;
        atomic_store(&control->ready, view->epoch);
    }
}

enum world_engine control_poll(struct control_view *view, struct control_engine *control,
                               const struct step *step)
{
    uint32_t epoch = atomic_load(&control->worker_epoch);
    if (epoch != view->epoch) {
        bool is_first = view->epoch == 0;
        view->epoch = epoch;
        view->in_flight = view->is_ready = false;
        if (!is_first) {
            return WORLD_ENGINE_LOST;
        }
    }
    see_ready(view, control);
    if (epoch == view->condemned || !view->is_ready) {
        return WORLD_ENGINE_DOWN;
    }
    if (!view->in_flight) {
        return WORLD_ENGINE_IDLE;
    }
    if (atomic_load(&control->done) != view->sequence) {
        return WORLD_ENGINE_BUSY;
    }
    view->in_flight = false;
    return atomic_load(&control->proof) == step_proof(step, view->sequence)
               ? WORLD_ENGINE_DONE
               : WORLD_ENGINE_UNPROVEN;
}

void control_condemn(struct control_view *view, struct control_engine *control,
                     enum control_failure why)
{
    view->condemned = view->epoch;
    atomic_store(&control->condemned_for, (uint32_t)why);
    atomic_store(&control->condemned, view->condemned);
}

/* EINTR and EAGAIN both mean: read the number again. */
uint32_t control_await(struct control_engine *control, uint32_t asked)
{
    uint32_t now = atomic_load(&control->asked);
    while (now == asked) {
        syscall(SYS_futex, &control->asked, FUTEX_WAIT, asked, NULL, NULL, 0);
        now = atomic_load(&control->asked);
    }
    return now;
}

bool control_take(struct control_engine *control, uint32_t epoch, uint32_t *seen)
{
    uint32_t now = atomic_load(&control->submitted);
    if (now == *seen) {
        return false;
    }
    *seen = now;
    return atomic_load(&control->submitted_epoch) == epoch;
}

void control_done(struct control_engine *control, const struct step *step, uint32_t sequence)
{
    atomic_store(&control->proof, step_proof(step, sequence));
    atomic_store(&control->done, sequence);
}

void control_answer(struct control_engine *control, uint32_t epoch, uint32_t asked)
{
    bool is_owed = atomic_load(&control->submitted_epoch) == epoch &&
                   atomic_load(&control->submitted) != atomic_load(&control->done);
    if (!is_owed) {
        control->heartbeat++;
        atomic_store(&control->answered, asked);
    }
}
