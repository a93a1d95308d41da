/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the power of the machine: its button (ACPI shows it as an input device), Ctrl-Alt-Del, and
 * the end.
 *
 *   the power button   the machine drains and powers off: also what QEMU's system_powerdown, or
 *                      a hypervisor's "shut down", presses
 *   Ctrl-Alt-Del       it drains and restarts; arrives as SIGINT
 */
#include <stdbool.h>
#include <stdint.h>

#define POWER_BUTTONS_MAX 4

enum power_order { POWER_NONE, POWER_OFF, POWER_RESTART };

struct power {
    int buttons[POWER_BUTTONS_MAX];     /* descriptors */
    uint32_t buttons_count;
};

/* Opens all input devices: the modules that the image has make one only of a button, or of a
 * keyboard that may have a power key. */
void power_open(struct power *power);
/* True when a power key has been pressed since the last call. */
bool power_is_pressed(const struct power *power);
_Noreturn void power_act(enum power_order order);
