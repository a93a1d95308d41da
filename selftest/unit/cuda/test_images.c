/* SPDX-License-Identifier: MIT */
/*
 * Goal: a device runs exactly the architectures of the image that it can run, and the image
 * contains all that are listed, complete, with no kernel that keeps variables in memory. Method:
 * the compute capabilities of existing chips; the parts of the fat binary, by the fields of their
 * headers; what nvcc's assembler said of each kernel; a soft GPU that takes only what a chip takes.
 */
#include "selftest/unit/test.h"

#include "kernels/cuda/driver/images.h"
#include "kernels/cuda/queue.h"

enum { PTX = 1, CODE = 2 };             /* kinds of parts */
struct fat {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;                     /* of the parts */
};
struct fat_part {
    uint16_t kind, attributes;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t more[3];
    uint32_t arch;                      /* 90 */
};

static void skip_without_nvcc(void)
{
    if (images_archs[0] == NULL) {
        print_message("skipped: no nvcc when this was built (CUDA 12.8 or later): no image\n");
        skip();
    }
}

static void test_a_device_takes_what_runs_on_it(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_100", "compute_80", NULL};
    static const struct { uint32_t capability; const char *arch; } cases[] = {
        {80, "sm_80"}, {86, "sm_80"}, {89, "sm_80"}, {90, "sm_90a"}, {100, "sm_100"},
        {103, "sm_100"}, {120, "compute_80"}, {0, "soft"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(images_arch(archs, cases[i].capability), cases[i].arch);
    }
    assert_null(images_arch(archs, 75));
    assert_null(images_arch(archs, 1));
    assert_null(images_arch(archs + 4, 90));
    assert_string_equal(images_arch(archs + 1, 86), "compute_80");
    assert_string_equal(images_arch(archs + 1, 91), "compute_80");
}

/* "sm_90a" is code of 90. */
static bool is_of(const struct fat_part *part, const char *arch)
{
    return strtoul(strchr(arch, '_') + 1, NULL, 10) == part->arch &&
           part->kind == (strncmp(arch, "sm_", 3) == 0 ? CODE : PTX);
}

static void test_the_image_holds_every_architecture_that_is_listed(void **state)
{
    (void)state;
    const struct fat *fat = (const void *)images_data;
    skip_without_nvcc();
    assert_true(images_toolkit >= 12000);
    assert_int_equal((uintptr_t)images_data % 64, 0);
    assert_int_equal(fat->magic, 0xba55ed50);
    for (const char *const *arch = images_archs; *arch != NULL; arch++) {
        uint32_t found = 0;
        for (uint64_t at = 0; at < fat->bytes;) {
            const struct fat_part *part = (const void *)(images_data + fat->header_bytes + at);
            found += is_of(part, *arch);
            at += part->header_bytes + part->bytes;
        }
        assert_int_equal(found, 1);
    }
    /* Each of the programs that `make gpu-carry` takes along has it. A half is products by levels,
     * which have 20 shapes. */
    assert_in_range(fat->bytes, 1, 3 << 19);
}

static const char *const kernels[] = {
#define KERNEL(name) #name,
#include "kernels/cuda/device/kernels.def"
#undef KERNEL
};

/* What was said when the image was made; the next call replaces it. */
static const char *ptxas_said(void)
{
    static char said[256u << 10];
    FILE *file = fopen(PTXAS_SAID, "r");
    assert_non_null(file);
    size_t bytes = fread(said, 1, sizeof said - 1, file);
    assert_true(bytes > 0 && bytes < sizeof said - 1);
    fclose(file);
    said[bytes] = '\0';
    return said;
}

/* Spills, and arrays that are no registers: both are a stack. */
static void check_stack(const char *said, const char *kernel, const char *arch)
{
    char entry[128];
    snprintf(entry, sizeof entry, "entry function '%s' for '%s'\n", kernel, arch);
    const char *at = strstr(said, entry), *stack = at == NULL ? NULL : strstr(at, " bytes stack");
    if (stack == NULL) {
        fail_msg("%s for %s: ptxas did not say what it takes", kernel, arch);
        return;
    }
    while (stack[-1] != '\n') {
        stack--;
    }
    stack += strspn(stack, " ");
    if (strncmp(stack, "0 bytes stack frame", 19) != 0) {
        fail_msg("%s for %s: %.*s", kernel, arch, (int)strcspn(stack, "\n"), stack);
    }
}

static void test_no_kernel_keeps_variables_in_memory(void **state)
{
    (void)state;
    skip_without_nvcc();
    const char *said = ptxas_said();
    for (const char *const *arch = images_archs; *arch != NULL; arch++) {
        for (uint32_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
            if (strncmp(*arch, "sm_", 3) == 0) {    /* others are compiled by the driver */
                check_stack(said, kernels[i], *arch);
            }
        }
    }
}

static void test_a_chip_is_given_the_image(void **state)
{
    (void)state;
    static struct driver driver;
    static struct device device;
    static struct gpu_queue queue;
    struct config_error error = {{0}};
    skip_without_nvcc();
    setenv("SOFTGPU_CAPABILITY", "90", 1);
    assert_status(STATUS_OK, driver_open(&driver, SOFTGPU, DRIVER_VERSION_MIN, &error));
    assert_status(STATUS_OK, device_open(&device, &driver, 0, &error));
    assert_status(STATUS_OK, gpu_open(&queue, &driver, &device, &error));
    gpu_close(&queue);
    driver.cuCtxSetCurrent(NULL);
    driver.cuDevicePrimaryCtxRelease(0);
    driver_close(&driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_device_takes_what_runs_on_it),
        cmocka_unit_test(test_the_image_holds_every_architecture_that_is_listed),
        cmocka_unit_test(test_no_kernel_keeps_variables_in_memory),
        cmocka_unit_test(test_a_chip_is_given_the_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
