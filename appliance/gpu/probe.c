/* SPDX-License-Identifier: MIT */
/* What: looks at driver, device and cuBLAS, and reports on the page. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "config/base/assert.h"
#include "appliance/gpu/order.h"
#include "kernels/cuda/driver/blas.h"

STATIC_ASSERT(GPU_NAME_BYTES == DEVICE_NAME_BYTES, "a name fits the page");

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

int order_probe(struct gpu_page *page)
{
    static struct config_error error;
    static struct opened opened;
    static struct blas blas;
    prctl(PR_SET_NAME, "agentix-gpu");
    enum status status = opened_init(&opened, page->cuda_library, &error);
    if (status == STATUS_OK) {
        status = blas_open(&blas, page->cublas_library, &error);
    }
    if (status == STATUS_OK) {
        report(page, &opened);
    }
    page->report.status = status;
    memcpy(page->report.error, error.text, sizeof page->report.error);
    page->report.is_there = 1;
    return 0;
}
