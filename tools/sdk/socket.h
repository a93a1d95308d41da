/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the operating system's half of the SDK: a non-blocking stream socket, and waiting for it.
 * Private to tools/sdk; agx talks to the text port through it too.
 */
#include <stdint.h>

#include "tools/sdk/agx.h"

/* Monotonic milliseconds from now; UINT64_MAX for a negative `timeout_ms`: never. */
uint64_t agx_socket_deadline(int timeout_ms);
/* Waits until the descriptor is ready for `events` of poll(): AGX_OK, also on errors that the next
 * call will show; AGX_AGAIN at the deadline; AGX_ERROR_SYSTEM. */
enum agx_result agx_socket_wait(int descriptor, short events, uint64_t deadline_ms);
/* Sleeps until then. */
void agx_socket_pause(uint64_t until_ms);
/* A connected, non-blocking descriptor; ADDRESS, CONNECT (also at the deadline) or SYSTEM; the
 * cause of these two is in errno. */
enum agx_result agx_socket_connect(const char *address, uint64_t deadline_ms, int *descriptor);
/* Makes a descriptor from elsewhere non-blocking. */
enum agx_result agx_socket_adopt(int descriptor);
/* Random bytes, few enough to come at once. */
enum agx_result agx_socket_entropy(uint8_t *bytes, uint32_t count);
/* One system call each; AGX_OK: `moved` bytes, at least one. AGX_ERROR_CLOSED: the peer is gone. */
enum agx_result agx_socket_receive(int descriptor, uint8_t *bytes, uint32_t max, uint32_t *moved);
enum agx_result agx_socket_send(int descriptor, const uint8_t *bytes, uint32_t count,
                                uint32_t *moved);
