/* SPDX-License-Identifier: MIT */
/*
 * What: the bytes of one connection into frames, frames into replies and commands.
 *
 *   bytes --receive--> received[] --cut--> frame --handler--> reply, command, or refusal
 *                          (the header of a load balancer comes before: net/auth/proxy.c)
 *
 * There are two kinds of refusal. A fault of framing (length, type, reserved bytes, checksum,
 * version) means that the two sides disagree about the bytes: one ERROR, then the close. A fault of
 * a well-formed frame costs that frame alone. Bytes that are not this protocol get no answer.
 *
 * Back-pressure: a whole frame stays in its place (`pending`) while its reply might not fit the
 * send buffer, the inbox is short, or the connection has had its share of the pass. While a frame
 * is pending nothing is received. The time of a frame runs only while the appliance waits for the
 * client's bytes.
 *
 * Bounds: one receive, frames_per_pass frames, one move of the rest to the front.
 */
#include "net/intake.h"

#include <string.h>

#include "net/auth/auth.h"
#include "net/auth/proxy.h"
#include "net/auth/refusals.h"
#include "net/cancel.h"
#include "net/kept/progress.h"
#include "net/kept/workflows.h"
#include "net/open_calls.h"
#include "net/workflow/workflow.h"

STATIC_ASSERT(WIRE_SYSTEM_BYTES_MAX == CHAT_SYSTEM_BYTES - 1, "a format's message is sent whole");

/* ---- handlers: one for each frame of a client ------------------------------------------------ */

static void fill_welcome(const struct net *net, struct wire_welcome *welcome)
{
    const struct limits *limits = net->settings.limits;
    *welcome = (struct wire_welcome){
        .version = WIRE_VERSION,
        .frame_bytes_max = limits->frame_bytes,
        .context_tokens_max = limits->context_tokens,
        .vocab_tokens = limits->vocab_tokens,
        .calls_per_connection_max = limits->calls_per_connection,
        .programs_max = limits->programs,
        .bos_id = net->vocab->info.bos_id,
        .eos_id = net->vocab->info.eos_id,
    };
    memcpy(welcome->boot_id, net->settings.boot_id, sizeof welcome->boot_id);
    memcpy(welcome->model, net->settings.model, sizeof welcome->model);
}

/* Admits a client that needs no key; challenges any other. */
static enum status handle_hello(struct net_frame *frame)
{
    struct net *net = frame->net;
    struct net_connection *connection = net_frame_sender(frame);
    struct wire_hello hello;
    struct wire_welcome welcome;
    TRY(wire_hello_decode(frame->payload, frame->payload_bytes, &hello, &frame->fault));
    if (hello.version_min > WIRE_VERSION || hello.version_max < WIRE_VERSION) {
        frame->fault = (struct wire_fault){.field = WIRE_FIELD_VERSION,
                                           .found = hello.version_min,
                                           .min = WIRE_VERSION,
                                           .max = WIRE_VERSION};
        return STATUS_BAD_VERSION;
    }
    memcpy(connection->name, hello.name, sizeof connection->name);
    fill_welcome(net, &welcome);
    if (net_auth_asks(net, connection->peer_kind)) {
        net->world->entropy(net->world->self, connection->nonce, sizeof connection->nonce);
        memcpy(welcome.nonce, connection->nonce, sizeof welcome.nonce);
        welcome.auth = WIRE_AUTH_KEY;
        connection->state = NET_CHALLENGED;
    } else {
        net_connection_admit(net, frame->connection);
    }
    net_frame_reply(frame, wire_welcome_encode(&welcome, net_connection_tail(net, connection),
                                               net_connection_room(net, connection)));
    return STATUS_OK;
}

/* Of a program: the scheduler answers, in order. */
static void send_command(const struct net_frame *frame, struct command *command)
{
    struct net_connection *connection = net_frame_sender(frame);
    command->connection = frame->connection;
    command->connection_generation = connection->generation;
    command->domain = connection->domain;
    exchange_command(frame->net->exchange, command);
    connection->answers_due++;
}

