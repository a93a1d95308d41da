/* SPDX-License-Identifier: MIT */
/*
 * What: temperature, clocks and memory errors, while another check heats the GPU. A figure that
 * NVML does not give is no fault. The power limit is none either: a GPU under load reaches it.
 */
#include <stdio.h>

#include "selftest/burn/state.h"

#define POLL_US UINT64_C(200000)
#define HELD_BY_FAULTS \
    (NVML_HARDWARE_SLOWDOWN | NVML_SOFTWARE_THERMAL | NVML_HARDWARE_THERMAL | \
     NVML_HARDWARE_POWER_BRAKE)

static bool is_known(uint64_t figure)
{
    return figure != NVML_UNKNOWN;
}

/* "-": unknown. Only the last seven digits of a figure are shown. */
struct figure {
    char text[8];
};
static struct figure figure_of(uint64_t value)
{
    struct figure figure = {"-"};
    if (is_known(value)) {
        snprintf(figure.text, sizeof figure.text, "%u", (unsigned)(value % 10000000));
    }
    return figure;
}

static const char *held_by(uint64_t reasons)
{
    return (reasons & NVML_HARDWARE_THERMAL) != 0    ? "hardware, too hot"
           : (reasons & NVML_SOFTWARE_THERMAL) != 0  ? "driver, too hot"
           : (reasons & NVML_HARDWARE_POWER_BRAKE) != 0 ? "the power supply's brake"
                                                     : "hardware slowdown";
}

static void look(struct burning *b)
{
    struct burn_health *health = &b->health;
    struct nvml_reading *r = &health->last;
    nvml_read(&health->nvml, r);
    if (is_known(r->temperature_c) && r->temperature_c > health->hottest_c) {
        health->hottest_c = r->temperature_c;
    }
    if (is_known(r->temperature_c) && is_known(r->slowdown_c) &&
        r->temperature_c >= r->slowdown_c && !health->is_hot) {
        health->is_hot = true;
        post_fault_say(&b->burn->faults, "too hot: %llu C, it slows down at %llu C",
                       (unsigned long long)r->temperature_c, (unsigned long long)r->slowdown_c);
    }
    if (is_known(r->held_by) && (r->held_by & HELD_BY_FAULTS) != 0 && !health->is_held) {
        health->is_held = true;
        post_fault_say(&b->burn->faults, "throttled by %s (reasons 0x%llx): %s MHz at %s C",
                       held_by(r->held_by), (unsigned long long)r->held_by,
                       figure_of(r->sm_mhz).text, figure_of(r->temperature_c).text);
    }
}

void burn_health_begin(struct burning *b, const char *nvml_library)
{
    struct burn_health *health = &b->health;
    if (nvml_open(&health->nvml, nvml_library, b->device->bus, &health->silence) == STATUS_OK) {
        health->silence.text[0] = '\0';
    }
    look(b);
    health->first = health->last;
    health->polled_us = clock_us(CLOCK_MONOTONIC);
}

void burn_health_poll(struct burning *b)
{
    uint64_t now_us = clock_us(CLOCK_MONOTONIC);
    if (now_us - b->health.polled_us >= POLL_US) {
        b->health.polled_us = now_us;
        look(b);
    }
}

void burn_health_end(struct burning *b)
{
    const struct nvml_reading *first = &b->health.first, *last = &b->health.last;
    look(b);
    if (is_known(first->uncorrected) && is_known(last->uncorrected) &&
        last->uncorrected > first->uncorrected) {
        post_fault_say(&b->burn->faults, "%llu new uncorrected ECC errors",
                       (unsigned long long)(last->uncorrected - first->uncorrected));
    }
}

struct burn_warmth burn_warmth(const struct burning *b)
{
    struct burn_warmth warmth = {""};
    if (b->health.hottest_c > 0) {
        snprintf(warmth.text, sizeof warmth.text, ", %s C", figure_of(b->health.hottest_c).text);
    }
    return warmth;
}

/* ---- the check BURN_HEALTH: the state after the whole run ---- */

static void check_repairs(struct burning *b)
{
    const struct nvml_reading *r = &b->health.last;
    if (is_known(r->remap_failed) && r->remap_failed != 0) {
        post_fault_say(&b->burn->faults, "rows of the memory could not be remapped");
    }
    if (is_known(r->remaps_pending) && r->remaps_pending != 0) {
        post_fault_say(&b->burn->faults, "rows of the memory wait to be remapped: reset the GPU");
    }
    if (is_known(r->pages_pending) && r->pages_pending != 0) {
        post_fault_say(&b->burn->faults, "pages of the memory wait to be retired: reset the GPU");
    }
}

void burn_health_run(struct burning *b)
{
    const struct nvml_reading *r = &b->health.last;
    if (b->health.silence.text[0] != '\0') {
        snprintf(b->burn->amount, sizeof b->burn->amount, "not measured: %.40s",
                 b->health.silence.text);
        return;
    }
    check_repairs(b);
    snprintf(b->burn->amount, sizeof b->burn->amount, "%s C, %s MHz, %s W, ECC %s+%s",
             figure_of(r->temperature_c).text, figure_of(r->sm_mhz).text,
             figure_of(is_known(r->power_mw) ? r->power_mw / 1000 : NVML_UNKNOWN).text,
             figure_of(r->corrected_ever).text, figure_of(r->uncorrected_ever).text);
}
