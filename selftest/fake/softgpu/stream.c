/* SPDX-License-Identifier: MIT */
/*
 * What: streams and events. A stream is a ring of operations and a thread that runs them in order.
 * Only events and waiting callers order two streams, so a missing synchronisation shows. Positions
 * are counters: `submitted` operations were put in, and `done` have run. In lazy mode a stream runs
 * only up to `wanted`, the position that a caller has waited for. In lazy mode one stream may go
 * first: on any request it runs all that it has, and others run only while it waits for them.
 *
 * An event is a position of a stream. An operation that waits for it wants that position, through
 * other streams too. After an error that stays no operation runs any more, and positions go on.
 *
 * Bounds: RING operations in a stream; a caller that submits more waits. Streams are freed with the
 * context, so that an event may outlive its stream.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/base/assert.h"
#include "selftest/fake/softgpu/device.h"

#define RING 1024

struct operation {
    bool (*run)(const void *arguments);     /* NULL: waits for `event`, or marks it */
    struct CUstream_st *awaited;            /* runs after its position `position`; NULL: none */
    uint64_t position;
    struct CUevent_st *marked;              /* gets the time; NULL: none */
    uint64_t hang;
    _Alignas(16) uint8_t arguments[SOFT_ARGUMENTS_BYTES];
};

struct CUstream_st {
    struct CUstream_st *next;
    pthread_t thread;
    uint32_t number;                        /* in the order of creation, from 1 */
    uint64_t submitted, wanted, done;
    bool ends, is_gone;
    struct operation ring[RING];
};

struct CUevent_st {
    struct CUstream_st *stream;             /* NULL: never recorded, which counts as done */
    uint64_t position;
    uint32_t marks;                         /* queued operations that will mark it */
    bool timed, is_gone;
    struct timespec at;
};

static struct {
    struct CUstream_st *streams;
    bool lazy;
    uint32_t first;                         /* number of the stream that goes first; 0: none */
    uint32_t created;
} state;

static struct CUstream_st *first_stream(void)
{
    struct CUstream_st *stream = state.streams;
    while (stream != NULL && stream->number != state.first) {
        stream = stream->next;
    }
    return stream;
}

static void ask(struct CUstream_st *stream, uint64_t position)
{
    if (stream->wanted < position) {
        stream->wanted = position;
        pthread_cond_broadcast(&soft_moved);
    }
}

static void want(struct CUstream_st *stream, uint64_t position)
{
    struct CUstream_st *first = first_stream();
    if (first != NULL) {
        ask(first, first->submitted);
    }
    ask(stream, position);
}

/* ---- the thread of a stream ---- */

static bool is_asked_for(const struct CUstream_st *stream)
{
    return stream->done < (state.lazy ? stream->wanted : stream->submitted);
}

static bool is_held(const struct operation *operation)
{
    return soft_error() == 0 &&
           (soft_is_hung(operation->hang) ||
            (operation->awaited != NULL && operation->awaited->done < operation->position));
}

static bool can_run(const struct CUstream_st *stream)
{
    const struct CUstream_st *first = first_stream();
    bool yields = first != NULL && first != stream && is_asked_for(first) &&
                  !is_held(&first->ring[first->done % RING]);
    return is_asked_for(stream) && !yields;
}

static void mark(struct CUevent_st *event)
{
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    event->marks--;
    if (event->is_gone && event->marks == 0) {
        free(event);
    }
}

