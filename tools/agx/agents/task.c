/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/utf8.h"

/*
 * What: task files, line by line. One line is one step of `struct parser`. A complete task is
 * checked when the next one begins, or at the end.
 *
 * Invariant: a line adds no more to the book's text than its own length, because it loses its mark;
 * so a text as large as the file holds all strings with their terminators.
 */

#define LINE_SHOWN_MAX 40       /* of a faulty line, in a message */

struct parser {
    struct task_book *book;
    const char *path;
    char *fault;
    struct task *task;          /* being read; NULL before the first one */
    char *out;                  /* where the next string goes */
    char *prompt;               /* the one that is growing; NULL: none */
    uint32_t line;
};

static const char *const kind_names[TASK_KINDS] = {"react", "map", "vote", "chat"};

const char *task_kind_name(enum task_kind kind)
{
    return kind_names[kind];
}

static bool refuse(const struct parser *parser, const char *found, const char *expected)
{
    int shown = (int)strlen(found) > LINE_SHOWN_MAX ? LINE_SHOWN_MAX : (int)strlen(found);
    snprintf(parser->fault, TASK_FAULT_BYTES, "%.96s:%u: found '%.*s', expected %s", parser->path,
             (unsigned)parser->line, shown, found, expected);
    return false;
}

static char *keep(struct parser *parser, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *kept = parser->out;
    memcpy(kept, text, bytes);
    parser->out += bytes;
    return kept;
}

/* ---- a task's beginning and end -------------------------------------------------------------- */

/* Ends the prompt that is growing. */
static void close_prompt(struct parser *parser)
{
    if (parser->prompt != NULL) {
        *parser->out++ = '\0';
        parser->prompt = NULL;
    }
}

static bool close_task(struct parser *parser, const char *found)
{
    const struct task *task = parser->task;
    if (task == NULL) {
        return true;
    }
    if (task->prompts_count == 0) {
        return refuse(parser, found, "a line of the prompt: > TEXT");
    }
    if (task->answers_count < (task->kind == TASK_CHAT ? task->prompts_count : 1)) {
        return refuse(parser, found, "the right answer: = TEXT");
    }
    if (task->samples > 0 && task->prompts_count > 1) {
        return refuse(parser, found, "one prompt, as the task has samples");
    }
    return true;
}

static struct task *new_task(struct task_book *book)
{
    if (book->count == book->room) {
        uint32_t room = book->room > 0 ? 2 * book->room : 16;
        struct task *larger = realloc(book->tasks, room * sizeof *larger);
        if (larger == NULL) {
            return NULL;
        }
        book->tasks = larger;
        book->room = room;
    }
    struct task *task = &book->tasks[book->count++];
    memset(task, 0, sizeof *task);
    return task;
}

static bool begin_task(struct parser *parser, const char *line, bool follows)
{
    const char *words = line + strlen("task ");     /* as long as "then " */
    const char *name = strchr(words, ' ');
    size_t kind_bytes = name != NULL ? (size_t)(name - words) : 0;
    if (!close_task(parser, line)) {
        return false;
    }
    for (uint32_t kind = 0; kind < TASK_KINDS; kind++) {
        if (strlen(kind_names[kind]) != kind_bytes || memcmp(kind_names[kind], words, kind_bytes)) {
            continue;
        }
        size_t name_bytes = strlen(++name);
        if (name_bytes == 0 || name_bytes > TASK_NAME_BYTES_MAX || strchr(name, ' ') != NULL) {
            return refuse(parser, line, "a name of 1 to 48 bytes without blanks");
        }
        parser->task = new_task(parser->book);
        if (parser->task == NULL) {
            return refuse(parser, line, "more memory");
        }
        parser->task->kind = (enum task_kind)kind;
        parser->task->follows = follows;
        parser->task->name = keep(parser, name);
        return true;
    }
    return refuse(parser, line, "task react|map|vote|chat NAME");
}

/* ---- lines of a task ------------------------------------------------------------------------- */

