/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the kernel modules of the image, which tools/image has put in the order in which they need
 * each other. */

/* Loads each that MODULES_FOLDER/order names. One that fails is logged. */
void modules_load(void);
#define MODULES_FOLDER "/modules"
