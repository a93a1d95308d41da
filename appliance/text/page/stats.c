/* SPDX-License-Identifier: MIT */
#include "appliance/text/page/stats.h"

static void add_line(struct text *page, const char *name, uint64_t value)
{
    text_add(page, name);
    text_add(page, " ");
    text_add_u64(page, value);
    text_add(page, "\n");
}

static void add_percentile(struct text *page, const char *name, const struct histogram *times,
                           uint32_t percent)
{
    text_add(page, name);
    text_add(page, "_us_p");
    text_add_u64(page, percent);
    add_line(page, "", histogram_percentile_us(times, percent * 10));
}

void textpage_stats(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    static const char *const times[] = {
#define TIME(NAME, name, by, help) #name,
#include "config/base/stats.def"
    };
    (void)now_us;
#define STAT(name, unit, kind, help) add_line(page, #name, view->stats->name);
#include "config/base/stats.def"
    for (uint32_t i = 0; i < TIMES_COUNT; i++) {
        add_percentile(page, times[i], &view->sched->times.all[i], 50);
        add_percentile(page, times[i], &view->sched->times.all[i], 90);
        add_percentile(page, times[i], &view->sched->times.all[i], 99);
    }
}
