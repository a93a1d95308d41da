/* SPDX-License-Identifier: MIT */
/*
 * What: clients of workflows: each opens one, sends its rows while so many may be open, closes it,
 * and is done with FLOW_DONE.
 *
 * Invariants: client i has the flow id i + 1 and a program of its own. Clients of a batch arrive
 * after the batch before has ended. What finds no room in the socket is sent later.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "net/wire.h"
#include "tools/flow/flow_file.h"
#include "tools/lab/lab.h"

#define OPEN_BYTES_MAX (8u << 20)
#define ROW_BYTES_MAX  65536u
#define EOS_ID         2u

/* ---- before the first arrival ---------------------------------------------------------------- */

static int out_of_memory(void)
{
    fprintf(stderr, "agentix-lab: out of memory\n");
    return LAB_EXIT_SYSTEM;
}

static int refuse(const char *path, const char *problem)
{
    fprintf(stderr, "agentix-lab: %s: %s\n", path, problem);
    return LAB_EXIT_USAGE;
}

/* The names of the inputs, and the frame that opens the workflow. */
static int take_file(struct lab_flow_open *open, const struct flow_file *file, const char *path,
                     struct lab_names *names)
{
    const struct agx_flow_run run = {.flow = &file->flow};
    for (uint32_t i = 0; i < file->flow.nodes_count; i++) {
        if (file->flow.kinds[i] == AGX_NODE_LAMBDA) {
            return refuse(path, "lambdas are none of the lab's");
        }
        if (file->flow.kinds[i] == AGX_NODE_INPUT) {
            names->words[names->count++] = file->names[i].name;
        }
    }
    open->bytes = malloc(OPEN_BYTES_MAX);
    open->count = open->bytes == NULL
                      ? 0 : (uint32_t)agx_flow_write(&run, open->bytes, OPEN_BYTES_MAX);
    return open->count > 0 ? LAB_EXIT_OK : out_of_memory();
}

static int load(struct lab_flow *flow, uint32_t batch)
{
    static struct flow_file file;
    const struct flow_file_settings synthetic = {.synthetic = FLOW_SYNTHETIC_MARKER};
    const char *path = flow->settings->flow_paths[batch];
    struct lab_names names = {0};
    char fault[FLOW_FAULT_BYTES];
    if (!flow_file_read(&file, path, &synthetic, fault)) {
        fprintf(stderr, "agentix-lab: %s\n", fault);
        return LAB_EXIT_USAGE;
    }
    int code = take_file(&flow->opens[batch], &file, path, &names);
    code = code != LAB_EXIT_OK ? code : lab_rows_load(&flow->rows[batch],
                                                      flow->settings->rows_paths[batch], &names);
    flow_file_free(&file);
    return code;
}

static double draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) / (double)(UINT64_C(1) << 53);
}

/* Deals the rows of a batch. */
static void deal(struct lab_flow *flow, uint32_t batch)
{
    uint32_t rows = flow->rows[batch].count;
    uint32_t clients = flow->settings->clients < rows ? flow->settings->clients : rows;
    for (uint32_t i = 0; i < clients; i++) {
        uint32_t first = (uint32_t)((uint64_t)rows * i / clients);
        uint32_t end = (uint32_t)((uint64_t)rows * (i + 1) / clients);
        flow->clients[flow->clients_count++] = (struct lab_client){
            .batch = batch, .phase = flow->settings->mix ? 0 : batch, .rows_first = first,
            .rows_count = end - first};
    }
}

/* In a drawn order, where batches are mixed. Arrivals count from the beginning of the phase. */
static void let_arrive(struct lab_flow *flow, uint64_t seed)
{
    uint64_t state = seed + 1;
    double at_s = 0;
    for (uint32_t i = flow->settings->mix ? flow->clients_count : 0; i-- > 1;) {
        uint32_t other = (uint32_t)(draw(&state) * (i + 1));
        struct lab_client client = flow->clients[i];
        flow->clients[i] = flow->clients[other];
        flow->clients[other] = client;
    }
    for (uint32_t i = 0; i < flow->clients_count; i++) {
        bool is_first = i == 0 || flow->clients[i].phase != flow->clients[i - 1].phase;
        at_s = is_first ? 0 : at_s;
        flow->clients[i].arrival_us = (uint64_t)(at_s * 1e6);
        at_s += flow->settings->rate > 0 ? -log(draw(&state)) / flow->settings->rate : 0;
    }
}

int lab_flow_init(struct lab *lab)
{
    struct lab_flow *flow = &lab->flow;
    int code = LAB_EXIT_OK;
    flow->settings = &lab->settings->flow;
    for (uint32_t i = 0; i < flow->settings->batches && code == LAB_EXIT_OK; i++) {
        code = load(flow, i);
        flow->batches[i].begin_us = LAB_EPOCH_US;
    }
    if (code != LAB_EXIT_OK) {
        return code;
    }
    flow->clients = calloc((size_t)flow->settings->clients * flow->settings->batches,
                           sizeof *flow->clients);
    flow->calls = calloc(lab->limits.calls, sizeof *flow->calls);
    if (flow->clients == NULL || flow->calls == NULL) {
        return out_of_memory();
    }
    for (uint32_t i = 0; i < flow->settings->batches; i++) {
        deal(flow, i);
    }
    let_arrive(flow, lab->settings->seed);
    flow->vocab_tokens = lab->limits.vocab_tokens;
    flow->eos_id = EOS_ID;
    flow->encoder = (struct workflow_encoder){.encode = lab_flow_encode, .self = flow};
    return LAB_EXIT_OK;
}

