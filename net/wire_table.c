/* SPDX-License-Identifier: MIT */
/*
 * What: net/frames.def as tables, and what can be done with tables alone: names, the fixed part of
 * a payload in both directions, ranges.
 *
 * Invariants: a payload's offset is the sum of the fields before it, by construction (struct
 * wire_bytes_NAME); a member has room for its field.
 *
 * Bounds: time is linear in the rows of a layout; no state and no assertion: the client library is
 * built from this file.
 */
#include "net/wire_frame.h"

#include <stddef.h>
#include <string.h>

#define RANGE_ANY                {.is_checked = false}
#define RANGE_WITHIN(low, high)  {.is_checked = true, .min = (low), .max = (high)}
#define RANGE_ABOVE(low, high)   {.is_checked = true, .min_open = true, .min = (low), .max = (high)}
#define RANGE_BELOW(low, high)   {.is_checked = true, .max_open = true, .min = (low), .max = (high)}
#define RANGE_ZERO_OR(low, high) {.is_checked = true, .or_zero = true, .min = (low), .max = (high)}

#define KIND_U8       WIRE_INTEGER
#define KIND_U16      WIRE_INTEGER
#define KIND_U32      WIRE_INTEGER
#define KIND_U64      WIRE_INTEGER
#define KIND_F32      WIRE_F32
#define KIND_BOOL     WIRE_BOOL
#define KIND_STATUS   WIRE_STATUS
#define KIND_BYTES(n) WIRE_BLOCK
#define KIND_NAME(n)  WIRE_NAME

#define MEMBER_BYTES(layout, member) sizeof(((struct wire_##layout *)0)->member)

