/* SPDX-License-Identifier: MIT */
/*
 * What: `agx ask`: a question to the text port, and its answer without the last line, `end`. With
 * --all the pages of `events` and `ended` one after the other, up to what was last at the first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/agx/command.h"
#include "tools/agx/printable.h"
#include "tools/agx/watch/text_port.h"

#define QUESTION_BYTES 256

/* The words as one line; false: it is too long, or would be several. */
static bool join(char *question, int count, char **words)
{
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        size_t bytes = strlen(words[i]);
        if (used + bytes + 2 > QUESTION_BYTES || strpbrk(words[i], "\r\n") != NULL) {
            return false;
        }
        memcpy(question + used, words[i], bytes);
        used += bytes;
        question[used++] = i + 1 < count ? ' ' : '\n';
    }
    question[used] = '\0';
    return true;
}

/* The last line of a page says `next=N end=M`. */
static bool take_summary(const char *page, uint64_t *next, uint64_t *end)
{
    const char *line = strrchr(page, '\n');
    while (line != NULL && line > page && line[-1] != '\n') {
        line--;
    }
    return line != NULL && sscanf(line, "next=%" SCNu64 " end=%" SCNu64, next, end) == 2;
}

/* Prints a page; false: there is no other. `*last`: the number that ends the answer. */
static bool print_page(struct text_port *port, char *question, uint64_t *last)
{
    uint64_t next = 0, end = 0;
    port->page[port->page_bytes - strlen("end\n")] = '\0';
    printable_write(port->page, stdout);
    if (!take_summary(port->page, &next, &end)) {
        return false;
    }
    *last = *last == 0 ? end : *last;
    size_t word = strcspn(question, " \n");
    snprintf(question + word, QUESTION_BYTES - word, " %" PRIu64 "\n", next);
    return next < *last;
}

static int ask(const char *text, char *question, bool all)
{
    struct text_port port;
    uint64_t last = 0;
    bool goes_on = true;
    int code = text_port_open(&port, text);
    while (code == EXIT_COMPLETE && goes_on) {
        code = text_port_ask(&port, question);
        goes_on = code == EXIT_COMPLETE && print_page(&port, question, &last) && all;
    }
    text_port_close(&port);
    return code;
}

int ask_main(const char *to, int argc, char **argv)
{
    const char *text = text_port_default();
    char question[QUESTION_BYTES];
    uint32_t words = 0;
    bool all = false;
    const struct argument rows[] = {
        {"--text", "ADDRESS", ARGUMENT_TEXT, &text, 0, 0, TEXT_PORT_HELP},
        {"--all", "", ARGUMENT_FLAG, &all, 0, 0,
         "page after page of `events` or `ended`, not the first alone"},
    };
    const struct command_line line = {
        AGX_COMMAND("ask"), .usage = "[OPTION]... QUESTION...",
        .purpose = "What the text port answers: `agx ask help` lists the questions, `agx ask ended "
                   "12:03` has\na word more.",
        .operands_count = &words, .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};
    (void)to;                           /* this command does not use the binary protocol */
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    if (!join(question, (int)words, argv + 1)) {
        return command_line_refuse(&line, "QUESTION", argv[1], "one line of at most 254 bytes");
    }
    return ask(text, question, all);
}
