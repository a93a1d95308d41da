/* SPDX-License-Identifier: MIT */
/* What: the power of the machine (appliance/boot/init/power.h). */
#include "appliance/boot/init/power.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/input.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

#include "appliance/log.h"

void power_open(struct power *power)
{
    power->buttons_count = 0;
    reboot(RB_DISABLE_CAD);             /* the kernel sends SIGINT instead of restarting */
    for (uint32_t i = 0; i < POWER_BUTTONS_MAX; i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/input/event%u", i);
        int handle = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (handle >= 0) {
            power->buttons[power->buttons_count++] = handle;
        }
    }
    if (power->buttons_count == 0) {
        log_event(LOG_WARN, "there is no power button");
    }
}

bool power_is_pressed(const struct power *power)
{
    struct input_event event;
    bool is_pressed = false;
    for (uint32_t i = 0; i < power->buttons_count; i++) {
        while (read(power->buttons[i], &event, sizeof event) == sizeof event) {
            is_pressed = is_pressed ||
                         (event.type == EV_KEY && event.code == KEY_POWER && event.value == 1);
        }
    }
    return is_pressed;
}

_Noreturn void power_act(enum power_order order)
{
    sync();
    reboot(order == POWER_RESTART ? RB_AUTOBOOT : RB_POWER_OFF);
    log_event(LOG_ERROR, "reboot: %s", strerror(errno));
    for (;;) {
        pause();
    }
}
