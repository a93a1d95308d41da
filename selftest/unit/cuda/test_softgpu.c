/* SPDX-License-Identifier: MIT */
/*
 * Goal: the soft GPU orders only what a GPU orders and refuses misuse, and each fault that it can
 * inject reaches the caller as a status of its own. Method: the driver's table over it. In lazy
 * mode only operations run that a caller waits for, so every missing order shows.
 */
#include "selftest/unit/cuda/rig.h"

#include <stdio.h>
#include <unistd.h>

/* ---- order ---- */

static void test_operations_of_a_stream_run_in_order(void **state)
{
    rig_pin(5);
    assert_status(STATUS_OK, rig_upload(0));
    assert_status(STATUS_OK, rig_launch(0, (struct gpu_trial){.count = RIG_WORDS, .factor = 2,
                                                              .addend = 1}));
    assert_status(STATUS_OK, rig_launch(0, (struct gpu_trial){.count = RIG_WORDS, .factor = 3,
                                                              .addend = 2}));
    assert_status(STATUS_OK, rig_download(0));
    MUST(cuStreamSynchronize, rig.streams[0]);
    for (uint32_t i = 0; i < RIG_WORDS; i++) {
        assert_int_equal(rig.pinned[i], (5 * 2 + 1) * 3 + 2);
    }
}

static void test_fills_and_copies_on_the_device(void **state)
{
    MUST(cuMemsetD32Async, rig.words, 0x01020304, RIG_WORDS, rig.streams[0]);
    MUST(cuMemsetD8Async, rig.words, 0x7f, 6, rig.streams[0]);
    MUST(cuMemcpyDtoDAsync, rig.words + 32, rig.words, 8, rig.streams[0]);
    assert_status(STATUS_OK, rig_download(0));
    MUST(cuCtxSynchronize);
    assert_int_equal(rig.pinned[0], 0x7f7f7f7f);
    assert_int_equal(rig.pinned[1], 0x01027f7f);
    assert_int_equal(rig.pinned[2], 0x01020304);
    assert_int_equal(rig.pinned[9], 0x01027f7f);
    assert_int_equal(rig.pinned[10], 0x01020304);
}

/* The copy reads a word that is changed too early. */
static void test_a_lazy_copy_reads_when_it_is_waited_for(void **state)
{
    rig_pin(1);
    assert_status(STATUS_OK, rig_upload(0));
    rig_pin(2);
    MUST(cuStreamSynchronize, rig.streams[0]);
    rig_pin(3);
    assert_status(STATUS_OK, rig_download(0));
    assert_int_equal(rig.pinned[0], 3);
    MUST(cuStreamSynchronize, rig.streams[0]);
    assert_int_equal(rig.pinned[0], 2);
}

static void test_a_query_that_is_repeated_comes_true(void **state)
{
    enum status status = STATUS_GONE_AGAIN;
    rig_pin(7);
    assert_status(STATUS_OK, rig_upload(0));
    while (status == STATUS_GONE_AGAIN) {
        status = CALL(cuStreamQuery, rig.streams[0]);
    }
    assert_status(STATUS_OK, status);
}

/* Stream 1 reads what stream 0 writes, without an event: it is not there yet. */
static void test_streams_are_not_ordered_by_themselves(void **state)
{
    MUST(cuMemsetD32Async, rig.words, 1, RIG_WORDS, rig.streams[0]);
    MUST(cuStreamSynchronize, rig.streams[0]);
    MUST(cuMemsetD32Async, rig.words, 2, RIG_WORDS, rig.streams[0]);
    assert_status(STATUS_OK, rig_download(1));
    MUST(cuStreamSynchronize, rig.streams[1]);
    assert_int_equal(rig.pinned[0], 1);
}

static void test_an_event_orders_two_streams(void **state)
{
    struct CUevent_st *event = NULL;
    MUST(cuEventCreate, &event, DRIVER_EVENT_UNTIMED);
    MUST(cuMemsetD32Async, rig.words, 2, RIG_WORDS, rig.streams[0]);
    MUST(cuEventRecord, event, rig.streams[0]);
    MUST(cuMemsetD32Async, rig.words, 3, RIG_WORDS, rig.streams[0]);
    MUST(cuStreamWaitEvent, rig.streams[1], event, 0);
    MUST(cuEventRecord, event, rig.streams[0]);     /* a later place: no longer the awaited one */
    assert_status(STATUS_OK, rig_download(1));
    MUST(cuStreamSynchronize, rig.streams[1]);
    assert_int_equal(rig.pinned[0], 2);
    MUST(cuEventSynchronize, event);
    assert_status(STATUS_OK, rig_download(1));
    MUST(cuStreamSynchronize, rig.streams[1]);
    assert_int_equal(rig.pinned[0], 3);
    MUST(cuEventDestroy, event);
}

