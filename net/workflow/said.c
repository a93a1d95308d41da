/* SPDX-License-Identifier: MIT */
/*
 * What: one value, or one question, as frames: its tokens from pieces that lie in several places,
 * and its text.
 *
 * A frame has tokens that lie together: a literal, a column, the value of one node. The text is
 * valid UTF-8 in each frame: part of a character waits for the next one, and what cannot be a
 * character becomes U+FFFD.
 *
 * Bounds: O(tokens of the frame), and each piece once.
 */
#include "net/workflow/workflow.h"

#include <string.h>

#include "net/text.h"
#include "net/utf8.h"

/* ---- tokens ---------------------------------------------------------------------------------- */

static bool is_composed(const struct workflow *flow, const struct workflow_said *said,
                        uint32_t node)
{
    return said->kind == WORKFLOW_SAYS_ASK || flow->nodes[node].kind == WORKFLOW_TEXT;
}

static struct workflow_run after(struct workflow_run run, uint32_t at)
{
    return at < run.count ? (struct workflow_run){run.tokens + at, run.count - at}
                          : (struct workflow_run){NULL, 0};
}

struct workflow_run net_said_run(const struct workflow *flow, struct workflow_said *said)
{
    uint32_t node = said->kind == WORKFLOW_SAYS_ASK ? said->index : flow->outputs[said->index];
    const struct workflow_node *of = &flow->nodes[node];
    if (!is_composed(flow, said, node)) {
        return after(workflow_known(flow, said->row, node), said->at);
    }
    for (; said->piece < of->pieces_count; said->piece++, said->at = 0) {
        const struct workflow_piece *piece = &flow->pieces[of->pieces_first + said->piece];
        struct workflow_run run = {flow->tokens + piece->tokens.first, piece->tokens.count};
        run = piece->node != WORKFLOW_NONE ? workflow_known(flow, said->row, piece->node) : run;
        if (said->at < run.count) {
            return after(run, said->at);
        }
    }
    return (struct workflow_run){NULL, 0};
}

static bool ends_after(const struct workflow *flow, const struct workflow_said *said,
                       uint32_t tokens)
{
    struct workflow_said next = *said;
    next.at += tokens;
    return net_said_run(flow, &next).count == 0;
}

static bool pieces_are_known(const struct workflow *flow, uint32_t row, uint32_t node)
{
    const struct workflow_node *of = &flow->nodes[node];
    bool is_known = true;
    for (uint32_t i = 0; is_known && i < of->pieces_count; i++) {
        uint32_t operand = flow->pieces[of->pieces_first + i].node;
        is_known = operand == WORKFLOW_NONE || flow->nodes[operand].kind == WORKFLOW_INPUT ||
                   workflow_instance(flow, row, flow->nodes[operand].same_as)->state ==
                       WORKFLOW_KNOWN;
    }
    return is_known;
}

bool net_said_is_known(const struct workflow *flow, uint32_t row, uint32_t node)
{
    const struct workflow_node *of = &flow->nodes[node];
    if (of->kind == WORKFLOW_INPUT) {
        return true;
    }
    if (of->kind != WORKFLOW_TEXT) {
        return workflow_instance(flow, row, of->same_as)->state == WORKFLOW_KNOWN;
    }
    return pieces_are_known(flow, row, node);
}

