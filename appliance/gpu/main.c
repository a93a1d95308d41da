/* SPDX-License-Identifier: MIT */
/*
 * What: the GPU worker's program: does what the page orders that it was given as descriptor 3. It
 * is the only program of ours that maps the driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "appliance/gpu/order.h"
#include "kernels/cuda/driver/images.h"

static int (*const orders[GPU_ORDERS])(struct gpu_page *page) = {
    [GPU_PROBE] = order_probe,
    [GPU_SERVE] = order_serve,
    [GPU_BURN] = order_burn,
};

/* An image of a later toolkit than the driver knows would be refused, and less clearly. Within one
 * major version a driver takes them all. */
static int version_min(void)
{
    int of_image = (int)(images_toolkit / 1000 * 1000);
    return of_image > DRIVER_VERSION_MIN ? of_image : DRIVER_VERSION_MIN;
}

enum status opened_init(struct opened *opened, const char *cuda_library, struct config_error *error)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);      /* kernels are there before the first launch */
    TRY(driver_open(&opened->driver, cuda_library, version_min(), error));
    return device_open(&opened->device, &opened->driver, error);
}

int main(void)
{
    struct gpu_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, GPU_PAGE,
                                 0);
    if (page == MAP_FAILED || page->order >= GPU_ORDERS) {
        fprintf(stderr, "agentix-gpu-worker: it is a part of agentix, which starts it\n");
        return 1;
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);             /* an exec undoes what the keeper set */
    _exit(orders[page->order](page));               /* not by way of the driver's own ends */
}
