/* SPDX-License-Identifier: MIT */
/*
 * What: writes the documents that come from tables of the code: `build/docgen MODE` with
 *
 *   config  docs/config.md      from config/options.def
 *   sample  docs/agentix.ini    from config/options.def
 *   stats   docs/stats.md       from config/base/stats.def
 *   events  docs/events.md      from config/base/events.def
 *   policies  a table in docs/scheduling.md     from config/policies.def
 *
 * `make docs` writes them, tools/check compares them.
 */
#include <stdio.h>
#include <string.h>

#include "config/base/event_log.h"
#include "config/config.h"

struct stat_row {
    const char *name, *unit, *kind, *help;
};

static const struct stat_row stat_rows[] = {
#define STAT(name, unit, kind, help) {#name, unit, #kind, help},
#include "config/base/stats.def"
#undef STAT
};

static void write_stats(void)
{
    printf("# Statistics\n\n"
           "Made from config/base/stats.def by `make docs`; do not edit.\n\n"
           "The text port's `stats` and `GET /stats` answer one line for each: its name and its "
           "value.\nA counter grows from the start of the appliance; a gauge is the value now.\n\n"
           "| name | unit | kind | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof stat_rows / sizeof stat_rows[0]; i++) {
        const struct stat_row *row = &stat_rows[i];
        printf("| `%s` | %s | %s | %s |\n", row->name, row->unit,
               strcmp(row->kind, "COUNTER") == 0 ? "counter" : "gauge", row->help);
    }
}

static void write_events(void)
{
    printf("# Events\n\n"
           "Made from config/base/events.def by `make docs`; do not edit.\n\n"
           "The core records what happens in an event log of `limits.events` entries, which drops "
           "its oldest. The text\nport's `events` answers the last of them, `events N` those from "
           "number N on, one line each, at most 256:\n\n"
           "    NUMBER TIME_US KIND [call=SLOT id=ID] [program=SLOT:TAG] [VALUE=N]...\n"
           "    next=NUMBER end=NUMBER lost=COUNT now_us=TIME_US\n\n"
           "ID is the client's, TAG how its program id begins; a value that does not fit 32 bits "
           "is 4294967295.\nAsk for `next` to go on: there is more while it is below `end`. "
           "`lost` is how many events from N on were\ndropped. Times are those of the "
           "appliance's monotonic clock. `agx trace` makes a picture of them.\n\n"
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

/* The table between two marks of docs/scheduling.md, and the words of policies.def in it. */
static void write_policies(void)
{
#define WHO_OFFERED     ""
#define WHO_LAB         " (`agentix-lab` only)"
#define QUEUES_MANY     "`sched.queues`"
#define QUEUES_ONE      "1"
#define ENTRY_PROGRAM   "the one whose range holds its program's service"
#define ENTRY_FIRST     "the first"
#define USED_UP_SINKS   "tail of the next queue"
#define USED_UP_TURNS   "tail of its queue"
#define USED_UP_STAYS   "keeps its place"
#define HISTORY_PROGRAM "of program and call"
#define HISTORY_CALL    "of the call"
#define HISTORY_NONE    "-"
#define CREDIT_SUM      "sum of its calls"
#define CREDIT_PATH     "longest path"
    printf("| policy | queues | a call enters | order in a queue | quantum used up | ratio "
           "| program's service | what it is |\n|---|---|---|---|---|---|---|---|\n");
#define POLICY(name, word, who, queues, entry, key, used_up, history, credit, help) \
    printf("| `%s`%s | %s | %s | %s | %s | %s | %s | %s |\n", word, WHO_##who, QUEUES_##queues, \
           ENTRY_##entry, #key, USED_UP_##used_up, HISTORY_##history, CREDIT_##credit, help);
#include "config/policies.def"
}

int main(int count, char **arguments)
{
    const char *mode = count == 2 ? arguments[1] : "";
    if (strcmp(mode, "config") == 0) {
        config_write_markdown(stdout);
    } else if (strcmp(mode, "sample") == 0) {
        config_write_sample(stdout);
    } else if (strcmp(mode, "stats") == 0) {
        write_stats();
    } else if (strcmp(mode, "events") == 0) {
        write_events();
    } else if (strcmp(mode, "policies") == 0) {
        write_policies();
    } else {
        fprintf(stderr, "usage: docgen config|sample|stats|events|policies\n");
        return 2;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
