/* SPDX-License-Identifier: MIT */
/*
 * Goal: a file of keys means one thing or is refused, by line, without a word of what stands in it.
 * Method: good files compared field by field; one bad line of each kind; files of every mode and
 * kind; every prefix of a good file.
 */
#include "selftest/unit/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/keys.h"

#define SECRET_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define SECRET_B "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFfffe"
#define SECRET_C "0000000000000000000000000000000000000000000000000000000000000001"

static struct config_keys keys;
static struct config_error error;

static enum status load(const char *text)
{
    return config_keys_load_bytes(&keys, "k", text, strlen(text), &error);
}

static void expect_wiped(void)
{
    static const struct config_keys none;
    assert_memory_equal(&keys, &none, sizeof keys);
}

static void expect_refused(const char *text, const char *message)
{
    memset(&keys, 0x77, sizeof keys);
    assert_status(STATUS_CONFIG_OPTION, load(text));
    assert_string_equal(error.text, message);
    assert_null(strstr(error.text, "0405"));            /* of a secret */
    expect_wiped();
}

static void test_load_good_file_gives_ids_secrets_domains_and_numbers(void **state)
{
    assert_status(STATUS_OK, load("# people\n"
                                  "\n"
                                  "alice " SECRET_A " red\n"
                                  "  \t\n"
                                  "b.o-b_1\t" SECRET_B "  red \t 12\n"
                                  "#carol " SECRET_A "\n"
                                  "D123456789012345678901234567890 "
                                  SECRET_C));
    assert_int_equal(keys.count, 3);
    assert_string_equal(keys.keys[0].id, "alice");
    assert_string_equal(keys.keys[1].id, "b.o-b_1");
    for (uint8_t i = 0; i < CONFIG_SECRET_BYTES; i++) {
        assert_int_equal(keys.keys[0].secret[i], i);
        assert_int_equal(keys.keys[1].secret[i], i < 31 ? 0xff : 0xfe);
    }
    assert_int_equal(keys.keys[0].calls_max, 0);
    assert_int_equal(keys.keys[1].calls_max, 12);
    assert_int_equal(keys.domains_count, 2);
    assert_int_equal(keys.keys[0].domain, keys.keys[1].domain);
    assert_string_equal(keys.domains[keys.keys[0].domain], "red");
    assert_string_equal(keys.domains[keys.keys[2].domain], "D123456789012345678901234567890");
}

/* A key without a domain is in the one that is named like itself, where others may join it. */
static void test_load_key_without_domain_has_one_of_its_name(void **state)
{
    assert_status(STATUS_OK, load("a " SECRET_A "\nb " SECRET_B " a\n"));
    assert_int_equal(keys.domains_count, 1);
    assert_int_equal(keys.keys[0].domain, keys.keys[1].domain);
}

static void test_load_lines_may_end_as_windows_ends_them(void **state)
{
    (void)state;
    assert_status(STATUS_OK, load("# keys\r\n\r\na " SECRET_A "\r\nb " SECRET_B " red 4 3\r\n"));
    assert_int_equal(keys.count, 2);
    assert_string_equal(keys.domains[keys.keys[0].domain], "a");
    assert_int_equal(keys.weights[keys.keys[0].domain], 1);
    assert_int_equal(keys.weights[keys.keys[1].domain], 3);
}

/* One that names a weight counts, wherever it stands. */
static void test_load_weight_of_a_domain_is_that_of_any_key(void **state)
{
    (void)state;
    assert_status(STATUS_OK, load("a " SECRET_A " red 4\nb " SECRET_B " red 4 3\n"));
    assert_int_equal(keys.weights[0], 3);
    assert_status(STATUS_OK, load("a " SECRET_A " red 4 3\nb " SECRET_B " red\n"));
    assert_int_equal(keys.weights[0], 3);
}

