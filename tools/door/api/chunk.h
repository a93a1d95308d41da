/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: events of a stream that differ in one text only, as the pieces of an answer do. The event
 * is written once, and then sent again and again with another text in it. To build each as JSON
 * takes longer than all the rest.
 */
#include "tools/door/door.h"

#define CHUNK_TEXT "\x1a"               /* in the example: where the text goes */

struct chunk {
    struct buffer event;                /* without the text */
    size_t at;                          /* where it goes */
};

/* From an example, which is given away. False: out of memory. */
bool chunk_make(struct chunk *chunk, json_t *example);
void chunk_send(struct request *request, const struct chunk *chunk, const struct piece *piece);
/* For `own` of a request: a chunk for each choice; NULL: out of memory. */
struct chunk *chunks_make(struct request *request,
                          json_t *(*example)(struct request *request, uint32_t index));
/* The dialect's drop(). */
void chunks_drop(struct request *request);
