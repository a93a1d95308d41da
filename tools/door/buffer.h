/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the door's memory: texts that grow, and JSON, out of one allowance (door.memory). Whatever
 * clients send, the door takes no more than that; who asks for more gets an answer that says so.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer {                  /* all zero: empty */
    char *at;                   /* [count], and a zero after them */
    size_t count, room;
};

/* The allowance, and jansson's memory out of it. Once, before anything is taken. */
void memory_begin(uint64_t allowance_bytes);
uint64_t memory_taken_bytes(void);
/* From the allowance; NULL: it is used up. */
void *memory_take(size_t bytes);
void memory_give(void *memory);

/* Adds all of it, or nothing: false, the allowance is used up. */
bool buffer_add(struct buffer *bytes, const void *more, size_t count);
bool buffer_add_text(struct buffer *bytes, const char *text);
/* Takes the first `count` away. */
void buffer_drop(struct buffer *bytes, size_t count);
void buffer_free(struct buffer *bytes);
