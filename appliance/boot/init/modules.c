/* SPDX-License-Identifier: MIT */
/*
 * What: loads kernel modules (appliance/boot/init/modules.h).
 * Why not by need, as udev does: the image has a handful, and which is known when it is made.
 */
#include "appliance/boot/init/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "appliance/log.h"

#define NAME_BYTES 64

static bool load(const char *name)
{
    char path[sizeof MODULES_FOLDER + 1 + NAME_BYTES];
    snprintf(path, sizeof path, MODULES_FOLDER "/%s", name);
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    bool is_loaded = handle >= 0 && syscall(SYS_finit_module, handle, "", 0) == 0;
    if (!is_loaded) {
        log_event(LOG_ERROR, "module %s: %s", name, strerror(errno));
    }
    if (handle >= 0) {
        close(handle);
    }
    return is_loaded;
}

void modules_load(void)
{
    char name[NAME_BYTES];
    uint32_t loaded = 0;
    FILE *order = fopen(MODULES_FOLDER "/order", "re");
    while (order != NULL && fgets(name, sizeof name, order) != NULL) {
        name[strcspn(name, "\n")] = '\0';
        loaded += load(name);
    }
    if (order != NULL) {
        fclose(order);
    }
    log_event(LOG_INFO, "modules=%u", loaded);
}
