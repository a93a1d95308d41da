/* SPDX-License-Identifier: MIT */
#include "config/config.h"

#include <ini.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/error.h"
#include "config/file.h"
#include "config/options.h"
#include "config/value.h"

/*
 * What: the INI file and --set. A file passes three checks: its kind (file.c), its bytes
 * (check_bytes), and its lines (inih, which gets one line at a time).
 *
 * Why a reader of our own: Debian's inih gives its handler no line number, cuts lines at 200 bytes
 * and takes an indented line for the continuation of the one above. Our reader returns exactly one
 * line for each call, so the number of calls is the number of the line. Long lines were refused
 * before; leading blanks are removed, so no line is a continuation. Sections are checked here too,
 * because inih reports only those that hold a key and ignores the text after the bracket.
 *
 * Bounds: 64 KiB of stack for the file, O(bytes) time; allocation at most inside inih. BOOT_ONLY.
 */

struct parser {
    struct options *options;
    struct config_error *error;
    const char *name;               /* of the file, or "--set" */
    const char *bytes;
    size_t count, at;
    uint32_t line;                  /* of the last line handed out, from 1 */
    uint32_t failed_line;           /* 0: none; after a failure nothing more is read */
};

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The problem of the byte at `at`, or NULL. */
static const char *byte_problem(const char *bytes, size_t count, size_t at)
{
    unsigned char byte = (unsigned char)bytes[at];
    if (byte == '\n' || byte == '\t') {
        return NULL;
    }
    if (byte == '\r') {
        bool ends_line = at + 1 < count && bytes[at + 1] == '\n';
        return ends_line ? NULL : "a carriage return without a newline";
    }
    if (byte == 0) {
        return "a NUL byte";
    }
    if (at == 0 && count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        return "a byte order mark";
    }
    if (byte >= 0x80) {
        return "a byte that is not ASCII";
    }
    return byte < 0x20 || byte == 0x7f ? "a control character" : NULL;
}

static enum status check_bytes(const char *name, const char *bytes, size_t count,
                               struct config_error *error)
{
    uint32_t line = 1, column = 1;
    if (count == 0) {
        return config_error_set(error, "%.200s: the file is empty", name);
    }
    if (count > CONFIG_FILE_BYTES_MAX) {
        return config_error_set(error, "%.200s: the file is too large, at most %u bytes", name,
                                CONFIG_FILE_BYTES_MAX);
    }
    for (size_t at = 0; at < count; at++, column++) {
        const char *problem = byte_problem(bytes, count, at);
        if (problem == NULL && column > CONFIG_LINE_BYTES_MAX && bytes[at] != '\n' &&
            bytes[at] != '\r') {
            problem = "the line is too long, at most 190 bytes";
        }
        if (problem != NULL) {
            return config_error_set(error, "%.200s:%u:%u: %s", name, line, column, problem);
        }
        if (bytes[at] == '\n') {
            line++;
            column = 0;
        }
    }
    return STATUS_OK;
}
STATIC_ASSERT(CONFIG_LINE_BYTES_MAX == 190, "the text above says 190");

/* ---- one assignment -------------------------------------------------------------------------- */

static enum status refuse_unknown(struct config_error *error, const char *section, const char *key)
{
    const struct option_row *near = config_options_nearest(section, key);
    bool known = config_options_has_section(section, (uint32_t)strlen(section));
    config_error_add(error, "%s", known                ? "unknown key"
                                  : section[0] == '\0' ? "a key outside a section"
                                                       : "unknown section");
    return near == NULL ? STATUS_CONFIG_OPTION
                        : config_error_add(error, ", nearest is %s.%s", near->section, near->key);
}

