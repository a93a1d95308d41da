/* SPDX-License-Identifier: MIT */
/*
 * What: the GPU worker's program. Opens driver, device and cuBLAS, and reports on the page that it
 * was given as descriptor 3. It is the only program of ours that maps the driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "appliance/base/assert.h"
#include "appliance/gpu.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/images.h"

STATIC_ASSERT(GPU_NAME_BYTES == DEVICE_NAME_BYTES, "a name fits the page");

/* An image of a later toolkit than the driver knows would be refused, and less clearly. Within one
 * major version a driver takes them all. */
static int version_min(void)
{
    int of_image = (int)(images_toolkit / 1000 * 1000);
    return of_image > DRIVER_VERSION_MIN ? of_image : DRIVER_VERSION_MIN;
}

static enum status open_all(const struct gpu_page *page, struct driver *driver,
                            struct device *device, struct blas *blas, struct config_error *error)
{
    TRY(driver_open(driver, page->cuda_library, version_min(), error));
    TRY(device_open(device, driver, error));
    return blas_open(blas, page->cublas_library, error);
}

/* The self-test needs no cuBLAS. */
static enum status open_and_burn(struct gpu_page *page, struct driver *driver,
                                 struct device *device, struct config_error *error)
{
    TRY(driver_open(driver, page->cuda_library, version_min(), error));
    TRY(device_open(device, driver, error));
    return burn_run(&page->burn, driver, device, page->nvml_library, error);
}

static void report(struct gpu_page *page, enum status status, const struct driver *driver,
                   const struct device *device, const struct config_error *error)
{
    page->status = status;
    memcpy(page->error, error->text, sizeof page->error);
    if (status == STATUS_OK) {
        snprintf(page->name, sizeof page->name, "%s", device->name);
        snprintf(page->arch, sizeof page->arch, "%s", device->arch);
        page->driver_version = (uint32_t)driver->version;
        page->processors = device->processors;
        page->memory_bytes = device->memory_bytes;
        page->free_bytes = device->free_bytes;
    }
    page->is_reported = 1;
}

int main(void)
{
    static struct config_error error;
    static struct driver driver;
    static struct device device;
    static struct blas blas;
    struct gpu_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED,
                                 GPU_PAGE_DESCRIPTOR, 0);
    if (page == MAP_FAILED) {
        fprintf(stderr, "agentix-gpu-worker: it is a part of agentix, which starts it\n");
        return 1;
    }
    prctl(PR_SET_NAME, "agentix-gpu");
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);             /* an exec undoes what the keeper set */
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);      /* kernels are there before the first launch */
    enum status status = page->order == GPU_BURN
                             ? open_and_burn(page, &driver, &device, &error)
                             : open_all(page, &driver, &device, &blas, &error);
    report(page, status, &driver, &device, &error);
    return 0;
}
