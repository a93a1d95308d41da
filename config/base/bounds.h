/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the largest counts that an option may ask for and that a module can hold. options.def takes
 * its ranges from here, limits.c what it derives, and each module asserts at compile time that it
 * counts so far. A range that is written in one place only cannot contradict another. And the
 * lesser and the greater of two numbers, by which others are bounded.
 */
#include <stdint.h>

#define BOUND_KV_DEVICE_BLOCKS (1u << 24)   /* kv.device_blocks */
#define BOUND_KV_BLOCKS        (1u << 27)   /* of a tier, whatever it is derived from */
#define BOUND_KV_BLOCK_TOKENS  256u
#define BOUND_QUEUES           16u
#define BOUND_THREADS          64u
#define BOUND_ENGINES          8u           /* that one appliance drives */
#define BOUND_DEVICES          64u          /* of the driver: engine.devices chooses from these */
#define BOUND_PREDICTOR_CLASSES 1024u       /* in the file of sched.predictor */
#define BOUND_METRICS_BYTES    131072u      /* of the page `metrics`: all queues, longest numbers */

static inline uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static inline uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
