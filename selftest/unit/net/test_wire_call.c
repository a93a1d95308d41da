/* SPDX-License-Identifier: MIT */
/*
 * Goal: the numbers of CALL are judged as the ranges of net/frames.def say, at their bounds.
 * Method: each row: a call with that one number changed, through the encoder and the decoder.
 */
#include "selftest/unit/test.h"

#include "net/wire.h"

#define FRAME_MAX 4096

static uint32_t call_with(const struct wire_row *row, double value, uint8_t *bytes)
{
    struct wire_call call = {
        .max_tokens = 1,
        .sampling = {.top_p = 1, .repeat_penalty = 1},
        .flags = WIRE_CALL_TEXT_PROMPT,
        .prompt_count = 1,
        .prompt = (const uint8_t *)"x",
    };
    float f32 = (float)value;
    uint32_t u32 = (uint32_t)value;
    uint64_t u64 = (uint64_t)value;
    uint8_t *member = (uint8_t *)&call + row->member;
    const void *from = row->kind == WIRE_F32 ? (void *)&f32
                       : row->member_bytes == sizeof u64 ? (void *)&u64 : (void *)&u32;
    memcpy(member, from, row->member_bytes);
    uint32_t count = wire_call_encode(&call, bytes, FRAME_MAX);
    /* The table's offset is where the encoder put it. */
    assert_memory_equal(bytes + WIRE_HEADER_BYTES + row->offset, member, row->bytes);
    return count;
}

static enum status judge(const struct wire_row *row, double value, struct wire_fault *fault)
{
    uint8_t bytes[FRAME_MAX];
    struct wire_call call;
    uint32_t count = call_with(row, value, bytes);
    return wire_call_decode(bytes + WIRE_HEADER_BYTES, count - WIRE_HEADER_BYTES, &call, fault);
}

/* The prompt's own flags decide there, and more bytes must follow a count: vectors cover these. */
static bool decides_alone(const struct wire_row *row)
{
    return row->range.is_checked && row->error != WIRE_FIELD_FLAGS &&
           row->error != WIRE_FIELD_STOP_IDS && row->error != WIRE_FIELD_STOP_TEXTS;
}

static void test_decode_call_at_its_bounds_is_as_the_table_says(void **state)
{
    uint32_t judged = 0;
    for (uint32_t i = 0; i < wire_call_layout.rows_count; i++) {
        const struct wire_row *row = &wire_call_layout.rows[i];
        const struct wire_range *range = &row->range;
        struct wire_fault fault;
        if (!decides_alone(row)) {
            continue;
        }
        judged++;
        enum status at_min = range->min_open ? STATUS_BAD_FIELD : STATUS_OK;
        enum status at_max = range->max_open ? STATUS_BAD_FIELD : STATUS_OK;
        double step = row->kind == WIRE_F32 ? 0.001 : 1;
        assert_status(at_min, judge(row, range->min, &fault));
        assert_status(at_max, judge(row, range->max, &fault));
        assert_status(STATUS_OK, judge(row, range->min + step, &fault));
        assert_status(STATUS_OK, judge(row, range->max - step, &fault));
        assert_status(STATUS_BAD_FIELD, judge(row, range->max + step, &fault));
        assert_int_equal(fault.field, row->error);
        if (range->min > 0 || row->kind == WIRE_F32) {
            enum status below = range->or_zero && range->min - step == 0 ? STATUS_OK
                                                                         : STATUS_BAD_FIELD;
            assert_status(below, judge(row, range->min - step, &fault));
        }
        if (range->or_zero) {
            assert_status(STATUS_OK, judge(row, 0, &fault));
        }
    }
    assert_true(judged >= 7);
}

static void test_refuse_float_reports_thousandths(void **state)
{
    struct wire_fault fault;
    const struct wire_row *top_p = NULL, *min_p = NULL;
    for (uint32_t i = 0; i < wire_call_layout.rows_count; i++) {
        const struct wire_row *row = &wire_call_layout.rows[i];
        top_p = row->error == WIRE_FIELD_TOP_P ? row : top_p;
        min_p = row->error == WIRE_FIELD_MIN_P ? row : min_p;
    }
    assert_true(top_p != NULL && min_p != NULL);
    assert_status(STATUS_BAD_FIELD, judge(min_p, 1.0, &fault));
    assert_int_equal(fault.min, 0);
    assert_int_equal(fault.max, 999);
    assert_status(STATUS_BAD_FIELD, judge(top_p, 1.5, &fault));
    assert_int_equal(fault.found, 1500);
    assert_int_equal(fault.min, 1);
    assert_int_equal(fault.max, 1000);
    assert_status(STATUS_BAD_FIELD, judge(top_p, -2.0, &fault));
    assert_true((int64_t)fault.found == -2000);
    assert_status(STATUS_BAD_FIELD, judge(top_p, (double)__builtin_nanf(""), &fault));
    assert_true((int64_t)fault.found == INT64_MIN);
    assert_status(STATUS_BAD_FIELD, judge(top_p, (double)__builtin_inff(), &fault));
    assert_true((int64_t)fault.found == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_call_at_its_bounds_is_as_the_table_says),
        cmocka_unit_test(test_refuse_float_reports_thousandths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
