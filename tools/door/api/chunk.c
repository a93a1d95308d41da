/* SPDX-License-Identifier: MIT */
/* What: events that differ in one text (tools/door/api/chunk.h). */
#include "tools/door/api/chunk.h"

#include <string.h>

#include "tools/door/request.h"

#define PLACE "\"\\u001A\""             /* CHUNK_TEXT as JSON */

bool chunk_make(struct chunk *chunk, json_t *example)
{
    char *text = example != NULL ? json_dumps(example, JSON_COMPACT) : NULL;
    const char *place = text != NULL ? strstr(text, PLACE) : NULL;
    *chunk = (struct chunk){0};
    bool is_made = place != NULL && buffer_add_text(&chunk->event, "data: ") &&
                   buffer_add(&chunk->event, text, (size_t)(place - text));
    chunk->at = chunk->event.count;
    is_made = is_made && buffer_add_text(&chunk->event, place + sizeof PLACE - 1) &&
              buffer_add_text(&chunk->event, "\n\n");
    memory_give(text);
    json_decref(example);
    return is_made;
}

void chunk_send(struct request *request, const struct chunk *chunk, const struct piece *piece)
{
    json_t *text = json_stringn(piece->text, piece->bytes);
    char *written = text != NULL ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    request_send_bytes(request, chunk->event.at, chunk->at);
    request_send_text(request, written);
    request_send_bytes(request, chunk->event.at + chunk->at, chunk->event.count - chunk->at);
    memory_give(written);
    json_decref(text);
}

struct chunk *chunks_make(struct request *request,
                          json_t *(*example)(struct request *request, uint32_t index))
{
    struct chunk *chunks = memory_take(request->choices_count * sizeof *chunks);
    if (chunks == NULL) {
        return NULL;
    }
    memset(chunks, 0, request->choices_count * sizeof *chunks);
    request->own = chunks;
    for (uint32_t i = 0; i < request->choices_count; i++) {
        if (!chunk_make(&chunks[i], example(request, i))) {
            return NULL;
        }
    }
    return chunks;
}

void chunks_drop(struct request *request)
{
    struct chunk *chunks = request->own;
    for (uint32_t i = 0; i < request->choices_count; i++) {
        buffer_free(&chunks[i].event);
    }
}