/* Whatever is waited for, stream `first` runs as early as it can, and the other as late. */
static void check_who_goes_first(uint32_t first)
{
    struct CUevent_st *event = NULL;
    MUST(cuEventCreate, &event, DRIVER_EVENT_UNTIMED);
    MUST(cuMemsetD32Async, rig.words, 1, RIG_WORDS, rig.streams[0]);
    MUST(cuMemsetD32Async, rig.words, 2, RIG_WORDS, rig.streams[1]);
    MUST(cuStreamSynchronize, rig.streams[0]);
    MUST(cuStreamSynchronize, rig.streams[1]);
    assert_status(STATUS_OK, rig_download(0));
    MUST(cuStreamSynchronize, rig.streams[0]);
    assert_int_equal(rig.pinned[0], first == 1 ? 2 : 1);    /* the last one wins */
    MUST(cuMemsetD32Async, rig.words, 3, RIG_WORDS, rig.streams[2 - first]);
    MUST(cuEventRecord, event, rig.streams[2 - first]);
    MUST(cuStreamWaitEvent, rig.streams[first - 1], event, 0);
    MUST(cuMemsetD32Async, rig.words, 4, RIG_WORDS, rig.streams[first - 1]);
    MUST(cuMemsetD32Async, rig.words, 5, RIG_WORDS, rig.streams[2 - first]);
    MUST(cuCtxSynchronize);
    assert_status(STATUS_OK, rig_download(0));
    MUST(cuStreamSynchronize, rig.streams[0]);
    assert_int_equal(rig.pinned[0], 5);                     /* 3 by the event, 4 at once, 5 */
    MUST(cuEventDestroy, event);
}

static void test_a_stream_that_goes_first_waits_for_events_only(void **state)
{
    for (uint32_t first = 1; first <= 2; first++) {
        setenv("SOFTGPU_FIRST", first == 1 ? "1" : "2", 1);
        rig_setup(state);
        check_who_goes_first(first);
        rig_teardown(state);
    }
    unsetenv("SOFTGPU_FIRST");
}

static void test_an_event_is_done_when_what_is_before_it_is(void **state)
{
    struct CUevent_st *event = NULL;
    MUST(cuEventCreate, &event, 0);
    MUST(cuEventQuery, event);                      /* never recorded */
    rig.faults("hang:1");
    MUST(cuMemsetD32Async, rig.words, 2, RIG_WORDS, rig.streams[0]);
    MUST(cuEventRecord, event, rig.streams[0]);
    assert_status(STATUS_GONE_AGAIN, CALL(cuEventQuery, event));
    rig.faults("");
    MUST(cuEventSynchronize, event);
    MUST(cuEventQuery, event);
    MUST(cuEventDestroy, event);
}

static void test_events_take_times_in_order(void **state)
{
    struct CUevent_st *begin = NULL, *end = NULL;
    float milliseconds = -1;
    MUST(cuEventCreate, &begin, 0);
    MUST(cuEventCreate, &end, 0);
    MUST(cuEventRecord, begin, rig.streams[0]);
    MUST(cuMemsetD32Async, rig.words, 2, RIG_WORDS, rig.streams[0]);
    MUST(cuEventRecord, end, rig.streams[0]);
    MUST(cuEventSynchronize, end);
    MUST(cuEventElapsedTime, &milliseconds, begin, end);
    assert_true(milliseconds >= 0);
    MUST(cuEventDestroy, begin);
    MUST(cuEventDestroy, end);
}

/* More operations than a stream has room for. */
static void test_a_full_stream_takes_more_when_it_has_run_some(void **state)
{
    MUST(cuMemsetD32Async, rig.words, 0, RIG_WORDS, rig.streams[0]);
    for (uint32_t i = 0; i < 3000; i++) {
        assert_status(STATUS_OK, rig_launch(0, (struct gpu_trial){.count = 1, .factor = 1,
                                                                  .addend = 1}));
    }
    assert_status(STATUS_OK, rig_download(0));
    MUST(cuStreamSynchronize, rig.streams[0]);
    assert_int_equal(rig.pinned[0], 3000);
}

