/* SPDX-License-Identifier: MIT */
/*
 * What: one function for each command of the text port, and the table of commands. To add a command
 * write its function and add its row.
 * Invariants: no prompt, no output and no whole program id appears; lines have at most 512 bytes,
 * those of tables (`programs`, `connections`) at most 224 (config/limits.c relies on it).
 * `events` and `ended` may be longer than the room: they end where it does and say how to go on.
 * Bounds: O(slots of the table shown), within one pass; no stdio, no allocation.
 */
#include "appliance/text/page.h"

#include <string.h>
#include <strings.h>

#include "config/base/assert.h"
#include "appliance/text/page/agent.h"
#include "appliance/text/page/calls.h"
#include "appliance/text/page/column.h"
#include "appliance/text/page/connections.h"
#include "appliance/text/page/engines.h"
#include "appliance/text/page/events.h"
#include "appliance/text/page/health_line.h"
#include "appliance/text/page/metrics.h"
#include "appliance/text/page/programs.h"
#include "appliance/text/page/stats.h"
#include "appliance/text/page/who.h"
#include "appliance/text/page/workflows.h"
#include "config/base/bounds.h"

#define TEXTPAGE_ENDED         "ended"
#define HASH_SHOWN_BYTES       4
#define REAL_PERCENT_MAX       99999

/* ---- pieces ---------------------------------------------------------------------------------- */

static void add_pair(struct text *page, const char *name, uint64_t value)
{
    text_add(page, name);
    text_add(page, " ");
    text_add_u64(page, value);
    text_add(page, "\n");
}

/* ---- commands -------------------------------------------------------------------------------- */

/* The hash is keyed by a secret of the boot; it tells classes without a name apart. */
static void show_classes(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    const struct sched *sched = view->sched;
    (void)now_us;
    text_add(page, "   slot   programs  predicted real_%  mean_rounds  most_rounds  mean_tokens "
                   "mean_output     hash name\n");
    for (uint32_t i = 0; i < sched->settings.classes; i++) {
        const struct sched_class *class = &sched->classes.each[i];
        const struct sched_learnt *learnt = &class->learnt;
        if (!class->in_use) {
            continue;
        }
        text_add_u64_padded(page, i, 7, ' ');
        text_add_column(page, learnt->programs, 10);
        text_add_column(page, learnt->predicted, 10);
        text_add_column(page, lesser(sched_class_real_percent(class), REAL_PERCENT_MAX), 6);
        text_add_column(page, learnt->rounds, 12);
        text_add_column(page, learnt->rounds_most, 12);
        text_add_column(page, learnt->tokens, 12);
        text_add_column(page, lesser(learnt->output_tokens / SCHED_CLASS_ONE, UINT32_MAX), 11);
        text_add(page, " ");
        text_add_hex(page, (const uint8_t *)&class->hash, HASH_SHOWN_BYTES);
        text_add(page, " ");
        text_add(page, class->name);
        text_add(page, "\n");
    }
}

static void add_tenant_name(struct text *page, const struct sched_tenant *tenant, bool is_shared)
{
    text_add(page, " ");
    if (tenant->name[0] != '\0') {
        text_add(page, tenant->name);
    } else if (is_shared) {
        text_add(page, "(all others)");
    } else {
        bool is_key = tenant->domain != 0 && !net_domain_is_user(tenant->domain);
        text_add_unnamed(page, tenant->domain);
        text_add(page, is_key ? " (gone)" : "");        /* a reload has taken its keys */
    }
}

/* Shares are in thousandths of what all had lately. */
static void show_tenants(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    const struct sched_tenants *tenants = &view->sched->tenants;
    uint64_t all = 0;
    (void)now_us;
    text_add(page, "   slot  weight programs wants   due   got    debt_ms name\n");
    for (uint32_t i = 0; i < tenants->count; i++) {
        all += tenants->of[i].got;
    }
    for (uint32_t i = 0; i < tenants->count; i++) {
        const struct sched_tenant *tenant = &tenants->of[i];
        uint64_t ahead = tenant->virtual_time - tenants->floor;
        text_add_u64_padded(page, i, 7, ' ');
        text_add_column(page, tenant->weight, 7);
        text_add_column(page, tenant->programs, 8);
        text_add(page, tenant->wants ? "   yes" : "    no");
        text_add_column(page, all > 0 ? tenant->due * 1000 / all : 0, 5);
        text_add_column(page, all > 0 ? tenant->got * 1000 / all : 0, 5);
        text_add_column(page, ahead / SCHED_COST_PARTS / 1000, 10);
        add_tenant_name(page, tenant, i == 0);
        text_add(page, "\n");
    }
}

