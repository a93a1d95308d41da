/* SPDX-License-Identifier: MIT */
/*
 * What: the frames that the clients of workflows receive, and what may be refused to them.
 *
 * A ROW and the end of its workflow may cross. So a workflow that is over is kept here until there
 * are as many ERRORs as rows without an answer; and an ANSWER or FLOW_CLOSE may come too late.
 */
#include "selftest/sim/sim.h"

#define REQUIRE(condition, ...) SIM_REQUIRE(sim, condition, INVARIANT_WORKFLOW, __VA_ARGS__)

/* ---- ERROR ----------------------------------------------------------------------------------- */

static bool may_refuse_open(const struct sim *sim, const struct sim_flow *flow,
                            const struct wire_fault *fault)
{
    switch (fault->status) {
    case STATUS_BUSY_WORKFLOWS:
    case STATUS_BAD_FLOW_SIZE:
    case STATUS_BAD_PROMPT_LENGTH:      /* the limits of a run are small */
        return true;
    case STATUS_BAD_FIELD:
        return !sim->swarm.has_words && fault->field == WIRE_FIELD_TEXTS;
    case STATUS_BUSY_CALL_OPEN:
        return flow->was_open;
    case STATUS_BUSY_DRAINING:
        return sim->orders.drain;
    default:
        return false;
    }
}

/* One that was open, and is not free yet, is tried again. */
static void take_open_error(struct sim *sim, struct sim_flow *flow, const struct wire_fault *fault)
{
    REQUIRE(flow != NULL && flow->is_asked && !flow->is_open && !flow->is_over,
            "FLOW_OPEN refused, which is not open");
    REQUIRE(may_refuse_open(sim, flow, fault), "workflow %llx is refused: %s, field %s",
            (unsigned long long)flow->flow_id, status_text(fault->status),
            wire_field_name(fault->field));
    sim_say(sim, "client %u: workflow %llx is refused: %s", flow->client,
            (unsigned long long)flow->flow_id, status_text(fault->status));
    flow->is_asked = false;
    flow->retry_us = sim->now_us + SIM_SECOND_US / 10;
    flow->is_over = fault->status != STATUS_BUSY_CALL_OPEN;
    sim_flow_end_if_told(flow);
}

/* An ERROR that names the row: only that copy of it is refused. */
static void refuse_row(struct sim *sim, struct sim_flow *flow, const struct wire_fault *fault)
{
    struct sim_flow_row *row = sim_flow_row_find(flow, (uint32_t)fault->found,
                                                 SIM_ROW_SENT);
    bool is_twice = fault->status == STATUS_BAD_ROW_REUSED;
    if (row == NULL) {
        REQUIRE(flow->bad_rows > 0, "row %llu of workflow %llx is refused, and was not sent",
                (unsigned long long)fault->found, (unsigned long long)flow->flow_id);
        flow->bad_rows--;
        return;
    }
    bool is_late = fault->status == STATUS_BUSY_DRAINING && sim->orders.drain;
    REQUIRE((is_twice && row->copies > 1) || fault->status == STATUS_BUSY_ROWS || is_late,
            "row %u of workflow %llx is refused: %s", row->number,
            (unsigned long long)flow->flow_id, status_text(fault->status));
    row->state = --row->copies > 0 ? SIM_ROW_SENT : SIM_ROW_FREE;
}

/* One that does not name it. */
static bool may_refuse_row(const struct sim *sim, const struct sim_flow *flow,
                           const struct wire_fault *fault)
{
    switch (fault->status) {
    case STATUS_BAD_FIELD:
        return fault->field == WIRE_FIELD_COLUMNS && flow->bad_rows > 0;
    case STATUS_BAD_FLOW_SIZE:
        return true;                    /* the limits of a run are small */
    case STATUS_BAD_FLOW_UNKNOWN:
        return flow->is_over || sim_has_failed(sim) || sim->orders.drain ||
               (flow->is_closed && flow->bad_rows > 0);
    default:
        return false;
    }
}

static void take_row_error(struct sim *sim, struct sim_flow *flow, const struct wire_fault *fault)
{
    REQUIRE(flow != NULL, "a ROW of no workflow is refused");
    sim_say(sim, "client %u: a row of workflow %llx is refused: %s, %llu", flow->client,
            (unsigned long long)flow->flow_id, status_text(fault->status),
            (unsigned long long)fault->found);
    if (fault->field == WIRE_FIELD_ROW) {
        refuse_row(sim, flow, fault);
    } else {
        REQUIRE(may_refuse_row(sim, flow, fault),
                "a row of workflow %llx is refused: %s, field %s",
                (unsigned long long)flow->flow_id, status_text(fault->status),
                wire_field_name(fault->field));
        flow->refused++;
        REQUIRE(flow->refused <= sim_flow_rows_due(flow),
                "workflow %llx: more rows are refused than wait",
                (unsigned long long)flow->flow_id);
    }
    sim_flow_end_if_told(flow);
}

