/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a workflow as a file (format `agentix-flow 1`, docs/workflows.md): read, its indices
 * expanded, and built with the builder of the SDK. Clients, the lab and tests read files with it.
 *
 * State: one struct, from the heap; never after a fault. Bounds: the limits below; a file that goes
 * beyond one is refused with a message, however it is written.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/sdk/flow.h"

#define FLOW_FILE_BYTES_MAX   (1u << 20)    /* of the file */
#define FLOW_TEXT_BYTES_MAX   (16u << 20)   /* of all that its nodes say */
#define FLOW_SETS_MAX         64
#define FLOW_ELEMENTS_MAX     256           /* of a set: a node each */
#define FLOW_INDICES_MAX      8             /* of a name */
#define FLOW_SYNTHETIC_MAX    (1u << 20)    /* tokens of one s:NAME:N */
#define FLOW_VALUE_TOKENS_MAX (1u << 24)    /* `max`: no plan's cost cuts it */
#define FLOW_FAULT_BYTES      256

struct flow_node_name {
    const char *name;                       /* say[1,anna]; zero-terminated */
    const char *base;                       /* say */
    uint32_t line, column;                  /* where the statement defines it */
};

struct flow_file {
    const char *path;                       /* as it was given; it must stay */
    struct agx_flow flow;                   /* what the file says; nodes have their order */
    struct flow_node_name names[AGX_FLOW_NODES_MAX];
    /* private: only tools/flow */
    void *memory;                           /* of the builder */
    char *words;                            /* of the names */
};

/* What s:NAME:N becomes. A marker is one text, with parse_special set, for an encoder that gives
 * tokens itself: flow_encode_bytes(). */
enum flow_synthetic { FLOW_SYNTHETIC_MARKER, FLOW_SYNTHETIC_WORDS };

struct flow_file_settings {
    enum flow_synthetic synthetic;
    /* The length of a value that is known better than the file does; 0: it is not. May be NULL. */
    uint32_t (*est)(void *self, const char *name);
    void *self;
};

/* Reads the text of a file; `path` is for messages. False: `fault` says where, what was found and
 * what was expected, and there is nothing to free. */
struct flow_file_text { const char *path, *text; size_t bytes; };
bool flow_file_parse(struct flow_file *file, const struct flow_file_text *text,
                     const struct flow_file_settings *settings, char fault[FLOW_FAULT_BYTES]);
/* The same of a file. */
bool flow_file_read(struct flow_file *file, const char *path,
                    const struct flow_file_settings *settings, char fault[FLOW_FAULT_BYTES]);
void flow_file_free(struct flow_file *file);