static enum status handle_program_start(struct net_frame *frame)
{
    struct command command = {.kind = COMMAND_PROGRAM_START};
    struct wire_program_start start;
    TRY(wire_program_start_decode(frame->payload, frame->payload_bytes, &start, &frame->fault));
    if (frame->net->draining) {
        return STATUS_BUSY_DRAINING;
    }
    memcpy(command.program_id, start.program_id, sizeof command.program_id);
    memcpy(command.class_name, start.class_name, sizeof command.class_name);
    send_command(frame, &command);
    return STATUS_OK;
}

static enum status handle_program_end(struct net_frame *frame)
{
    struct command command = {.kind = COMMAND_PROGRAM_END};
    struct wire_program_end end;
    TRY(wire_program_end_decode(frame->payload, frame->payload_bytes, &end, &frame->fault));
    memcpy(command.program_id, end.program_id, sizeof command.program_id);
    send_command(frame, &command);
    return STATUS_OK;
}

/* Only a call of the same connection: a foreign call is as unknown as one that never was. */
static enum status handle_cancel(struct net_frame *frame)
{
    struct net *net = frame->net;
    struct wire_cancel cancel;
    TRY(wire_cancel_decode(frame->payload, frame->payload_bytes, &cancel, &frame->fault));
    uint32_t call = net_open_find(net, net_frame_sender(frame)->domain, cancel.program_id,
                                  cancel.call_id);
    if (call == CALL_NONE || net->calls->calls[call].connection != frame->connection) {
        frame->fault = (struct wire_fault){.field = WIRE_FIELD_CALL_ID,
                                           .call_id = cancel.call_id,
                                           .found = cancel.call_id};
        return STATUS_BAD_CALL_UNKNOWN;
    }
    net_cancel(net, call);
    if (net->calls->calls[call].state != CALL_FINISHED) {
        net_progress_note(net, &net->calls->calls[call], NULL);
    }
    return STATUS_OK;
}

static enum status handle_ping(struct net_frame *frame)
{
    struct net_connection *connection = net_frame_sender(frame);
    struct wire_ping ping;
    TRY(wire_ping_decode(frame->payload, frame->payload_bytes, &ping, &frame->fault));
    net_frame_reply(frame, wire_ping_encode(&ping, WIRE_PONG,
                                            net_connection_tail(frame->net, connection),
                                            net_connection_room(frame->net, connection)));
    return STATUS_OK;
}

/* The text of a token; empty where it does not fit. */
static void fill_token(const struct net *net, uint32_t token, char *text, uint32_t text_bytes)
{
    uint32_t bytes = 0;
    const char *own = vocab_token_text(net->vocab, token, &bytes);
    if (own != NULL && bytes < text_bytes && memchr(own, '\0', bytes) == NULL) {
        memcpy(text, own, bytes);
    }
}

static void fill_chat(const struct net *net, const struct wire_chat_ask *ask,
                      struct wire_chat *chat)
{
    const struct net_chat *own = &net->settings.chat;
    const char *name = chat_format_name(own->format.id);
    *chat = (struct wire_chat){.nonce = ask->nonce, .verdict = own->verdict,
                               .template_bytes = own->template_bytes,
                               .system_bytes = (uint32_t)strlen(own->format.system)};
    ASSERT(strlen(name) < sizeof chat->format && chat->system_bytes <= WIRE_SYSTEM_BYTES_MAX);
    memcpy(chat->format, name, strlen(name));
    chat->first = ask->first < chat->system_bytes ? ask->first : chat->system_bytes;
    uint32_t left = chat->system_bytes - chat->first;
    memcpy(chat->system, own->format.system + chat->first,
           left < sizeof chat->system ? left : sizeof chat->system);
    if (net->vocab->info.kind != VOCAB_NONE) {
        fill_token(net, net->vocab->info.bos_id, chat->bos, sizeof chat->bos);
        fill_token(net, net->vocab->info.eos_id, chat->eos, sizeof chat->eos);
    }
}

/* The model's chat format. */
static enum status handle_chat_ask(struct net_frame *frame)
{
    struct net_connection *connection = net_frame_sender(frame);
    struct wire_chat_ask ask;
    struct wire_chat chat;
    TRY(wire_chat_ask_decode(frame->payload, frame->payload_bytes, &ask, &frame->fault));
    fill_chat(frame->net, &ask, &chat);
    net_frame_reply(frame, wire_chat_encode(&chat, net_connection_tail(frame->net, connection),
                                            net_connection_room(frame->net, connection)));
    return STATUS_OK;
}