/* ---- misuse ---- */

static void test_memory_has_a_size(void **state)
{
    unsigned long long more = 0;
    size_t free_bytes = 0, total = 0, after = 0;
    MUST(cuMemGetInfo, &free_bytes, &total);
    assert_int_equal(total, 1 << 20);
    assert_int_equal(free_bytes, total - RIG_BYTES);
    assert_status(STATUS_DEVICE_MEMORY, CALL(cuMemAlloc, &more, free_bytes + 1));
    MUST(cuMemAlloc, &more, free_bytes);
    MUST(cuMemGetInfo, &after, &total);
    assert_int_equal(after, 0);
    MUST(cuMemFree, more);
    MUST(cuMemGetInfo, &after, &total);
    assert_int_equal(after, free_bytes);
}

static int setup_small(void **state)
{
    setenv("SOFTGPU_MEMORY", "1048576", 1);
    return rig_setup(state);
}

static void test_copies_beyond_an_allocation_are_refused(void **state)
{
    struct CUstream_st *stream = rig.streams[0];
    uint32_t own[4] = {0};
    assert_status(STATUS_DEVICE_FAILED,
                  CALL(cuMemcpyHtoDAsync, rig.words + 4, rig.pinned, RIG_BYTES, stream));
    assert_status(STATUS_DEVICE_FAILED,
                  CALL(cuMemcpyDtoHAsync, rig.pinned + 1, rig.words, RIG_BYTES, stream));
    assert_status(STATUS_DEVICE_FAILED, CALL(cuMemcpyHtoDAsync, rig.words, own, 16, stream));
    assert_status(STATUS_DEVICE_FAILED,
                  CALL(cuMemsetD32Async, rig.words, 0, RIG_WORDS + 1, stream));
    MUST(cuMemHostRegister, own, sizeof own, 0);
    MUST(cuMemcpyHtoDAsync, rig.words, own, 16, stream);
    MUST(cuMemHostUnregister, own);
    assert_status(STATUS_DEVICE_FAILED, CALL(cuMemcpyHtoDAsync, rig.words, own, 16, stream));
    assert_status(STATUS_DEVICE_FAILED, CALL(cuMemFree, rig.words + 256));
}

static void test_the_default_stream_is_refused(void **state)
{
    assert_status(STATUS_DEVICE_FAILED,
                  CALL(cuMemcpyHtoDAsync, rig.words, rig.pinned, RIG_BYTES, NULL));
    assert_status(STATUS_DEVICE_FAILED, CALL(cuStreamSynchronize, NULL));
}

static void test_launches_beyond_the_device_are_refused(void **state)
{
    struct gpu_trial trial = {.words = rig.words};
    void *parameters[] = {&trial};
    struct CUstream_st *stream = rig.streams[0];
    assert_status(STATUS_DEVICE_FAILED, CALL(cuLaunchKernel, rig.trial, 1, 1, 1, 1025, 1, 1, 0,
                                             stream, parameters, NULL));
    assert_status(STATUS_DEVICE_FAILED, CALL(cuLaunchKernel, rig.trial, 1, 0, 1, 1, 1, 1, 0,
                                             stream, parameters, NULL));
    assert_status(STATUS_DEVICE_FAILED, CALL(cuLaunchKernel, rig.trial, 1, 1, 1, 1, 1, 1, 49153,
                                             stream, parameters, NULL));
    MUST(cuFuncSetAttribute, rig.trial, DRIVER_FUNCTION_SHARED_BYTES, 49153);
    MUST(cuLaunchKernel, rig.trial, 1, 1, 1, 1, 1, 1, 49153, stream, parameters, NULL);
}

static void test_writes_beyond_an_allocation_are_seen(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    print_message("skipped: this build has the sanitizer's redzones, which end the process\n");
    skip();
#endif
    assert_status(STATUS_OK, rig_launch(0, (struct gpu_trial){.count = RIG_WORDS, .factor = 1}));
    MUST(cuStreamSynchronize, rig.streams[0]);
    assert_status(STATUS_OK, rig_launch(0, (struct gpu_trial){.count = RIG_WORDS + 1,
                                                              .factor = 0}));
    assert_status(STATUS_DEVICE_FAULT, CALL(cuStreamSynchronize, rig.streams[0]));
    assert_status(STATUS_DEVICE_FAULT, rig_upload(1));
}

