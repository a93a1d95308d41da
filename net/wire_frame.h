/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what the files of the codec share. Only net/wire*.c include this. */
#include "net/bytes.h"
#include "net/wire.h"

/* Fill `fault` and return `status`; BAD_FIELD with the range that is allowed. */
enum status wire_refuse(struct wire_fault *fault, enum status status, enum wire_field field,
                        uint64_t found);
enum status wire_refuse_range(struct wire_fault *fault, enum wire_field field, uint64_t found,
                              uint64_t min, uint64_t max);

/* The fixed part of a payload, into `frame` or out of it, as `bytes` reads or writes. `frame` is
 * the struct of the layout. */
void wire_layout_move(const struct wire_layout *layout, struct bytes *bytes, void *frame);
/* The first field that is out of its range, by name. Sets fault->call_id where there is one. */
MUST_CHECK enum status wire_layout_check(const struct wire_layout *layout, const void *frame,
                                         struct wire_fault *fault);
/* The fixed part was there, its reserved bytes were zero, and its fields are in their ranges. */
MUST_CHECK enum status wire_check_fixed(const struct wire_layout *layout, const struct bytes *in,
                                        const void *frame, struct wire_fault *fault);
/* The payload was read to its end, and its reserved bytes were zero. */
enum status wire_check_end(const struct bytes *in, struct wire_fault *fault);

/* Appends bytes as they are. */
void wire_put_block(struct bytes *out, const uint8_t *bytes, uint64_t count);
/* A frame to be written: its payload goes after the room for the header, which close() fills.
 * close() returns the bytes of the frame, or 0 when they did not fit. */
struct bytes wire_frame_open(uint8_t *bytes, uint32_t max);
uint32_t wire_frame_close(struct bytes *out, uint8_t type);
