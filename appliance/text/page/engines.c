/* SPDX-License-Identifier: MIT */
/*
 * What: a line for each engine: its worker, the calls that are routed to it, its KV, how long ago
 * it last did something. Words and ages are health's, which the loop has just judged.
 * Bounds: O(engines * calls).
 */
#include "appliance/text/page/engines.h"

#include "appliance/text/page/column.h"
#include "config/base/assert.h"

struct routed {                     /* open calls of an engine */
    uint32_t open, running, waiting;
};

static struct routed count_calls(const struct call_table *calls, uint32_t engine)
{
    struct routed routed = {0};
    for (uint32_t i = 0; i < calls->count; i++) {
        const struct call *call = &calls->calls[i];
        bool is_queued = call->state == CALL_QUEUED, is_running = call->state == CALL_RUNNING;
        if (call->engine == engine && (is_queued || is_running)) {
            routed.open++;
            routed.running += is_running;
            routed.waiting += is_queued && !call->paused;
        }
    }
    return routed;
}

static void add_none(struct text *page, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++) {
        text_add(page, " ");
    }
    text_add(page, "-");
}

static void add_age_ms(struct text *page, uint64_t age_us, uint32_t width)
{
    if (age_us != UINT64_MAX) {
        text_add_column(page, age_us / 1000, width);
    } else {
        add_none(page, width);
    }
}

static void add_pid(struct text *page, uint32_t pid, uint32_t width)
{
    if (pid != 0) {
        text_add_column(page, pid, width);
    } else {
        add_none(page, width);
    }
}

static void add_engine(struct text *page, const struct textport_view *view, uint32_t i)
{
    const struct sched_engine *engine = &view->sched->engines[i];
    const struct kvmem *kv = engine->kv;
    const struct health *health = view->health;
    const struct routed routed = count_calls(view->calls, i);
    uint32_t start = page->length;
    text_add_u64_padded(page, i, 6, ' ');
    text_add(page, " ");
    text_add(page, health->word[i] != NULL ? health->word[i] : "-");
    text_pad_to(page, start, 15);
    add_pid(page, health->worker_pid[i], 10);
    text_add_column(page, routed.open, 6);
    text_add_column(page, routed.running, 7);
    text_add_column(page, routed.waiting, 7);
    text_add_column(page, kvmem_owned(kv), 11);
    text_add_column(page, kv->settings.device_blocks, 12);
    text_add_column(page, kvmem_host_used(kv), 9);
    text_add_column(page, kv->settings.host_blocks, 10);
    text_add_column(page, engine->active.programs, 6);
    text_add_column(page, health->steps[i], 10);
    text_add_column(page, health->restarts[i], 8);
    add_age_ms(page, health->last_step_age_us[i], 10);
    add_age_ms(page, health->heartbeat_age_us[i], 10);
    add_age_ms(page, health->canary_age_us[i], 10);
    text_add(page, "\n");
}

void textpage_engines(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    uint32_t engines = view->sched->settings.engines;
    (void)now_us;
    ASSERT(engines <= WORLD_ENGINES_MAX);
    text_add(page, "engine state    worker_pid   open running waiting blocks_used blocks_total "
                   "host_used host_total active      steps restarts    step_ms    beat_ms  "
                   "canary_ms\n");
    for (uint32_t i = 0; i < engines; i++) {
        add_engine(page, view, i);
    }
}
