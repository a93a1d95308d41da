# SPDX-License-Identifier: MIT
"""Frames of protocol version 1: made from net/frames.def, config/base/finish.def and
config/base/status.def by `make docs`; do not edit."""

# Types.
HELLO = 0x01
AUTH = 0x02
PROGRAM_START = 0x03
PROGRAM_END = 0x04
CALL = 0x05
CANCEL = 0x06
PING = 0x07
CHAT_ASK = 0x08
FLOW_OPEN = 0x09
ROW = 0x0a
ANSWER = 0x0b
FLOW_CLOSE = 0x0c
FLOW_CANCEL = 0x0d
MODEL_ASK = 0x0e
WELCOME = 0x81
AUTH_REPLY = 0x82
PROGRAM_OK = 0x83
MODEL = 0x84
ACCEPT = 0x85
TOKENS = 0x86
DONE = 0x87
PONG = 0x88
CHAT = 0x89
FLOW_OK = 0x8a
VALUE = 0x8b
ASK = 0x8c
ROW_DONE = 0x8d
FLOW_DONE = 0x8e
ERROR = 0x8f

# Flags.
TEXT_PROMPT = 1
WANT_TEXT = 2
IGNORE_EOS = 4
ADD_BOS = 8
PARSE_SPECIAL = 16
MORE = 32
WANT_CONTROL = 64
WANT_DRAFTS = 128
KEEP = 1
STREAM = 2
FLOW_OPEN_WANT_TEXT = 4
FLOW_NODE_IGNORE_EOS = 1
REPLAYED = 1
RESUMED = 1
LAST = 1
ASK_LAST = 1

# Ends of a call.
LENGTH = 1
EOS = 2
STOP_ID = 3
STOP_TEXT = 4
CANCELLED = 5
DEADLINE = 6
FAILED = 7

