/* SPDX-License-Identifier: MIT */
/*
 * What: the payload of CALL: layout, checks, both directions.
 *
 * How: the numbers are checked from one table, wire_call_ranges, which tests and the fuzz
 * dictionary use too; then the counts, the stop strings and the prompt, each before the bytes that
 * it governs.
 *
 * Invariants and bounds as in net/wire.c: nothing is read beyond `count`; a refusal changes only
 * `fault`; no state, no assertion; time is linear in the frame.
 */
#include "net/wire.h"

#include <stddef.h>
#include <string.h>

#include "net/utf8.h"
#include "net/wire_frame.h"

/* The fixed part of CALL; stop ids, stop texts and the prompt follow it in this order. */
static void layout_call(struct bytes *bytes, struct wire_call *frame)
{
    struct call_sampling *sampling = &frame->sampling;
    uint8_t ids = (uint8_t)sampling->stop_ids_count, texts = (uint8_t)frame->stop_texts_count;
    bytes_u64(bytes, &frame->call_id);
    bytes_block(bytes, frame->program_id, CALL_PROGRAM_ID_BYTES);
    bytes_u32(bytes, &frame->thread);
    bytes_u32(bytes, &frame->flags);
    bytes_u32(bytes, &frame->max_tokens);
    bytes_f32(bytes, &sampling->temperature);
    bytes_u32(bytes, &sampling->top_k);
    bytes_f32(bytes, &sampling->top_p);
    bytes_f32(bytes, &sampling->min_p);
    bytes_f32(bytes, &sampling->repeat_penalty);
    bytes_u64(bytes, &sampling->seed);
    bytes_u64(bytes, &frame->deadline_us);
    bytes_u32(bytes, &frame->prompt_count);
    bytes_u8(bytes, &ids);
    bytes_u8(bytes, &texts);
    bytes_zero(bytes, 2);
    sampling->stop_ids_count = ids;
    frame->stop_texts_count = texts;
}

static void layout_stop_ids(struct bytes *bytes, struct call_sampling *sampling)
{
    for (uint32_t i = 0; i < sampling->stop_ids_count; i++) {
        bytes_u32(bytes, &sampling->stop_ids[i]);
    }
}

#define MEMBER(name) (uint32_t)offsetof(struct wire_call, name)
const struct wire_range wire_call_ranges[] = {
    {WIRE_FIELD_FLAGS, WIRE_U32, 28, MEMBER(flags), 0, WIRE_CALL_FLAGS_ALL, false, false, false},
    {WIRE_FIELD_MAX_TOKENS, WIRE_U32, 32, MEMBER(max_tokens), 1, INT32_MAX, false, false, false},
    {WIRE_FIELD_TEMPERATURE, WIRE_F32, 36, MEMBER(sampling.temperature), 0.01, 100, false, false,
     true},
    {WIRE_FIELD_TOP_K, WIRE_U32, 40, MEMBER(sampling.top_k), 0, INT32_MAX, false, false, false},
    {WIRE_FIELD_TOP_P, WIRE_F32, 44, MEMBER(sampling.top_p), 0, 1, true, false, false},
    {WIRE_FIELD_MIN_P, WIRE_F32, 48, MEMBER(sampling.min_p), 0, 1, false, true, false},
    {WIRE_FIELD_REPEAT_PENALTY, WIRE_F32, 52, MEMBER(sampling.repeat_penalty), 0.1, 10, false,
     false, false},
    {WIRE_FIELD_DEADLINE, WIRE_U64, 64, MEMBER(deadline_us), 0, 3600e6, false, false, false},
};
#undef MEMBER
const uint32_t wire_call_ranges_count = sizeof wire_call_ranges / sizeof wire_call_ranges[0];

/* Thousandths, as two's complement; what is not a number becomes the smallest of all. */
static uint64_t thousandths(double value)
{
    if (!(value >= -9e15)) {
        return (uint64_t)INT64_MIN;
    }
    return value <= 9e15 ? (uint64_t)(int64_t)(value * 1000 + (value < 0 ? -0.5 : 0.5))
                         : (uint64_t)INT64_MAX;
}

static enum status check_float(const struct wire_range *range, float value,
                               struct wire_fault *fault)
{
    float min = (float)range->min, max = (float)range->max;
    bool above = range->min_open ? value > min : value >= min;
    bool below = range->max_open ? value < max : value <= max;
    /* Comparisons with NaN are false, and infinity is beyond every bound: both end here. */
    if ((above && below) || (range->or_zero && value == 0.0f)) {
        return STATUS_OK;
    }
    return wire_refuse_range(fault, range->field, thousandths((double)value),
                             thousandths(range->min) + (range->min_open ? 1 : 0),
                             thousandths(range->max) - (range->max_open ? 1 : 0));
}

