/* SPDX-License-Identifier: MIT */
/*
 * Goal: a file of tokens is read exactly, or refused by its line.
 * Method: files of a line each.
 */
#include "selftest/unit/folder.h"

#include <stdio.h>
#include <sys/stat.h>

#include "tools/door/tokens.h"

static struct door door;

static enum status read_text(const char *text, size_t count, struct config_error *error)
{
    static char path[sizeof door.options.door_tokens.text];
    memset(&door, 0, sizeof door);
    snprintf(path, sizeof path, "%s/tokens", test_folder());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, count, file), count);
    fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
    memcpy(door.options.door_tokens.text, path, sizeof path);
    memcpy(door.keys.keys[0].id, "alpha", 6);
    door.keys.count = 1;
    return tokens_begin(&door, error);
}

static void assert_refused(const char *text, size_t count, const char *said)
{
    struct config_error error = {.text = ""};
    assert_status(STATUS_CONFIG_OPTION, read_text(text, count, &error));
    if (strstr(error.text, said) == NULL) {
        print_error("%s\n", error.text);
        fail();
    }
}
#define ASSERT_REFUSED(text, said) assert_refused(text, sizeof text - 1, said)

static void test_tokens_have_the_domains_of_their_keys(void **state)
{
    static const char text[] = "# who may come in\n\nsecret-one alpha\r\n"
                               "  secret-two\nsecret-3 alpha";
    struct config_error error;
    assert_status(STATUS_OK, read_text(text, sizeof text - 1, &error));
    assert_int_equal(door.tokens_count, 3);
    assert_int_equal(door.domains_count, 2);
    assert_string_equal(door.tokens[0].text, "secret-one");
    assert_ptr_equal(door.tokens[0].domain->key, &door.keys.keys[0]);
    assert_null(door.tokens[1].domain->key);
    assert_ptr_equal(door.tokens[2].domain, door.tokens[0].domain);
}

static void test_file_that_is_wrong_is_refused_by_its_line(void **state)
{
    static char many[65 * 10], large[40000], token[300];
    ASSERT_REFUSED("", ":1: there is no token");
    ASSERT_REFUSED("# none\n", "there is no token");
    ASSERT_REFUSED("secret-one\nshort\n", ":2: a token has 8");
    ASSERT_REFUSED("secret-one beta\n", ":1: there is no key");
    ASSERT_REFUSED("secret-one alpha x\n", ":1: a line is");
    ASSERT_REFUSED("secret-one\nsecret-one alpha\n", ":2: this token is there already");
    ASSERT_REFUSED("secret\0one\n", "no text");
    for (uint32_t i = 0; i < 65; i++) {
        memcpy(many + 10 * i, "token-000\n", 10);
        many[10 * i + 7] = (char)('0' + i / 10);
        many[10 * i + 8] = (char)('0' + i % 10);
    }
    assert_refused(many, sizeof many, ":65: too many");
    memset(large, '\n', sizeof large);
    assert_refused(large, sizeof large, "too large");
    memset(token, 'x', sizeof token);
    assert_refused(token, 256, ":1: a token has 8");
}

static void test_without_a_file_no_token_is_needed(void **state)
{
    struct config_error error;
    memset(&door, 0, sizeof door);
    assert_status(STATUS_OK, tokens_begin(&door, &error));
    assert_int_equal(door.tokens_count, 0);
    assert_int_equal(door.domains_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_have_the_domains_of_their_keys),
        cmocka_unit_test(test_file_that_is_wrong_is_refused_by_its_line),
        cmocka_unit_test(test_without_a_file_no_token_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