/* Which model this is, for clients that have read a model file themselves. */
static enum status handle_model_ask(struct net_frame *frame)
{
    struct net_connection *connection = net_frame_sender(frame);
    struct wire_model_ask ask;
    TRY(wire_model_ask_decode(frame->payload, frame->payload_bytes, &ask, &frame->fault));
    const struct wire_model model = {.nonce = ask.nonce, .vocab = frame->net->vocab_digest,
                                     .chat = frame->net->chat_digest};
    net_frame_reply(frame, wire_model_encode(&model, net_connection_tail(frame->net, connection),
                                             net_connection_room(frame->net, connection)));
    return STATUS_OK;
}

/* The frames that a client may send, and in which state; any other type is a fault of framing. */
static const struct handler_row {
    uint8_t type;
    enum net_state state;
    enum status (*handle)(struct net_frame *frame);
} handlers[] = {
    {WIRE_HELLO, NET_GREETING, handle_hello},
    {WIRE_AUTH, NET_CHALLENGED, net_auth_intake},
    {WIRE_PROGRAM_START, NET_OPEN, handle_program_start},
    {WIRE_PROGRAM_END, NET_OPEN, handle_program_end},
    {WIRE_CALL, NET_OPEN, net_call_intake},
    {WIRE_CANCEL, NET_OPEN, handle_cancel},
    {WIRE_PING, NET_OPEN, handle_ping},
    {WIRE_CHAT_ASK, NET_OPEN, handle_chat_ask},
    {WIRE_MODEL_ASK, NET_OPEN, handle_model_ask},
    {WIRE_FLOW_OPEN, NET_OPEN, net_flow_open_intake},
    {WIRE_ROW, NET_OPEN, net_flow_row_intake},
    {WIRE_ANSWER, NET_OPEN, net_flow_answer_intake},
    {WIRE_FLOW_CLOSE, NET_OPEN, net_flow_end_intake},
    {WIRE_FLOW_CANCEL, NET_OPEN, net_flow_end_intake},
};

