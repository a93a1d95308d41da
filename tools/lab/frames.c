/* SPDX-License-Identifier: MIT */
/*
 * What: the client's side of the protocol, as far as the lab uses it: HELLO and PROGRAM_END go out
 * as frames, and all answers are frames. Only CALL takes another way (clients.c).
 * Invariants: each send of the server is whole frames (world.c takes all of them at once). What a
 * program does goes through one socket, and so belongs to one trust domain.
 */
#include <inttypes.h>
#include <stdio.h>

#include "config/base/assert.h"
#include "net/wire.h"
#include "tools/lab/lab.h"

void lab_frames_hello(struct lab *lab)
{
    const struct wire_hello hello = {.version_min = WIRE_VERSION, .version_max = WIRE_VERSION,
                                     .name = "agentix-lab"};
    for (uint32_t i = 0; i < lab->sockets.count; i++) {
        struct lab_socket *socket = &lab->sockets.sockets[i];
        socket->count = wire_hello_encode(&hello, socket->to_server, LAB_SOCKET_BYTES);
        ASSERT(socket->count > 0);
    }
}

/* If the frame finds no room, the appliance forgets the idle program by itself. */
void lab_frames_program_end(struct lab *lab, uint32_t run)
{
    struct lab_socket *socket = lab_socket_of(lab, run);
    struct wire_program_end end;
    lab_program_id(lab, run, end.program_id);
    socket->count += wire_program_end_encode(&end, socket->to_server + socket->count,
                                             LAB_SOCKET_BYTES - socket->count);
}

static void read_error(struct lab *lab, const uint8_t *bytes, uint32_t count)
{
    struct wire_error error;
    struct wire_fault fault = {0};
    enum status status = wire_error_decode(bytes, count, &error, &fault);
    ASSERT(status == STATUS_OK);
    if (error.fault.frame_type == WIRE_CALL) {
        lab_clients_refused(lab, (uint32_t)error.fault.call_id);
    } else if (lab->settings->flow.batches > 0 && error.fault.frame_type != WIRE_PROGRAM_END) {
        fprintf(stderr, "agentix-lab: frame 0x%02x is refused: %s: field %u is %" PRIu64
                ", %" PRIu64 " .. %" PRIu64 "\n", error.fault.frame_type, error.text,
                error.fault.field, error.fault.found, error.fault.min, error.fault.max);
        lab->sockets.closed = true;
    } else if (error.fault.frame_type != WIRE_PROGRAM_END) {
        fprintf(stderr, "agentix-lab: the appliance refused a frame: %s\n", error.text);
    }
}

static void read_welcome(struct lab *lab, struct lab_socket *socket)
{
    ASSERT(!socket->open);
    socket->open = true;
    lab->sockets.opened++;
}

static void read_frame(struct lab *lab, uint8_t type, const uint8_t *bytes, uint32_t count)
{
    struct wire_fault fault = {0};
    struct wire_done done;
    if (type == WIRE_DONE) {
        enum status status = wire_done_decode(bytes, count, &done, &fault);
        ASSERT(status == STATUS_OK);
        lab_clients_done(lab, &done);
    } else if (type == WIRE_ERROR) {
        read_error(lab, bytes, count);
    } else {
        lab_flow_read(lab, type, bytes, count);
    }
}

void lab_frames_read(struct lab *lab, struct lab_socket *socket, const uint8_t *bytes,
                     uint32_t count)
{
    while (count > 0) {
        struct wire_header header;
        struct wire_fault fault = {0};
        ASSERT(count >= WIRE_HEADER_BYTES);
        enum status status =
            wire_header_decode(bytes, lab->limits.frame_bytes, &header, &fault);
        ASSERT(status == STATUS_OK && count - WIRE_HEADER_BYTES >= header.length_bytes);
        if (header.type == WIRE_WELCOME) {
            read_welcome(lab, socket);
        } else {
            read_frame(lab, header.type, bytes + WIRE_HEADER_BYTES, header.length_bytes);
        }
        bytes += WIRE_HEADER_BYTES + header.length_bytes;
        count -= WIRE_HEADER_BYTES + header.length_bytes;
    }
}
