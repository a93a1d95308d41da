/* SPDX-License-Identifier: MIT */
/*
 * What: every statistic and every histogram as Prometheus reads them (its text format 0.0.4).
 * Names follow its conventions: the unit comes last and is a base unit, a counter ends in _total
 * and nothing else does. So exchange_us is agentix_exchange_seconds_total, bytes_sent is
 * agentix_sent_bytes_total, the gauge kv_blocks_total is agentix_kv_blocks.
 * Invariant: a bucket of ours that is shown ends where one of the histogram does, so its count is
 * exact; two are shown for each octave, from 255 us to over an hour.
 * Bounds: O(statistics + histograms * buckets); at most BOUND_METRICS_BYTES.
 */
#include "appliance/text/page/metrics.h"

#include <string.h>

#include "config/base/assert.h"

#define PREFIX       "agentix_"
#define BUCKET_FIRST 47         /* ends at 255 us */
#define BUCKET_LAST  239        /* ends at 4295 s */
#define BUCKET_STEP  4          /* half an octave */
#define QUEUE_NONE   UINT32_MAX

STATIC_ASSERT(BUCKET_LAST < HISTOGRAM_BUCKETS, "it exists");
STATIC_ASSERT((BUCKET_LAST - BUCKET_FIRST) % BUCKET_STEP == 0, "the last one is shown");

enum stat_kind { COUNTER, GAUGE };

static const struct metric {
    const char *name, *unit, *help;
    enum stat_kind kind;
} metrics[] = {
#define STAT(name, unit, kind, help) {#name, unit, help, kind},
#include "config/base/stats.def"
};
#define METRICS_COUNT (sizeof metrics / sizeof metrics[0])

STATIC_ASSERT(sizeof(struct stats) == METRICS_COUNT * sizeof(uint64_t), "a number for each row");

static const struct time_row {
    const char *name, *help;
    enum { ALL, QUEUE } by;
} time_rows[TIMES_COUNT] = {
#define TIME(NAME, name, by, help) [TIME_##NAME] = {#name, help, by},
#include "config/base/stats.def"
};

/* ---- statistics ------------------------------------------------------------------------------ */

static bool has_unit(const struct metric *metric, const char *unit)
{
    return strcmp(metric->unit, unit) == 0;
}

/* The name without its last bytes, if they are these. */
static uint32_t without_end(const char *name, uint32_t bytes, const char *end)
{
    uint32_t end_bytes = (uint32_t)strlen(end);
    bool has_end = bytes > end_bytes && memcmp(name + bytes - end_bytes, end, end_bytes) == 0;
    return has_end ? bytes - end_bytes : bytes;
}

static void add_name(struct text *page, const struct metric *metric)
{
    static const char bytes_of[] = "bytes_";
    const char *name = metric->name, *unit = "";
    uint32_t bytes = (uint32_t)strlen(name);
    if (has_unit(metric, "us")) {
        bytes = without_end(name, bytes, "_us");
        unit = "_seconds";
    } else if (has_unit(metric, "permille")) {
        bytes = without_end(name, bytes, "_permille");
        unit = "_ratio";
    } else if (has_unit(metric, "B")) {
        ASSERT(strncmp(name, bytes_of, sizeof bytes_of - 1) == 0);
        name += sizeof bytes_of - 1;
        bytes -= (uint32_t)sizeof bytes_of - 1;
        unit = "_bytes";
    }
    bytes = metric->kind == GAUGE ? without_end(name, bytes, "_total") : bytes;
    text_add(page, PREFIX);
    text_add_bytes(page, name, bytes);
    text_add(page, unit);
    text_add(page, metric->kind == COUNTER ? "_total" : "");
}

static void add_value(struct text *page, const struct metric *metric, uint64_t value)
{
    uint32_t decimals = has_unit(metric, "us") ? 6 : has_unit(metric, "permille") ? 3 : 0;
    text_add(page, " ");
    text_add_fixed(page, value, decimals);
    text_add(page, "\n");
}