# Fields of the payload, or of its fixed part, in the letters of struct.
LAYOUTS = {
    HELLO: {
        "version_min": "H",
        "version_max": "H",
        "name": "64s",
    },
    AUTH: {
        "key_id": "32s",
        "client_nonce": "32s",
        "mac": "32s",
    },
    PROGRAM_START: {
        "program_id": "16s",
    },
    PROGRAM_END: {
        "program_id": "16s",
    },
    CALL: {
        "call_id": "Q",
        "program_id": "16s",
        "thread": "I",
        "flags": "I",
        "max_tokens": "I",
        "temperature": "f",
        "top_k": "I",
        "top_p": "f",
        "min_p": "f",
        "repeat_penalty": "f",
        "seed": "Q",
        "deadline": "Q",
        "prompt_count": "I",
        "stop_ids": "B",
        "stop_texts": "B",
        "parts": "H",
    },
    CANCEL: {
        "call_id": "Q",
        "program_id": "16s",
    },
    PING: {
        "nonce": "Q",
    },
    CHAT_ASK: {
        "nonce": "Q",
        "first": "I",
    },
    FLOW_OPEN: {
        "flow_id": "Q",
        "program_id": "16s",
        "flags": "I",
        "nodes": "H",
        "operands": "H",
        "outputs": "H",
        "texts": "H",
    },
    ROW: {
        "flow_id": "Q",
        "row": "I",
        "columns": "I",
    },
    ANSWER: {
        "flow_id": "Q",
        "row": "I",
        "node": "I",
        "failed": "I",
    },
    FLOW_CLOSE: {
        "flow_id": "Q",
    },
    FLOW_CANCEL: {
        "flow_id": "Q",
    },
    MODEL_ASK: {
        "nonce": "Q",
    },
    WELCOME: {
        "version": "H",
        "auth": "H",
        "boot_id": "16s",
        "frame_bytes_max": "I",
        "context_tokens_max": "I",
        "vocab_tokens": "I",
        "calls_per_connection_max": "I",
        "programs_max": "I",
        "bos_id": "I",
        "eos_id": "I",
        "model": "64s",
        "server_nonce": "32s",
    },
    AUTH_REPLY: {
        "mac": "32s",
    },
    PROGRAM_OK: {
        "program_id": "16s",
        "kind": "I",
        "calls": "I",
        "service_us": "Q",
        "wait_us": "Q",
    },
    MODEL: {
        "nonce": "Q",
        "vocab": "Q",
        "chat": "Q",
    },
    ACCEPT: {
        "call_id": "Q",
        "prompt_tokens": "I",
        "flags": "I",
    },
    TOKENS: {
        "call_id": "Q",
        "first_index": "I",
        "tokens_count": "I",
        "text_bytes": "I",
        "queue": "I",
    },
    DONE: {
        "call_id": "Q",
        "finish": "I",
        "status": "H",
        "queue": "H",
        "prompt_tokens": "I",
        "cached_tokens": "I",
        "generated_tokens": "I",
        "preemptions": "I",
        "wait_us": "Q",
        "service_us": "Q",
        "total_us": "Q",
        "digest": "Q",
    },
    PONG: {
        "nonce": "Q",
    },
    CHAT: {
        "nonce": "Q",
        "verdict": "I",
        "template_bytes": "I",
        "format": "24s",
        "bos": "40s",
        "eos": "40s",
        "system_bytes": "I",
        "first": "I",
        "system": "112s",
    },
    FLOW_OK: {
        "flow_id": "Q",
        "given": "I",
        "pruned": "I",
        "merged": "I",
        "left": "I",
        "rows": "I",
        "flags": "I",
    },
    VALUE: {
        "flow_id": "Q",
        "row": "I",
        "output": "I",
        "first_index": "I",
        "tokens_count": "I",
        "text_bytes": "I",
        "flags": "I",
    },
    ASK: {
        "flow_id": "Q",
        "row": "I",
        "node": "I",
        "first_byte": "I",
        "text_bytes": "I",
        "flags": "I",
    },
    ROW_DONE: {
        "flow_id": "Q",
        "row": "I",
        "status": "H",
        "reserved": "2s",
        "calls": "I",
        "shared": "I",
        "fetched": "I",
        "reserved_2": "4s",
        "digest": "Q",
    },
    FLOW_DONE: {
        "flow_id": "Q",
        "status": "H",
        "reserved": "2s",
        "rows": "I",
        "calls": "Q",
        "shared": "Q",
        "fetched": "Q",
        "digest": "Q",
    },
    ERROR: {
        "status": "H",
        "field": "B",
        "frame_type": "B",
        "closes": "B",
        "reserved": "1s",
        "retry_ms": "H",
        "call_id": "Q",
        "found": "Q",
        "min": "Q",
        "max": "Q",
        "text": "96s",
    },
}

# Fixed parts of what a tail repeats.
PARTS = {
    "call_more": {
        "presence_penalty": "f",
        "frequency_penalty": "f",
        "logit_bias": "B",
        "logprobs": "B",
        "top_logprobs": "B",
        "reserved": "1s",
    },
    "call_bias": {
        "token": "I",
        "bias": "f",
    },
    "flow_node": {
        "kind": "B",
        "stop_ids": "B",
        "stop_texts": "B",
        "flags": "B",
        "operands": "I",
        "max_tokens": "I",
        "est": "I",
        "temperature": "f",
        "top_k": "I",
        "top_p": "f",
        "min_p": "f",
        "repeat_penalty": "f",
        "seed": "Q",
    },
    "token_logprob": {
        "token": "I",
        "logprob": "f",
    },
    "done_drafts": {
        "draft_tokens": "I",
        "draft_tokens_agreed": "I",
    },
}

