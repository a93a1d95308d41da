/* SPDX-License-Identifier: MIT */
/*
 * What: the payload of CALL, in both directions.
 *
 * How: net/frames.def has the fixed part and its ranges, also that of the sampling that only a call
 * with MORE brings. What follows is decoded here: stop ids, stop texts, lengths of parts, MORE,
 * prompt, in this order, each after the count that governs it was checked.
 *
 * Invariants and bounds as in net/wire.c: nothing is read beyond `count`; a refusal changes only
 * `fault`; no state, no assertion; time is linear in the frame.
 */
#include "net/wire.h"

#include <string.h>

#include "net/utf8.h"
#include "net/wire_frame.h"

static void move_stop_ids(struct bytes *bytes, struct call_sampling *sampling)
{
    for (uint32_t i = 0; i < sampling->stop_ids_count; i++) {
        bytes_u32(bytes, &sampling->stop_ids[i]);
    }
}

static enum status decode_stop_texts(struct bytes *in, struct wire_call *frame,
                                     struct wire_fault *fault)
{
    for (uint32_t i = 0; i < frame->stop_texts_count; i++) {
        struct call_stop_text *text = &frame->stop_texts[i];
        bytes_u16(in, &text->length_bytes);
        if (in->failed) {
            return wire_check_end(in, fault);
        }
        if (text->length_bytes == 0 || text->length_bytes > CALL_STOP_TEXT_BYTES) {
            return wire_refuse_range(fault, WIRE_FIELD_STOP_TEXTS, text->length_bytes, 1,
                                     CALL_STOP_TEXT_BYTES);
        }
        bytes_block(in, text->bytes, text->length_bytes);
        if (!in->failed && !utf8_is_valid(text->bytes, text->length_bytes)) {
            return wire_refuse(fault, STATUS_BAD_TEXT, WIRE_FIELD_STOP_TEXTS, i);
        }
    }
    return STATUS_OK;
}

/* A text is divided only to say where special tokens are looked for. */
static enum status decode_parts(struct bytes *in, struct wire_call *frame, struct wire_fault *fault)
{
    const uint32_t needed = WIRE_CALL_TEXT_PROMPT | WIRE_CALL_PARSE_SPECIAL;
    uint64_t sum = 0;
    if (frame->parts_count > 0 && (frame->flags & needed) != needed) {
        return wire_refuse_range(fault, WIRE_FIELD_PARTS, frame->parts_count, 0, 0);
    }
    frame->parts = in->source + in->at;
    for (uint32_t i = 0; i < frame->parts_count && !in->failed; i++) {
        uint32_t bytes = 0;
        bytes_u32(in, &bytes);
        sum += bytes;
    }
    if (frame->parts_count > 0 && !in->failed && sum != frame->prompt_count) {
        return wire_refuse_range(fault, WIRE_FIELD_PARTS, sum, frame->prompt_count,
                                 frame->prompt_count);
    }
    return STATUS_OK;
}

/* Ids ascend, so that each is there once. */
static enum status decode_bias(struct bytes *in, struct call_bias *biases, uint32_t i,
                               struct wire_fault *fault)
{
    struct call_bias *bias = &biases[i];
    uint64_t least = i > 0 ? (uint64_t)biases[i - 1].token + 1 : 0;
    wire_layout_move(&wire_call_bias_layout, in, bias);
    TRY(wire_check_fixed(&wire_call_bias_layout, in, bias, fault));
    return bias->token >= least ? STATUS_OK
                                : wire_refuse_range(fault, WIRE_FIELD_LOGIT_BIAS, bias->token,
                                                    least, UINT32_MAX);
}

static enum status decode_more(struct bytes *in, struct wire_call *frame, struct wire_fault *fault)
{
    struct call_sampling *sampling = &frame->sampling;
    if ((frame->flags & WIRE_CALL_MORE) == 0) {
        return STATUS_OK;
    }
    wire_layout_move(&wire_call_more_layout, in, sampling);
    TRY(wire_check_fixed(&wire_call_more_layout, in, sampling, fault));
    if (!sampling->wants_logprobs && sampling->top_logprobs > 0) {
        return wire_refuse_range(fault, WIRE_FIELD_TOP_LOGPROBS, sampling->top_logprobs, 0, 0);
    }
    for (uint32_t i = 0; i < sampling->biases_count; i++) {
        TRY(decode_bias(in, frame->biases, i, fault));
    }
    return STATUS_OK;
}

