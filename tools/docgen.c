/* SPDX-License-Identifier: MIT */
/*
 * What: writes the documents that come from tables of the code: `build/docgen MODE` with
 *
 *   config  docs/config.md      from config/options.def
 *   sample  docs/agentix.ini    from config/options.def
 *   stats   docs/stats.md       from appliance/base/stats.def
 *
 * `make docs` writes them, tools/check compares them.
 */
#include <stdio.h>
#include <string.h>

#include "config/config.h"

struct stat_row {
    const char *name, *unit, *kind, *help;
};

static const struct stat_row stat_rows[] = {
#define STAT(name, unit, kind, help) {#name, unit, #kind, help},
#include "appliance/base/stats.def"
#undef STAT
};

static void write_stats(void)
{
    printf("# Statistics\n\n"
           "Made from appliance/base/stats.def by `make docs`; do not edit.\n\n"
           "The text port's `stats` and `GET /stats` answer one line for each: its name and its "
           "value.\nA counter grows from the start of the appliance; a gauge is the value now.\n\n"
           "| name | unit | kind | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof stat_rows / sizeof stat_rows[0]; i++) {
        const struct stat_row *row = &stat_rows[i];
        printf("| `%s` | %s | %s | %s |\n", row->name, row->unit,
               strcmp(row->kind, "COUNTER") == 0 ? "counter" : "gauge", row->help);
    }
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
    } else {
        fprintf(stderr, "usage: docgen config|sample|stats\n");
        return 2;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