#define LAYOUT(name, id, length) static const struct wire_row name##_rows[] = {
#define FIELD(layout, name, type, member_, error_, range_, help)               \
    {.kind = KIND_##type, .error = WIRE_FIELD_##error_, .range = RANGE_##range_, \
     .offset = offsetof(struct wire_bytes_##layout, name), .bytes = WIRE_BYTES_##type, \
     .member = offsetof(struct wire_##layout, member_), \
     .member_bytes = MEMBER_BYTES(layout, member_)},
#define RESERVED(layout, name, bytes_) \
    {.kind = WIRE_RESERVED, .error = WIRE_FIELD_RESERVED, .bytes = (bytes_), \
     .offset = offsetof(struct wire_bytes_##layout, name)},
#define END(name) };
#include "net/frames.def"

/* A member has room for its field; a block or a name fills it. */
#define IS_FILLED(kind) ((kind) == WIRE_BLOCK || (kind) == WIRE_NAME)
#define FIELD(layout, name, type, member, error, range, help)                                \
    STATIC_ASSERT(MEMBER_BYTES(layout, member) == WIRE_BYTES_##type ||                       \
                      (MEMBER_BYTES(layout, member) > WIRE_BYTES_##type &&                   \
                       !IS_FILLED(KIND_##type)), "room for a field");
#include "net/frames.def"

/* A reply always fits its room, whatever it is. */
#define FITS_REPLY_EXACT(name)                                                            \
    STATIC_ASSERT(WIRE_HEADER_BYTES + sizeof(struct wire_bytes_##name) <= WIRE_REPLY_BYTES_MAX, \
                  "a frame of exact length fits the room of a reply");
#define FITS_REPLY_SHARED(name) FITS_REPLY_EXACT(name)
#define FITS_REPLY_OPEN(name)
#define FITS_REPLY_PART(name)
#define LAYOUT(name, id, length) FITS_REPLY_##length(name)
#include "net/frames.def"

#define IS_OPEN_EXACT  false
#define IS_OPEN_SHARED false
#define IS_OPEN_OPEN   true
#define IS_OPEN_PART   true
#define LAYOUT(name, id, length)                                                      \
    const struct wire_layout wire_##name##_layout = {                                 \
        .rows = name##_rows, .rows_count = sizeof name##_rows / sizeof name##_rows[0], \
        .bytes = sizeof(struct wire_bytes_##name), .is_open = IS_OPEN_##length};
#include "net/frames.def"

static const struct frame {
    uint8_t type;
    const char *name;
    const struct wire_layout *layout;
} frames[] = {
#define FRAME(id, type, from, layout, answer) {type, #id, &wire_##layout##_layout},
#include "net/frames.def"
};
#define FRAMES (sizeof frames / sizeof frames[0])

/* ---- names ----------------------------------------------------------------------------------- */

static const struct frame *frame_find(uint8_t type)
{
    for (uint32_t i = 0; i < FRAMES; i++) {
        if (frames[i].type == type) {
            return &frames[i];
        }
    }
    return NULL;
}

const struct wire_layout *wire_layout_of(uint8_t type)
{
    const struct frame *frame = frame_find(type);
    return frame != NULL ? frame->layout : NULL;
}

const char *wire_type_name(uint8_t type)
{
    const struct frame *frame = frame_find(type);
    return frame != NULL ? frame->name : "unknown";
}

const char *wire_field_name(enum wire_field field)
{
    static const char *const names[WIRE_FIELD_COUNT] = {
#define ERROR_FIELD(number, id, name) [number] = #name,
#include "net/frames.def"
    };
    return (uint32_t)field < WIRE_FIELD_COUNT ? names[field] : "unknown";
}

bool wire_field_is_float(enum wire_field field)
{
    static const struct wire_layout *const layouts[] = {
#define LAYOUT(name, id, length) &wire_##name##_layout,
#include "net/frames.def"
    };
    for (uint32_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        const struct wire_layout *layout = layouts[i];
        for (uint32_t k = 0; k < layout->rows_count; k++) {
            bool is_it = field != WIRE_FIELD_NONE && layout->rows[k].error == field;
            if (is_it && layout->rows[k].kind == WIRE_F32) {
                return true;
            }
        }
    }
    return false;
}

/* ---- faults ---------------------------------------------------------------------------------- */

enum status wire_refuse(struct wire_fault *fault, enum status status, enum wire_field field,
                        uint64_t found)
{
    fault->status = status;
    fault->field = field;
    fault->found = found;
    return status;
}

enum status wire_refuse_range(struct wire_fault *fault, enum wire_field field, uint64_t found,
                              uint64_t min, uint64_t max)
{
    fault->min = min;
    fault->max = max;
    return wire_refuse(fault, STATUS_BAD_FIELD, field, found);
}

/* ---- the fixed part, in both directions ------------------------------------------------------ */

static uint64_t load(const uint8_t *member, uint32_t bytes)
{
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (bytes) {
    case 1: memcpy(&u8, member, bytes); return u8;
    case 2: memcpy(&u16, member, bytes); return u16;
    case 4: memcpy(&u32, member, bytes); return u32;
    default: memcpy(&u64, member, sizeof u64); return u64;
    }
}

static void store(uint8_t *member, uint32_t bytes, uint64_t value)
{
    uint8_t u8 = (uint8_t)value;
    uint16_t u16 = (uint16_t)value;
    uint32_t u32 = (uint32_t)value;
    switch (bytes) {
    case 1: memcpy(member, &u8, bytes); break;
    case 2: memcpy(member, &u16, bytes); break;
    case 4: memcpy(member, &u32, bytes); break;
    default: memcpy(member, &value, sizeof value); break;
    }
}

static void move_number(struct bytes *bytes, const struct wire_row *row, uint8_t *member)
{
    uint64_t value = load(member, row->member_bytes);
    if (row->kind == WIRE_STATUS) {
        value = status_wire((enum status)value);
    }
    bytes_integer(bytes, &value, row->bytes);
    if (row->kind == WIRE_STATUS) {
        value = status_from_wire((uint16_t)value);
    } else if (row->kind == WIRE_BOOL) {
        value = value != 0;
    }
    store(member, row->member_bytes, value);
}

void wire_layout_move(const struct wire_layout *layout, struct bytes *bytes, void *frame)
{
    for (uint32_t i = 0; i < layout->rows_count; i++) {
        const struct wire_row *row = &layout->rows[i];
        uint8_t *member = (uint8_t *)frame + row->member;
        switch (row->kind) {
        case WIRE_RESERVED: bytes_zero(bytes, row->bytes); break;
        case WIRE_BLOCK: bytes_block(bytes, member, row->bytes); break;
        case WIRE_NAME: bytes_name(bytes, (char *)member, row->bytes); break;
        default: move_number(bytes, row, member); break;
        }
    }
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Thousandths, as two's complement; what is not a number becomes the smallest of all. */
static uint64_t thousandths(double value)
{
    if (!(value >= -9e15)) {
        return (uint64_t)INT64_MIN;
    }
    return value <= 9e15 ? (uint64_t)(int64_t)(value * 1000 + (value < 0 ? -0.5 : 0.5))
                         : (uint64_t)INT64_MAX;
}

static enum status check_float(const struct wire_row *row, const uint8_t *member,
                               struct wire_fault *fault)
{
    const struct wire_range *range = &row->range;
    float value, min = (float)range->min, max = (float)range->max;
    memcpy(&value, member, sizeof value);
    bool above = range->min_open ? value > min : value >= min;
    bool below = range->max_open ? value < max : value <= max;
    /* Comparisons with NaN are false, and infinity is beyond every bound: both are refused. */
    if ((above && below) || (range->or_zero && value == 0.0f)) {
        return STATUS_OK;
    }
    return wire_refuse_range(fault, row->error, thousandths((double)value),
                             thousandths(range->min) + (range->min_open ? 1 : 0),
                             thousandths(range->max) - (range->max_open ? 1 : 0));
}

static enum status check_row(const struct wire_row *row, const uint8_t *member,
                             struct wire_fault *fault)
{
    if (row->kind == WIRE_F32) {
        return check_float(row, member, fault);
    }
    uint64_t value = load(member, row->member_bytes);
    uint64_t min = (uint64_t)row->range.min, max = (uint64_t)row->range.max;
    return value >= min && value <= max ? STATUS_OK
                                        : wire_refuse_range(fault, row->error, value, min, max);
}

enum status wire_layout_check(const struct wire_layout *layout, const void *frame,
                              struct wire_fault *fault)
{
    for (uint32_t i = 0; i < layout->rows_count; i++) {
        const struct wire_row *row = &layout->rows[i];
        const uint8_t *member = (const uint8_t *)frame + row->member;
        if (row->error == WIRE_FIELD_CALL_ID || row->error == WIRE_FIELD_FLOW_ID) {
            fault->call_id = load(member, row->member_bytes);
        }
        if (row->range.is_checked) {
            TRY(check_row(row, member, fault));
        }
    }
    return STATUS_OK;
}
