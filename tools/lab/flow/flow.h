/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: workflows in the lab: clients that open one, send its rows and wait for its end. They
 * speak the protocol, frame by frame; only tokens are made another way, because the lab has no
 * words (tokens.c): a text of a flow file is a token for each byte, s:NAME:N and a cell NAME:N of
 * a row are N tokens that follow from the name.
 *
 * A file of rows is one batch of the workflow of a file. Its rows are dealt to clients, which
 * arrive at a rate. A batch begins when the one before has ended; or all are one phase (--mix):
 * their clients arrive in a drawn order.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/workflow/compose.h"

#define LAB_BATCHES_MAX 8
#define LAB_FLOW_CELL   '\1'        /* what the text of a cell begins with */

struct lab;
struct lab_socket;
struct wire_header;

struct lab_names { const char *words[WORKFLOW_INPUTS_MAX]; uint32_t count; };
struct lab_cell { const char *bytes; uint32_t count; };
struct lab_rows {                   /* a file of rows: TSV with a head */
    char *text;
    uint32_t count, columns;
    struct lab_cell *cells;         /* [count * columns]: in the order of the inputs */
    uint32_t *percent;              /* [count]: column out%, or 100 */
};

struct lab_flow_settings {
    const char *flow_paths[LAB_BATCHES_MAX];    /* of each batch; none: a trace is run */
    const char *rows_paths[LAB_BATCHES_MAX];
    uint32_t batches;
    bool mix;
    uint32_t clients;               /* of a batch */
    double rate;                    /* clients a second; 0: all at once */
};

struct lab_client {                 /* a program with one workflow */
    enum { LAB_CLIENT_AWAY, LAB_CLIENT_OPENING, LAB_CLIENT_OPEN, LAB_CLIENT_CLOSING,
           LAB_CLIENT_DONE } state;
    uint32_t batch, phase, rows_first, rows_count;
    uint32_t sent, done, window;    /* rows; how many may be open */
    uint64_t arrival_us, done_us;
    uint64_t calls, shared, fetched, digest;
};

struct lab_flow_batch {             /* what came of it */
    uint64_t begin_us, end_us;
    uint64_t calls, shared, fetched, failed_rows, digest;
    uint64_t prompt_tokens, cached_tokens, generated_tokens, rounds, row_rounds;
    double positions;               /* KV positions read in all rounds */
    double clients_s;               /* from arrival to FLOW_DONE, of all clients */
    uint32_t clients_done;
};

struct lab_flow_call { uint32_t generation, key, length; };  /* of a call slot: its answer */

struct lab_flow {
    const struct lab_flow_settings *settings;
    struct lab_flow_open {          /* frame FLOW_OPEN; each client has its own ids in it */
        uint8_t *bytes;
        uint32_t count;
        uint32_t given, pruned, merged, left;   /* as FLOW_OK says */
    } opens[LAB_BATCHES_MAX];
    struct lab_rows rows[LAB_BATCHES_MAX];
    struct lab_flow_batch batches[LAB_BATCHES_MAX];
    struct lab_client *clients;     /* [clients_count]: of all batches, in the order of arrival */
    uint32_t clients_count, next;   /* the next to arrive */
    uint32_t phase;
    struct lab_flow_call *calls;    /* [limits.calls] */
    uint32_t vocab_tokens, eos_id;
    struct workflow_encoder encoder;
};

/* rows.c: 0, or an exit code after a message. `inputs` in their order. */
int lab_rows_load(struct lab_rows *rows, const char *path, const struct lab_names *inputs);
void lab_rows_free(struct lab_rows *rows);

/* tokens.c */
uint32_t lab_flow_encode(void *self, const struct workflow_literal *literal, uint32_t *tokens,
                         uint32_t max);
/* How many tokens the workflow's call in this slot still samples, the one that ends it included. */
uint32_t lab_flow_left(struct lab *lab, uint32_t slot, uint32_t known);
/* Its token at `index`, after lab_flow_left(). */
uint32_t lab_flow_token(const struct lab *lab, uint32_t slot, uint32_t index);

/* clients.c: 0, or an exit code after a message. */
int lab_flow_init(struct lab *lab);
void lab_flow_free(struct lab *lab);
/* When the next client arrives; UINT64_MAX: no one does, or all depend on an end. */
uint64_t lab_flow_next_us(const struct lab *lab);
/* Clients that are due arrive; rows are sent as far as they may. */
void lab_flow_act(struct lab *lab);
void lab_flow_read(struct lab *lab, uint8_t type, const uint8_t *bytes, uint32_t count);
bool lab_flow_is_over(const struct lab *lab);
/* The row of a step has been answered: its call has ended with it, or goes on. */
void lab_flow_answered(struct lab *lab, uint32_t slot, uint32_t produced);
/* The step's share in the figures of the batch; of the first one, where they are mixed. */
void lab_flow_add(struct lab *lab, uint32_t rounds, uint64_t row_rounds, double positions);

/* report.c */
int lab_flow_report(const struct lab *lab, const char *json_path);
