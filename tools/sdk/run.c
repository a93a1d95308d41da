/* SPDX-License-Identifier: MIT */
#include "tools/sdk/session.h"

#include <string.h>

#include "net/utf8.h"

/*
 * What: runs of workflows in a session: requests to frames, and frames to events.
 *
 * Invariants: a run is in agx->flows from FLOW_OPEN until its FLOW_DONE, its refusal or a break. A
 * row is open from ROW until its ROW_DONE. Values of a row come in the order of outputs, their
 * tokens one after the other. The digest of ROW_DONE is that of what came, unless the row ended
 * early; that of FLOW_DONE likewise, unless rows were done before a break.
 * Bounds: no allocation; searches of short lists.
 */

enum run_state { RUN_NONE, RUN_SENT, RUN_OPEN };

static struct agx_flow_run *find_run(const struct agx *agx, uint64_t flow_id)
{
    struct agx_flow_run *run = agx->flows;
    while (run != NULL && run->flow_id != flow_id) {
        run = run->next;
    }
    return run;
}

static bool is_known(const struct agx *agx, const struct agx_flow_run *run)
{
    return find_run(agx, run->flow_id) == run;
}

static void drop_run(struct agx *agx, struct agx_flow_run *run)
{
    struct agx_flow_run **at = &agx->flows;
    while (*at != run) {
        at = &(*at)->next;
    }
    *at = run->next;
    run->state = RUN_NONE;
}

/* The open row of this number, or NULL. */
static struct agx_flow_row *find_row(struct agx_flow_run *run, uint32_t number)
{
    for (uint32_t i = 0; i < AGX_FLOW_ROWS_MAX; i++) {
        if (run->rows[i].is_open && run->rows[i].number == number) {
            return &run->rows[i];
        }
    }
    return NULL;
}