static enum status check_range(const struct wire_range *range, const struct wire_call *frame,
                               struct wire_fault *fault)
{
    const uint8_t *member = (const uint8_t *)frame + range->member;
    uint64_t value = 0;
    uint32_t narrow = 0;
    float number = 0;
    if (range->number == WIRE_F32) {
        memcpy(&number, member, sizeof number);
        return check_float(range, number, fault);
    }
    memcpy(range->number == WIRE_U64 ? (void *)&value : (void *)&narrow, member,
           range->number == WIRE_U64 ? sizeof value : sizeof narrow);
    value = range->number == WIRE_U64 ? value : narrow;
    if (value < (uint64_t)range->min || value > (uint64_t)range->max) {
        return wire_refuse_range(fault, range->field, value, (uint64_t)range->min,
                                 (uint64_t)range->max);
    }
    return STATUS_OK;
}

static enum status check_call_fixed(const struct bytes *in, const struct wire_call *frame,
                                    struct wire_fault *fault)
{
    if (in->failed) {
        return wire_check_end(in, fault);
    }
    if (in->dirty) {
        return wire_refuse(fault, STATUS_BAD_RESERVED, WIRE_FIELD_RESERVED, 1);
    }
    for (uint32_t i = 0; i < wire_call_ranges_count; i++) {
        TRY(check_range(&wire_call_ranges[i], frame, fault));
    }
    if (frame->sampling.stop_ids_count > WIRE_STOP_IDS_MAX) {
        return wire_refuse_range(fault, WIRE_FIELD_STOP_IDS, frame->sampling.stop_ids_count, 0,
                                 WIRE_STOP_IDS_MAX);
    }
    if (frame->stop_texts_count > CALL_STOP_TEXTS_MAX) {
        return wire_refuse_range(fault, WIRE_FIELD_STOP_TEXTS, frame->stop_texts_count, 0,
                                 CALL_STOP_TEXTS_MAX);
    }
    return STATUS_OK;
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

static enum status decode_prompt(struct bytes *in, struct wire_call *frame,
                                 struct wire_fault *fault)
{
    bool is_text = (frame->flags & WIRE_CALL_TEXT_PROMPT) != 0;
    uint64_t wanted = (uint64_t)frame->prompt_count * (is_text ? 1 : sizeof(uint32_t));
    if (in->failed || wanted != bytes_left(in)) {
        fault->min = fault->max = in->failed ? 0 : in->at + wanted;
        return wire_refuse(fault, STATUS_BAD_FRAME_LENGTH, WIRE_FIELD_LENGTH, in->count);
    }
    /* An empty text is a prompt only where BOS will stand before it. */
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
    layout_call(&in, &got);
    *fault = (struct wire_fault){.frame_type = WIRE_CALL, .call_id = got.call_id};
    TRY(check_call_fixed(&in, &got, fault));
    layout_stop_ids(&in, &got.sampling);
    TRY(decode_stop_texts(&in, &got, fault));
    TRY(decode_prompt(&in, &got, fault));
    *frame = got;
    return STATUS_OK;
}

uint32_t wire_call_encode(const struct wire_call *frame, uint8_t *bytes, uint32_t max)
{
    struct bytes out = wire_frame_open(bytes, max);
    struct wire_call copy = *frame;
    if (copy.sampling.stop_ids_count > WIRE_STOP_IDS_MAX ||
        copy.stop_texts_count > CALL_STOP_TEXTS_MAX) {
        return 0;
    }
    layout_call(&out, &copy);
    layout_stop_ids(&out, &copy.sampling);
    for (uint32_t i = 0; i < copy.stop_texts_count; i++) {
        bytes_u16(&out, &copy.stop_texts[i].length_bytes);
        if (copy.stop_texts[i].length_bytes > CALL_STOP_TEXT_BYTES) {
            return 0;
        }
        bytes_block(&out, copy.stop_texts[i].bytes, copy.stop_texts[i].length_bytes);
    }
    uint64_t prompt_bytes = (uint64_t)copy.prompt_count *
                            ((copy.flags & WIRE_CALL_TEXT_PROMPT) != 0 ? 1 : sizeof(uint32_t));
    if (out.failed || prompt_bytes > bytes_left(&out)) {
        return 0;
    }
    if (prompt_bytes > 0) {
        memcpy(out.target + out.at, copy.prompt, prompt_bytes);
        out.at += (uint32_t)prompt_bytes;
    }
    return wire_frame_close(&out, WIRE_CALL);
}
