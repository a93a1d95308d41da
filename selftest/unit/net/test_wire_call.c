/* SPDX-License-Identifier: MIT */
/*
 * Goal: the numbers of CALL are judged as net/wire_call.c's table of ranges says, at its bounds.
 * Method: each row: a call with that one number changed, through the encoder and the decoder.
 */
#include "selftest/unit/test.h"

#include "net/wire.h"

#define FRAME_MAX 4096

static uint32_t call_with(const struct wire_range *range, double value, uint8_t *bytes)
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
    uint8_t *member = (uint8_t *)&call + range->member;
    if (range->number == WIRE_F32) {
        memcpy(member, &f32, sizeof f32);
    } else if (range->number == WIRE_U32) {
        memcpy(member, &u32, sizeof u32);
    } else {
        memcpy(member, &u64, sizeof u64);
    }
    uint32_t count = wire_call_encode(&call, bytes, FRAME_MAX);
    /* The table's offset is where the encoder put it. */
    uint32_t size = range->number == WIRE_U64 ? 8 : 4;
    assert_memory_equal(bytes + WIRE_HEADER_BYTES + range->offset, member, size);
    return count;
}

static enum status judge(const struct wire_range *range, double value, struct wire_fault *fault)
{
    uint8_t bytes[FRAME_MAX];
    struct wire_call call;
    uint32_t count = call_with(range, value, bytes);
    return wire_call_decode(bytes + WIRE_HEADER_BYTES, count - WIRE_HEADER_BYTES, &call, fault);
}

static void test_decode_call_at_its_bounds_is_as_the_table_says(void **state)
{
    for (uint32_t i = 0; i < wire_call_ranges_count; i++) {
        const struct wire_range *range = &wire_call_ranges[i];
        struct wire_fault fault;
        if (range->field == WIRE_FIELD_FLAGS) {
            continue;       /* the prompt's own flags decide there; the vectors cover it */
        }
        enum status at_min = range->min_open ? STATUS_BAD_FIELD : STATUS_OK;
        enum status at_max = range->max_open ? STATUS_BAD_FIELD : STATUS_OK;
        double step = range->number == WIRE_F32 ? 0.001 : 1;
        assert_status(at_min, judge(range, range->min, &fault));
        assert_status(at_max, judge(range, range->max, &fault));
        assert_status(STATUS_OK, judge(range, range->min + step, &fault));
        assert_status(STATUS_OK, judge(range, range->max - step, &fault));
        assert_status(STATUS_BAD_FIELD, judge(range, range->max + step, &fault));
        assert_int_equal(fault.field, range->field);
        if (range->min > 0 || range->number == WIRE_F32) {
            enum status below = range->or_zero && range->min - step == 0 ? STATUS_OK
                                                                         : STATUS_BAD_FIELD;
            assert_status(below, judge(range, range->min - step, &fault));
        }
        if (range->or_zero) {
            assert_status(STATUS_OK, judge(range, 0, &fault));
        }
    }
}

static void test_refuse_float_reports_thousandths(void **state)
{
    struct wire_fault fault;
    const struct wire_range *top_p = NULL, *min_p = NULL;
    for (uint32_t i = 0; i < wire_call_ranges_count; i++) {
        const struct wire_range *range = &wire_call_ranges[i];
        top_p = range->field == WIRE_FIELD_TOP_P ? range : top_p;
        min_p = range->field == WIRE_FIELD_MIN_P ? range : min_p;
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
