/* SPDX-License-Identifier: MIT */
/* What: tables of the documents whose rows are one .def file each. */
#include "tools/docgen_tables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "config/base/event_log.h"
#include "config/config.h"

#define COUNT(rows) (sizeof (rows) / sizeof (rows)[0])

struct stat_row {
    const char *name, *unit, *kind, *help;
};

static const struct stat_row stat_rows[] = {
#define STAT(name, unit, kind, help) {#name, unit, #kind, help},
#include "config/base/stats.def"
};

static const struct { const char *name, *help; enum { ALL, QUEUE } by; } time_rows[] = {
#define TIME(NAME, name, by, help) {#name, help, by},
#include "config/base/stats.def"
};

static void write_times(void)
{
    printf("\n## Times\n\n"
           "Of these times the core keeps histograms from its start on. `stats` answers with "
           "percentiles in microseconds,\n`NAME_us_p50`, `_p90` and `_p99`: so many in a hundred "
           "took no longer, to an eighth. `GET /metrics` has the\nhistogram "
           "`agentix_NAME_seconds`, two buckets for each octave from 255 us to 4295 s; where it "
           "says so, one for\neach queue, with the label `queue`.\n\n"
           "| name | of each queue | time |\n|---|---|---|\n");
    for (uint32_t i = 0; i < COUNT(time_rows); i++) {
        printf("| `%s` | %s | %s |\n", time_rows[i].name, time_rows[i].by == QUEUE ? "yes" : "",
               time_rows[i].help);
    }
}

void docgen_stats(void)
{
    printf("# Statistics\n\n"
           "Made from config/base/stats.def by `make docs`; do not edit.\n\n"
           "The text port's `stats` and `GET /stats` answer one line for each: its name and its "
           "value.\nA counter grows from the start of the appliance; a gauge is the value now. "
           "`GET /metrics` gives the same in\nPrometheus's text format, under names by its "
           "conventions: `agentix_` in front, `_total` after a counter\nand after nothing else, "
           "and units of the base: `exchange_us` is `agentix_exchange_seconds_total`, "
           "`bytes_sent`\nis `agentix_sent_bytes_total`, `recomputed_permille` is "
           "`agentix_recomputed_ratio`, `kv_blocks_total` is\n`agentix_kv_blocks`. It has "
           "`agentix_serving` (1 while `GET /health` answers 200) and "
           "`agentix_uptime_seconds`, too.\n\n"
           "| name | unit | kind | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT(stat_rows); i++) {
        const struct stat_row *row = &stat_rows[i];
        printf("| `%s` | %s | %s | %s |\n", row->name, row->unit,
               strcmp(row->kind, "COUNTER") == 0 ? "counter" : "gauge", row->help);
    }
    write_times();
}

void docgen_events(void)
{
    printf("# Events\n\n"
           "Made from config/base/events.def by `make docs`; do not edit.\n\n"
           "The core records what happens in an event log of `limits.events` entries, which drops "
           "its oldest. The text\nport's `events` answers the last of them, `events N` those from "
           "number N on, one line each, at most 256:\n\n"
           "    NUMBER TIME_US WALL KIND [call=SLOT id=ID] [program=SLOT:TAG] [VALUE=N]...\n"
           "    next=NUMBER end=NUMBER lost=COUNT now_us=TIME_US now=WALL\n\n"
           "ID is the client's, TAG how its program id begins; a value that does not fit 32 bits "
           "is 4294967295.\nAsk for `next` to go on: there is more while it is below `end`. "
           "`lost` is how many events from N on were\ndropped. Times are those of the "
           "appliance's monotonic clock; WALL is the same in UTC, as the wall clock stands now. "
           "`events 12:03` or `events\n12:03:07` answers those from then on, the last time that "
           "the clock showed it, UTC. `agx trace` makes a\npicture of them.\n\n"
           "Most events are of steps, and soon dropped. Of each call that ended, and each that the "
           "scheduler refused, a\nrecord stays longer: of the last `limits.ended`, ten minutes at "
           "1,000 calls a second. `ended`, `ended N` and\n`ended 12:03` answer them as above, "
           "one line each:\n\n"
           "    NUMBER TIME_US WALL FINISH who=DOMAIN program=TAG id=ID code=N queue=N engine=N "
           "prompt=N\n        cached=N output=N first_us=N wait_us=N service_us=N total_us=N "
           "preempted=N agreed=N\n\n"
           "FINISH is a word of [DONE](protocol.md) or `refused`, code its code there; first_us is "
           "the time to the first\ntoken, 0 where there was none; agreed is the number of "
           "tokens of drafts that were right, 65535: or more.\n\n"
           "| kind | values | meaning |\n|---|---|---|\n");
    for (uint32_t i = 0; i < EVENT_KINDS_COUNT; i++) {
        const char *before = "";
        printf("| `%s` | ", event_rows[i].name);
        for (uint32_t j = 0; j < EVENT_VALUES_COUNT && event_rows[i].values[j][0] != '\0'; j++) {
            printf("%s`%s`", before, event_rows[i].values[j]);
            before = ", ";
        }
        printf(" | %s |\n", event_rows[i].help);
    }
}

/* And the words of policies.def. */
void docgen_policies(const char *none)
{
#define WHO_OFFERED     ""
#define WHO_LAB         " (`agentix-lab` only)"
#define QUEUES_MANY     "`sched.queues`"
#define QUEUES_ONE      "1"
#define QUEUES_STAGES   "3 stages"
#define UNIT_PROGRAM    "programs"
#define UNIT_CALL       "calls"
#define USED_UP_SINKS   "tail of the next queue"
#define USED_UP_TURNS   "tail of its queue"
#define USED_UP_STAYS   "keeps its place"
#define HISTORY_PROGRAM "of program and call"
#define HISTORY_CALL    "of the call"
#define HISTORY_NONE    "-"
#define CREDIT_SUM      "sum of its calls"
#define CREDIT_PATH     "longest path"
#define COST_NONE       "-"
#define COST_ROUNDS     "token-rounds"
#define COST_TOKENS     "tokens"
    printf("| policy | queues | of | level | order in a queue | quantum used up | ratio "
           "| program's service | its cost | what it is |\n"
           "|---|---|---|---|---|---|---|---|---|---|\n");
#define POLICY(name, word, who, queues, unit, level, key, used_up, history, credit, cost, help) \
    printf("| `%s`%s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", word, WHO_##who, \
           QUEUES_##queues, UNIT_##unit, #level, #key, USED_UP_##used_up, HISTORY_##history, \
           CREDIT_##credit, COST_##cost, help);
#include "config/policies.def"
}

void docgen_exit(const char *none)
{
    printf("| exit status | meaning |\n|---|---|\n");
#define EXIT(id, status, help) printf("| %d | %s |\n", status, help);
#include "appliance/boot/exit.def"
}

static void write_argument(const char *name, const char *value, const char *help)
{
    bool is_apart = value[0] != '\0' && value[0] != '[';
    printf("| `%s%s%s` | ", name, is_apart ? " " : "", value);
    for (; *help != '\0'; help++) {
        putchar(*help == '\n' ? ' ' : *help);
    }
    printf(" |\n");
}

void docgen_arguments(const char *none)
{
    printf("| argument | meaning |\n|---|---|\n");
#define ARGUMENT(name, value, help) write_argument(name, value, help);
#include "appliance/arguments.def"
}