static bool begin_prompt(struct parser *parser, const char *line)
{
    struct task *task = parser->task;
    if (task->prompts_count == TASK_PROMPTS_MAX) {
        return refuse(parser, line, "at most 64 prompts in a task");
    }
    parser->prompt = parser->out;
    task->prompts[task->prompts_count++] = parser->prompt;
    return true;
}

static bool add_prompt_line(struct parser *parser, const char *line)
{
    struct task *task = parser->task;
    const char *text = line + (line[1] == ' ' ? 2 : 1);
    bool is_chat = task->kind == TASK_CHAT;
    if (is_chat && task->answers_count < task->prompts_count) {
        return refuse(parser, line, "what the reply contains: = TEXT");
    }
    if (!is_chat && task->answers_count > 0) {
        return refuse(parser, line, "the next task, after the answer");
    }
    if (parser->prompt == NULL && !begin_prompt(parser, line)) {
        return false;
    }
    size_t bytes = strlen(text);
    if ((size_t)(parser->out - parser->prompt) + bytes + 1 > TASK_PROMPT_BYTES_MAX) {
        return refuse(parser, line, "at most 8192 bytes in a prompt");
    }
    memcpy(parser->out, text, bytes);
    parser->out += bytes;
    if (is_chat) {
        close_prompt(parser);
    } else {
        *parser->out++ = '\n';
    }
    return true;
}

static bool add_answer(struct parser *parser, const char *line)
{
    struct task *task = parser->task;
    size_t bytes = strlen(line + 2);
    if (bytes == 0 || bytes > TASK_ANSWER_BYTES_MAX || line[2] == ' ' || line[bytes + 1] == ' ') {
        return refuse(parser, line, "= and 1 to 120 bytes, no blank at an end");
    }
    if (task->prompts_count == 0 ||
        task->answers_count == (task->kind == TASK_CHAT ? task->prompts_count : 1)) {
        return refuse(parser, line, task->prompts_count == 0 ? "a line of the prompt: > TEXT"
                                                             : "no second answer");
    }
    close_prompt(parser);
    task->answers[task->answers_count++] = keep(parser, line + 2);
    return true;
}

static bool next_part(struct parser *parser, const char *line)
{
    enum task_kind kind = parser->task->kind;
    if (kind != TASK_MAP && kind != TASK_VOTE) {
        return refuse(parser, line, "one prompt; only map and vote have parts");
    }
    if (parser->prompt == NULL) {
        return refuse(parser, line, "a line of the prompt: > TEXT");
    }
    close_prompt(parser);
    return true;
}

static bool set_samples(struct parser *parser, const char *line)
{
    const char *number = line + strlen("samples ");
    if (parser->task->kind != TASK_VOTE || parser->task->samples > 0) {
        return refuse(parser, line, "samples in a vote only, and once");
    }
    if (number[0] < '1' || number[0] > '9' || number[1] != '\0') {
        return refuse(parser, line, "samples 1 to 9");
    }
    parser->task->samples = (uint32_t)(number[0] - '0');
    return true;
}

