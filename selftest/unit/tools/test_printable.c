/* SPDX-License-Identifier: MIT */
/*
 * Goal: no byte of a model or a server makes a terminal do anything but show a character; what
 * people write in any script comes through; the cuts between tokens change nothing.
 * Method: each class of characters at its edges; each text cut at every byte, and byte by byte;
 * noise against the filter's own rule: what it has let through passes a second time unchanged.
 */
#include "selftest/unit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "net/utf8.h"
#include "tools/agx/printable.h"

static char caught[1600];

/* Filters `text` as parts of the given length, the first of `first` bytes. */
static const char *filter(const char *text, size_t bytes, size_t first, size_t part)
{
    FILE *file = fmemopen(caught, sizeof caught, "w");
    struct printable stream = {.out = file};
    assert_non_null(file);
    first = first < bytes ? first : bytes;
    printable_add(&stream, text, first);
    for (size_t at = first; at < bytes; at += part) {
        printable_add(&stream, text + at, part < bytes - at ? part : bytes - at);
    }
    printable_end(&stream);
    fputc('\0', file);
    fclose(file);
    return caught;
}

/* The output for `text` must be `wanted`, at once, cut at each byte, and byte by byte. */
static void assert_shown(const char *text, const char *wanted)
{
    char line[256];
    size_t bytes = strlen(text);
    for (size_t first = 0; first <= bytes; first++) {
        assert_string_equal(filter(text, bytes, first, bytes + 1), wanted);
    }
    assert_string_equal(filter(text, bytes, 0, 1), wanted);
    if (strpbrk(text, "\n\t") == NULL) {
        printable_line(text, line, sizeof line);
        assert_string_equal(line, wanted);
    }
}

static uint32_t encode(uint32_t code, char bytes[5])
{
    uint32_t count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (uint32_t i = count; i-- > 0; code >>= 6) {
        bytes[i] = (char)(i > 0 ? 0x80 | (code & 0x3F) : marks[count] | code);
    }
    bytes[count] = '\0';
    return count;
}

static void assert_range(uint32_t first, uint32_t last, bool is_shown)
{
    char text[8] = "a", wanted[8] = "a";
    for (uint32_t code = first; code <= last; code++) {
        uint32_t count = encode(code, text + 1);
        memcpy(text + 1 + count, "b", 2);
        snprintf(wanted, sizeof wanted, "%s", is_shown ? text : "a.b");
        assert_shown(text, wanted);
    }
}

/* ---- classes --------------------------------------------------------------------------------- */

static void test_controls_are_stopped_but_line_ends_and_tabs(void **state)
{
    (void)state;
    assert_range(0x01, 0x08, false);
    assert_shown("a\tb\nc", "a\tb\nc");
    assert_range(0x0B, 0x1F, false);
    assert_range(0x20, 0x7E, true);
    assert_range(0x7F, 0x9F, false);        /* DEL and C1, as characters */
    assert_range(0xA0, 0xAC, true);
    assert_shown("\033[2J\033]0;title\007", ".[2J.]0;title.");
    assert_shown("\xc2\x9b" "31m\xc2\x9d" "0;t\xc2\x9c", ".31m.0;t.");
}

static void test_stray_bytes_and_broken_characters_are_stopped(void **state)
{
    (void)state;
    assert_shown("a\x9b" "31m", "a.31m");                   /* C1 as a byte */
    assert_shown("\xff\xfe\x80\xbf", "....");
    assert_shown("\xc0\x9b\xe0\x80\x9b", ".....");          /* C1 in overlong forms */
    assert_shown("\xed\xa0\x80", "...");                    /* a surrogate */
    assert_shown("\xf4\x90\x80\x80", "....");               /* above U+10FFFF */
    assert_shown("\xe2\x9c" "a", ".a");
    assert_shown("\xe2\x9c\033[m", "..[m");                 /* it must not swallow what follows */
    assert_shown("\xc2\033c", "..c");
    assert_shown("\xf0\x9f\x98", ".");                      /* the end comes first */
    assert_shown("cut\xe2\x9c", "cut.");
}

static void test_directions_and_separators_are_stopped(void **state)
{
    (void)state;
    assert_range(0x061B, 0x061B, true);
    assert_range(0x061C, 0x061C, false);
    assert_range(0x200E, 0x200F, false);
    assert_range(0x2010, 0x2027, true);
    assert_range(0x2028, 0x202E, false);
    assert_range(0x202F, 0x205F, true);
    assert_range(0x2060, 0x206F, false);
    assert_range(0x2070, 0x2071, true);
}

