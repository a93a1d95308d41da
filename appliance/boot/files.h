/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the files that the appliance may still touch, where the kernel has Landlock; connections
 * and signals to others than its own processes are taken with them. docs/decisions/0095.
 */
#include "appliance/boot/boot.h"

/* Once rights are given up, before a file is read that the options name: the keeper, and all that
 * it forks, keep those files, and what a GPU's driver may need where one may serve. A kernel that
 * refuses takes nothing; the log says so. */
void files_confine_boot(const struct boot *boot);
/* Before the core is forked: what a reload reads is left. Where the GPU serves, all stays so. */
void files_confine_service(const struct boot *boot);
/* True when a reload may read this file: its folder is one that the boot knew. */
bool files_are_known(const struct boot *boot, const char *path);
