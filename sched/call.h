/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the small questions about a call that every file of sched asks. Private to sched/. */
#include "config/base/assert.h"
#include "sched/sched.h"

static inline struct call *sched_call(const struct sched *sched, uint32_t slot)
{
    ASSERT(slot < sched->calls->count);
    return &sched->calls->calls[slot];
}

/* The call of this slot; NULL for CALL_NONE. */
static inline struct call *sched_call_or_null(const struct sched *sched, uint32_t slot)
{
    return slot != CALL_NONE ? sched_call(sched, slot) : NULL;
}

/* Brings a record into the CPU's caches: it is needed soon, and has not been touched for long. */
static inline void sched_cpu_prefetch(const void *record, uint64_t bytes)
{
    const uint8_t *at = record;
    for (uint64_t i = 0; i < bytes; i += ARENA_ALIGN_BYTES) {
        __builtin_prefetch(at + i, 1);
    }
}

/* The engine that serves an admitted call. */
static inline struct sched_engine *sched_engine_of(const struct sched *sched,
                                                   const struct call *call)
{
    return &sched->engines[call->engine];
}

/* True when the call owns KV blocks of its engine. */
static inline bool sched_call_is_resident(const struct sched_engine *engine,
                                          const struct call *call)
{
    return kvmem_call_blocks(engine->kv, call->slot) > 0;
}

/* The number of the call's tokens: of its prompt, and of what it has generated. */
static inline uint32_t sched_call_known(const struct call *call)
{
    return call->prompt_tokens + call->generated_tokens;
}

/* False when the client does not read, or has asked to end the call. */
static inline bool sched_call_can_run(const struct call *call)
{
    return !call->paused && !call->cancel;
}

/* a + b; saturates. */
static inline uint64_t sched_sum(uint64_t a, uint64_t b)
{
    uint64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t sched_elapsed_us(uint64_t from_us, uint64_t now_us)
{
    return now_us > from_us ? now_us - from_us : 0;
}

static inline void sched_note(const struct sched *sched, const struct call *call, uint64_t now_us,
                              struct event_what what)
{
    event_log_note_call(sched->settings.event_log, now_us, call, what);
}

/* A time that began at `from_us` ends now. */
static inline void sched_note_time(struct sched *sched, enum time_kind kind, uint64_t from_us,
                                   uint64_t now_us)
{
    histogram_note(&sched->times.all[kind], sched_elapsed_us(from_us, now_us), 1);
}
