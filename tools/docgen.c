/* SPDX-License-Identifier: MIT */
/*
 * What: writes the documents that come from tables of the code: `build/docgen MODE` with
 *
 *   config    docs/config.md           from config/options.def
 *   sample    docs/agentix.ini         from config/options.def
 *   stats     docs/stats.md            from config/base/stats.def
 *   events    docs/events.md           from config/base/events.def
 *   frames    selftest/e2e/frames.py   from net/frames.def, config/base/finish.def and status.def;
 *                                      tools/sdk/python has the same file
 *   table NAME                         a table alone, for the manual (tools/package)
 *   page FILE                          a page written by hand, with the tables that it asks for
 *
 * A page asks for a table by two marks, and what lies between them is written anew:
 *
 *   <!-- make docs: TABLE -->          and so: policies, frames, finish, error_fields,
 *   <!-- end -->                       layout NAME, flags FRAME
 *
 * `make docs` writes them, tools/check compares them.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "net/wire.h"
#include "tools/docgen_tables.h"

#define COUNT(rows) (sizeof (rows) / sizeof (rows)[0])

/* ---- frames ---------------------------------------------------------------------------------- */

enum range_kind { RANGE_ANY, RANGE_WITHIN, RANGE_ABOVE, RANGE_BELOW, RANGE_ZERO_OR };
struct range {
    enum range_kind kind;
    double min, max;
};
struct field_row {
    const char *layout, *name;
    const char *type;               /* as in the table: "U16", "NAME(64)"; NULL: of a tail */
    unsigned offset, bytes;
    struct range range;
    const char *size, *allowed;     /* of a tail */
    const char *help;
};

