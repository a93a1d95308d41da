/* SPDX-License-Identifier: MIT */
/*
 * What: the door's memory (tools/door/buffer.h).
 *
 * Invariant: `taken` is the sum of what malloc gave for each piece that was taken and not given
 * back, as malloc_usable_size() says it.
 * Why not malloc alone: a body of JSON may need twenty times its size, and many clients may send
 * one at once.
 */
#include "tools/door/buffer.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_LEAST 256u

static struct { uint64_t allowance, taken, refusals; bool is_open; } memory;

void memory_begin(uint64_t allowance_bytes)
{
    memory.allowance = allowance_bytes;
    json_set_alloc_funcs(memory_take, memory_give);
}

uint64_t memory_taken_bytes(void)
{
    return memory.taken;
}

uint64_t memory_allowance_bytes(void)
{
    return memory.allowance;
}

uint64_t memory_refusals(void)
{
    return memory.refusals;
}

static bool has_room(uint64_t bytes)
{
    bool is_room = memory.taken <= memory.allowance && bytes <= memory.allowance - memory.taken;
    memory.refusals += !is_room;
    return is_room;
}

bool memory_open(uint64_t bytes)
{
    memory.is_open = has_room(bytes);
    return memory.is_open;
}

void memory_close(void)
{
    memory.is_open = false;
}

/* A system without memory is met here alone; the service manager starts the door again. */
void *memory_take(size_t bytes)
{
    if (!memory.is_open && !has_room(bytes)) {
        return NULL;
    }
    void *piece = malloc(bytes);
    if (piece == NULL) {
        abort();
    }
    memory.taken += malloc_usable_size(piece);
    return piece;
}

void memory_give(void *piece)
{
    memory.taken -= malloc_usable_size(piece);              /* of NULL: 0 */
    free(piece);
}

static bool make_room(struct buffer *bytes, size_t count)
{
    size_t room = bytes->room < ROOM_LEAST ? ROOM_LEAST : bytes->room;
    if (count > memory.allowance) {
        memory.refusals++;
        return false;
    }
    while (room - bytes->count <= count) {
        room *= 2;
    }
    char *at = room == bytes->room ? bytes->at : memory_take(room);
    if (at != NULL && at != bytes->at) {
        memcpy(at, bytes->at != NULL ? bytes->at : "", bytes->count);
        memory_give(bytes->at);
        bytes->at = at;
        bytes->room = room;
    }
    return at != NULL;
}

bool buffer_add(struct buffer *bytes, const void *more, size_t count)
{
    if (!make_room(bytes, count)) {
        return false;
    }
    memcpy(bytes->at + bytes->count, more, count);
    bytes->count += count;
    bytes->at[bytes->count] = '\0';
    return true;
}

bool buffer_add_text(struct buffer *bytes, const char *text)
{
    return buffer_add(bytes, text, strlen(text));
}

void buffer_drop(struct buffer *bytes, size_t count)
{
    memmove(bytes->at, bytes->at + count, bytes->count - count + 1);     /* and the zero */
    bytes->count -= count;
}

void buffer_free(struct buffer *bytes)
{
    memory_give(bytes->at);
    *bytes = (struct buffer){0};
}