static struct agx_flow_row *free_row(struct agx_flow_run *run)
{
    uint32_t i = 0;
    while (i < AGX_FLOW_ROWS_MAX && run->rows[i].is_open) {
        i++;
    }
    return i < AGX_FLOW_ROWS_MAX ? &run->rows[i] : NULL;
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum agx_result refuse(struct agx *agx, enum wire_type type, const struct wire_fault *fault)
{
    struct wire_fault named = *fault;
    named.frame_type = (uint8_t)type;
    agx_session_fault(agx, &named);
    return AGX_ERROR_ARGUMENT;
}

/* Checks FLOW_OPEN with the appliance's own decoder. */
static enum agx_result judge(struct agx *agx, const uint8_t *frame, uint32_t bytes)
{
    struct wire_header header;
    struct wire_flow_open open;
    struct wire_fault fault;
    bool is_sound = wire_header_decode(frame, agx->welcome.frame_bytes_max, &header, &fault) ==
                        STATUS_OK &&
                    wire_flow_open_decode(frame + WIRE_HEADER_BYTES, bytes - WIRE_HEADER_BYTES,
                                          &open, &fault) == STATUS_OK;
    return is_sound ? AGX_OK : refuse(agx, WIRE_FLOW_OPEN, &fault);
}

enum agx_result agx_session_flow_open(struct agx *agx, struct agx_flow_run *run)
{
    uint32_t room;
    if (run->flow == NULL || run->flow->result != AGX_OK || find_run(agx, run->flow_id) != NULL) {
        return refuse(agx, WIRE_FLOW_OPEN, &(struct wire_fault){.status = STATUS_BAD_FLOW_OPEN,
                                                               .field = WIRE_FIELD_FLOW_ID,
                                                               .found = run->flow_id});
    }
    uint8_t *out = agx_session_output(agx, &room);
    uint32_t bytes = (uint32_t)agx_flow_write(run, out, room);
    enum agx_result result = bytes != 0 ? judge(agx, out, bytes) : AGX_OK;
    result = result == AGX_OK ? agx_session_queue(agx, bytes) : result;
    if (result == AGX_OK) {
        memset(run->rows, 0, sizeof run->rows);
        run->digest = 0;
        run->asked_bytes = run->rows_done = 0;
        run->state = RUN_SENT;
        run->next = agx->flows;
        agx->flows = run;
    }
    return result;
}

/* The columns as a list, where they will lie in the frame, so the encoder copies them onto
 * themselves. 0: they do not fit. */
static uint32_t encode_row(const struct agx_flow_run *run, uint32_t row,
                           const struct agx_text *columns, uint32_t count, struct bytes *out)
{
    struct wire_flow_row frame = {.flow_id = run->flow_id, .row = row, .columns_count = count};
    uint32_t fixed = WIRE_HEADER_BYTES + (uint32_t)sizeof(struct wire_bytes_flow_row);
    if (out->count < fixed) {
        return 0;
    }
    struct bytes list = bytes_writer(out->target + fixed, out->count - fixed);
    for (uint32_t i = 0; i < count; i++) {
        if (columns[i].count >= WIRE_IS_TEXT) {
            return 0;
        }
        const struct wire_flow_text column = {columns[i].bytes, (uint32_t)columns[i].count, false};
        wire_flow_column_put(&list, &column);
    }
    frame.columns = list.target;
    frame.columns_bytes = list.at;
    return list.failed ? 0 : wire_flow_row_encode(&frame, out->target, out->count);
}

enum agx_result agx_session_flow_row(struct agx *agx, struct agx_flow_run *run, uint32_t row,
                                     const struct agx_text *columns, uint32_t count)
{
    struct agx_flow_row *slot = free_row(run);
    uint32_t room;
    if (!is_known(agx, run) || find_row(run, row) != NULL) {
        return refuse(agx, WIRE_ROW, &(struct wire_fault){.status = STATUS_BAD_FIELD,
                                                         .field = WIRE_FIELD_ROW, .found = row});
    }
    for (uint32_t i = 0; i < count; i++) {
        if (columns[i].count > UINT32_MAX ||
            !utf8_is_valid(columns[i].bytes, (uint32_t)columns[i].count)) {
            return refuse(agx, WIRE_ROW, &(struct wire_fault){.status = STATUS_BAD_TEXT,
                                                             .field = WIRE_FIELD_COLUMNS,
                                                             .found = i});
        }
    }
    uint8_t *target = agx_session_output(agx, &room);
    struct bytes out = bytes_writer(target, room);
    if (slot == NULL) {
        return AGX_ERROR_SPACE;
    }
    enum agx_result result = agx_session_queue(agx, encode_row(run, row, columns, count, &out));
    if (result == AGX_OK) {
        *slot = (struct agx_flow_row){.number = row, .digest = WIRE_DIGEST_START, .is_open = 1};
    }
    return result;
}

enum agx_result agx_session_flow_answer(struct agx *agx, struct agx_flow_run *run,
                                        const struct agx_flow_answer *answer)
{
    struct wire_flow_answer frame = {
        .flow_id = run->flow_id, .row = answer->row, .node = answer->node,
        .failed = answer->failed != 0,
        .text = (const uint8_t *)(answer->failed ? "" : answer->text.bytes),
        .text_bytes = answer->failed ? 0 : (uint32_t)answer->text.count};
    uint32_t room;
    if (!is_known(agx, run) || answer->text.count > UINT32_MAX ||
        !utf8_is_valid((const char *)frame.text, frame.text_bytes)) {
        return refuse(agx, WIRE_ANSWER, &(struct wire_fault){.status = STATUS_BAD_TEXT,
                                                            .field = WIRE_FIELD_NODE,
                                                            .found = answer->node});
    }
    uint8_t *out = agx_session_output(agx, &room);
    return agx_session_queue(agx, wire_flow_answer_encode(&frame, out, room));
}

enum agx_result agx_session_flow_end(struct agx *agx, struct agx_flow_run *run, int cancel)
{
    enum wire_type type = cancel ? WIRE_FLOW_CANCEL : WIRE_FLOW_CLOSE;
    struct wire_flow_end end = {.flow_id = run->flow_id};
    uint32_t room;
    if (!is_known(agx, run)) {
        return refuse(agx, type, &(struct wire_fault){.status = STATUS_BAD_FLOW_UNKNOWN,
                                                     .field = WIRE_FIELD_FLOW_ID,
                                                     .found = run->flow_id});
    }
    uint8_t *out = agx_session_output(agx, &room);
    return agx_session_queue(agx, wire_flow_end_encode(&end, type, out, room));
}

/* ---- events ---------------------------------------------------------------------------------- */

void agx_session_flow_refused(struct agx *agx, const struct wire_fault *fault)
{
    struct agx_flow_run *run = find_run(agx, fault->call_id);
    if (run == NULL) {
        return;
    }
    struct agx_flow_row *row = find_row(run, (uint32_t)fault->found);
    if (fault->frame_type == WIRE_FLOW_OPEN && run->state == RUN_SENT) {
        drop_run(agx, run);
    } else if (fault->frame_type == WIRE_ROW && row != NULL &&
               (fault->status == STATUS_BUSY_ROWS || fault->field == WIRE_FIELD_ROW)) {
        row->is_open = 0;
    }
}

/* The run that a frame is of, as an event of this kind; NULL: there is none. */
static struct agx_flow_event *begin(struct agx *agx, uint64_t flow_id,
                                    enum agx_flow_event_kind kind, struct agx_event *event)
{
    struct agx_flow_run *run = find_run(agx, flow_id);
    if (run == NULL || (run->state == RUN_OPEN) == (kind == AGX_FLOW_OPENED)) {
        return NULL;
    }
    run->event = (struct agx_flow_event){.kind = kind, .run = run};
    event->kind = AGX_FLOW;
    event->call_id = flow_id;
    event->flow = &run->event;
    return &run->event;
}

static enum agx_result take_ok(struct agx *agx, const struct agx_frame *frame,
                               struct agx_event *event)
{
    struct wire_flow_ok ok;
    struct wire_fault fault;
    if (wire_flow_ok_decode(frame->payload, frame->header.length_bytes, &ok, &fault) != STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    struct agx_flow_event *news = begin(agx, ok.flow_id, AGX_FLOW_OPENED, event);
    if (news == NULL) {
        return AGX_ERROR_UNKNOWN_CALL;
    }
    news->run->state = RUN_OPEN;
    news->given = ok.given;
    news->pruned = ok.pruned;
    news->merged = ok.merged;
    news->left = ok.left;
    news->rows = ok.rows;
    news->is_resumed = (ok.flags & WIRE_FLOW_OK_RESUMED) != 0;
    return AGX_OK;
}

/* The tokens are the next ones of the row. */
static enum agx_result follow(struct agx_flow_row *row, const struct wire_flow_value *value,
                              const struct agx *agx)
{
    if (value->output != row->output) {
        row->tokens = 0;
    }
    if (value->output < row->output || value->first_index != row->tokens) {
        return AGX_ERROR_INDEX;
    }
    row->output = value->output;
    row->tokens += value->tokens_count;
    row->digest = wire_digest(row->digest, agx->tokens, value->tokens_count);
    return AGX_OK;
}

static enum agx_result take_value(struct agx *agx, const struct agx_frame *frame,
                                  struct agx_event *event)
{
    struct wire_flow_value value;
    struct wire_fault fault;
    if (wire_flow_value_decode(frame->payload, frame->header.length_bytes, &value, &fault) !=
            STATUS_OK ||
        !agx_session_tokens(agx, value.tokens, value.tokens_count) ||
        !utf8_is_valid((const char *)value.text, value.text_bytes)) {
        return AGX_ERROR_PROTOCOL;
    }
    struct agx_flow_event *news = begin(agx, value.flow_id, AGX_FLOW_VALUE, event);
    struct agx_flow_row *row = news != NULL ? find_row(news->run, value.row) : NULL;
    if (row == NULL || value.output >= news->run->flow->outputs_count) {
        return AGX_ERROR_UNKNOWN_CALL;
    }
    enum agx_result result = follow(row, &value, agx);
    news->row = value.row;
    news->output = value.output;
    news->tokens = agx->tokens;
    news->tokens_count = value.tokens_count;
    news->first_index = value.first_index;
    news->text = (struct agx_text){(const char *)value.text, value.text_bytes};
    news->is_last = (value.flags & WIRE_VALUE_LAST) != 0;
    return result;
}

static enum agx_result take_ask(struct agx *agx, const struct agx_frame *frame,
                                struct agx_event *event)
{
    struct wire_flow_ask ask;
    struct wire_fault fault;
    if (wire_flow_ask_decode(frame->payload, frame->header.length_bytes, &ask, &fault) !=
        STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    struct agx_flow_event *news = begin(agx, ask.flow_id, AGX_FLOW_ASK, event);
    if (news == NULL || find_row(news->run, ask.row) == NULL ||
        ask.node >= news->run->flow->nodes_count ||
        news->run->flow->kinds[ask.node] != AGX_NODE_LAMBDA) {
        return AGX_ERROR_UNKNOWN_CALL;
    }
    if (ask.first_byte != news->run->asked_bytes) {
        return AGX_ERROR_INDEX;
    }
    news->row = ask.row;
    news->node = ask.node;
    news->text = (struct agx_text){(const char *)ask.text, ask.text_bytes};
    news->is_last = (ask.flags & WIRE_ASK_LAST) != 0;
    news->run->asked_bytes = news->is_last ? 0 : ask.first_byte + ask.text_bytes;
    return AGX_OK;
}

static enum agx_result take_row_done(struct agx *agx, const struct agx_frame *frame,
                                     struct agx_event *event)
{
    struct wire_flow_row_done done;
    struct wire_fault fault;
    if (wire_flow_row_done_decode(frame->payload, frame->header.length_bytes, &done, &fault) !=
        STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    struct agx_flow_event *news = begin(agx, done.flow_id, AGX_FLOW_ROW_DONE, event);
    struct agx_flow_row *row = news != NULL ? find_row(news->run, done.row) : NULL;
    if (row == NULL) {
        return AGX_ERROR_UNKNOWN_CALL;
    }
    if (done.status == STATUS_OK && row->digest != done.digest) {
        return AGX_ERROR_DIGEST;
    }
    row->is_open = 0;
    news->run->rows_done++;
    news->run->digest += wire_row_digest(done.row, done.digest);
    news->row = done.row;
    news->code = status_wire(done.status);
    news->calls = done.calls;
    news->shared = done.shared;
    news->fetched = done.fetched;
    return AGX_OK;
}

static enum agx_result take_flow_done(struct agx *agx, const struct agx_frame *frame,
                                      struct agx_event *event)
{
    struct wire_flow_done done;
    struct wire_fault fault;
    if (wire_flow_done_decode(frame->payload, frame->header.length_bytes, &done, &fault) !=
        STATUS_OK) {
        return AGX_ERROR_PROTOCOL;
    }
    struct agx_flow_event *news = begin(agx, done.flow_id, AGX_FLOW_DONE, event);
    if (news == NULL) {
        return AGX_ERROR_UNKNOWN_CALL;
    }
    if (done.rows == news->run->rows_done && done.digest != news->run->digest) {
        return AGX_ERROR_DIGEST;
    }
    news->rows = done.rows;
    news->code = status_wire(done.status);
    news->calls = done.calls;
    news->shared = done.shared;
    news->fetched = done.fetched;
    drop_run(agx, news->run);
    return AGX_OK;
}

enum agx_result agx_session_flow(struct agx *agx, const struct agx_frame *frame,
                                 struct agx_event *event)
{
    switch (frame->header.type) {
    case WIRE_FLOW_OK:
        return take_ok(agx, frame, event);
    case WIRE_VALUE:
        return take_value(agx, frame, event);
    case WIRE_ASK:
        return take_ask(agx, frame, event);
    case WIRE_ROW_DONE:
        return take_row_done(agx, frame, event);
    default:
        return take_flow_done(agx, frame, event);
    }
}