static const struct handler_row *handler_find(uint8_t type)
{
    for (uint32_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++) {
        if (handlers[i].type == type) {
            return &handlers[i];
        }
    }
    return NULL;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static bool fault_is_of_framing(enum status status)
{
    return status == STATUS_BAD_VERSION || status == STATUS_BAD_FRAME_TYPE ||
           status == STATUS_BAD_FRAME_LENGTH || status == STATUS_BAD_FRAME_CHECKSUM ||
           status == STATUS_BAD_RESERVED;
}

static void refuse(struct net_frame *frame, enum status status)
{
    struct net *net = frame->net;
    frame->fault.status = status;
    frame->fault.frame_type = frame->type;
    if (frame->type == WIRE_CALL) {
        net->stats->calls_refused++;
    }
    if (fault_is_of_framing(status) || net_frame_sender(frame)->state != NET_OPEN) {
        net_connection_fail(net, frame->connection, &frame->fault, frame->now_us);
        return;
    }
    net_connection_error(net, net_frame_sender(frame), &frame->fault, false, frame->now_us);
}

static void act(struct net_frame *frame)
{
    const struct handler_row *row = handler_find(frame->type);
    ASSERT(row != NULL);
    enum status status = STATUS_BAD_FRAME_ORDER;
    if (row->state == net_frame_sender(frame)->state) {
        status = row->handle(frame);
    } else {
        frame->fault.field = WIRE_FIELD_TYPE;
        frame->fault.found = frame->type;
    }
    frame->net->stats->frames_received++;
    if (status != STATUS_OK) {
        refuse(frame, status);
    }
}

enum cut { CUT_FRAME, CUT_PARTIAL, CUT_FOREIGN, CUT_FAULT };

/* The most bytes that may wait for us. Until the client is admitted, nothing beyond the header or
 * the frame that is due is received. */
static uint32_t received_bytes_max(const struct net *net, const struct net_connection *connection)
{
    switch (connection->state) {
    case NET_PROXIED:
        return net_proxy_due_bytes(connection);
    case NET_GREETING:
        return WIRE_HEADER_BYTES + WIRE_HELLO_BYTES;
    case NET_CHALLENGED:
        return WIRE_HEADER_BYTES + WIRE_AUTH_BYTES;
    default:
        return WIRE_HEADER_BYTES + net->settings.limits->frame_bytes;
    }
}

/* The reason, from the header alone, not to wait for the rest of this frame. */
static enum status admit_header(struct net_frame *frame, const uint8_t *bytes,
                                struct wire_header *header)
{
    const struct net_connection *connection = net_frame_sender(frame);
    TRY(wire_header_decode(bytes, frame->net->settings.limits->frame_bytes, header,
                           &frame->fault));
    const struct handler_row *row = handler_find(header->type);
    bool is_due = row != NULL && (row->state == connection->state || connection->state == NET_OPEN);
    frame->fault = (struct wire_fault){.field = WIRE_FIELD_TYPE, .found = header->type};
    if (row == NULL) {
        return STATUS_BAD_FRAME_TYPE;
    }
    return is_due ? STATUS_OK : STATUS_BAD_FRAME_ORDER;
}

/* Looks at the bytes from `at` on and changes nothing. */
static enum cut cut_frame(struct net_frame *frame, uint32_t at)
{
    const struct net_connection *connection = net_frame_sender(frame);
    static const uint8_t magic[4] = {'A', 'G', 'X', '1'};
    const uint8_t *bytes = connection->received + at;
    uint32_t count = connection->received_bytes - at;
    struct wire_header header;
    if (memcmp(bytes, magic, count < sizeof magic ? count : sizeof magic) != 0) {
        return CUT_FOREIGN;
    }
    if (count < WIRE_HEADER_BYTES) {
        return CUT_PARTIAL;
    }
    frame->type = bytes[4];
    enum status status = admit_header(frame, bytes, &header);
    if (status != STATUS_OK) {
        frame->fault.status = status;
        frame->fault.frame_type = frame->type;
        return CUT_FAULT;
    }
    frame->payload = bytes + WIRE_HEADER_BYTES;
    frame->payload_bytes = header.length_bytes;
    return count - WIRE_HEADER_BYTES < header.length_bytes ? CUT_PARTIAL : CUT_FRAME;
}

static bool checksum_holds(struct net_frame *frame)
{
    const uint8_t *head = frame->payload - WIRE_HEADER_BYTES;
    uint32_t wanted = wire_checksum(head, frame->payload, frame->payload_bytes);
    uint32_t found = (uint32_t)head[12] | (uint32_t)head[13] << 8 | (uint32_t)head[14] << 16 |
                     (uint32_t)head[15] << 24;
    frame->fault = (struct wire_fault){.field = WIRE_FIELD_CHECKSUM, .found = found,
                                       .min = wanted, .max = wanted};
    return found == wanted;
}

bool net_intake_may_act(const struct net *net, const struct net_connection *connection)
{
    const struct ring *inbox = &net->exchange->inbox_ring;
    return net_connection_may_reply(net, connection) && !net_kept_flows_wait(net, connection) &&
           inbox->capacity - ring_count(inbox) >
               net->calls->count + net->settings.limits->workflow.workflows;
}

/* What the bytes are that are no frame, for the log: most often the client means another port. */
static const char *foreign_name(const uint8_t *bytes, uint32_t count)
{
    static const char *const http[] = {"GET ", "POST", "PUT ", "HEAD", "OPTI", "DELE", "PRI "};
    for (uint32_t i = 0; i < sizeof http / sizeof http[0]; i++) {
        if (count >= 4 && memcmp(bytes, http[i], 4) == 0) {
            return "its bytes are HTTP, which is the door's (agentix-door)";
        }
    }
    bool is_tls = count >= 2 && bytes[0] == 0x16 && bytes[1] == 0x03;   /* a ClientHello */
    return is_tls ? "its bytes are TLS, which a proxy before this port has to end"
                  : "its bytes are not this protocol";
}

static void drop_foreign(const struct net_frame *frame, uint32_t at)
{
    const struct net_connection *connection = net_frame_sender(frame);
    const char *why = foreign_name(connection->received + at, connection->received_bytes - at);
    frame->net->stats->connections_dropped++;
    net_refusal_note_drop(frame->net, connection, why, frame->now_us);
    net_connection_close(frame->net, frame->connection);
}

/* Acts on one whole frame; false when the connection is at its end. */
static bool take_frame(struct net_frame *frame)
{
    if (!checksum_holds(frame)) {
        refuse(frame, STATUS_BAD_FRAME_CHECKSUM);
    } else {
        frame->fault = (struct wire_fault){0};
        act(frame);
    }
    return net_connection_reads(net_frame_sender(frame));
}

/* The rest moves to the front once the pass has been committed; the time of a partial frame is
 * kept. */
static void keep_rest(struct net_connection *connection, uint32_t used, bool progressed,
                      uint64_t now_us)
{
    net_connection_used(connection, used);
    if (connection->received_bytes == 0 || connection->pending) {
        connection->frame_started_us = 0;
    } else if (progressed || connection->frame_started_us == 0) {
        connection->frame_started_us = now_us;
    }
    if (progressed) {
        connection->active_us = now_us;
    }
}

static void take_frames(struct net *net, uint32_t index, uint64_t now_us)
{
    struct net_connection *connection = &net->connections[index];
    uint32_t used = 0, frames = 0;
    ASSERT(connection->received_first == 0);
    connection->pending = false;
    while (used < connection->received_bytes) {
        struct net_frame frame = {.net = net, .connection = index, .now_us = now_us};
        enum cut cut = cut_frame(&frame, used);
        if (cut == CUT_FOREIGN) {
            drop_foreign(&frame, used);
            return;
        }
        if (cut == CUT_FAULT) {
            net_connection_fail(net, index, &frame.fault, now_us);
            return;
        }
        if (cut == CUT_PARTIAL) {
            break;
        }
        if (frames == net->settings.limits->frames_per_pass ||
            !net_intake_may_act(net, connection)) {
            connection->pending = true;
            break;
        }
        frames++;
        used += WIRE_HEADER_BYTES + frame.payload_bytes;
        if (!take_frame(&frame)) {
            return;
        }
    }
    keep_rest(connection, used, frames > 0, now_us);
}

/* One receive; false when the connection is gone. */
static bool receive(struct net *net, uint32_t index)
{
    struct net_connection *connection = &net->connections[index];
    uint32_t capacity = received_bytes_max(net, connection);
    uint32_t room = capacity - connection->received_bytes;
    uint32_t share = net->settings.limits->bytes_per_pass;
    uint32_t max = room < share ? room : share;
    ASSERT(connection->received_bytes < capacity);
    struct net_transfer *taken = &net->kept.of[index].taken;
    net_transfer_ask(taken);
    int64_t count = net->world->recv(net->world->self, connection->handle,
                                     connection->received + connection->received_bytes, max);
    net_transfer_count(taken, count);
    if (count > 0) {
        ASSERT(count <= (int64_t)max);
        connection->received_bytes += (uint32_t)count;
        net->stats->bytes_received += (uint64_t)count;
        return true;
    }
    if (count == WORLD_EAGAIN && !connection->hangup) {
        return true;
    }
    net_connection_close(net, index);
    return false;
}

void net_intake(struct net *net, uint32_t index, uint64_t now_us)
{
    struct net_connection *connection = &net->connections[index];
    bool reads = net_connection_reads(connection);
    ASSERT(connection->state != NET_CLOSED);
    /* The peer is dead and would not be read now: nothing that it sent can matter any more. */
    if (connection->hangup && !(reads && net_connection_may_reply(net, connection))) {
        net_connection_close(net, index);
        return;
    }
    net_span_to_front(&net->kept.of[index].received, connection->received,
                      &connection->received_first, connection->received_bytes);
    bool wants = connection->readable || connection->hangup;
    if (!net_connection_may_reply(net, connection)) {
        /* The client waits for the appliance: the time of its partial frame restarts. */
        connection->frame_started_us = connection->frame_started_us != 0 ? now_us : 0;
    } else if (reads && wants && !connection->pending && !receive(net, index)) {
        return;
    }
    connection->readable = connection->hangup = false;
    net_kept_act(net, index);
    if (connection->state == NET_PROXIED) {
        net_proxy_take(net, index, now_us);
    } else if (reads && connection->received_bytes > 0) {
        take_frames(net, index, now_us);
    }
    net_kept_acted(net, index);
}
