/* SPDX-License-Identifier: MIT */
/*
 * Goal: what is printed from the option table says each option once, and the sample loads.
 * Method: print into memory; count; parse the sample again (test_parse does that with the file).
 */
#include "selftest/unit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/config.h"

static char page[64 << 10];

static void print(void (*write)(FILE *out))
{
    FILE *out = fmemopen(page, sizeof page, "w");
    assert_non_null(out);
    write(out);
    assert_int_equal(fflush(out), 0);
    assert_true(ftell(out) < (long)sizeof page - 1);
    fclose(out);
}

static uint32_t times(const char *words)
{
    uint32_t found = 0;
    for (const char *at = page; (at = strstr(at, words)) != NULL; at++) {
        found++;
    }
    return found;
}

static void test_help_has_each_option_once(void **state)
{
    (void)state;
    print(config_write_help);
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        char words[96];
        snprintf(words, sizeof words, "  %s.%s = ", config_option_rows[i].section,
                 config_option_rows[i].key);
        assert_int_equal(times(words), 1);
    }
}

static void test_sample_has_each_option_once(void **state)
{
    (void)state;
    print(config_write_sample);
    assert_int_equal(times("\n["), times("]\n"));
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        char words[96];
        snprintf(words, sizeof words, "\n;%s =", config_option_rows[i].key);
        assert_true(times(words) >= 1);
    }
}

/* A bar in a cell would make another cell of it. */
static uint32_t cells(const char *line)
{
    uint32_t bars = 0;
    for (const char *at = line; *at != '\n'; at++) {
        assert_true(*at != '\0');
        bars += *at == '|' && (at == line || at[-1] != '\\');
    }
    return bars - 1;
}

static void test_markdown_rows_have_five_cells(void **state)
{
    (void)state;
    uint32_t rows = 0;
    print(config_write_markdown);
    for (const char *at = page; (at = strstr(at, "\n|")) != NULL;) {
        at++;
        assert_int_equal(cells(at), 5);
        rows += strncmp(at, "| `", 3) == 0;
    }
    assert_int_equal(rows, config_option_rows_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help_has_each_option_once),
        cmocka_unit_test(test_sample_has_each_option_once),
        cmocka_unit_test(test_markdown_rows_have_five_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