#define ANY                {.kind = RANGE_ANY}
#define WITHIN(low, high)  {RANGE_WITHIN, (low), (high)}
#define ABOVE(low, high)   {RANGE_ABOVE, (low), (high)}
#define BELOW(low, high)   {RANGE_BELOW, (low), (high)}
#define ZERO_OR(low, high) {RANGE_ZERO_OR, (low), (high)}
#define PLACE(layout, name) \
    .offset = offsetof(struct wire_bytes_##layout, name), \
    .bytes = sizeof(((struct wire_bytes_##layout *)0)->name)
static const struct field_row field_rows[] = {
#define FIELD(layout_, name_, type_, member, error, range_, help_)                     \
    {.layout = #layout_, .name = #name_, .type = #type_, PLACE(layout_, name_),        \
     .range = range_, .help = help_},
#define RESERVED(layout_, name_, bytes_)                                               \
    {.layout = #layout_, .name = #name_, .type = "ZERO", PLACE(layout_, name_), .help = ""},
#define TAIL(layout_, name_, size_, allowed_, help_)                                   \
    {.layout = #layout_, .name = name_, .size = size_, .allowed = allowed_, .help = help_},
#include "net/frames.def"
};
static const struct frame_row {
    const char *id, *from, *layout, *answer;
    unsigned type;
} frame_rows[] = {
#define FRAME(id, type, from, layout, answer) {#id, #from, #layout, answer, type},
#include "net/frames.def"
};
static const struct part_row {
    const char *layout;
    unsigned bytes;
    bool is_part;                   /* of the tail of a frame */
} part_rows[] = {
#define IS_PART_EXACT  false
#define IS_PART_SHARED false
#define IS_PART_OPEN   false
#define IS_PART_PART   true
#define LAYOUT(name, id, length) {#name, sizeof(struct wire_bytes_##name), IS_PART_##length},
#include "net/frames.def"
};
static const struct flag_row {
    const char *frame, *id, *help;
    unsigned value;
} flag_rows[] = {
#define FLAG(frame, id, value, help) {#frame, #id, help, value},
#include "net/frames.def"
};

static const struct finish_row {
    const char *id, *help;
    unsigned value;
} finish_rows[] = {
#define FINISH(id, value, word, help) {#id, help, value},
#include "config/base/finish.def"
#undef FINISH
};

static const struct status_row {
    const char *name, *text;
    unsigned code;
} status_rows[] = {
#define STATUS(name, class, wire, text) {#name, text, wire},
#include "config/base/status.def"
#undef STATUS
};

static void write_cell(const char *text)
{
    printf("%s%s |", text[0] != '\0' ? " " : "", text);
}

static void write_frames(const char *none)
{
    printf("| type | name | from | length | answered by |\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT(frame_rows); i++) {
        const struct frame_row *row = &frame_rows[i];
        const struct wire_layout *layout = wire_layout_of((uint8_t)row->type);
        printf("| 0x%02x | %s | %s | %u%s |", row->type, row->id,
               strcmp(row->from, "CLIENT") == 0 ? "client" : "appliance", layout->bytes,
               layout->is_open ? " .. frame_bytes_max" : "");
        write_cell(row->answer);
        printf("\n");
    }
}

/* "NAME(64)" is a name. */
static void write_type(const char *type)
{
    printf(" ");
    for (; isalnum((unsigned char)*type); type++) {
        putchar(tolower((unsigned char)*type));
    }
    printf(" |");
}

static void write_bound(double value)
{
    if (value == INT32_MAX) {
        printf("2^31 - 1");
    } else {
        printf("%.10g", value);
    }
}

static void write_range(const struct range *range)
{
    static const char *const between[] = {[RANGE_WITHIN] = " .. ", [RANGE_ABOVE] = " < x <= ",
                                          [RANGE_BELOW] = " <= x < ", [RANGE_ZERO_OR] = " .. "};
    if (range->kind == RANGE_ANY) {
        printf(" |");
        return;
    }
    printf(" %s", range->kind == RANGE_ZERO_OR ? "0, or " : "");
    write_bound(range->min);
    printf("%s", between[range->kind]);
    write_bound(range->max);
    printf(" |");
}

static void write_field(const struct field_row *row, unsigned tail_at)
{
    if (row->type == NULL) {
        printf(tail_at != 0 ? "| %u |" : "| |", tail_at);
        write_cell(row->size);
        write_cell(row->name);
        printf(" |");
        write_cell(row->allowed);
    } else {
        printf("| %u | %u | %s |", row->offset, row->bytes, row->name);
        write_type(row->type);
        write_range(&row->range);
    }
    write_cell(row->help);
    printf("\n");
}

/* All frames that have the layout, and its size. */
static void write_title(const char *name)
{
    const struct wire_layout *layout = NULL;
    for (size_t i = 0; i < COUNT(frame_rows); i++) {
        if (strcmp(frame_rows[i].layout, name) == 0) {
            printf("%s%s", layout == NULL ? "**" : ", ", frame_rows[i].id);
            layout = wire_layout_of((uint8_t)frame_rows[i].type);
        }
    }
    for (size_t i = 0; i < COUNT(part_rows); i++) {
        if (part_rows[i].is_part && strcmp(part_rows[i].layout, name) == 0) {
            printf("Each element (%u and more):\n\n", part_rows[i].bytes);
        }
    }
    if (layout != NULL) {
        printf("** (%u%s)\n\n", layout->bytes, layout->is_open ? " and more" : "");
    }
}

static void write_layout(const char *layout)
{
    unsigned end = 0;
    write_title(layout);
    printf("| offset | size | field | type | allowed | |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT(field_rows); i++) {
        const struct field_row *row = &field_rows[i];
        if (strcmp(row->layout, layout) == 0) {
            write_field(row, end);
            end = row->type != NULL ? row->offset + row->bytes : 0;
        }
    }
}

static void write_flags(const char *frame)
{
    printf("| flag | name | |\n|---|---|---|\n");
    for (size_t i = 0; i < COUNT(flag_rows); i++) {
        if (strcmp(flag_rows[i].frame, frame) == 0) {
            printf("| %u | %s | %s |\n", flag_rows[i].value, flag_rows[i].id, flag_rows[i].help);
        }
    }
}

static void write_error_fields(const char *none)
{
    printf("Fields:");
    for (uint32_t i = 0; i < WIRE_FIELD_COUNT; i++) {
        printf("%s %u %s", i > 0 ? " \u00b7" : "", i, wire_field_name((enum wire_field)i));
    }
    printf(".\n");
}

static void write_finish(const char *none)
{
    printf("| finish | name | |\n|---|---|---|\n");
    for (size_t i = 0; i < COUNT(finish_rows); i++) {
        printf("| %u | %s |", finish_rows[i].value, finish_rows[i].id);
        write_cell(finish_rows[i].help);
        printf("\n");
    }
}

/* ---- pages ----------------------------------------------------------------------------------- */

static const struct table {
    const char *name;
    void (*write)(const char *whose);
} tables[] = {
    {"policies", docgen_policies}, {"frames", write_frames}, {"layout", write_layout},
    {"flags", write_flags}, {"finish", write_finish}, {"error_fields", write_error_fields},
    {"exit", docgen_exit}, {"arguments", docgen_arguments},
};

static bool write_table(const char *name, const char *whose)
{
    for (size_t i = 0; i < COUNT(tables); i++) {
        if (strcmp(tables[i].name, name) == 0) {
            tables[i].write(whose);
            return true;
        }
    }
    fprintf(stderr, "docgen: no table '%s'\n", name);
    return false;
}

/* The page as it is, but for its tables. */
static bool write_page(const char *path)
{
    char line[1024], name[32], whose[32];
    bool skips = false, is_good = true;
    FILE *page = fopen(path, "r");
    if (page == NULL) {
        perror(path);
        return false;
    }
    while (fgets(line, sizeof line, page) != NULL) {
        skips = skips && strcmp(line, "<!-- end -->\n") != 0;
        if (skips) {
            continue;
        }
        fputs(line, stdout);
        whose[0] = '\0';
        if (sscanf(line, "<!-- make docs: %31s %31s", name, whose) >= 1) {
            is_good = write_table(name, whose) && is_good;
            skips = true;
        }
    }
    fclose(page);
    return is_good && !skips;
}

/* ---- Python ---------------------------------------------------------------------------------- */

/* A letter of Python's struct for each type, and a number before the s of bytes. */
static void write_form(const struct field_row *row)
{
    static const struct { const char *type, *form; } forms[] = {
        {"U8", "B"}, {"U16", "H"}, {"U32", "I"}, {"U64", "Q"}, {"F32", "f"}, {"BOOL", "B"},
        {"STATUS", "H"},
    };
    for (size_t i = 0; i < COUNT(forms); i++) {
        if (strcmp(row->type, forms[i].type) == 0) {
            printf("%s", forms[i].form);
            return;
        }
    }
    printf("%us", row->bytes);
}

static void write_python_layout(const char *layout)
{
    for (size_t i = 0; i < COUNT(field_rows); i++) {
        const struct field_row *row = &field_rows[i];
        if (strcmp(row->layout, layout) == 0 && row->type != NULL) {
            printf("        \"%s\": \"", row->name);
            write_form(row);
            printf("\",\n");
        }
    }
}

/* A flag that an earlier frame has too is told apart by the name of its own. */
static void write_python_flag(size_t at)
{
    bool is_first = true;
    for (size_t i = 0; i < at; i++) {
        is_first = is_first && strcmp(flag_rows[i].id, flag_rows[at].id) != 0;
    }
    printf("%s%s%s = %u\n", is_first ? "" : flag_rows[at].frame, is_first ? "" : "_",
           flag_rows[at].id, flag_rows[at].value);
}

static void write_python_parts(void)
{
    printf("\n# Fixed parts of what a tail repeats.\nPARTS = {\n");
    for (size_t i = 0; i < COUNT(part_rows); i++) {
        if (part_rows[i].is_part) {
            printf("    \"%s\": {\n", part_rows[i].layout);
            write_python_layout(part_rows[i].layout);
            printf("    },\n");
        }
    }
    printf("}\n");
}

/* What an ERROR says: statuses that are sent, and fields. */
static void write_python_errors(void)
{
    printf("\n# Name and text of each status that is sent.\nSTATUSES = {\n");
    for (size_t i = 0; i < COUNT(status_rows); i++) {
        if (status_rows[i].code != 0) {
            printf("    %u: (\"%s\", \"%s\"),\n", status_rows[i].code, status_rows[i].name,
                   status_rows[i].text);
        }
    }
    printf("}\n\n# What a refusal is about.\nERROR_FIELDS = {\n");
    for (uint32_t i = 0; i < WIRE_FIELD_COUNT; i++) {
        printf("    %u: \"%s\",\n", i, wire_field_name((enum wire_field)i));
    }
    printf("}\n");
}

static void write_python(void)
{
    printf("# SPDX-License-Identifier: MIT\n"
           "\"\"\"Frames of protocol version 1: made from net/frames.def, config/base/finish.def "
           "and\nconfig/base/status.def by `make docs`; do not edit.\"\"\"\n\n# Types.\n");
    for (size_t i = 0; i < COUNT(frame_rows); i++) {
        printf("%s = 0x%02x\n", frame_rows[i].id, frame_rows[i].type);
    }
    printf("\n# Flags.\n");
    for (size_t i = 0; i < COUNT(flag_rows); i++) {
        write_python_flag(i);
    }
    printf("\n# Ends of a call.\n");
    for (size_t i = 0; i < COUNT(finish_rows); i++) {
        printf("%s = %u\n", finish_rows[i].id, finish_rows[i].value);
    }
    printf("\n# Fields of the payload, or of its fixed part, in the letters of struct.\n"
           "LAYOUTS = {\n");
    for (size_t i = 0; i < COUNT(frame_rows); i++) {
        printf("    %s: {\n", frame_rows[i].id);
        write_python_layout(frame_rows[i].layout);
        printf("    },\n");
    }
    printf("}\n");
    write_python_parts();
    write_python_errors();
}

static int usage(void)
{
    fprintf(stderr, "usage: docgen config|sample|stats|events|frames|table NAME|page FILE\n");
    return 2;
}

int main(int count, char **arguments)
{
    const char *mode = count >= 2 ? arguments[1] : "";
    bool is_page = strcmp(mode, "page") == 0, is_table = strcmp(mode, "table") == 0;
    bool is_good = true;
    if (count != (is_page || is_table ? 3 : 2)) {
        return usage();
    }
    if (is_page) {
        is_good = write_page(arguments[2]);
    } else if (is_table) {
        is_good = write_table(arguments[2], "");
    } else if (strcmp(mode, "config") == 0) {
        config_write_markdown(stdout);
    } else if (strcmp(mode, "sample") == 0) {
        config_write_sample(stdout);
    } else if (strcmp(mode, "stats") == 0) {
        docgen_stats();
    } else if (strcmp(mode, "events") == 0) {
        docgen_events();
    } else if (strcmp(mode, "frames") == 0) {
        write_python();
    } else {
        return usage();
    }
    return fflush(stdout) == 0 && is_good ? 0 : 1;
}