void lab_flow_free(struct lab *lab)
{
    for (uint32_t i = 0; i < LAB_BATCHES_MAX; i++) {
        lab_rows_free(&lab->flow.rows[i]);
        free(lab->flow.opens[i].bytes);
    }
    free(lab->flow.clients);
    free(lab->flow.calls);
}

/* ---- what clients send ----------------------------------------------------------------------- */

static struct lab_socket *socket_of(struct lab *lab)
{
    return &lab->sockets.sockets[0];
}

static uint8_t *end_of(struct lab_socket *socket)
{
    return socket->to_server + socket->count;
}

/* True when the frame has found room. */
static bool took(struct lab_socket *socket, uint32_t bytes)
{
    socket->count += bytes;
    return bytes > 0;
}

static bool send_open(struct lab *lab, uint32_t index)
{
    const struct lab_flow_open *made = &lab->flow.opens[lab->flow.clients[index].batch];
    struct lab_socket *socket = socket_of(lab);
    struct wire_flow_open open;
    struct wire_fault fault = {0};
    enum status status = wire_flow_open_decode(made->bytes + WIRE_HEADER_BYTES,
                                               made->count - WIRE_HEADER_BYTES, &open, &fault);
    ASSERT(status == STATUS_OK);
    open.flow_id = index + 1;
    lab_program_id(lab, index, open.program_id);
    return took(socket, wire_flow_open_encode(&open, end_of(socket),
                                              LAB_SOCKET_BYTES - socket->count));
}

/* Cells say that they are no words: tokens.c. */
static bool send_row(struct lab *lab, uint32_t index)
{
    static uint8_t columns[ROW_BYTES_MAX];
    const struct lab_client *client = &lab->flow.clients[index];
    const struct lab_rows *rows = &lab->flow.rows[client->batch];
    struct lab_socket *socket = socket_of(lab);
    struct bytes list = bytes_writer(columns, sizeof columns);
    uint32_t row = client->rows_first + client->sent;
    for (uint32_t i = 0; i < rows->columns; i++) {
        const struct lab_cell *cell = &rows->cells[row * rows->columns + i];
        char text[512] = {LAB_FLOW_CELL};
        ASSERT(cell->count < sizeof text);
        memcpy(text + 1, cell->bytes, cell->count);
        bool put = wire_flow_column_put(&list, &(struct wire_flow_text){text, cell->count + 1,
                                                                       false});
        ASSERT(put);
    }
    const struct wire_flow_row frame = {.flow_id = index + 1, .row = client->sent,
        .columns_count = rows->columns, .columns = columns, .columns_bytes = list.at};
    return took(socket, wire_flow_row_encode(&frame, end_of(socket),
                                             LAB_SOCKET_BYTES - socket->count));
}

static bool send_close(struct lab *lab, uint32_t index)
{
    struct lab_socket *socket = socket_of(lab);
    const struct wire_flow_end end = {.flow_id = index + 1};
    return took(socket, wire_flow_end_encode(&end, WIRE_FLOW_CLOSE, end_of(socket),
                                             LAB_SOCKET_BYTES - socket->count));
}

static void send_program_end(struct lab *lab, uint32_t index)
{
    struct lab_socket *socket = socket_of(lab);
    struct wire_program_end end;
    lab_program_id(lab, index, end.program_id);
    socket->count += wire_program_end_encode(&end, end_of(socket),
                                             LAB_SOCKET_BYTES - socket->count);
}

static void act(struct lab *lab, uint32_t index)
{
    struct lab_client *client = &lab->flow.clients[index];
    while (client->state == LAB_CLIENT_OPEN && client->sent < client->rows_count &&
           client->sent - client->done < client->window && send_row(lab, index)) {
        client->sent++;
    }
    if (client->state == LAB_CLIENT_OPEN && client->sent == client->rows_count &&
        send_close(lab, index)) {
        client->state = LAB_CLIENT_CLOSING;
    }
}

uint64_t lab_flow_next_us(const struct lab *lab)
{
    const struct lab_flow *flow = &lab->flow;
    if (flow->next == flow->clients_count || flow->clients[flow->next].phase != flow->phase) {
        return UINT64_MAX;
    }
    const struct lab_client *client = &flow->clients[flow->next];
    return flow->batches[client->batch].begin_us + client->arrival_us;
}

void lab_flow_act(struct lab *lab)
{
    struct lab_flow *flow = &lab->flow;
    while (lab_flow_next_us(lab) <= lab->now_us && send_open(lab, flow->next)) {
        struct lab_client *client = &flow->clients[flow->next++];
        client->arrival_us += flow->batches[client->batch].begin_us;
        client->state = LAB_CLIENT_OPENING;
    }
    for (uint32_t i = 0; i < flow->next; i++) {
        act(lab, i);
    }
}

