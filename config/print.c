/* SPDX-License-Identifier: MIT */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/value.h"

/*
 * What: the option table as text: --help, the sample INI, docs/config.md. Only the frame is written
 * by hand, so no text can differ from options.def.
 * The sample holds every key at its default, commented out. It loads as it is, and a later change
 * of a default takes effect where the sample was copied. BOOT_ONLY: stdio.
 */

struct words {                      /* one row, spelled */
    char fallback[CONFIG_TEXT_BYTES];
    char range[CONFIG_TEXT_BYTES];
};

static void spell(const struct option_row *row, struct words *words)
{
    struct option_value value = {.number = row->default_number};
    if (row->default_text != NULL) {
        ASSERT(strlen(row->default_text) < sizeof value.text);
        memcpy(value.text, row->default_text, strlen(row->default_text));
    }
    words->fallback[config_format(row, &value, words->fallback, CONFIG_TEXT_BYTES - 1)] = '\0';
    words->range[config_value_range(row, words->range, CONFIG_TEXT_BYTES - 1)] = '\0';
}

static const char *type_name(const struct option_row *row)
{
    static const char *const names[] = {
        [OPTION_TEXT] = "text", [OPTION_COUNT] = "integer", [OPTION_BYTES] = "bytes",
        [OPTION_TIME] = "time", [OPTION_TIME_AUTO] = "time or auto",
        [OPTION_PROGRAMS] = "auto, off or integer",
        [OPTION_RATIO] = "ratio", [OPTION_CHOICE] = "choice"};
    ASSERT((size_t)row->type < sizeof names / sizeof names[0]);
    return names[row->type];
}

static bool starts_section(uint32_t i)
{
    ASSERT(i < config_option_rows_count);
    return i == 0 ||
           strcmp(config_option_rows[i].section, config_option_rows[i - 1].section) != 0;
}

void config_write_help(FILE *out)
{
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        struct words words;
        spell(row, &words);
        fprintf(out, "  %s.%s = %s  (%s)\n      %s\n", row->section, row->key, words.fallback,
                words.range, row->help);
    }
}

void config_write_sample(FILE *out)
{
    fputs("; Every key of the appliance at its default; remove a semicolon to change one.\n"
          "; A semicolon after a space begins a comment. Lines have at most 190 bytes of ASCII.\n",
          out);
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        struct words words;
        spell(row, &words);
        if (starts_section(i)) {
            fprintf(out, "\n[%s]\n", row->section);
        }
        fprintf(out, "; %s\n; %s: %s\n", row->help, type_name(row), words.range);
        fprintf(out, ";%s =%s%s\n", row->key, words.fallback[0] != '\0' ? " " : "",
                words.fallback);
    }
}

/* A bar would end the cell of the table. */
static void write_cell(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        fputs(*text == '|' ? "\\" : "", out);
        fputc(*text, out);
    }
}

void config_write_markdown(FILE *out)
{
    fputs("# Configuration\n\n"
          "Made from config/options.def by `make docs`; do not edit.\n\n"
          "One INI file, read at boot by `agentix --config FILE`; `--set section.key=value` "
          "overrides it.\nSIGHUP takes up auth.keys, auth.uids and auth.gids; any other change "
          "takes a restart.\n"
          "Without a file every key has its default. An unknown or duplicate key is an error.\n"
          "Times are written with us, ms, s, min or h; bytes may use KiB, MiB or GiB; ratios have "
          "at most three decimals.\n"
          "The file is a regular file of at most 64 KiB of ASCII that is not world-writable; "
          "lines have at most 190 bytes;\na semicolon after a space begins a comment. "
          "docs/agentix.ini is a sample with every key.\n", out);
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        struct words words;
        spell(row, &words);
        if (starts_section(i)) {
            fprintf(out, "\n## [%s]\n\n| key | type | default | allowed | meaning |\n"
                         "|---|---|---|---|---|\n", row->section);
        }
        fprintf(out, "| `%s` | %s | %s%s%s | ", row->key, type_name(row),
                words.fallback[0] != '\0' ? "`" : "", words.fallback,
                words.fallback[0] != '\0' ? "`" : "empty");
        write_cell(out, words.range);
        fputs(" | ", out);
        write_cell(out, row->help);
        fputs(" |\n", out);
    }
}