static enum status decode_prompt(struct bytes *in, struct wire_call *frame,
                                 struct wire_fault *fault)
{
    bool is_text = (frame->flags & WIRE_CALL_TEXT_PROMPT) != 0;
    uint64_t wanted = (uint64_t)frame->prompt_count * (is_text ? 1 : sizeof(uint32_t));
    if (in->failed || wanted != bytes_left(in)) {
        fault->min = fault->max = in->failed ? 0 : in->at + wanted;
        return wire_refuse(fault, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH, in->count);
    }
    /* An empty text is a prompt only if BOS is put before it. */
    if (wanted == 0 && !(is_text && (frame->flags & WIRE_CALL_ADD_BOS) != 0)) {
        return wire_refuse_range(fault, WIRE_FIELD_PROMPT, 0, 1, UINT32_MAX);
    }
    frame->prompt = in->source + in->at;
    if (is_text && !utf8_is_valid((const char *)frame->prompt, frame->prompt_count)) {
        return wire_refuse(fault, STATUS_BAD_TEXT, WIRE_FIELD_PROMPT, frame->prompt_count);
    }
    return STATUS_OK;
}

enum status wire_call_decode(const uint8_t *bytes, uint32_t count, struct wire_call *frame,
                             struct wire_fault *fault)
{
    struct bytes in = bytes_reader(bytes, count);
    struct wire_call got;
    memset(&got, 0, sizeof got);
    wire_layout_move(&wire_call_layout, &in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_CALL, .call_id = got.call_id};
    TRY(wire_check_fixed(&wire_call_layout, &in, &got, fault));
    move_stop_ids(&in, &got.sampling);
    TRY(decode_stop_texts(&in, &got, fault));
    TRY(decode_parts(&in, &got, fault));
    TRY(decode_more(&in, &got, fault));
    TRY(decode_prompt(&in, &got, fault));
    *frame = got;
    return STATUS_OK;
}

static void put_more(struct bytes *out, struct wire_call *frame)
{
    if ((frame->flags & WIRE_CALL_MORE) != 0) {
        wire_layout_move(&wire_call_more_layout, out, &frame->sampling);
        for (uint32_t i = 0; i < frame->sampling.biases_count; i++) {
            wire_layout_move(&wire_call_bias_layout, out, &frame->biases[i]);
        }
    }
}

uint32_t wire_call_encode(const struct wire_call *frame, uint8_t *bytes, uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_call copy = *frame;
    if (copy.sampling.stop_ids_count > WIRE_STOP_IDS_MAX ||
        copy.stop_texts_count > CALL_STOP_TEXTS_MAX || copy.parts_count > WIRE_PARTS_MAX ||
        copy.sampling.biases_count > CALL_BIASES_MAX) {
        return 0;
    }
    wire_layout_move(&wire_call_layout, &out, &copy);
    move_stop_ids(&out, &copy.sampling);
    for (uint32_t i = 0; i < copy.stop_texts_count; i++) {
        bytes_u16(&out, &copy.stop_texts[i].length_bytes);
        if (copy.stop_texts[i].length_bytes > CALL_STOP_TEXT_BYTES) {
            return 0;
        }
        bytes_block(&out, copy.stop_texts[i].bytes, copy.stop_texts[i].length_bytes);
    }
    bool is_text = (copy.flags & WIRE_CALL_TEXT_PROMPT) != 0;
    uint64_t prompt_bytes = (uint64_t)copy.prompt_count * (is_text ? 1 : sizeof(uint32_t));
    wire_put_block(&out, copy.parts, (uint64_t)copy.parts_count * sizeof(uint32_t));
    put_more(&out, &copy);
    wire_put_block(&out, copy.prompt, prompt_bytes);
    return out.failed ? 0 : wire_frame_close(&out, WIRE_CALL);
}