bool net_said_can_go_on(const struct workflow *flow)
{
    const struct workflow_said *said = &flow->emit.said;
    bool has_begun = net_flow_has_begun(flow, said->row);
    if (said->kind == WORKFLOW_SAYS_ASK) {
        return has_begun && pieces_are_known(flow, said->row, said->index);
    }
    return said->kind == WORKFLOW_SAYS_NOTHING ||
           (has_begun && net_said_is_known(flow, said->row, flow->outputs[said->index]));
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Adds the text of a token; what may be part of a character is held. */
static void add_text(struct net *net, struct workflow_said *said, uint32_t token, uint32_t *bytes)
{
    char raw[sizeof said->held + NET_TOKEN_TEXT_BYTES_MAX];
    memcpy(raw, said->held, said->held_bytes);
    uint32_t count = said->held_bytes + vocab_decode(net->vocab, token, false,
                                                     raw + said->held_bytes,
                                                     NET_TOKEN_TEXT_BYTES_MAX);
    uint32_t used = net_text_characters(raw, count, net->text, bytes);
    said->held_bytes = count - used;
    ASSERT(said->held_bytes <= sizeof said->held);
    memcpy(said->held, raw + used, said->held_bytes);
}

static void end_text(struct net *net, struct workflow_said *said, uint32_t *bytes)
{
    if (said->held_bytes > 0) {
        memcpy(net->text + *bytes, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
        *bytes += UTF8_REPLACEMENT_BYTES;
        said->held_bytes = 0;
    }
}

/* The most bytes that a token, and the end after it, can add. */
static uint32_t text_bytes_max(const struct net *net, const struct workflow_said *said)
{
    return UTF8_REPLACEMENT_BYTES * (said->held_bytes + net->vocab->info.token_bytes_max + 1);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* What goes into one frame. */
struct part {
    uint32_t room;
    bool has_text;
    struct workflow_run run;
    uint32_t count;                 /* of its tokens */
    uint32_t text_bytes;            /* in net->text */
    bool is_last;
};

/* As many tokens of the run as fit, and their text. False where not even one does. */
static bool gather(struct net *net, struct workflow *flow, struct part *part)
{
    struct workflow_said *said = &flow->emit.said;
    uint32_t token_bytes = said->kind == WORKFLOW_SAYS_VALUE ? (uint32_t)sizeof(uint32_t) : 0;
    part->run = net_said_run(flow, said);
    while (part->count < part->run.count) {
        uint64_t more = token_bytes * (part->count + 1ull) + part->text_bytes +
                        (part->has_text ? text_bytes_max(net, said) : 0);
        if (more > part->room) {
            break;
        }
        if (part->has_text) {
            add_text(net, said, part->run.tokens[part->count], &part->text_bytes);
        }
        part->count++;
    }
    if (part->count == 0 && part->run.count > 0) {
        return false;
    }
    part->is_last = ends_after(flow, said, part->count);
    if (part->is_last && part->has_text) {
        end_text(net, said, &part->text_bytes);
    }
    return true;
}

static uint32_t value_frame(struct net *net, const struct workflow *flow, const struct part *part,
                            uint8_t *bytes, uint32_t room)
{
    const struct workflow_said *said = &flow->emit.said;
    const struct wire_flow_value frame = {
        .flow_id = flow->flow_id, .row = flow->rows[said->row].number, .output = said->index,
        .first_index = said->token, .tokens_count = part->count, .text_bytes = part->text_bytes,
        .flags = part->is_last ? WIRE_VALUE_LAST : 0, .text = (const uint8_t *)net->text};
    return wire_flow_value_encode(&frame, part->run.tokens, bytes, room);
}

static uint32_t ask_frame(struct net *net, const struct workflow *flow, const struct part *part,
                          uint8_t *bytes, uint32_t room)
{
    const struct workflow_said *said = &flow->emit.said;
    const struct wire_flow_ask frame = {
        .flow_id = flow->flow_id, .row = flow->rows[said->row].number, .node = said->index,
        .first_byte = said->bytes, .text_bytes = part->text_bytes,
        .flags = part->is_last ? WIRE_ASK_LAST : 0, .text = (const uint8_t *)net->text};
    return wire_flow_ask_encode(&frame, bytes, room);
}

uint32_t net_said_frame(struct net *net, struct workflow *flow, uint8_t *bytes, uint32_t room)
{
    struct workflow_said *said = &flow->emit.said;
    bool is_ask = said->kind == WORKFLOW_SAYS_ASK;
    uint32_t fixed = WIRE_HEADER_BYTES + (is_ask ? WIRE_ASK_BYTES_MIN : WIRE_VALUE_BYTES_MIN);
    uint32_t largest = WIRE_HEADER_BYTES + net->settings.limits->frame_bytes;
    room = room < largest ? room : largest;
    if (room < fixed + UTF8_REPLACEMENT_BYTES) {
        return 0;
    }
    struct part part = {.room = room - fixed, .has_text = is_ask || flow->want_text};
    if (!gather(net, flow, &part)) {
        return 0;
    }
    uint32_t count = is_ask ? ask_frame(net, flow, &part, bytes, room)
                            : value_frame(net, flow, &part, bytes, room);
    ASSERT(count > 0 && count <= room);
    struct workflow_row *row = &flow->rows[said->row];
    row->digest = is_ask ? row->digest : wire_digest(row->digest, part.run.tokens, part.count);
    said->token += part.count;
    said->at += part.count;
    said->bytes += part.text_bytes;
    said->kind = part.is_last ? WORKFLOW_SAYS_NOTHING : said->kind;
    return count;
}