/* Jobs and calls of this queue, and held ones of its level, of all tenants on all engines. */
static void add_queue_counts(struct text *page, const struct sched *sched, uint32_t queue)
{
    uint32_t jobs = 0, calls = 0, held_jobs = 0, held_calls = 0;
    for (uint32_t i = 0; i < sched->settings.engines * sched->tenants.count; i++) {
        const struct sched_engine *engine = &sched->engines[i / sched->tenants.count];
        const struct sched_lane *lane = &engine->lanes[i % sched->tenants.count];
        jobs += lane->queues[queue].count;
        calls += lane->queues[queue].calls_count;
        held_jobs += lane->held[queue].count;
        held_calls += lane->held[queue].calls_count;
    }
    text_add_column(page, jobs, 7);
    text_add_column(page, calls, 7);
    text_add_column(page, held_jobs, 10);
    text_add_column(page, held_calls, 10);
}

static void show_queues(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    const struct sched *sched = view->sched;
    (void)now_us;
    ASSERT(sched->settings.queues <= SCHED_QUEUES_MAX);
    text_add(page, "queue    jobs   calls  held_jobs held_calls   quantum_ms  service_from_ms    "
                   "service_to_ms\n");
    for (uint32_t i = 0; i < sched->settings.queues; i++) {
        const struct sched_level *level = &sched->levels[i];
        text_add_u64_padded(page, i, 5, ' ');
        add_queue_counts(page, sched, i);
        text_add_column(page, level->quantum_us / 1000, 12);
        text_add_column(page, level->service_low_us / 1000, 16);
        if (level->service_high_us == UINT64_MAX) {
            text_add(page, "                -");
        } else {
            text_add_column(page, level->service_high_us / 1000, 16);
        }
        text_add(page, "\n");
    }
}

static void add_kv(struct text *page, const struct sched_engine *engine)
{
    const struct kvmem *kv = engine->kv;
    uint32_t calls = 0, largest = 0;
    if (engine->sched->settings.engines > 1) {
        add_pair(page, "engine", engine->index);        /* one after the other */
    }
    for (uint32_t i = 0; i < kv->settings.calls; i++) {
        uint32_t blocks = kvmem_call_blocks(kv, i);
        calls += blocks > 0;
        largest = blocks > largest ? blocks : largest;
    }
    ASSERT(kvmem_free(kv) <= kvmem_available(kv));
    add_pair(page, "block_tokens", kv->settings.block_tokens);
    add_pair(page, "blocks_total", kv->settings.device_blocks);
    add_pair(page, "blocks_used", kvmem_owned(kv));
    add_pair(page, "blocks_cached", kvmem_available(kv) - kvmem_free(kv));
    add_pair(page, "blocks_free", kvmem_free(kv));
    add_pair(page, "host_blocks_total", kv->settings.host_blocks);
    add_pair(page, "host_blocks_used", kvmem_host_used(kv));
    add_pair(page, "claimed_tokens", kv->counters.found_tokens);
    add_pair(page, "asked_tokens", kv->counters.asked_tokens);
    add_pair(page, "out_blocks", kv->counters.out_blocks);
    add_pair(page, "out_steps", kv->counters.out_moves);
    add_pair(page, "in_blocks", kv->counters.in_blocks);
    add_pair(page, "in_steps", kv->counters.in_moves);
    add_pair(page, "copied_blocks", kv->counters.copied_blocks);
    add_pair(page, "dropped_blocks", kv->counters.dropped_blocks);
    add_pair(page, "calls_with_blocks", calls);
    add_pair(page, "largest_call_blocks", largest);
    add_pair(page, "blocks_per_call_max", kv->settings.blocks_per_call);
}

static void show_kv(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    (void)now_us;
    for (uint32_t i = 0; i < view->sched->settings.engines; i++) {
        add_kv(page, &view->sched->engines[i]);
    }
}

