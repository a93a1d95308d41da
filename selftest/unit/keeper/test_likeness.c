/* SPDX-License-Identifier: MIT */
/*
 * Goal: what was computed with a model is valid for a copy of it, and for no other; with a GPU
 * an upgrade, which does not know all weights, asks for the very same file.
 * Method: files of some bytes, of which a part counts as the header.
 */
#include "selftest/unit/folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "appliance/boot/model_digest.h"
#include "appliance/keeper/upgrade/likeness.h"

#define FILE_BYTES   300000u
#define HEADER_BYTES 5000u

static struct gguf gguf = {.data_offset = HEADER_BYTES};
static uint8_t content[FILE_BYTES];

static int begin(void **state)
{
    for (uint32_t i = 0; i < sizeof content; i++) {
        content[i] = (uint8_t)(i * 7 + i / 256);
    }
    return 0;
}

/* As at boot with a model of these bytes. */
static struct boot boot_with(const char *name, uint64_t bytes, bool serves_by_gpu)
{
    char path[80];
    struct config_error error;
    struct boot boot = {.gguf = &gguf, .serves_by_gpu = serves_by_gpu};
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    (void)unlink(path);
    int handle = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(handle, content, bytes), (ssize_t)bytes);
    close(handle);
    assert_status(STATUS_OK, gguf_source_open(&boot.source, path, &error));
    assert_int_equal(model_digest_fill(&boot), BOOT_EXIT_OK);
    return boot;
}

static uint64_t digest_of(const char *name, uint64_t bytes, bool serves_by_gpu)
{
    struct boot boot = boot_with(name, bytes, serves_by_gpu);
    gguf_source_close(&boot.source);
    return boot.model_digest;
}

static void test_a_copy_has_the_same_digest(void **state)
{
    for (uint32_t gpu = 0; gpu < 2; gpu++) {
        uint64_t first = digest_of("first", FILE_BYTES, gpu == 1);
        assert_true(first != 0 && digest_of("second", FILE_BYTES, gpu == 1) == first);
    }
    assert_true(digest_of("first", FILE_BYTES, true) != digest_of("first", FILE_BYTES, false));
}

static void test_another_size_header_or_weight_has_another_digest(void **state)
{
    static const uint32_t places[] = {0, HEADER_BYTES - 1, HEADER_BYTES};
    uint64_t first = digest_of("first", FILE_BYTES, true);
    /* So little less that all samples are where they were, and as long. */
    assert_true(digest_of("first", FILE_BYTES - 1, true) != first);
    for (uint32_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        content[places[i]]++;
        assert_true(digest_of("first", FILE_BYTES, true) != first);
        content[places[i]]--;
    }
    assert_true(digest_of("first", FILE_BYTES, true) == first);
}

static const char *unlike(const struct boot *a, const struct boot *b)
{
    static char text[UPGRADE_TEXT_BYTES];
    struct upgrade_likeness before, after;
    upgrade_likeness_fill(&before, a);
    upgrade_likeness_fill(&after, b);
    return upgrade_unlike(&before, &after, text);
}

static void test_other_limits_are_named_with_both_values(void **state)
{
    struct boot first = boot_with("first", FILE_BYTES, false), second = first;
    first.limits.calls = 256;
    second.limits.calls = 7;
    assert_string_equal(unlike(&first, &second), "other limits: limits.calls was 256 and is 7");
    first.limits.send_bytes = 65536;
    second.limits.send_bytes = 8192;
    assert_string_equal(unlike(&first, &second), "other limits: limits.calls was 256 and is 7, "
                        "net.send_bytes was 65536 and is 8192");
    second.limits = first.limits;
    assert_null(unlike(&first, &second));
    second.limits.commands++;               /* no option of its own */
    assert_string_equal(unlike(&first, &second),
                        "other limits (limits.*, net.send_bytes, what follows from them)");
    memset(&second.limits, 0xff, sizeof second.limits);     /* all that have room */
    const char *all = unlike(&first, &second);
    assert_true(strlen(all) < UPGRADE_TEXT_BYTES && strstr(all, "limits.calls was 256") != NULL);
    gguf_source_close(&first.source);
}

static void test_an_upgrade_with_a_gpu_asks_for_the_same_file(void **state)
{
    for (uint32_t gpu = 0; gpu < 2; gpu++) {
        struct boot first = boot_with("first", FILE_BYTES, gpu == 1);
        struct boot copy = boot_with("copy", FILE_BYTES, gpu == 1);
        assert_null(unlike(&first, &first));
        assert_true((unlike(&first, &copy) != NULL) == (gpu == 1));
        gguf_source_close(&first.source);
        gguf_source_close(&copy.source);
    }
}

static void test_weights_count_where_both_are_known(void **state)
{
    static const struct { struct model_digests a, b; bool differ; } rows[] = {
        {{1, 2}, {1, 2}, false}, {{1, 2}, {1, 3}, true},  {{1, 2}, {3, 2}, true},
        {{1, 0}, {1, 3}, false}, {{1, 2}, {1, 0}, false}, {{1, 0}, {2, 0}, true}};
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(model_digests_differ(rows[i].a, rows[i].b) == rows[i].differ);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, begin)
    const struct CMUnitTest tests[] = {
        T(test_a_copy_has_the_same_digest),
        T(test_another_size_header_or_weight_has_another_digest),
        T(test_an_upgrade_with_a_gpu_asks_for_the_same_file),
        T(test_other_limits_are_named_with_both_values),
        T(test_weights_count_where_both_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
