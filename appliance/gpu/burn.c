/* SPDX-License-Identifier: MIT */
/* What: runs a check of the self-test (selftest/burn) and reports on the page. */
#include <string.h>
#include <sys/prctl.h>

#include "appliance/gpu/order.h"

int order_burn(struct gpu_page *page)
{
    static struct config_error error;
    static struct opened opened;
    prctl(PR_SET_NAME, "agentix-gpu");
    enum status status = opened_init(&opened, page->cuda_library, &error);
    if (status == STATUS_OK) {
        status = burn_run(&page->burn, &opened.driver, &opened.device, page->nvml_library, &error);
    }
    page->report.status = status;
    memcpy(page->report.error, error.text, sizeof page->report.error);
    page->report.is_there = 1;
    return 0;
}