static void test_text_that_is_not_seen_is_stopped(void **state)
{
    static const uint32_t hidden[] = {0xAD, 0x115F, 0x1160, 0x180E, 0x200B, 0x3164, 0xFEFF, 0xFFA0,
                                      0xFFF9, 0xFFFB, 0xFFFE, 0xFFFF, 0xFDD0, 0xFDEF, 0x1FFFE,
                                      0x1BCA0, 0x1D173, 0x10FFFF};
    (void)state;
    for (uint32_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        assert_range(hidden[i], hidden[i], false);
    }
    assert_range(0xE0000, 0xE0200, false);                  /* tags, selectors */
}

static void test_scripts_and_emoji_come_through(void **state)
{
    static const char *const texts[] = {
        "Gr\xc3\xbc\xc3\x9f" "e, \xce\xb1\xce\xb2, \xd0\xb6",
        "\xd8\xb3\xd9\x84\xd8\xa7\xd9\x85 \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", /* right to left */
        "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae\xd9\x88\xd8\xa7\xd9\x87\xd9\x85",    /* ZWNJ */
        "\xe0\xa4\x95\xe0\xa5\x8d\xe2\x80\x8d\xe0\xa4\xb7",                 /* ZWJ, Devanagari */
        "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xed\x95\x9c\xea\xb5\xad",
        "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb", "\xe2\x9d\xa4\xef\xb8\x8f", /* selector */
        "e\xcc\x81 \xf0\x9d\x94\xb8 \xef\xbf\xbd \xee\x82\xa0"};
    (void)state;
    for (uint32_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_shown(texts[i], texts[i]);
    }
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void test_a_line_is_cut_between_characters(void **state)
{
    char line[32];
    (void)state;
    printable_line("a\nb\tc\033[1m\xc3\xa4\xff\xc2\x9b\x7f", line, sizeof line);
    assert_string_equal(line, "a b c.[1m\xc3\xa4...");
    printable_line("1234567\xe2\x9c\x93", line, 10);
    assert_string_equal(line, "1234567");
    printable_line("123456\xe2\x9c\x93", line, 10);
    assert_string_equal(line, "123456\xe2\x9c\x93");
    snprintf(line, sizeof line, "in\xc2\x9bplace\033");
    printable_line(line, line, sizeof line);
    assert_string_equal(line, "in.place.");
}

static void test_a_pipe_gets_the_bytes_as_they_are(void **state)
{
    static const char text[] = "\033[2J\xff\xe2\x9c";
    char got[16] = "";
    FILE *file = tmpfile();
    struct printable stream;
    (void)state;
    printable_begin(&stream, file);
    printable_add(&stream, text, strlen(text));
    printable_end(&stream);
    rewind(file);
    assert_int_equal(fread(got, 1, sizeof got - 1, file), strlen(text));
    assert_string_equal(got, text);
    fclose(file);
}

static void test_noise_comes_out_clean_however_it_is_cut(void **state)
{
    char noise[400], once[sizeof caught], code[5];
    uint32_t seed = 1;
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        size_t bytes = 0;
        while (bytes < sizeof noise - 4) {
            seed = seed * 1664525u + 1013904223u;
            uint32_t count = 1;
            code[0] = (char)(1 + (seed >> 8) % 255);
            if ((seed >> 20) % 2 == 0) {
                count = encode(1 + (seed >> 4) % ((seed >> 30) ? 0x300 : 0x10FFFF), code);
            }
            memcpy(noise + bytes, code, count);
            bytes += count;
        }
        noise[bytes] = '\0';
        snprintf(once, sizeof once, "%s", filter(noise, bytes, bytes, 1));
        assert_true(utf8_is_valid(once, (uint32_t)strlen(once)));
        assert_string_equal(filter(once, strlen(once), 0, 3), once);
        assert_string_equal(filter(noise, bytes, 0, 1 + round % 7), once);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_controls_are_stopped_but_line_ends_and_tabs),
        cmocka_unit_test(test_stray_bytes_and_broken_characters_are_stopped),
        cmocka_unit_test(test_directions_and_separators_are_stopped),
        cmocka_unit_test(test_text_that_is_not_seen_is_stopped),
        cmocka_unit_test(test_scripts_and_emoji_come_through),
        cmocka_unit_test(test_a_line_is_cut_between_characters),
        cmocka_unit_test(test_a_pipe_gets_the_bytes_as_they_are),
        cmocka_unit_test(test_noise_comes_out_clean_however_it_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