static void test_load_bad_lines_are_refused_by_number(void **state)
{
    static const char id[] = "k:1: an id is 1 to 31 letters, digits, dots, dashes and underscores";
    static const char secret[] = "k:1: behind the id stands a secret of 64 hexadecimal digits";
    static const char domain[] =
        "k:1: a domain is 1 to 31 letters, digits, dots, dashes and underscores";
    static const char calls[] =
        "k:1: behind the domain stands a number of open calls, 1 .. 9999999";
    const struct { const char *text, *message; } cases[] = {
        {"a!b " SECRET_A "\n", id},
        {"\xc3\xa4 " SECRET_A "\n", id},
        {"12345678901234567890123456789012 " SECRET_A "\n", id},
        {"a\n", secret},
        {"a b\n", secret},
        {"a " SECRET_A "0\n", secret},
        {"a 00010203040506070809\n", secret},
        {"a 0g0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n", secret},
        {"a 00010203 04050607 08090a0b 0c0d0e0f\n", secret},
        {"a " SECRET_A "\r\r\n", secret},
        {"a " SECRET_A " r;d\n", domain},
        {"a " SECRET_A " 12345678901234567890123456789012\n", domain},
        {"a " SECRET_A " red 0\n", calls},
        {"a " SECRET_A " red -1\n", calls},
        {"a " SECRET_A " red 1k\n", calls},
        {"a " SECRET_A " red 12345678\n", calls},
        {"a " SECRET_A " red 1 # mine\n",
         "k:1: behind the number of calls stands a weight, 1 .. 1000"},
        {"a " SECRET_A " red 1 1001\n",
         "k:1: behind the number of calls stands a weight, 1 .. 1000"},
        {"a " SECRET_A " red 1 2 3\n", "k:1: more than ID SECRET DOMAIN CALLS WEIGHT QUOTA ..."},
        {"a " SECRET_A " red 1 2\nb " SECRET_B " red 1 3\n",
         "k:2: a line above gives the domain another weight"},
        {"a " SECRET_A " red 1 1\nb " SECRET_B " red 1 3\n",
         "k:2: a line above gives the domain another weight"},
        {"a " SECRET_A "\n\na " SECRET_B "\n", "k:3: this id has a line already"},
        {"a " SECRET_A "\nb " SECRET_A "\n", "k:2: this secret has an id already"},
        {"", "k: holds no key"},
        {"# no key\n", "k: holds no key"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_refused(cases[i].text, cases[i].message);
    }
}

static void test_domains_keep_their_numbers(void **state)
{
    (void)state;
    assert_status(STATUS_OK, load("a " SECRET_A " red\nb " SECRET_B " blue 1 7\n"));
    struct config_keys before = keys;
    config_keys_wipe_secrets(&before);
    assert_int_equal(before.count, 0);
    assert_status(STATUS_OK, load("c " SECRET_C " green 1 5\nb " SECRET_B " blue 1 9\n"));
    assert_status(STATUS_OK, config_keys_keep_domains(&keys, &before, &error));
    assert_int_equal(keys.domains_count, 3);
    assert_string_equal(keys.domains[0], "red");
    assert_string_equal(keys.domains[2], "green");
    assert_int_equal(keys.keys[0].domain, 2);
    assert_int_equal(keys.keys[1].domain, 1);
    assert_int_equal(keys.weights[0], 0);       /* no key has it */
    assert_int_equal(keys.weights[1], 9);
    assert_int_equal(keys.weights[2], 5);
}

/* Each reload names another domain; the sixty-fifth finds no number. */
static void test_domains_are_at_most_sixty_four(void **state)
{
    (void)state;
    static struct config_keys before;
    char line[120];
    for (uint32_t i = 0; i <= CONFIG_KEYS_MAX; i++) {
        snprintf(line, sizeof line, "a " SECRET_A " domain%u\n", i);
        assert_status(STATUS_OK, load(line));
        assert_status(i < CONFIG_KEYS_MAX ? STATUS_OK : STATUS_CONFIG_OPTION,
                      config_keys_keep_domains(&keys, &before, &error));
        before = i < CONFIG_KEYS_MAX ? keys : before;
    }
    assert_string_equal(error.text, "more than 64 trust domains since the start");
    expect_wiped();
}

static void test_load_a_zero_byte_is_refused(void **state)
{
    static const char text[] = "a " SECRET_A " r\0d\n";
    assert_status(STATUS_CONFIG_OPTION,
                  config_keys_load_bytes(&keys, "k", text, sizeof text - 1, &error));
}

static uint32_t write_keys(char *text, size_t max, uint32_t count)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < count; i++) {
        length += (uint32_t)snprintf(text + length, max - length, "k%u %064x d%u\n", i, i + 1, i);
    }
    return length;
}