/* An ANSWER that was asked for, and comes in time, is taken. */
static bool may_refuse_answer(const struct sim *sim, const struct sim_flow *flow)
{
    return flow == NULL || !flow->is_open || flow->is_over || flow->is_cancelled ||
           sim_has_failed(sim) || sim->orders.drain || sim_flow_is_late(sim, flow);
}

static void take_answer_error(struct sim *sim, struct sim_client *own, const struct sim_flow *flow)
{
    if (!may_refuse_answer(sim, flow)) {
        REQUIRE(own->odd_answers > 0, "client %u: an ANSWER that was asked for is refused",
                (uint32_t)(own - sim->clients));
        own->odd_answers--;
    }
}

/* ANSWER, FLOW_CLOSE and FLOW_CANCEL cross with the end of what they are about. */
static void take_late_error(struct sim *sim, uint32_t client, const struct wire_fault *fault)
{
    struct sim_client *own = &sim->clients[client];
    bool is_answer = fault->frame_type == WIRE_ANSWER;
    if (is_answer) {
        take_answer_error(sim, own, sim_flow_find(sim, client, fault->call_id));
    }
    REQUIRE(own->strays > 0 && (fault->status == STATUS_BAD_FLOW_UNKNOWN ||
                                (is_answer && fault->status == STATUS_BAD_NODE_UNKNOWN)),
            "%s is refused: %s", wire_type_name(fault->frame_type), status_text(fault->status));
    own->strays--;
}

/* False: the connection is to be given up. */
static bool take_error(struct sim *sim, uint32_t client, const struct wire_error *frame)
{
    const struct wire_fault *fault = &frame->fault;
    const struct sim_client *own = &sim->clients[client];
    struct sim_flow *flow = sim_flow_find(sim, client, fault->call_id);
    if (frame->closes) {
        bool is_busy = own->state == SIM_GREETING && status_class(fault->status) ==
                                                         STATUS_CLASS_BUSY;
        bool is_shut_out = own->is_shut_out && fault->status == STATUS_BAD_AUTH;
        REQUIRE(is_busy || is_shut_out || (own->excused && fault->status == STATUS_GONE_DEADLINE),
                "client %u: %s", client, frame->text);
        return false;
    }
    switch (fault->frame_type) {
    case WIRE_FLOW_OPEN:
        take_open_error(sim, flow, fault);
        break;
    case WIRE_ROW:
        take_row_error(sim, flow, fault);
        break;
    default:
        take_late_error(sim, client, fault);
    }
    return true;
}

/* ---- any frame ------------------------------------------------------------------------------- */

union frame {
    struct wire_welcome welcome;
    struct wire_flow_ok ok;
    struct wire_flow_value value;
    struct wire_flow_ask ask;
    struct wire_flow_row_done row_done;
    struct wire_flow_done done;
    struct wire_error error;
};

static enum status decode(const struct wire_header *header, const uint8_t *payload,
                          union frame *frame)
{
    struct wire_fault fault;
    switch (header->type) {
    case WIRE_WELCOME:
        return wire_welcome_decode(payload, header->length_bytes, &frame->welcome, &fault);
    case WIRE_FLOW_OK:
        return wire_flow_ok_decode(payload, header->length_bytes, &frame->ok, &fault);
    case WIRE_VALUE:
        return wire_flow_value_decode(payload, header->length_bytes, &frame->value, &fault);
    case WIRE_ASK:
        return wire_flow_ask_decode(payload, header->length_bytes, &frame->ask, &fault);
    case WIRE_ROW_DONE:
        return wire_flow_row_done_decode(payload, header->length_bytes, &frame->row_done, &fault);
    case WIRE_FLOW_DONE:
        return wire_flow_done_decode(payload, header->length_bytes, &frame->done, &fault);
    case WIRE_ERROR:
        return wire_error_decode(payload, header->length_bytes, &frame->error, &fault);
    default:
        return STATUS_BAD_FRAME_TYPE;
    }
}

bool sim_flow_take(struct sim *sim, uint32_t client, const struct wire_header *header,
                   const uint8_t *payload)
{
    union frame frame;
    enum status status = decode(header, payload, &frame);
    REQUIRE(status == STATUS_OK, "client %u: frame %u is not well-formed: %u", client,
            header->type, status);
    switch (header->type) {
    case WIRE_WELCOME:
        sim->clients[client].state = SIM_OPEN;
        return true;
    case WIRE_FLOW_OK:
        sim_flow_take_ok(sim, client, &frame.ok);
        return true;
    case WIRE_VALUE:
        sim_flow_take_value(sim, client, &frame.value);
        return true;
    case WIRE_ASK:
        sim_flow_take_ask(sim, client, &frame.ask);
        return true;
    case WIRE_ROW_DONE:
        sim_flow_take_row_done(sim, client, &frame.row_done);
        return true;
    case WIRE_FLOW_DONE:
        sim_flow_take_flow_done(sim, client, &frame.done);
        return true;
    default:
        return take_error(sim, client, &frame.error);
    }
}