/* cuMemAlloc of CUDA 2.0 had 32 bits. */
static void test_an_entry_of_another_version_is_another(void **state)
{
    unsigned (*find)(const char *, void **, int, uint64_t, unsigned *);
    void *address = NULL;
    *(void **)&find = dlsym(rig.driver.library, "cuGetProcAddress_v2");
    assert_status(STATUS_OK, driver_status(find("cuMemAlloc", &address, 3020, 0, NULL)));
    assert_status(STATUS_CONFIG_GPU_IMAGE,
                  driver_status(find("cuMemAlloc", &address, 2000, 0, NULL)));
    assert_null(address);
}

/* ---- modules ---- */

static void test_other_images_and_kernels_are_refused(void **state)
{
    struct CUmod_st *module = NULL;
    struct CUfunc_st *function = NULL;
    assert_status(STATUS_CONFIG_GPU_IMAGE, CALL(cuModuleLoadData, &module, "agentix softgqu\n"));
    assert_status(STATUS_CONFIG_GPU_IMAGE, CALL(cuModuleLoadData, &module, "\177ELF"));
    assert_status(STATUS_CONFIG_GPU_IMAGE,
                  CALL(cuModuleGetFunction, &function, rig.module, "none"));
}

static void test_a_real_capability_wants_real_images(void **state)
{
    struct CUmod_st *module = NULL;
    int major = 0, minor = 0;
    setenv("SOFTGPU_CAPABILITY", "90", 1);
    rig_open();
    MUST(cuDeviceGetAttribute, &major, DRIVER_CAPABILITY_MAJOR, 0);
    MUST(cuDeviceGetAttribute, &minor, DRIVER_CAPABILITY_MINOR, 0);
    assert_int_equal(major * 10 + minor, 90);
    assert_status(STATUS_CONFIG_GPU_IMAGE, CALL(cuModuleLoadData, &module, SOFTGPU_IMAGE));
    assert_status(STATUS_CONFIG_GPU_IMAGE, CALL(cuModuleLoadData, &module, "\177ELF"));
    MUST(cuModuleLoadData, &rig.module, SOFTGPU_FATBIN);
}

/* ---- faults ---- */

static void test_a_refused_allocation_is_seen(void **state)
{
    unsigned long long more = 0;
    void *host = NULL;
    rig.faults("alloc:2");
    MUST(cuMemAlloc, &more, 16);
    assert_status(STATUS_DEVICE_MEMORY, CALL(cuMemHostAlloc, &host, 16, 0));
    MUST(cuMemFree, more);
    MUST(cuMemAlloc, &more, 16);
    MUST(cuMemFree, more);
}

static void test_a_refused_launch_is_seen(void **state)
{
    rig.faults("launch:2");
    assert_status(STATUS_OK, rig_launch(0, (struct gpu_trial){.count = 1}));
    assert_status(STATUS_DEVICE_LAUNCH, rig_launch(0, (struct gpu_trial){.count = 1}));
    assert_status(STATUS_OK, rig_launch(0, (struct gpu_trial){.count = 1}));
    MUST(cuStreamSynchronize, rig.streams[0]);
}

static void test_a_kernel_that_fails_is_seen_by_who_waits(void **state)
{
    assert_status(STATUS_OK, rig_launch(0, (struct gpu_trial){.fails = 1}));
    assert_status(STATUS_DEVICE_FAULT, CALL(cuStreamSynchronize, rig.streams[0]));
    assert_status(STATUS_DEVICE_FAULT, CALL(cuStreamSynchronize, rig.streams[1]));
}

static void test_a_sticky_error_stays(void **state)
{
    rig.faults("sticky:3");
    MUST(cuStreamQuery, rig.streams[1]);
    assert_status(STATUS_OK, rig_upload(0));
    assert_status(STATUS_DEVICE_FAULT, rig_upload(0));
    assert_status(STATUS_DEVICE_FAULT, rig_launch(1, (struct gpu_trial){.count = 1}));
    assert_status(STATUS_DEVICE_FAULT, CALL(cuCtxSynchronize));
}

static void test_a_lost_device_stays_lost(void **state)
{
    unsigned long long more = 0;
    rig.faults("lost:1");
    assert_status(STATUS_DEVICE_LOST, CALL(cuMemAlloc, &more, 16));
    assert_status(STATUS_DEVICE_LOST, rig_upload(0));
    assert_status(STATUS_DEVICE_LOST, CALL(cuStreamSynchronize, rig.streams[0]));
}

