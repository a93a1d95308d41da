/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the writer role: a process that keeps the file of replies equal to kept memory.
 *
 *   core    changes pages, marks them (net/kept/pages.h), and rings: a byte in a pipe
 *   writer  writes what is marked; with limits.replies_sync = yes, has it on the disk and says so;
 *           then it reads the pipe
 *
 * It ends when no process can ring any more: keeper and cores are gone, however they ended, and
 * what they had kept is written first.
 */
#include "appliance/boot/boot.h"
#include "appliance/keeper/replies/header.h"

/* `header`: the first page of the file, should that be cut. */
_Noreturn void replies_writer_run(const struct boot *boot, const union replies_page *header);
