/* SPDX-License-Identifier: MIT */
#pragma once
/* What: arrays that grow while a trace is read. */
#include <stddef.h>
#include <stdint.h>

/* The array with room for one more element than `count`; NULL when there is no memory, and then
 * the array is as it was. */
void *array_grown(void *array, uint32_t count, uint32_t *room, size_t element_bytes);
