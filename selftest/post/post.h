/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the power-on self-test of `agentix --selftest`: memory patterns, kernels against their
 * twins, the model's digest, and a call from socket to socket. One line per part; the first that
 * fails is the exit status BOOT_EXIT_SELFTEST + its number.
 */
#include "appliance/boot.h"

enum post_part { POST_MEMORY, POST_KERNELS, POST_MODEL, POST_CALL, POST_PARTS };

enum boot_exit post_run(struct boot *boot);

/* The parts; each prints why it failed. */
bool post_memory(struct boot *boot);
bool post_kernels(struct boot *boot);
bool post_model(struct boot *boot);
bool post_call(struct boot *boot);
