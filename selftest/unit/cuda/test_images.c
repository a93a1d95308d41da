/* SPDX-License-Identifier: MIT */
/*
 * Goal: a device gets the images that run on it and no others, and each image is there whole.
 * Method: capabilities of chips that there are; the first bytes of each image, and the NUL that
 * ends PTX.
 */
#include "selftest/unit/test.h"

#include "kernels/cuda/images.h"

#define EM_CUDA 190

static void test_a_device_takes_what_runs_on_it(void **state)
{
    static const struct { uint32_t capability; const char *arch; } cases[] = {
        {80, "sm_80"}, {86, "sm_80"}, {89, "sm_80"}, {90, "sm_90a"}, {100, "sm_100"},
        {103, "sm_100"}, {120, "compute_80"}, {0, "soft"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(images_arch(cases[i].capability), cases[i].arch);
    }
    assert_null(images_arch(75));
    assert_null(images_arch(1));
}

static void test_images_are_cubins_and_ptx(void **state)
{
    if (images_count == 0) {
        print_message("skipped: no nvcc when this was built, or no kernels: no images\n");
        skip();
    }
    assert_true(images_toolkit >= 12000);
    for (uint32_t i = 0; i < images_count; i++) {
        const uint8_t *data = images_data[i];
        assert_int_equal((uintptr_t)data % 64, 0);
        assert_int_equal(data[images[i].bytes], 0);
        if (strncmp(images[i].arch, "sm_", 3) == 0) {
            assert_memory_equal(data, "\177ELF", 4);
            assert_int_equal(data[18], EM_CUDA);
        } else {
            assert_non_null(strstr((const char *)data, ".target sm_80"));
            assert_true(strlen((const char *)data) + 1 >= images[i].bytes);
        }
    }
}

/* Every file has the same architectures. */
static void test_every_file_has_every_architecture(void **state)
{
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_100", "compute_80"};
    uint32_t seen[4] = {0};
    for (uint32_t i = 0; i < images_count; i++) {
        for (uint32_t a = 0; a < 4; a++) {
            seen[a] += strcmp(images[i].arch, archs[a]) == 0 ? 1 : 0;
        }
    }
    for (uint32_t a = 0; a < 4; a++) {
        assert_int_equal(seen[a], images_count / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_device_takes_what_runs_on_it),
        cmocka_unit_test(test_images_are_cubins_and_ptx),
        cmocka_unit_test(test_every_file_has_every_architecture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