static void show_config(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    (void)now_us;
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        const struct option_value *value = config_value(view->options, row);
        char text[CONFIG_TEXT_BYTES];
        text_add(page, row->section);
        text_add(page, ".");
        text_add(page, row->key);
        text_add(page, " = ");
        text_add_bytes(page, text, config_format(row, value, text, sizeof text));
        if (value->line == 0) {
            text_add(page, " (default)\n");
        } else if (value->line == CONFIG_LINE_SET) {
            text_add(page, " (--set)\n");
        } else {
            text_add(page, " (line ");
            text_add_u64(page, value->line);
            text_add(page, ")\n");
        }
    }
}

static void show_help(struct text *page, const struct textport_view *view, uint64_t now_us);
static void show_nothing(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    (void)page, (void)view, (void)now_us;
}

static const struct command_row {
    const char *name, *help;
    void (*show)(struct text *page, const struct textport_view *view, uint64_t now_us);
} rows[] = {
    {"help", "this list", show_help},
    {"health", "one line: ready, starting, draining, degraded or failed, and why", textpage_health},
    {"engines", "what each engine does and has", textpage_engines},
    {"stats", "every counter and gauge, and percentiles of times", textpage_stats},
    {"metrics", "the same and whole histograms, as Prometheus reads them", textpage_metrics},
    {"programs", "the process table: what each has had, and whose it is", textpage_programs},
    {"classes", "what programs of each class have cost (docs/scheduling.md)", show_classes},
    {"tenants", "what was due to each trust domain lately, and what it got", show_tenants},
    {"calls", "calls that hold a slot, and why they wait", textpage_calls},
    {"connections", "clients, each with its affinity key (docs/fleet.md)", textpage_connections},
    {"workflows", "what became of the operators of open workflows", textpage_workflows},
    {"queues", "the scheduler's queues", show_queues},
    {"kv", "the KV blocks", show_kv},
    /* These take an argument. */
    {"events", "what happened last; events N: from number N on; events 12:03: from then on", NULL},
    {TEXTPAGE_ENDED, "calls that have ended; ended N, ended 12:03 (UTC) as for events", NULL},
    {"config", "every option, its value and where it came from", show_config},
    {TEXTPAGE_AGENT, "a line for HAProxy's agent-check, then the close", textpage_agent},
    {"quit", "close the connection", show_nothing},
};
#define ROWS_COUNT (sizeof rows / sizeof rows[0])

static void show_help(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    (void)view, (void)now_us;
    for (size_t i = 0; i < ROWS_COUNT; i++) {
        uint32_t start = page->length;
        text_add(page, rows[i].name);
        text_pad_to(page, start, 12);
        text_add(page, rows[i].help);
        text_add(page, "\n");
    }
    text_add(page, "Every answer ends with a line `end`. GET /health, /stats and /metrics speak "
                   "HTTP.\n");
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static const struct command_row *find_row(const char *name, uint32_t bytes)
{
    for (size_t i = 0; i < ROWS_COUNT; i++) {
        if (strlen(rows[i].name) == bytes && strncasecmp(rows[i].name, name, bytes) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

bool textpage_render(struct text *page, const char *line, uint32_t bytes,
                     const struct textport_view *view, uint64_t now_us)
{
    uint32_t name_bytes = 0;
    ASSERT(page->length == 0 && !page->cut);
    while (name_bytes < bytes && !is_blank(line[name_bytes])) {
        name_bytes++;
    }
    uint32_t word_at = name_bytes;
    while (word_at < bytes && is_blank(line[word_at])) {
        word_at++;
    }
    const struct command_row *row = find_row(line, name_bytes);
    if (row != NULL && row->show == NULL) {
        const struct textevents_question question = {
            strcmp(row->name, TEXTPAGE_ENDED) == 0, line + word_at, bytes - word_at};
        if (!textevents_render(page, &question, view, now_us)) {
            text_add(page, "error expected a number or a time of day, like 12:03 or 12:03:07\n");
        }
    } else if (row != NULL && word_at < bytes) {
        text_add(page, "error this command takes no argument\n");
    } else if (row != NULL) {
        row->show(page, view, now_us);
    }
    return row != NULL;
}
