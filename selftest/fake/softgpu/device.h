/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what the files of the soft GPU share. One lock guards all state; operations run without it.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/driver/driver.h"

#define SOFT_DEVICES_MAX 64
#define SOFT_BUS "00000000:%02x:00.0"    /* where a device is, by SOFT_BUS_FIRST and its number */
#define SOFT_BUS_FIRST 5
#define SOFT_BUS_BYTES 17
#define EXPORTED __attribute__((visibility("default")))

enum { SOFT_INVALID_VALUE = 1, SOFT_NOT_INITIALIZED = 3, SOFT_INVALID_CONTEXT = 201,
       SOFT_INVALID_HANDLE = 400 };

enum soft_fault { FAULT_ALLOC, FAULT_LAUNCH, FAULT_STICKY, FAULT_LOST, FAULT_HANG, FAULT_CORRUPT,
                  FAULT_STUCK, FAULT_ACT, FAULTS };

extern pthread_mutex_t soft_lock;
extern pthread_cond_t soft_moved;       /* a stream or a fault has changed */

/* Writes why to standard error and returns `result`, so that a refusal reads
 * `return soft_refuse(...)`. */
unsigned soft_refuse(unsigned result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t soft_environment(const char *name, uint64_t fallback);
/* Of a list, the number of this device. */
uint64_t soft_environment_of(const char *name, uint32_t device, uint64_t fallback);

/* first.c: with SOFTGPU_OPENS, opens a file when this is used first. The caller has the lock. */
void soft_first(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* fault.c */
void soft_faults_init(void);
void soft_faults_of(uint32_t device);               /* which this process has opened */
bool soft_fault_strikes(enum soft_fault fault);     /* counts one event */
bool soft_is_hung(uint64_t hang);                   /* `hang`: of soft_hang() */
uint64_t soft_hang(void);                           /* counts; 0: this one does not hang */
bool soft_is_stuck(void);                           /* counts */
unsigned soft_error(void);                          /* the error of every call; 0: none */
void soft_fail(unsigned result);                    /* the first one stays */

/* memory.c; `size` is the device's */
enum soft_place { PLACE_DEVICE, PLACE_HOST };
void soft_memory_init(uint64_t size);
unsigned soft_reserve(enum soft_place place, void **memory, size_t bytes);
unsigned soft_release(enum soft_place place, void *memory);
unsigned soft_register(void *memory, size_t bytes);
unsigned soft_unregister(void *memory);
uint64_t soft_memory_free(uint64_t *size);
/* Within one allocation, or one registered range. */
bool soft_memory_holds(enum soft_place place, const void *from, size_t bytes);
/* False, with a message: a write went beyond an allocation. */
bool soft_redzones_hold(void);
/* After an operation: sets the bit that sticks, if one does. */
void soft_memory_spoil(void);

/* stream.c */
#define SOFT_ARGUMENTS_BYTES 1024       /* of an operation */
void soft_streams_init(bool lazy, uint32_t first);  /* softgpu.h: SOFTGPU_LAZY, _FIRST */
void soft_streams_free(void);                       /* all have been destroyed */
unsigned soft_submit(struct CUstream_st *stream, bool (*run)(const void *arguments),
                     const void *arguments, size_t bytes);
unsigned soft_wait_all(void);
uint32_t soft_stream_number(const struct CUstream_st *stream);
unsigned soft_stream_create(struct CUstream_st **stream);
unsigned soft_stream_destroy(struct CUstream_st *stream);
unsigned soft_stream_query(struct CUstream_st *stream);
unsigned soft_stream_wait(struct CUstream_st *stream);
unsigned soft_stream_wait_event(struct CUstream_st *stream, struct CUevent_st *event);
unsigned soft_event_create(struct CUevent_st **event, bool timed);
unsigned soft_event_destroy(struct CUevent_st *event);
unsigned soft_event_record(struct CUevent_st *event, struct CUstream_st *stream);
unsigned soft_event_query(struct CUevent_st *event);
unsigned soft_event_wait(struct CUevent_st *event);
unsigned soft_event_elapsed(float *milliseconds, struct CUevent_st *begin, struct CUevent_st *end);

/* kernel.c */
struct soft_launch {
    struct CUfunc_st *function;
    uint32_t grid[3], block[3], shared_bytes;
};
unsigned soft_module_load(struct CUmod_st **module, const void *image, uint64_t capability);
unsigned soft_module_unload(struct CUmod_st *module);
unsigned soft_function_find(struct CUfunc_st **function, struct CUmod_st *module,
                            const char *name);
unsigned soft_function_set_shared(struct CUfunc_st *function, int bytes);
unsigned soft_launch(struct CUstream_st *stream, const struct soft_launch *launch,
                     void **parameters);