/* `line` is stored with the value: a line of the file, or CONFIG_LINE_SET. */
static enum status assign(struct parser *parser, const char *section, const char *key,
                          const char *text, uint32_t line)
{
    const struct option_row *row = config_options_find(section, key);
    struct config_error *error = parser->error;
    const char *problem = "";
    if (line == CONFIG_LINE_SET) {
        config_error_set(error, "--set: ");
    } else {
        config_error_set(error, "%.200s:%u: ", parser->name, line);
    }
    config_error_add(error, "%.40s%s%.40s = %.100s: ", section, section[0] != '\0' ? "." : "", key,
                     text);
    if (row == NULL) {
        return refuse_unknown(error, section, key);
    }
    struct option_value *value = config_value_of(parser->options, row);
    if (line != CONFIG_LINE_SET && value->line != 0) {
        return config_error_add(error, "duplicate key, first set in line %u", value->line);
    }
    if (config_value_parse(row, text, value, &problem) != STATUS_OK) {
        char range[CONFIG_TEXT_BYTES];
        uint32_t length = config_value_range(row, range, sizeof range);
        return config_error_add(error, "%s, allowed %.*s", problem, (int)length, range);
    }
    value->line = line;
    error->text[0] = '\0';
    return STATUS_OK;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* `[section]`, then nothing but blanks or a comment. Columns count from the start of the line. */
static enum status check_section(struct parser *parser, const char *line, uint32_t length,
                                 uint32_t indent)
{
    const char *close = memchr(line, ']', length);
    uint32_t name_bytes = close != NULL ? (uint32_t)(close - line) - 1 : 0;
    ASSERT(length > 0 && line[0] == '[');
    if (close == NULL) {
        return config_error_set(parser->error, "%.200s:%u:%u: a section without its ]",
                                parser->name, parser->line, indent + length);
    }
    if (!config_options_has_section(line + 1, name_bytes)) {
        char name[CONFIG_LINE_BYTES_MAX + 1] = {0};
        memcpy(name, line + 1, name_bytes);
        const struct option_row *near = config_options_nearest(name, NULL);
        config_error_set(parser->error, "%.200s:%u: [%.60s]: unknown section", parser->name,
                         parser->line, name);
        return near == NULL ? STATUS_CONFIG_OPTION
                            : config_error_add(parser->error, ", nearest is [%s]", near->section);
    }
    for (uint32_t at = name_bytes + 2; at < length; at++) {
        if (line[at] == ';' || line[at] == '#') {
            break;
        }
        if (!is_blank(line[at])) {
            return config_error_set(parser->error, "%.200s:%u:%u: text after a section",
                                    parser->name, parser->line, indent + at + 1);
        }
    }
    return STATUS_OK;
}

/* inih's reader: exactly one line, without leading blanks and carriage return. NULL: the end. */
static char *read_line(char *line, int max, void *stream)
{
    struct parser *parser = stream;
    if (parser->failed_line != 0 || parser->at == parser->count) {
        return NULL;
    }
    const char *start = parser->bytes + parser->at;
    size_t left = parser->count - parser->at;
    const char *newline = memchr(start, '\n', left);
    size_t length = newline != NULL ? (size_t)(newline - start) : left;
    parser->at += length + (newline != NULL);
    parser->line++;
    if (length > 0 && start[length - 1] == '\r') {
        length--;
    }
    uint32_t indent = 0;
    while (indent < length && is_blank(start[indent])) {
        indent++;
    }
    start += indent;
    length -= indent;
    ASSERT(length <= CONFIG_LINE_BYTES_MAX && max >= CONFIG_LINE_BYTES_MAX + 2);
    if (length > 0 && start[0] == '[' &&
        check_section(parser, start, (uint32_t)length, indent) != STATUS_OK) {
        parser->failed_line = parser->line;
        return NULL;
    }
    memcpy(line, start, length);
    line[length] = '\n';
    line[length + 1] = '\0';
    return line;
}

/* inih's handler: 1 is success. */
static int take_pair(void *user, const char *section, const char *key, const char *value)
{
    struct parser *parser = user;
    if (parser->failed_line != 0) {
        return 0;
    }
    if (assign(parser, section, key, value, parser->line) != STATUS_OK) {
        parser->failed_line = parser->line;
    }
    return parser->failed_line == 0;
}

enum status config_load_bytes(struct options *options, const char *name, const char *bytes,
                              size_t count, struct config_error *error)
{
    struct parser parser = {.options = options, .error = error, .name = name, .bytes = bytes,
                            .count = count};
    TRY(check_bytes(name, bytes, count, error));
    size_t name_bytes = strnlen(name, sizeof options->source - 1);
    memcpy(options->source, name, name_bytes);
    options->source[name_bytes] = '\0';
    int bad_line = ini_parse_stream(read_line, &parser, take_pair, &parser);
    if (bad_line > 0 && (parser.failed_line == 0 || (uint32_t)bad_line < parser.failed_line)) {
        return config_error_set(error, "%.200s:%d: neither `key = value` nor [section] nor comment",
                                name, bad_line);
    }
    if (bad_line < 0) {
        return config_error_set(error, "%.200s: out of memory", name);
    }
    return parser.failed_line == 0 ? STATUS_OK : STATUS_CONFIG_OPTION;
}

/* ---- files ----------------------------------------------------------------------------------- */

enum status config_load_file(struct options *options, const char *path, struct config_error *error)
{
    char bytes[CONFIG_FILE_BYTES_MAX + 1];
    struct config_file_bytes file = {.bytes = bytes, .max = sizeof bytes};
    TRY(config_file_read(path, CONFIG_FILE_PLAIN, &file, error));
    return config_load_bytes(options, path, bytes, file.count, error);
}

/* ---- --set ----------------------------------------------------------------------------------- */

/* [first, end) without blanks round it, as text; false: it does not fit. */
static bool copy_word(const char *first, const char *end, char *word, size_t bytes)
{
    while (first < end && *first == ' ') {
        first++;
    }
    while (end > first && end[-1] == ' ') {
        end--;
    }
    size_t length = (size_t)(end - first);
    if (length < bytes) {
        memcpy(word, first, length);
        word[length] = '\0';
    }
    return length < bytes;
}

enum status config_set(struct options *options, const char *assignment, struct config_error *error)
{
    struct parser parser = {.options = options, .error = error, .name = "--set"};
    char section[64], key[64], value[CONFIG_TEXT_BYTES];
    size_t length = strlen(assignment);
    for (size_t i = 0; i < length; i++) {
        if (assignment[i] < 0x20 || assignment[i] > 0x7e) {
            return config_error_set(error, "--set: byte %zu is not printable ASCII", i + 1);
        }
    }
    const char *dot = strchr(assignment, '.');
    const char *equals = strchr(assignment, '=');
    if (dot == NULL || equals == NULL || equals < dot) {
        return config_error_set(error, "--set: %.100s: must be section.key=value", assignment);
    }
    if (!copy_word(assignment, dot, section, sizeof section) ||
        !copy_word(dot + 1, equals, key, sizeof key)) {
        return config_error_set(error, "--set: %.100s: unknown key", assignment);
    }
    if (!copy_word(equals + 1, assignment + length, value, sizeof value)) {
        return config_error_set(error, "--set: %.100s: the value is longer than %u bytes",
                                assignment, (unsigned)sizeof value - 1);
    }
    return assign(&parser, section, key, value, CONFIG_LINE_SET);
}
