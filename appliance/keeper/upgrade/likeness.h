/* SPDX-License-Identifier: MIT */
#pragma once
/* What: whether one appliance can go on with what another has left. */
#include "appliance/boot/boot.h"
#include "appliance/keeper/upgrade/message.h"

/* BOOT_ONLY. A digest that tells the file of this program from another one; 0: unknown. */
uint64_t upgrade_own_program(void);
/* BOOT_ONLY, once boot->model_digest is known: all but the digest of the weights. */
void upgrade_likeness_fill(struct upgrade_likeness *likeness, const struct boot *boot);
/* Why not, with the options that differ, in `text`; NULL: it can. Weights that one of the two does
 * not know yet are not compared. */
const char *upgrade_unlike(const struct upgrade_likeness *before,
                           const struct upgrade_likeness *after, char text[UPGRADE_TEXT_BYTES]);