static uint32_t phases_of(const struct lab *lab)
{
    return lab->settings->flow.mix ? 1 : lab->settings->flow.batches;
}

bool lab_flow_is_over(const struct lab *lab)
{
    return lab->flow.phase == phases_of(lab);
}

/* ---- what they get --------------------------------------------------------------------------- */

static struct lab_client *client_of(struct lab *lab, uint64_t flow_id)
{
    ASSERT(flow_id > 0 && flow_id <= lab->flow.clients_count);
    return &lab->flow.clients[flow_id - 1];
}

static void read_ok(struct lab *lab, const uint8_t *bytes, uint32_t count)
{
    struct wire_fault fault = {0};
    struct wire_flow_ok ok;
    enum status status = wire_flow_ok_decode(bytes, count, &ok, &fault);
    ASSERT(status == STATUS_OK);
    struct lab_client *client = client_of(lab, ok.flow_id);
    ASSERT(client->state == LAB_CLIENT_OPENING);
    client->state = LAB_CLIENT_OPEN;
    client->window = ok.rows;
    struct lab_flow_open *open = &lab->flow.opens[client->batch];
    open->given = ok.given;
    open->pruned = ok.pruned;
    open->merged = ok.merged;
    open->left = ok.left;
}

static void read_row_done(struct lab *lab, const uint8_t *bytes, uint32_t count)
{
    struct wire_fault fault = {0};
    struct wire_flow_row_done done;
    enum status status = wire_flow_row_done_decode(bytes, count, &done, &fault);
    ASSERT(status == STATUS_OK);
    struct lab_client *client = client_of(lab, done.flow_id);
    client->done++;
    lab->flow.batches[client->batch].failed_rows += done.status != STATUS_OK;
}

/* True when every client of the phase has arrived and is done. */
static bool phase_is_over(const struct lab *lab)
{
    const struct lab_flow *flow = &lab->flow;
    bool is_over = lab_flow_next_us(lab) == UINT64_MAX;
    for (uint32_t i = 0; i < flow->next; i++) {
        is_over = is_over && flow->clients[i].state == LAB_CLIENT_DONE;
    }
    return is_over;
}

static void end_client(struct lab *lab, struct lab_client *client)
{
    struct lab_flow *flow = &lab->flow;
    struct lab_flow_batch *batch = &flow->batches[client->batch];
    client->state = LAB_CLIENT_DONE;
    batch->clients_s += (double)(lab->now_us - client->arrival_us) / 1e6;
    batch->clients_done++;
    batch->end_us = lab->now_us;
    send_program_end(lab, (uint32_t)(client - flow->clients));
    if (phase_is_over(lab)) {
        flow->phase++;
        if (flow->phase < phases_of(lab)) {
            flow->batches[flow->phase].begin_us = lab->now_us;
        }
    }
}

static void read_done(struct lab *lab, const uint8_t *bytes, uint32_t count)
{
    struct wire_fault fault = {0};
    struct wire_flow_done done;
    enum status status = wire_flow_done_decode(bytes, count, &done, &fault);
    ASSERT(status == STATUS_OK);
    struct lab_client *client = client_of(lab, done.flow_id);
    struct lab_flow_batch *batch = &lab->flow.batches[client->batch];
    ASSERT(client->state != LAB_CLIENT_DONE && client->done == client->rows_count);
    batch->calls += done.calls;
    batch->shared += done.shared;
    batch->fetched += done.fetched;
    batch->digest += done.digest;
    end_client(lab, client);
}

void lab_flow_read(struct lab *lab, uint8_t type, const uint8_t *bytes, uint32_t count)
{
    if (type == WIRE_FLOW_OK) {
        read_ok(lab, bytes, count);
    } else if (type == WIRE_ROW_DONE) {
        read_row_done(lab, bytes, count);
    } else if (type == WIRE_FLOW_DONE) {
        read_done(lab, bytes, count);
    }
}

/* ---- figures --------------------------------------------------------------------------------- */

void lab_flow_answered(struct lab *lab, uint32_t slot, uint32_t produced)
{
    const struct call *call = &lab->loop.calls.calls[slot];
    if (produced == 0 || lab_flow_left(lab, slot, call->generated_tokens) > produced) {
        return;
    }
    const struct workflow *flow = &lab->loop.workflows.workflows[call->workflow];
    struct lab_flow_batch *batch = &lab->flow.batches[client_of(lab, flow->flow_id)->batch];
    batch->prompt_tokens += call->prompt_tokens;
    batch->cached_tokens += call->cached_tokens;
    batch->generated_tokens += call->generated_tokens + produced;
}

void lab_flow_add(struct lab *lab, uint32_t rounds, uint64_t row_rounds, double positions)
{
    struct lab_flow_batch *batch = &lab->flow.batches[lab->flow.phase];
    if (!lab_flow_is_over(lab)) {
        batch->rounds += rounds;
        batch->row_rounds += row_rounds;
        batch->positions += positions;
    }
}
