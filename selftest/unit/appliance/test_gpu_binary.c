/* SPDX-License-Identifier: MIT */
/*
 * Goal: the GPU worker's binary starts from memory that cannot change, and gets its descriptors
 * whatever numbers they had before.
 * Method: the real binary, asked for a driver that is not there: it says so on its page.
 */
#include "selftest/unit/test.h"

#include <sys/wait.h>
#include <unistd.h>

#include "appliance/boot/gpu.h"

static void test_memory_has_its_bytes_and_keeps_them(void **state)
{
    static const uint8_t bytes[] = "a model";
    uint8_t back[sizeof bytes] = {0};
    int handle = gpu_memory_open("test", bytes, sizeof bytes, 0);
    assert_true(handle >= 0);
    assert_int_equal(pread(handle, back, sizeof back, 0), sizeof back);
    assert_memory_equal(back, bytes, sizeof bytes);
    assert_int_equal(pwrite(handle, "x", 1, 0), -1);
    assert_int_not_equal(ftruncate(handle, 0), 0);
    close(handle);
}

static struct options options_without_driver(void)
{
    struct options options;
    struct config_error error;
    config_defaults(&options);
    assert_status(STATUS_OK,
                  config_set(&options, "engine.cuda_library=libcuda-none.so.1", &error));
    return options;
}

static void test_probe_tells_what_is_not_there(void **state)
{
    struct options options = options_without_driver();
    struct gpu_binary program;
    struct config_error error = {{0}};
    struct gpu gpu = {.device = 0};
    assert_true(gpu_binary_open(&program));
    assert_status(STATUS_CONFIG_GPU_DRIVER, gpu_probe(&gpu, &program, &options, &error));
    assert_non_null(strstr(error.text, "libcuda-none.so.1"));
    gpu_binary_close(&program);
    assert_int_equal(program.handle, -1);
}

/* In the child each place of the binary is taken, and the page is at the last one. */
static _Noreturn void run_crossed(const struct gpu_binary *program)
{
    struct gpu_binary crossed = *program;
    int page = dup(program->page_handle), handle = dup(program->handle);
    while (page < GPU_HANDLES_END || handle < GPU_HANDLES_END) {
        page = dup(page);
        handle = dup(handle);
    }
    for (int i = GPU_PAGE; i < GPU_HANDLES_END; i++) {
        dup2(STDERR_FILENO, i);
    }
    crossed.handle = dup2(handle, GPU_PAGE);
    const int handles[GPU_HANDLES] = {dup2(page, GPU_MODEL), GPU_BELL, GPU_SHARED, GPU_PAGE};
    gpu_binary_run(&crossed, handles);
}

static void test_descriptors_may_stand_in_each_others_places(void **state)
{
    struct options options = options_without_driver();
    struct gpu_binary program;
    int status = 0;
    assert_true(gpu_binary_open(&program));
    gpu_binary_order(&program, GPU_PROBE, 0, &options);
    pid_t child = fork();
    if (child == 0) {
        run_crossed(&program);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(program.page->report.is_there);
    gpu_binary_close(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_has_its_bytes_and_keeps_them),
        cmocka_unit_test(test_probe_tells_what_is_not_there),
        cmocka_unit_test(test_descriptors_may_stand_in_each_others_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
