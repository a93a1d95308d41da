/* SPDX-License-Identifier: MIT */
/*
 * What: clients that do not use the SDK, and the frames of all that do not: those of workflows
 * (flow/clients.c), too.
 *
 * Hostile ones send frames that are right but for a few bytes (with a checksum that is right, or
 * not), other protocols, and noise. They ask for everything, cancel the calls of others, end their
 * programs, and may read nothing. What they receive must still be whole, well-formed frames, until
 * the connection ends.
 *
 * Operators are clients of the text port. They send every command, in lines and in HTTP, and
 * commands that do not exist; some hang up in the middle. What they receive is printable. They take
 * nothing from other clients, so no other client is excused for them.
 */
#include <string.h>

#include "selftest/sim/sim.h"

#define FRAME_BYTES_MAX 1024        /* what they send at once */
#define MUTATIONS_MAX   4
#define READ_BYTES      4096

struct raw {                        /* lies in the client's session buffer */
    uint32_t out_bytes, in_bytes;
    uint8_t out[4 * FRAME_BYTES_MAX];
    uint8_t in[AGX_BUFFER_BYTES_MIN / 2];
};
STATIC_ASSERT(sizeof(struct raw) <= AGX_BUFFER_BYTES_MIN, "it fits where a session would");
STATIC_ASSERT(SIM_FLOW_FRAME_BYTES <= FRAME_BYTES_MAX, "so does the frame of a workflow");

static struct raw *raw_of(uint32_t client)
{
    return (struct raw *)(void *)sim_session_buffer(client);
}

/* ---- frames ---------------------------------------------------------------------------------- */

void sim_raw_begin(uint32_t client)
{
    raw_of(client)->out_bytes = raw_of(client)->in_bytes = 0;
}

void sim_raw_greet(uint32_t client)
{
    struct raw *raw = raw_of(client);
    struct wire_hello hello = {.version_min = 1, .version_max = 1, .name = "friend"};
    raw->out_bytes = wire_hello_encode(&hello, raw->out, sizeof raw->out);
}

uint8_t *sim_raw_room(uint32_t client)
{
    struct raw *raw = raw_of(client);
    bool fits = raw->out_bytes + FRAME_BYTES_MAX <= sizeof raw->out;
    return fits ? raw->out + raw->out_bytes : NULL;
}

void sim_raw_made(uint32_t client, uint32_t bytes)
{
    raw_of(client)->out_bytes += bytes;
}

uint32_t sim_raw_unsent(uint32_t client)
{
    return raw_of(client)->out_bytes;
}

void sim_raw_send(struct sim *sim, uint32_t client, uint32_t max)
{
    struct raw *raw = raw_of(client);
    uint32_t count = raw->out_bytes < max ? raw->out_bytes : max;
    uint32_t sent = sim_send(sim, sim->clients[client].peer, raw->out, count);
    raw->out_bytes -= sent;
    memmove(raw->out, raw->out + sent, raw->out_bytes);
    sim->clients[client].moved += sent;
}

uint32_t sim_raw_receive(struct sim *sim, uint32_t client)
{
    struct raw *raw = raw_of(client);
    uint32_t count = sim_receive(sim, sim->clients[client].peer, raw->in + raw->in_bytes,
                                 (uint32_t)sizeof raw->in - raw->in_bytes);
    raw->in_bytes += count;
    sim->clients[client].moved += count;
    return count;
}

const uint8_t *sim_raw_frame(struct sim *sim, uint32_t client, struct wire_header *header)
{
    const struct raw *raw = raw_of(client);
    struct wire_fault fault;
    if (raw->in_bytes < WIRE_HEADER_BYTES) {
        return NULL;
    }
    enum status status = wire_header_decode(raw->in, sim->limits.frame_bytes, header, &fault);
    SIM_REQUIRE(sim, status == STATUS_OK && header->type >= WIRE_WELCOME, INVARIANT_ANSWER,
                "client %u hears what is no frame", client);
    if (raw->in_bytes - WIRE_HEADER_BYTES < header->length_bytes) {
        return NULL;
    }
    uint32_t sum = wire_checksum(raw->in, raw->in + WIRE_HEADER_BYTES, header->length_bytes);
    SIM_REQUIRE(sim, sum == header->checksum, INVARIANT_ANSWER,
                "client %u hears a wrong checksum", client);
    return raw->in + WIRE_HEADER_BYTES;
}