static void add_metric(struct text *page, const struct metric *metric, uint64_t value)
{
    text_add(page, "# HELP ");
    add_name(page, metric);
    text_add(page, " ");
    text_add(page, metric->help);
    text_add(page, "\n# TYPE ");
    add_name(page, metric);
    text_add(page, metric->kind == COUNTER ? " counter\n" : " gauge\n");
    add_name(page, metric);
    add_value(page, metric, value);
}

/* ---- histograms ------------------------------------------------------------------------------ */

/* `agentix_call_seconds_bucket{queue="0",le="` and what it closes with. */
static void begin_sample(struct text *page, const struct time_row *row, const char *part,
                         uint32_t queue)
{
    text_add(page, PREFIX);
    text_add(page, row->name);
    text_add(page, "_seconds");
    text_add(page, part);
    if (queue != QUEUE_NONE) {
        text_add(page, "{queue=\"");
        text_add_u64(page, queue);
        text_add(page, "\"");
    }
}

static void begin_bucket(struct text *page, const struct time_row *row, uint32_t queue)
{
    begin_sample(page, row, "_bucket", queue);
    text_add(page, queue == QUEUE_NONE ? "{le=\"" : ",le=\"");
}

static void end_line(struct text *page, const char *close, uint64_t value, uint32_t decimals)
{
    text_add(page, close);
    text_add(page, " ");
    text_add_fixed(page, value, decimals);
    text_add(page, "\n");
}

static void add_histogram(struct text *page, const struct time_row *row,
                          const struct histogram *histogram, uint32_t queue)
{
    const char *close = queue == QUEUE_NONE ? "" : "}";
    uint64_t seen = 0;
    for (uint32_t i = 0; i <= BUCKET_LAST; i++) {
        seen += histogram->buckets[i];
        if (i >= BUCKET_FIRST && (i - BUCKET_FIRST) % BUCKET_STEP == 0) {
            begin_bucket(page, row, queue);
            text_add_fixed(page, histogram_end_us(i), 6);
            end_line(page, "\"}", seen, 0);
        }
    }
    begin_bucket(page, row, queue);
    end_line(page, "+Inf\"}", histogram->count, 0);
    begin_sample(page, row, "_sum", queue);
    end_line(page, close, histogram->sum_us, 6);
    begin_sample(page, row, "_count", queue);
    end_line(page, close, histogram->count, 0);
}

static void add_time(struct text *page, const struct sched *sched, enum time_kind kind)
{
    const struct time_row *row = &time_rows[kind];
    text_add(page, "# HELP " PREFIX);
    text_add(page, row->name);
    text_add(page, "_seconds time ");
    text_add(page, row->help);
    text_add(page, "\n# TYPE " PREFIX);
    text_add(page, row->name);
    text_add(page, "_seconds histogram\n");
    if (row->by == ALL) {
        add_histogram(page, row, &sched->times.all[kind], QUEUE_NONE);
        return;
    }
    ASSERT(kind == TIME_QUEUE_WAIT);
    for (uint32_t queue = 0; queue < sched->settings.queues; queue++) {
        add_histogram(page, row, &sched->times.queue_wait[queue], queue);
    }
}

void textpage_metrics(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    (void)now_us;
    static const struct metric serving = {"serving", "", "1 while GET /health answers 200", GAUGE};
    static const struct metric uptime = {"uptime_us", "us", "time since the start", GAUGE};
    const uint64_t *values = (const uint64_t *)(const void *)view->stats;
    add_metric(page, &serving, health_serves(view->health));
    add_metric(page, &uptime, view->health->uptime_us);
    for (uint32_t i = 0; i < METRICS_COUNT; i++) {
        add_metric(page, &metrics[i], values[i]);
    }
    for (uint32_t kind = 0; kind < TIMES_COUNT; kind++) {
        add_time(page, view->sched, kind);
    }
}