/* With the lock, which is released while the operation runs. */
static void run_next(struct CUstream_st *stream)
{
    const struct operation *operation = &stream->ring[stream->done % RING];
    bool is_right = true;
    soft_first("thread-of-stream-%u", stream->number);
    if (operation->awaited != NULL) {
        want(operation->awaited, operation->position);
    }
    while (is_held(operation)) {
        pthread_cond_wait(&soft_moved, &soft_lock);
    }
    if (operation->run != NULL && soft_error() == 0) {
        pthread_mutex_unlock(&soft_lock);
        is_right = operation->run(operation->arguments);
        pthread_mutex_lock(&soft_lock);
        soft_memory_spoil();
    }
    if (!is_right) {
        soft_fail(DRIVER_LAUNCH_FAILED);
    } else if (operation->run != NULL && !soft_redzones_hold()) {
        soft_fail(DRIVER_ILLEGAL_ADDRESS);
    }
    if (operation->marked != NULL) {
        mark(operation->marked);
    }
    stream->done++;
    pthread_cond_broadcast(&soft_moved);
}

static void *run_stream(void *argument)
{
    struct CUstream_st *stream = argument;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);     /* as threads of a driver do */
    pthread_mutex_lock(&soft_lock);
    while (!stream->ends || stream->done < stream->submitted) {
        if (can_run(stream)) {
            run_next(stream);
        } else {
            pthread_cond_wait(&soft_moved, &soft_lock);
        }
    }
    pthread_mutex_unlock(&soft_lock);
    return NULL;
}

/* ---- operations ---- */

static bool is_usable(const struct CUstream_st *stream)
{
    for (const struct CUstream_st *each = state.streams; each != NULL; each = each->next) {
        if (each == stream) {
            return !each->is_gone;
        }
    }
    return false;
}

/* Waits for room for one more operation, which the thread sees when `submitted` grows. */
static struct operation *next_operation(struct CUstream_st *stream)
{
    while (stream->submitted - stream->done == RING) {
        want(stream, stream->done + 1);
        pthread_cond_wait(&soft_moved, &soft_lock);
    }
    struct operation *operation = &stream->ring[stream->submitted % RING];
    operation->run = NULL;
    operation->awaited = NULL;
    operation->marked = NULL;
    operation->hang = soft_hang();
    return operation;
}

static void submit(struct CUstream_st *stream)
{
    stream->submitted++;
    pthread_cond_broadcast(&soft_moved);
}

unsigned soft_submit(struct CUstream_st *stream, bool (*run)(const void *arguments),
                     const void *arguments, size_t bytes)
{
    ASSERT(bytes <= SOFT_ARGUMENTS_BYTES);
    if (!is_usable(stream)) {
        return soft_refuse(SOFT_INVALID_HANDLE, "no such stream; the default one is not used");
    }
    struct operation *operation = next_operation(stream);
    operation->run = run;
    memcpy(operation->arguments, arguments, bytes);
    submit(stream);
    return DRIVER_SUCCESS;
}

static unsigned wait_for(struct CUstream_st *stream, uint64_t position)
{
    want(stream, position);
    while (stream->done < position && soft_error() == 0) {
        pthread_cond_wait(&soft_moved, &soft_lock);
    }
    return soft_error();
}

static unsigned query(struct CUstream_st *stream, uint64_t position)
{
    want(stream, position);
    return soft_error() != 0          ? soft_error()
           : stream->done >= position ? DRIVER_SUCCESS
                                      : DRIVER_NOT_READY;
}

uint32_t soft_stream_number(const struct CUstream_st *stream)
{
    return stream != NULL ? stream->number : 0;
}

unsigned soft_wait_all(void)
{
    for (struct CUstream_st *stream = state.streams; stream != NULL; stream = stream->next) {
        wait_for(stream, stream->submitted);
    }
    return soft_error();
}

/* ---- streams ---- */

void soft_streams_init(bool lazy, uint32_t first)
{
    soft_streams_free();
    state.lazy = lazy || first > 0;
    state.first = first;
    state.created = 0;
}

void soft_streams_free(void)
{
    while (state.streams != NULL) {
        struct CUstream_st *stream = state.streams;
        state.streams = stream->next;
        ASSERT(stream->is_gone);
        free(stream);
    }
}