void sim_raw_drop(uint32_t client, const struct wire_header *header)
{
    struct raw *raw = raw_of(client);
    uint32_t count = WIRE_HEADER_BYTES + header->length_bytes;
    raw->in_bytes -= count;
    memmove(raw->in, raw->in + count, raw->in_bytes);
}

/* ---- what hostile clients send --------------------------------------------------------------- */

static void draw_id(struct sim *sim, uint8_t *id)
{
    sim_program_id(sim_choose(sim, SIM_PROGRAMS_MAX), id);
}

/* The id of an open call, or a small one, which may be none. */
static uint64_t draw_call_id(struct sim *sim)
{
    const struct sim_call *call = &sim->calls[sim_choose(sim, SIM_CALLS_MAX)];
    return sim_choose(sim, 2) == 0 ? sim_choose(sim, 8) : call->call_id;
}

static uint32_t make_call(struct sim *sim, uint8_t *bytes)
{
    uint8_t prompt[256];
    struct wire_call call = {
        .call_id = draw_call_id(sim), .max_tokens = 1 + sim_choose(sim, 300),
        .flags = sim_choose(sim, WIRE_CALL_FLAGS_ALL + 1),
        .sampling = {.top_p = 1, .repeat_penalty = 1, .stop_ids_count = sim_choose(sim, 3),
                     .frequency_penalty = sim_choose(sim, 2), .biases_count = sim_choose(sim, 3)},
        .deadline_us = sim_choose(sim, 2) * sim_time(sim, SIM_SECOND_US),
        .prompt_count = sim_choose(sim, sizeof prompt / 4), .prompt = prompt};
    draw_id(sim, call.program_id);
    for (uint32_t i = 0; i < sizeof prompt; i++) {
        bool is_text = (call.flags & WIRE_CALL_TEXT_PROMPT) != 0;
        bool is_low = i % 4 == 0;
        prompt[i] = is_text ? 'a' : is_low ? (uint8_t)sim_choose(sim, 8) : 0;
    }
    return wire_call_encode(&call, bytes, FRAME_BYTES_MAX);
}

/* The id of a workflow that a client has open, or a small one. */
static uint64_t draw_flow_id(struct sim *sim)
{
    const struct sim_flow *flow = &sim->flows[sim_choose(sim, SIM_FLOWS_MAX)];
    return sim_choose(sim, 4) == 3 ? flow->flow_id : sim_choose(sim, 3);
}

static uint32_t make_row(struct sim *sim, uint64_t flow_id, uint8_t *bytes)
{
    struct sim_flow flow = {.flow_id = flow_id, .rows_number = sim_choose(sim, 4)};
    struct sim_flow_row row;
    flow.graph.inputs_count = sim_choose(sim, 4);
    sim_row_draw(sim, &flow, &row);
    return sim_row_frame(&flow, &row, flow.graph.inputs_count, bytes, FRAME_BYTES_MAX);
}

static uint32_t make_flow_frame(struct sim *sim, uint8_t *bytes)
{
    struct sim_graph graph;
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    struct wire_flow_end end = {.flow_id = draw_flow_id(sim)};
    struct wire_flow_answer answer = {
        .flow_id = end.flow_id, .row = sim_choose(sim, 4), .node = sim_choose(sim, SIM_FLOW_NODES),
        .failed = sim_choose(sim, 8) == 7, .text = (const uint8_t *)"abcabc"};
    answer.text_bytes = answer.failed != 0 ? 0 : sim_choose(sim, 6);
    switch (sim_choose(sim, 8)) {
    case 0:
        return wire_flow_end_encode(&end, WIRE_FLOW_CLOSE, bytes, FRAME_BYTES_MAX);
    case 1:
        return wire_flow_end_encode(&end, WIRE_FLOW_CANCEL, bytes, FRAME_BYTES_MAX);
    case 2:
        return wire_flow_answer_encode(&answer, bytes, FRAME_BYTES_MAX);
    case 3:
    case 4:
        draw_id(sim, program_id);
        sim_graph_draw(sim, &graph);
        return sim_graph_frame(&graph, end.flow_id, program_id, bytes, FRAME_BYTES_MAX);
    default:
        return make_row(sim, end.flow_id, bytes);
    }
}

