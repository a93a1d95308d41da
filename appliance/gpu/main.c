/* SPDX-License-Identifier: MIT */
/*
 * What: the GPU worker's binary: it carries out the order on the page, which is descriptor 3:
 *
 *   probe   reports driver, device and cuBLAS on the page
 *   burn    runs a check of the self-test (selftest/burn) and reports on the page
 *   serve   is a worker (serve.c)
 *
 * No other binary of ours maps the driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "config/base/assert.h"
#include "appliance/gpu/order.h"
#include "kernels/cuda/driver/blas.h"
#include "kernels/cuda/driver/images.h"
#include "kernels/cuda/queue.h"

STATIC_ASSERT(GPU_NAME_BYTES == DEVICE_NAME_BYTES, "a name fits the page");

/* The driver would refuse an image of a later toolkit with a less clear error. Within one major
 * version it takes them all. */
static int version_min(void)
{
    int of_image = (int)(images_toolkit / 1000 * 1000);
    return of_image > DRIVER_VERSION_MIN ? of_image : DRIVER_VERSION_MIN;
}

enum status opened_init(struct opened *opened, const struct gpu_page *page,
                        struct config_error *error)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);      /* loads kernels before the first launch */
    TRY(driver_open(&opened->driver, page->cuda_library, version_min(), error));
    return device_open(&opened->device, &opened->driver, page->device, error);
}

static void report(struct gpu_page *page, const struct opened *opened)
{
    const struct device *device = &opened->device;
    snprintf(page->report.name, sizeof page->report.name, "%s", device->name);
    snprintf(page->report.arch, sizeof page->report.arch, "%s", device->arch);
    page->report.driver_version = (uint32_t)opened->driver.version;
    page->report.processors = device->processors;
    page->report.shared_bytes_max = device->shared_bytes_max;
    page->report.memory_bytes = device->memory_bytes;
    page->report.free_bytes = device->free_bytes;
}

/* Takes what a worker's driver and library take beside the plan: streams, the code of our kernels
 * and of cuBLAS, which has hundreds of MB. What is free behind that is what a plan may have. */
static enum status take_and_measure(struct opened *opened, const char *cublas_library,
                                    struct config_error *error)
{
    static struct blas blas;
    static struct gpu_queue queue, beside[2];
    TRY(blas_open(&blas, cublas_library, error));
    TRY(gpu_open(&queue, &opened->driver, &opened->device, error));
    gpu_open_beside(&beside[0], &queue);
    gpu_open_beside(&beside[1], &queue);
    TRY(gpu_check(&beside[1], error));
    if (blas.library != NULL) {
        TRY(blas_load(&blas, error));
    }
    return device_measure(&opened->device, &opened->driver, error);
}

static int order_probe(struct gpu_page *page)
{
    static struct config_error error;
    static struct opened opened;
    prctl(PR_SET_NAME, "agentix-gpu");
    enum status status = opened_init(&opened, page, &error);
    if (status == STATUS_OK) {
        status = take_and_measure(&opened, page->cublas_library, &error);
    }
    if (status == STATUS_OK) {
        report(page, &opened);
    }
    page->report.status = status;
    memcpy(page->report.error, error.text, sizeof page->report.error);
    page->report.is_there = 1;
    return 0;
}

static int order_burn(struct gpu_page *page)
{
    static struct config_error error;
    static struct opened opened;
    prctl(PR_SET_NAME, "agentix-gpu");
    enum status status = opened_init(&opened, page, &error);
    if (status == STATUS_OK) {
        status = burn_run(&page->burn, &opened.driver, &opened.device, page->nvml_library, &error);
    }
    page->report.status = status;
    memcpy(page->report.error, error.text, sizeof page->report.error);
    page->report.is_there = 1;
    return 0;
}

static int (*const orders[GPU_ORDERS])(struct gpu_page *page) = {
    [GPU_PROBE] = order_probe,
    [GPU_SERVE] = order_serve,
    [GPU_BURN] = order_burn,
};

int main(void)
{
    struct gpu_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, GPU_PAGE,
                                 0);
    if (page == MAP_FAILED || page->order >= GPU_ORDERS) {
        fprintf(stderr, "agentix-gpu-worker: it is a part of agentix, which starts it\n");
        return 1;
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);             /* exec undoes the keeper's setting */
    _exit(orders[page->order](page));               /* without the driver's exit handlers */
}
