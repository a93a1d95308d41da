/* SPDX-License-Identifier: MIT */
#pragma once
/* What: whether one appliance can go on with what another has left. */
#include "appliance/boot/boot.h"
#include "appliance/keeper/upgrade/message.h"

/* BOOT_ONLY. A digest that tells the file of this program from another one; 0: unknown. */
uint64_t upgrade_own_program(void);
/* BOOT_ONLY, once the plan is made: fills boot->model_digest. Reads the header of the model again,
 * and samples of its weights. */
enum boot_exit upgrade_measure(struct boot *boot);
/* After that: all but the digest of the weights. */
void upgrade_likeness_fill(struct upgrade_likeness *likeness, const struct boot *boot);
/* Why not; NULL: it can. Weights that one of the two does not know yet are not compared. */
const char *upgrade_unlike(const struct upgrade_likeness *before,
                           const struct upgrade_likeness *after);
