/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a fault as an ERROR frame, with a text and a time to try again. Only net/ includes this. */
#include "net/wire.h"

/* The bytes of the frame; it always fits WIRE_REPLY_BYTES_MAX. */
uint32_t net_refusal_encode(const struct wire_fault *fault, bool closes, uint8_t *bytes,
                            uint32_t max);