static bool take_line(struct parser *parser, const char *line)
{
    if (line[0] == '\0' || line[0] == '#') {
        return true;
    }
    bool follows = strncmp(line, "then ", 5) == 0;
    if (parser->task == NULL && (follows || strncmp(line, "task ", 5) != 0)) {
        return refuse(parser, line, "task KIND NAME");
    }
    if (follows || strncmp(line, "task ", 5) == 0) {
        close_prompt(parser);
        return begin_task(parser, line, follows);
    }
    if (line[0] == '>' && (line[1] == ' ' || line[1] == '\0')) {
        return add_prompt_line(parser, line);
    }
    if (line[0] == '=' && line[1] == ' ') {
        return add_answer(parser, line);
    }
    if (strcmp(line, "-") == 0) {
        return next_part(parser, line);
    }
    if (strncmp(line, "samples ", 8) == 0) {
        return set_samples(parser, line);
    }
    return refuse(parser, line, "a line with >, =, -, #, samples, task or then");
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* No tabs or other control characters: they are more likely a mistake. */
static bool is_text(const char *line)
{
    uint32_t left = (uint32_t)strlen(line);
    while (left > 0) {
        int32_t length = utf8_sequence(line, left);
        if (length <= 0 || (unsigned char)line[0] < 0x20 || line[0] == 0x7f) {
            return false;
        }
        line += length;
        left -= (uint32_t)length;
    }
    return true;
}

/* `text` ends with a zero byte; parsing terminates each of its lines. */
static bool parse_lines(struct parser *parser, char *text, size_t bytes)
{
    for (char *line = text; line < text + bytes;) {
        char *end = strchr(line, '\n');
        parser->line++;
        if (end != NULL) {
            *end = '\0';
        } else if (strlen(line) < (size_t)(text + bytes - line)) {
            return refuse(parser, line, "text, without zero bytes");
        }
        if (!is_text(line)) {
            return refuse(parser, "bytes that are no text", "printable UTF-8");
        }
        if (!take_line(parser, line)) {
            return false;
        }
        line = end != NULL ? end + 1 : text + bytes;
    }
    close_prompt(parser);
    return close_task(parser, "the end");
}

/* Room for the strings of one more text; NULL: no memory. */
static char *take_text(struct task_book *book, size_t bytes)
{
    char **larger = realloc(book->texts, (book->texts_count + 1) * sizeof *larger);
    char *text = larger != NULL ? malloc(bytes) : NULL;
    book->texts = larger != NULL ? larger : book->texts;
    if (text != NULL) {
        book->texts[book->texts_count++] = text;
    }
    return text;
}

bool task_book_parse(struct task_book *book, const char *path, const char *text, size_t bytes,
                     char fault[TASK_FAULT_BYTES])
{
    struct parser parser = {.book = book, .path = path, .fault = fault};
    char *lines = malloc(bytes + 1);
    parser.out = take_text(book, bytes + 2);
    if (lines == NULL || parser.out == NULL) {
        free(lines);
        return refuse(&parser, "a file of this size", "more memory");
    }
    memcpy(lines, text, bytes);
    lines[bytes] = '\0';
    bool is_good = parse_lines(&parser, lines, bytes);
    free(lines);
    return is_good;
}

static char *read_all(FILE *file, size_t *bytes)
{
    size_t room = 1 << 16;
    char *text = malloc(room);
    *bytes = 0;
    while (text != NULL) {
        size_t more = fread(text + *bytes, 1, room - *bytes, file);
        *bytes += more;
        if (more == 0) {
            return text;
        }
        if (*bytes == room) {
            char *larger = realloc(text, room *= 2);
            if (larger == NULL) {
                free(text);
            }
            text = larger;
        }
    }
    return NULL;
}

bool task_book_read(struct task_book *book, const char *path, char fault[TASK_FAULT_BYTES])
{
    bool is_input = strcmp(path, "-") == 0, is_good = false;
    FILE *file = is_input ? stdin : fopen(path, "r");
    size_t bytes = 0;
    char *text = file != NULL ? read_all(file, &bytes) : NULL;
    if (text == NULL || ferror(file)) {
        snprintf(fault, TASK_FAULT_BYTES, "%.96s: %s", path, strerror(errno));
    } else {
        is_good = task_book_parse(book, is_input ? "standard input" : path, text, bytes, fault);
    }
    free(text);
    if (file != NULL && !is_input) {
        fclose(file);
    }
    return is_good;
}

uint32_t task_book_next(const struct task_book *book, uint32_t first)
{
    uint32_t next = first + 1;
    while (next < book->count && book->tasks[next].follows) {
        next++;
    }
    return next;
}

void task_book_free(struct task_book *book)
{
    for (uint32_t i = 0; i < book->texts_count; i++) {
        free(book->texts[i]);
    }
    free(book->texts);
    free(book->tasks);
    memset(book, 0, sizeof *book);
}
