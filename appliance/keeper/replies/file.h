/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the file of limits.replies_file at boot. It has kept memory's pages of replies, so the
 * first core takes them up as a successor does what another core has left.
 *
 * One appliance has it at a time: a lock of the open file, which the keeper and its writer share,
 * ends when both are gone. An upgrade opens it beside the appliance that serves and reads no reply;
 * its writer waits for that lock.
 */
#include "appliance/boot/boot.h"
#include "appliance/keeper/replies/header.h"

/* With the rights that the appliance keeps, before its files are confined: opens it, makes it where
 * there is none, and locks it. OK, and boot->replies_handle is 0: none is configured. */
enum boot_exit replies_file_open(struct boot *boot);
/* Once model and limits are known, and kept memory is mapped: takes all the room that it needs on
 * its disk, compares its header, and reads it into boot->replies. */
enum boot_exit replies_file_load(struct boot *boot);
/* Once the weights are read: they are those of the file. 0: not known. `page`: its first page from
 * now on, where there is a file. */
enum boot_exit replies_file_bind(const struct boot *boot, uint64_t weights,
                                 union replies_page *page);
/* In a child: which has neither file nor pipe; `is_core`: but rings for the writer. */
void replies_file_forget(const struct boot *boot, bool is_core);
