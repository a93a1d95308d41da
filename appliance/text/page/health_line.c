/* SPDX-License-Identifier: MIT */
/*
 * What: health as one line: the word, the reason, and how long ago things last happened.
 * Invariant: scripts read it: its first word and the names of its values stay.
 */
#include "appliance/text/page/health_line.h"

#include <string.h>

/* Of several engines: separated by commas. */
static void add_ages_ms(struct text *page, const char *name, const uint64_t *ages_us,
                        uint32_t count)
{
    text_add(page, name);
    for (uint32_t i = 0; i < count; i++) {
        text_add(page, i == 0 ? "" : ",");
        if (ages_us[i] == UINT64_MAX) {
            text_add(page, "never");
        } else {
            text_add_u64(page, ages_us[i] / 1000);
        }
    }
}

/* "engine restarting" of engine 2 is "engine 2 restarting". */
static void add_reason(struct text *page, const struct health *health)
{
    static const char engine[] = "engine ";
    const char *reason = health->reason;
    bool names_it = strncmp(reason, engine, sizeof engine - 1) == 0;
    if (health->engines_count <= 1 || health->engine == HEALTH_ALL) {
        text_add(page, reason);
        return;
    }
    text_add(page, engine);
    text_add_u64(page, health->engine);
    text_add(page, names_it ? " " : ": ");
    text_add(page, names_it ? reason + sizeof engine - 1 : reason);
}

static void add_health_state(struct text *page, const struct health *health)
{
    text_add(page, health_name(health->state));
    if (health->reason == NULL) {
        return;
    }
    text_add(page, "(");
    add_reason(page, health);
    if (health->state == HEALTH_STARTING && health->progress_permille < 1000) {
        text_add(page, " ");
        text_add_u64(page, health->progress_permille / 10);
        text_add(page, "%");
    }
    text_add(page, ")");
}

void textpage_health(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    const struct health *health = view->health;
    uint32_t engines = health->engines_count;
    (void)now_us;
    add_health_state(page, health);
    add_ages_ms(page, " last_step_ms=", health->last_step_age_us, engines);
    add_ages_ms(page, " last_completion_ms=", &health->last_completion_age_us, 1);
    add_ages_ms(page, " heartbeat_ms=", health->heartbeat_age_us, engines);
    add_ages_ms(page, " canary_ms=", health->canary_age_us, engines);
    text_add(page, " uptime_s=");
    text_add_u64(page, health->uptime_us / 1000000);
    text_add(page, " worker_pid=");
    for (uint32_t i = 0; i < engines; i++) {
        text_add(page, i == 0 ? "" : ",");
        if (health->worker_pid[i] == 0) {
            text_add(page, "-");        /* 0 would be a group of processes to kill(1) */
        } else {
            text_add_u64(page, health->worker_pid[i]);
        }
    }
    text_add(page, " restarts=");
    text_add_u64(page, health->worker_restarts);
    text_add(page, " core_restarts=");
    text_add_u64(page, view->stats->core_restarts);
    text_add(page, " upgrades=");
    text_add_u64(page, view->stats->upgrades);
    text_add(page, " version=");
    text_add(page, view->version != NULL ? view->version : "-");
    text_add(page, "\n");
}