/* A hung operation never ends, nor do those after it; another stream goes on. */
static void test_an_operation_that_hangs_is_never_done(void **state)
{
    rig_pin(1);
    rig.faults("hang:2");
    assert_status(STATUS_OK, rig_upload(0));
    assert_status(STATUS_OK, rig_launch(0, (struct gpu_trial){.count = 1}));
    assert_status(STATUS_OK, rig_launch(1, (struct gpu_trial){.count = 1, .factor = 1}));
    MUST(cuStreamSynchronize, rig.streams[1]);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_status(STATUS_GONE_AGAIN, CALL(cuStreamQuery, rig.streams[0]));
    }
    rig.faults("");
    MUST(cuStreamSynchronize, rig.streams[0]);
}

static void test_a_corrupt_copy_differs_in_one_bit(void **state)
{
    uint32_t bits = 0;
    rig_pin(0xabcdef01);
    rig.faults("corrupt:2");
    assert_status(STATUS_OK, rig_upload(0));
    assert_status(STATUS_OK, rig_download(0));
    MUST(cuStreamSynchronize, rig.streams[0]);
    for (uint32_t i = 0; i < RIG_WORDS; i++) {
        bits += (uint32_t)__builtin_popcount(rig.pinned[i] ^ 0xabcdef01);
    }
    assert_int_equal(bits, 1);
}

/* From a file that is read once: the next process finds none. */
static void test_faults_of_a_file_are_taken_once(void **state)
{
    char path[] = "/tmp/agentix-test-XXXXXX", text[64];
    int handle = mkstemp(path);
    assert_int_equal(write(handle, "launch:1\n", 9), 9);
    close(handle);
    snprintf(text, sizeof text, "@%s", path);
    setenv("SOFTGPU_FAULTS", text, 1);
    rig_setup(NULL);
    assert_int_equal(access(path, F_OK), -1);
    assert_status(STATUS_DEVICE_LAUNCH, rig_launch(0, (struct gpu_trial){.count = 1}));
    rig.faults("");
}

#define EAGER(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
#define LAZY(name)  cmocka_unit_test_setup_teardown(name, rig_setup_lazy, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EAGER(test_operations_of_a_stream_run_in_order),
        LAZY(test_operations_of_a_stream_run_in_order),
        EAGER(test_fills_and_copies_on_the_device),
        LAZY(test_fills_and_copies_on_the_device),
        LAZY(test_a_lazy_copy_reads_when_it_is_waited_for),
        EAGER(test_a_query_that_is_repeated_comes_true),
        LAZY(test_a_query_that_is_repeated_comes_true),
        LAZY(test_streams_are_not_ordered_by_themselves),
        LAZY(test_an_event_orders_two_streams),
        cmocka_unit_test(test_a_stream_that_goes_first_waits_for_events_only),
        EAGER(test_an_event_is_done_when_what_is_before_it_is),
        EAGER(test_events_take_times_in_order),
        EAGER(test_a_full_stream_takes_more_when_it_has_run_some),
        LAZY(test_a_full_stream_takes_more_when_it_has_run_some),
        cmocka_unit_test_setup_teardown(test_memory_has_a_size, setup_small, rig_teardown),
        EAGER(test_copies_beyond_an_allocation_are_refused),
        EAGER(test_the_default_stream_is_refused),
        EAGER(test_launches_beyond_the_device_are_refused),
        EAGER(test_an_entry_of_another_version_is_another),
        EAGER(test_writes_beyond_an_allocation_are_seen),
        EAGER(test_other_images_and_kernels_are_refused),
        cmocka_unit_test_teardown(test_a_real_capability_wants_real_images, rig_teardown),
        EAGER(test_a_refused_allocation_is_seen),
        EAGER(test_a_refused_launch_is_seen),
        EAGER(test_a_kernel_that_fails_is_seen_by_who_waits),
        EAGER(test_a_sticky_error_stays),
        EAGER(test_a_lost_device_stays_lost),
        EAGER(test_an_operation_that_hangs_is_never_done),
        EAGER(test_a_corrupt_copy_differs_in_one_bit),
        cmocka_unit_test_teardown(test_faults_of_a_file_are_taken_once, rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