# Name and text of each status that is sent.
STATUSES = {
    1: ("BUSY_CALLS", "no free call slot"),
    2: ("BUSY_PROGRAMS", "no free program slot: every program has open calls"),
    3: ("BUSY_CONNECTIONS", "no free connection slot"),
    4: ("BUSY_CALLS_OF_CONN", "too many open calls on this connection"),
    5: ("BUSY_DRAINING", "the appliance is draining"),
    6: ("BUSY_PREAUTH", "too many connections that are not admitted yet"),
    7: ("BUSY_CALLS_OF_PROG", "too many open calls of this program"),
    8: ("BUSY_CALLS_OF_KEY", "too many open calls of this key"),
    9: ("BUSY_CALL_OPEN", "a call with this id is open on another connection"),
    10: ("BUSY_WORKFLOWS", "no free workflow slot"),
    11: ("BUSY_ROWS", "too many open rows of this workflow"),
    12: ("BUSY_CONNS_OF_KEY", "too many connections of this key's trust domain"),
    17: ("BAD_VERSION", "protocol version not supported"),
    18: ("BAD_FRAME_TYPE", "unknown frame type"),
    19: ("BAD_FRAME_LENGTH", "frame length does not fit its type"),
    20: ("BAD_FRAME_CHECKSUM", "frame checksum does not match"),
    21: ("BAD_FRAME_ORDER", "frame not allowed now"),
    22: ("BAD_FIELD", "field out of range"),
    23: ("BAD_RESERVED", "reserved field is not zero"),
    24: ("BAD_CALL_OPEN", "a call with this id is already open on this connection"),
    25: ("BAD_CALL_UNKNOWN", "no open call with this id"),
    26: ("BAD_PROGRAM_UNKNOWN", "no such program"),
    27: ("BAD_PROGRAM_ACTIVE", "the program has open calls"),
    28: ("BAD_PROMPT_LENGTH", "prompt and max_tokens do not fit the context"),
    29: ("BAD_TOKEN", "token id outside the vocabulary"),
    30: ("BAD_TEXT", "text is not valid UTF-8"),
    31: ("BAD_AUTH", "not admitted: no proof of a known key, or not an allowed user"),
    32: ("BAD_CALL_REUSED", "a call with this id has ended, and it asked for something else"),
    33: ("BAD_FLOW_OPEN", "a workflow with this id is already open"),
    34: ("BAD_FLOW_UNKNOWN", "no open workflow with this id"),
    35: ("BAD_FLOW_SIZE", "the workflow needs more than the appliance has for one"),
    36: ("BAD_ROW_REUSED", "a row with this number is open, and it has other columns"),
    37: ("BAD_NODE_UNKNOWN", "the workflow did not ask for this"),
    38: ("BAD_LAMBDA", "a lambda of the workflow has no answer"),
    49: ("GONE_DEADLINE", "deadline passed"),
    50: ("GONE_CANCELLED", "cancelled"),
    51: ("GONE_SLOW_READER", "the client did not read in time"),
    52: ("GONE_SHUTDOWN", "the appliance is shutting down"),
    65: ("DEVICE_FAILED", "the engine failed"),
    66: ("DEVICE_NUMERIC", "the engine produced a value that is not finite"),
    67: ("DEVICE_POISON", "the engine died of this call, twice, with no other call in its step"),
}

# What a refusal is about.
ERROR_FIELDS = {
    0: "none",
    1: "magic",
    2: "type",
    3: "length",
    4: "checksum",
    5: "reserved",
    6: "version",
    7: "flags",
    8: "call_id",
    9: "program_id",
    10: "thread",
    11: "max_tokens",
    12: "temperature",
    13: "top_k",
    14: "top_p",
    15: "min_p",
    16: "repeat_penalty",
    17: "seed",
    18: "deadline",
    19: "stop_ids",
    20: "stop_texts",
    21: "prompt",
    22: "kind",
    23: "name",
    24: "connection",
    25: "queue",
    26: "key_id",
    27: "parts",
    28: "class",
    29: "flow_id",
    30: "nodes",
    31: "operands",
    32: "outputs",
    33: "texts",
    34: "row",
    35: "columns",
    36: "est",
    37: "node",
    38: "presence_penalty",
    39: "frequency_penalty",
    40: "logit_bias",
    41: "logprobs",
    42: "top_logprobs",
    43: "bias",
}
