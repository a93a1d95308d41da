/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the types of weights: how a quantisation block of numbers becomes bytes of a GGUF file.
 */
#include <stdint.h>

struct quant {
    const char *name;
    uint32_t type;              /* in the file */
    uint32_t values, bytes;     /* of a block */
    void (*put)(const float *values, uint8_t *block);
};

/* By the name on the command line, or by the number in the file; NULL: there is none. */
const struct quant *quant_named(const char *name);
const struct quant *quant_of(uint32_t type);
/* "f32, f16, ...", for messages. */
const char *quant_names(void);