static uint32_t make_frame(struct sim *sim, uint8_t *bytes)
{
    struct wire_hello hello = {.version_min = 1, .version_max = 1, .name = "hostile"};
    struct wire_cancel cancel = {.call_id = draw_call_id(sim)};
    struct wire_program_start start = {.class_name = ""};
    struct wire_program_end end;
    draw_id(sim, cancel.program_id);
    draw_id(sim, start.program_id);
    memcpy(end.program_id, start.program_id, sizeof end.program_id);
    switch (sim_choose(sim, 12)) {
    case 0:
        return wire_ping_encode(&(struct wire_ping){7}, WIRE_PING, bytes, FRAME_BYTES_MAX);
    case 1:
        return wire_hello_encode(&hello, bytes, FRAME_BYTES_MAX);
    case 2:
        memset(start.class_name, 'a' + (char)sim_choose(sim, 26),
               sim_choose(sim, CALL_CLASS_BYTES + 1));
        return wire_program_start_encode(&start, bytes, FRAME_BYTES_MAX);
    case 3:
        return wire_program_end_encode(&end, bytes, FRAME_BYTES_MAX);
    case 4:
        return wire_cancel_encode(&cancel, bytes, FRAME_BYTES_MAX);
    case 8:
    case 9:
    case 10:
    case 11:
        return make_flow_frame(sim, bytes);
    default:
        return make_call(sim, bytes);
    }
}

static void seal(uint8_t *frame, uint32_t count)
{
    uint32_t sum = wire_checksum(frame, frame + WIRE_HEADER_BYTES, count - WIRE_HEADER_BYTES);
    for (uint32_t i = 0; i < 4; i++) {
        frame[12 + i] = (uint8_t)(sum >> (8 * i));
    }
}

static uint32_t make_mutant(struct sim *sim, uint8_t *bytes)
{
    uint32_t count = make_frame(sim, bytes);
    for (uint32_t i = sim_choose(sim, MUTATIONS_MAX); i > 0; i--) {
        bytes[sim_choose(sim, count)] ^= (uint8_t)(1u << sim_choose(sim, 8));
    }
    if (sim_choose(sim, 4) < 3) {
        seal(bytes, count);
    }
    return sim_choose(sim, 16) == 15 ? sim_between(sim, 1, count) : count;
}

static uint32_t make_noise(struct sim *sim, uint8_t *bytes)
{
    static const char *const others[] = {
        "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02", "SSH-2.0-x\r\n", "AGX1\x01",
        "AGX1\x05\1\1\1\xff\xff\xff\xff"};
    const char *other = others[sim_choose(sim, 5)];
    uint32_t count = (uint32_t)strlen(other);
    memcpy(bytes, other, count);
    return count;
}

void sim_hostile_act(struct sim *sim, uint32_t client)
{
    uint8_t *at = sim_raw_room(client);
    while (at != NULL) {
        sim_raw_made(client, sim_choose(sim, 64) == 63 ? make_noise(sim, at)
                                                       : make_mutant(sim, at));
        at = sim_choose(sim, 4) == 0 ? NULL : sim_raw_room(client);
    }
    sim_raw_send(sim, client, UINT32_MAX);
}

/* What they hear must be whole, well-formed frames. */
void sim_hostile_read(struct sim *sim, uint32_t client)
{
    struct wire_header header;
    (void)sim_raw_receive(sim, client);
    while (sim_raw_frame(sim, client, &header) != NULL) {
        sim_raw_drop(client, &header);
    }
}

/* ---- operators ------------------------------------------------------------------------------- */

static const char *const lines[] = {
    "health\n", "stats\r\n", "programs\n", "classes\n", "calls\n", "config\n", "help\n", "events\n",
    "events 3\n", "events 99999999999999999999\n", "quit\n", "nonsense\n", "\n",
    "\xff\xfb\x01stats\n",
    "GET /health HTTP/1.0\r\n\r\n", "GET /stats HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\n",
    "sta",
};
enum { LINES = sizeof lines / sizeof lines[0] };

void sim_operator_act(struct sim *sim, uint32_t client)
{
    const char *line = lines[sim_choose(sim, LINES)];
    uint32_t sent = sim_send(sim, sim->clients[client].peer, line, (uint32_t)strlen(line));
    sim->clients[client].moved += sent;
}

void sim_operator_read(struct sim *sim, uint32_t client)
{
    char page[READ_BYTES];
    uint32_t count = sim_receive(sim, sim->clients[client].peer, page, sizeof page);
    sim->clients[client].moved += count;
    for (uint32_t i = 0; i < count; i++) {
        bool ends_line = page[i] == '\n' || page[i] == '\r';
        SIM_REQUIRE(sim, ends_line || (page[i] >= ' ' && page[i] <= '~'), INVARIANT_ANSWER,
                    "the text port says byte %u", (uint8_t)page[i]);
    }
}
