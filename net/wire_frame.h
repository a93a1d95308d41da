/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what the files of the codec share. Only net/wire*.c include this. */
#include "config/base/bytes.h"
#include "net/wire.h"

/* Fill `fault` and return `status`; BAD_FIELD with the range that is allowed. */
enum status wire_refuse(struct wire_fault *fault, enum status status, enum wire_field field,
                        uint64_t found);
enum status wire_refuse_range(struct wire_fault *fault, enum wire_field field, uint64_t found,
                              uint64_t min, uint64_t max);
/* The payload was read to its end, and its reserved bytes were zero. */
enum status wire_check_end(const struct bytes *in, struct wire_fault *fault);

/* A frame to be written: its payload goes behind the room for the header, which close() fills.
 * close() returns the bytes of the frame, or 0 when they did not fit. */
struct bytes wire_frame_open(uint8_t *bytes, uint32_t max);
uint32_t wire_frame_close(struct bytes *out, uint8_t type);