unsigned soft_stream_create(struct CUstream_st **stream)
{
    struct CUstream_st *new = calloc(1, sizeof *new);
    if (new == NULL || pthread_create(&new->thread, NULL, run_stream, new) != 0) {
        free(new);
        return DRIVER_OUT_OF_MEMORY;
    }
    new->number = ++state.created;
    new->next = state.streams;
    state.streams = new;
    *stream = new;
    return DRIVER_SUCCESS;
}

unsigned soft_stream_destroy(struct CUstream_st *stream)
{
    if (!is_usable(stream)) {
        return soft_refuse(SOFT_INVALID_HANDLE, "no such stream");
    }
    stream->ends = true;
    stream->is_gone = true;
    want(stream, stream->submitted);
    pthread_cond_broadcast(&soft_moved);
    pthread_mutex_unlock(&soft_lock);
    pthread_join(stream->thread, NULL);
    pthread_mutex_lock(&soft_lock);
    return soft_error();
}

unsigned soft_stream_query(struct CUstream_st *stream)
{
    return is_usable(stream) ? query(stream, stream->submitted)
                             : soft_refuse(SOFT_INVALID_HANDLE, "no such stream");
}

unsigned soft_stream_wait(struct CUstream_st *stream)
{
    return is_usable(stream) ? wait_for(stream, stream->submitted)
                             : soft_refuse(SOFT_INVALID_HANDLE, "no such stream");
}

unsigned soft_stream_wait_event(struct CUstream_st *stream, struct CUevent_st *event)
{
    if (!is_usable(stream)) {
        return soft_refuse(SOFT_INVALID_HANDLE, "no such stream");
    }
    struct operation *operation = next_operation(stream);
    soft_first("stream-%u-follows-%u", stream->number, soft_stream_number(event->stream));
    operation->awaited = event->stream;
    operation->position = event->position;
    submit(stream);
    return DRIVER_SUCCESS;
}

/* ---- events ---- */

unsigned soft_event_create(struct CUevent_st **event, bool timed)
{
    *event = calloc(1, sizeof **event);
    if (*event == NULL) {
        return DRIVER_OUT_OF_MEMORY;
    }
    (*event)->timed = timed;
    return DRIVER_SUCCESS;
}

unsigned soft_event_destroy(struct CUevent_st *event)
{
    event->is_gone = true;
    if (event->marks == 0) {
        free(event);
    }
    return DRIVER_SUCCESS;
}

unsigned soft_event_record(struct CUevent_st *event, struct CUstream_st *stream)
{
    if (!is_usable(stream)) {
        return soft_refuse(SOFT_INVALID_HANDLE, "no such stream");
    }
    soft_first("mark-stream-%u", stream->number);
    next_operation(stream)->marked = event;
    event->marks++;
    submit(stream);
    event->stream = stream;
    event->position = stream->submitted;
    return DRIVER_SUCCESS;
}

unsigned soft_event_query(struct CUevent_st *event)
{
    soft_first("query-stream-%u", soft_stream_number(event->stream));
    return event->stream == NULL ? soft_error() : query(event->stream, event->position);
}

unsigned soft_event_wait(struct CUevent_st *event)
{
    return event->stream == NULL ? soft_error() : wait_for(event->stream, event->position);
}

unsigned soft_event_elapsed(float *milliseconds, struct CUevent_st *begin, struct CUevent_st *end)
{
    if (!begin->timed || !end->timed || begin->stream == NULL || end->stream == NULL) {
        return soft_refuse(SOFT_INVALID_HANDLE, "an event without a time");
    }
    if (soft_event_query(begin) != DRIVER_SUCCESS || soft_event_query(end) != DRIVER_SUCCESS) {
        return DRIVER_NOT_READY;
    }
    *milliseconds = (float)(end->at.tv_sec - begin->at.tv_sec) * 1e3f +
                    (float)(end->at.tv_nsec - begin->at.tv_nsec) * 1e-6f;
    return DRIVER_SUCCESS;
}
