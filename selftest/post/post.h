/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the self-test of `agentix --selftest`: whether this machine computes what the appliance
 * asks.
 *
 *   quick    seconds: machine, memory, weights, kernels, a call from socket to socket
 *   full     minutes: the same, all memory, all CPUs, the moves of KV blocks, a serving load
 *   soak     full again and again, with waits in which bits could fade, until a time has passed
 *   inject   the test of the self-test: it flips single bits, and the checks must find each
 *
 * Every comparison is exact. One line for each check; the last line is PASS or FAIL.
 */
#include "appliance/boot/boot.h"

enum post_level { POST_NONE, POST_QUICK, POST_FULL, POST_SOAK, POST_INJECT };

enum post_gpu { POST_NO_GPU, POST_GPU_IF_ANY, POST_GPU };

struct post_settings {
    enum post_level level;
    enum post_gpu gpu;              /* of engine.kind */
    uint64_t memory_bytes;          /* for the patterns; 0: as much as the plan has */
    uint64_t minutes;               /* of soak; 0: once */
    uint64_t flips;                 /* of inject */
    uint64_t seed;
};

/* The defaults: no level, a new seed. */
void post_settings_init(struct post_settings *settings);
/* Takes argv[*at] if it is an argument of the self-test, and its value. `problem` is set when
 * it is, and wrong. */
bool post_settings_take(struct post_settings *settings, int argc, char **argv, int *at,
                        const char **problem);

/* Before boot_measure(). The CPU is checked as for an appliance that serves by CPU, whatever the
 * engine's kind. The kind decides which checks of a GPU there are. */
void post_choose_engine(struct post_settings *settings, struct options *options);
/* After boot_measure(): adds to the plan what a check needs beyond it. */
void post_plan_memory(struct boot *boot, const struct post_settings *settings);
/* After boot_reserve(). Returns BOOT_EXIT_OK, BOOT_EXIT_SELFTEST or a failure of boot. */
enum boot_exit post_run(struct boot *boot, const struct post_settings *settings);
