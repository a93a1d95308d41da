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
uint64_t memory_allowance_bytes(void);
/* How often memory_take() has refused: what was built in between may lack parts. */
uint64_t memory_refusals(void);
/* From the allowance; NULL: it is used up. */
void *memory_take(size_t bytes);
void memory_give(void *memory);
/* Until memory_close(), what is taken is not refused: for code that does not survive a refusal.
 * False: the allowance has no room for `bytes`, which is all that such code may take. */
bool memory_open(uint64_t bytes);
void memory_close(void);

/* Adds all of it, or nothing: false, the allowance is used up. */
bool buffer_add(struct buffer *bytes, const void *more, size_t count);
bool buffer_add_text(struct buffer *bytes, const char *text);
/* Takes the first `count` away. */
void buffer_drop(struct buffer *bytes, size_t count);
void buffer_free(struct buffer *bytes);