static void test_load_takes_sixty_four_keys_and_no_more(void **state)
{
    char text[16384];
    write_keys(text, sizeof text, CONFIG_KEYS_MAX);
    assert_status(STATUS_OK, load(text));
    assert_int_equal(keys.count, CONFIG_KEYS_MAX);
    assert_int_equal(keys.domains_count, CONFIG_KEYS_MAX);
    assert_string_equal(keys.domains[63], "d63");
    write_keys(text, sizeof text, CONFIG_KEYS_MAX + 1);
    expect_refused(text, "k:65: more than 64 keys");
}

static void test_load_every_prefix_is_taken_or_refused_whole(void **state)
{
    char text[16384];
    uint32_t length = write_keys(text, sizeof text, 3);
    for (uint32_t count = 0; count < length; count++) {
        char *copy = malloc(count + 1);
        memcpy(copy, text, count);
        if (config_keys_load_bytes(&keys, "k", copy, count, &error) == STATUS_OK) {
            assert_true(keys.count > 0);
        } else {
            expect_wiped();
        }
        free(copy);
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static char path[96];

static void place(const char *text, mode_t mode)
{
    snprintf(path, sizeof path, "%s/keys", test_folder());
    unlink(path);                   /* its mode may forbid to write */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void expect_file_refused(const char *message)
{
    memset(&keys, 0, sizeof keys);
    assert_status(STATUS_CONFIG_OPTION, config_keys_load_file(&keys, path, &error));
    if (strstr(error.text, message) == NULL) {
        fail_msg("got: %s", error.text);
    }
    expect_wiped();
}

static void test_file_that_others_may_read_is_refused(void **state)
{
    static const struct { mode_t mode; const char *message; } cases[] = {
        {0644, "mode 0644, need 0600"}, {0640, "mode 0640, need 0600"},
        {0604, "mode 0604, need 0600"}, {0620, "mode 0620, need 0600"},
        {0601, "mode 0601, need 0600"}, {0660, "mode 0660, need 0600"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        place("a " SECRET_A "\n", cases[i].mode);
        expect_file_refused(cases[i].message);
    }
    place("a " SECRET_A "\n", 0600);
    assert_status(STATUS_OK, config_keys_load_file(&keys, path, &error));
    place("a " SECRET_A "\n", 0400);
    assert_status(STATUS_OK, config_keys_load_file(&keys, path, &error));
}

static void test_file_of_another_user_is_refused(void **state)
{
    place("a " SECRET_A "\n", 0600);
    if (chown(path, 4242, (gid_t)-1) != 0) {
        print_message("not run: only root can give a file away\n");
        skip();
    }
    expect_file_refused("belongs to user 4242, need 0 or root");
    unlink(path);
}

static void test_file_that_is_none_is_refused(void **state)
{
    snprintf(path, sizeof path, "%s", test_folder());
    expect_file_refused("not a regular file");
    snprintf(path, sizeof path, "%s/nowhere", test_folder());
    expect_file_refused("cannot be opened");
    place("a " SECRET_A "\n", 0600);
    char link[96];
    snprintf(link, sizeof link, "%s/link", test_folder());
    assert_int_equal(symlink(path, link), 0);
    memcpy(path, link, sizeof path);
    expect_file_refused("symbolic link");
}

static void test_file_that_is_too_large_is_refused(void **state)
{
    static char text[CONFIG_KEYS_BYTES_MAX + 2];
    memset(text, '\n', sizeof text - 1);
    place(text, 0600);
    expect_file_refused("too large");
}

/* ---- quotas ---------------------------------------------------------------------------------- */

static const struct quota_bounds *bounds_of(const char *domain, enum quota_kind kind)
{
    for (uint32_t i = 0; i < keys.domains_count; i++) {
        if (strcmp(keys.domains[i], domain) == 0) {
            return &keys.quotas[i][kind];
        }
    }
    return NULL;
}

static void test_load_quotas_stand_after_any_positional_field(void **state)
{
    assert_status(STATUS_OK, load("a " SECRET_A " calls=3\n"
                                  "b " SECRET_B " red 12 2 calls=0..7 connections=4..4\n"
                                  "c " SECRET_C " red calls=0..7 reply_tokens=100\n"));
    assert_int_equal(bounds_of("a", QUOTA_CALLS)->min, 3);
    assert_int_equal(bounds_of("a", QUOTA_CALLS)->max, UINT32_MAX);
    assert_int_equal(bounds_of("a", QUOTA_PROGRAMS)->max, 0);           /* no word */
    assert_int_equal(bounds_of("red", QUOTA_CALLS)->min, 0);
    assert_int_equal(bounds_of("red", QUOTA_CALLS)->max, 7);
    assert_int_equal(bounds_of("red", QUOTA_CONNECTIONS)->min, 4);
    assert_int_equal(bounds_of("red", QUOTA_REPLY_TOKENS)->min, 100);
    assert_int_equal(keys.keys[1].calls_max, 12);
}

static void test_load_bad_quotas_are_refused(void **state)
{
    static const char form[] =
        "k:1: a quota is NAME=MIN or NAME=MIN..MAX, with connections, calls, programs, replies, "
        "reply_tokens or workflows as the name, MIN from 0, MAX from 1 on, MIN <= MAX <= 9999999, "
        "or kv_blocks=MIN";
    static const char *const bad[] = {"kv=1", "=1", "calls=", "calls=x", "calls=1..", "calls=..2",
                                      "calls=3..2", "calls=0..0", "calls=-1", "calls=1...2",
                                      "calls=00", "calls=12345678", "call=1", "callss=1",
                                      "kv_blocks=1..2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "a %s red 1 1 %s\n", SECRET_A, bad[i]);
        expect_refused(text, form);
    }
    expect_refused("a " SECRET_A " calls=1 red\n",
                   "k:1: more than ID SECRET DOMAIN CALLS WEIGHT QUOTA ...");
    expect_refused("a " SECRET_A " red calls=1\nb " SECRET_B " red calls=2\n",
                   "k:2: the domain has another quota of this name already");
    expect_refused("a " SECRET_A " red calls=1 calls=2\n",
                   "k:1: the domain has another quota of this name already");
}

static const struct limits places = {.connections = 100, .calls = 40, .programs = 1000,
                                     .replies = 10, .reply_tokens = 4000, .preauth = 10,
                                     .reserve_permille = 500};

static void test_shares_are_by_weight_and_leave_the_rest_to_all(void **state)
{
    struct quotas quotas;
    assert_status(STATUS_OK, load("a " SECRET_A " red 5 3\nb " SECRET_B " blue\n"
                                  "c " SECRET_C " green programs=0..9\n"));
    config_quotas_fill(&quotas, &keys, &places);
    assert_int_equal(quotas.totals[QUOTA_CONNECTIONS], 90);     /* and 10 for handshakes */
    assert_int_equal(quotas.of[QUOTA_CONNECTIONS][1].min, 27);
    assert_int_equal(quotas.of[QUOTA_CONNECTIONS][2].min, 9);
    assert_int_equal(quotas.of[QUOTA_CALLS][1].min, 12);
    assert_int_equal(quotas.of[QUOTA_REPLIES][2].min, 1);
    assert_int_equal(quotas.of[QUOTA_PROGRAMS][2].min, 100);
    assert_int_equal(quotas.of[QUOTA_PROGRAMS][3].min, 0);
    assert_int_equal(quotas.of[QUOTA_PROGRAMS][3].max, 9);
    assert_int_equal(quotas.of[QUOTA_CALLS][QUOTA_WITHOUT_KEY].min, 0);
    struct limits with_users = places;
    with_users.has_users = true;
    config_quotas_fill(&quotas, &keys, &with_users);
    assert_int_equal(quotas.of[QUOTA_CALLS][QUOTA_WITHOUT_KEY].min, 3);
    assert_int_equal(quotas.of[QUOTA_CALLS][1].min, 10);
}

static void test_one_domain_alone_has_no_minimum(void **state)
{
    struct quotas quotas, without;
    struct limits with_users = places;
    with_users.has_users = true;
    assert_status(STATUS_OK, load("a " SECRET_A " red\nb " SECRET_B " red\n"));
    config_quotas_fill(&quotas, &keys, &with_users);
    config_quotas_fill(&without, NULL, &with_users);
    assert_memory_equal(&quotas, &without, sizeof quotas);
    assert_int_equal(quotas.totals[QUOTA_CONNECTIONS], 100);
    assert_int_equal(quotas.of[QUOTA_CALLS][1].min, 0);
}

/* Whatever the weights and the table's size, shares never add up to more than there is. */
static void test_shares_always_fit(void **state)
{
    for (uint32_t total = 1; total < 300; total++) {
        struct quotas quotas;
        struct limits limits = {.connections = total, .calls = total, .programs = total,
                                .replies = total, .reply_tokens = total, .preauth = total % 20,
                                .reserve_permille = total * 7 % 901, .has_users = total % 2 == 0};
        memset(&keys, 0, sizeof keys);
        keys.domains_count = 1 + total % CONFIG_KEYS_MAX;
        for (uint32_t i = 0; i < keys.domains_count; i++) {
            keys.weights[i] = i * total % 3 == 0 ? 1 : 1 + i * total * 31 % 1000;
        }
        assert_status(STATUS_OK, config_quotas_check(&keys, &limits, &error));
        config_quotas_fill(&quotas, &keys, &limits);
        assert_true(quotas.totals[QUOTA_CONNECTIONS] > 0);
    }
}

static void test_minimums_beyond_a_limit_are_refused(void **state)
{
    assert_status(STATUS_OK, load("a " SECRET_A " red calls=30\nb " SECRET_B " blue calls=11\n"));
    assert_status(STATUS_CONFIG_OPTION, config_quotas_check(&keys, &places, &error));
    assert_string_equal(error.text, "the minimums of calls (auth.keys, and shares of "
                                    "limits.reserve) are 41, and limits.calls = 40");
    assert_status(STATUS_OK, load("a " SECRET_A " red calls=30\nb " SECRET_B " blue calls=10\n"));
    assert_status(STATUS_OK, config_quotas_check(&keys, &places, &error));
}

/* A domain that is gone has no minimum any more. */
static void test_kept_domains_take_their_quotas_along(void **state)
{
    static struct config_keys before;
    struct quotas quotas;
    assert_status(STATUS_OK, load("a " SECRET_A " red calls=3\nb " SECRET_B " blue calls=4\n"));
    before = keys;
    assert_status(STATUS_OK, load("b " SECRET_B " blue calls=5\nc " SECRET_C " green\n"));
    assert_status(STATUS_OK, config_keys_keep_domains(&keys, &before, &error));
    config_quotas_fill(&quotas, &keys, &places);
    assert_int_equal(quotas.of[QUOTA_CALLS][1].min, 0);
    assert_int_equal(quotas.of[QUOTA_CALLS][2].min, 5);
    assert_int_equal(quotas.of[QUOTA_CALLS][3].min, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_good_file_gives_ids_secrets_domains_and_numbers),
        cmocka_unit_test(test_load_key_without_domain_has_one_of_its_name),
        cmocka_unit_test(test_load_lines_may_end_as_windows_ends_them),
        cmocka_unit_test(test_load_weight_of_a_domain_is_that_of_any_key),
        cmocka_unit_test(test_load_bad_lines_are_refused_by_number),
        cmocka_unit_test(test_domains_keep_their_numbers),
        cmocka_unit_test(test_domains_are_at_most_sixty_four),
        cmocka_unit_test(test_load_a_zero_byte_is_refused),
        cmocka_unit_test(test_load_takes_sixty_four_keys_and_no_more),
        cmocka_unit_test(test_load_every_prefix_is_taken_or_refused_whole),
        cmocka_unit_test(test_file_that_others_may_read_is_refused),
        cmocka_unit_test(test_file_of_another_user_is_refused),
        cmocka_unit_test(test_file_that_is_none_is_refused),
        cmocka_unit_test(test_file_that_is_too_large_is_refused),
        cmocka_unit_test(test_load_quotas_stand_after_any_positional_field),
        cmocka_unit_test(test_load_bad_quotas_are_refused),
        cmocka_unit_test(test_shares_are_by_weight_and_leave_the_rest_to_all),
        cmocka_unit_test(test_one_domain_alone_has_no_minimum),
        cmocka_unit_test(test_shares_always_fit),
        cmocka_unit_test(test_minimums_beyond_a_limit_are_refused),
        cmocka_unit_test(test_kept_domains_take_their_quotas_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
