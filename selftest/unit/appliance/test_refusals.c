/* SPDX-License-Identifier: MIT */
/*
 * Goal: a refusal is one line of printable ASCII that says when, who and why.
 * Method: lines of refusals made by hand.
 */
#include "selftest/unit/test.h"

#include "appliance/text/refusals.h"

static char bytes[REFUSALS_LINE_BYTES];

static const char *line_of(const struct net_refusal *refusal)
{
    const struct refusals_moment moment = {UINT64_C(1795521787123000), 5512123456};
    struct text line;
    text_init(&line, bytes, sizeof bytes);
    refusals_line(&line, refusal, &moment);
    assert_false(line.cut);
    text_terminate(&line);
    return bytes;
}

static void test_lines_say_when_who_and_why(void **state)
{
    struct net_refusal refusal = {
        .at_us = 5511123456, .what = "handshake", .why = "not admitted",
        .peer_kind = WORLD_PEER_REMOTE, .key_id = "mallory", .name = "bot-7",
        .ip = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 5}};
    (void)state;
    assert_string_equal(line_of(&refusal),
                        "2026-11-24T12:03:06.123Z 5511.123456 core warn refused handshake "
                        "from=10.0.0.5 key=mallory? name=bot-7: not admitted\n");
    refusal = (struct net_refusal){.at_us = 5512123456, .what = "call", .why = "busy",
                                   .key_id = "alice", .is_proven = true,
                                   .peer_kind = WORLD_PEER_LOCAL, .uid = 1000, .call_id = 17};
    assert_string_equal(line_of(&refusal),
                        "2026-11-24T12:03:07.123Z 5512.123456 core warn refused call "
                        "from=unix user:1000 key=alice id=17: busy\n");
}

static void test_lines_name_the_field_that_was_wrong(void **state)
{
    struct net_refusal refusal = {
        .at_us = 5512123456, .what = "call", .why = "field out of range", .call_id = 18,
        .peer_kind = WORLD_PEER_LOCAL, .uid = 1000, .field = "top_p", .in_thousandths = true,
        .found = 2000, .max = 1000};
    (void)state;
    assert_non_null(strstr(line_of(&refusal), " id=18 field=top_p: field out of range "
                           "(found 2.000, allowed 0.000 to 1.000)\n"));
    refusal.field = "presence_penalty";
    refusal.found = (uint64_t)-2500;
    refusal.min = (uint64_t)-2000;
    refusal.max = 2000;
    assert_non_null(strstr(line_of(&refusal), " field=presence_penalty: field out of range "
                           "(found -2.500, allowed -2.000 to 2.000)\n"));
    refusal.in_thousandths = false;
    refusal.field = "prompt";
    refusal.found = 1026;
    refusal.min = 0;
    refusal.max = 1024;
    assert_non_null(strstr(line_of(&refusal), "(found 1026, allowed 0 to 1024)\n"));
}

static void test_hostile_names_stay_in_one_line(void **state)
{
    struct net_refusal refusal = {.what = "handshake", .why = "not admitted",
                                  .peer_kind = WORLD_PEER_REMOTE, .call_id = UINT64_MAX,
                                  .field = "frequency_penalty", .found = UINT64_MAX,
                                  .min = UINT64_MAX, .max = UINT64_MAX};
    (void)state;
    memset(refusal.ip, 0xff, sizeof refusal.ip);
    for (uint32_t first = 1; first < 256; first++) {
        for (uint32_t i = 0; i < WIRE_NAME_BYTES; i++) {
            refusal.name[i] = (char)(1 + (first + i) % 255);
        }
        memcpy(refusal.key_id, refusal.name, sizeof refusal.key_id);
        const char *line = line_of(&refusal);
        for (const char *at = line; *at != '\n'; at++) {
            assert_true(*at >= ' ' && *at <= '~');
        }
        assert_string_equal(strchr(line, '\n'), "\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_say_when_who_and_why),
        cmocka_unit_test(test_lines_name_the_field_that_was_wrong),
        cmocka_unit_test(test_hostile_names_stay_in_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
