/* SPDX-License-Identifier: MIT */
/*
 * What: a file into a trace, by the reader of its form.
 * Bounds: FILE_BYTES_MAX.
 */
#include "tools/trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/exit_code.h"
#include "tools/trace/forms/forms.h"
#include "tools/trace/native.h"

#define FILE_BYTES_MAX (UINT64_C(1) << 30)      /* docs/traces.md and a message say it */
#define NATIVE         "agentix"

void trace_free(struct trace *trace)
{
    free(trace->programs);
    free(trace->classes);
    free(trace->calls);
    free(trace->parts);
    free(trace->links);
    memset(trace, 0, sizeof *trace);
}

/* True when the text is in our own form, or in none that could be another. */
static bool is_native(const struct trace_source *source)
{
    size_t at = 0;
    if (source->options.form != NULL) {
        return strcmp(source->options.form, NATIVE) == 0;
    }
    while (at < source->bytes && source->text[at] > 0 && source->text[at] <= ' ') {
        at++;
    }
    return at == source->bytes || source->text[at] != '{';
}

/* False after a problem and its line. */
static bool read_form(struct build *build, const struct trace_source *source, uint32_t *line,
                      char *problem)
{
    if (source->bytes == 0) {
        snprintf(problem, TRACE_PROBLEM_BYTES, "the file is empty");
        return false;
    }
    if (!is_native(source)) {
        return forms_read(build, source, line, problem);
    }
    *line = native_read(build, source->text, source->bytes);
    bool is_read = build_end(build);
    snprintf(problem, TRACE_PROBLEM_BYTES, "%s", is_read ? "" : build->fault);
    return is_read;
}

bool trace_read(struct trace *trace, const struct trace_source *source,
                char fault[TRACE_FAULT_BYTES])
{
    struct build build;
    uint32_t line = 1;
    char problem[TRACE_PROBLEM_BYTES] = "out of memory";
    bool is_read = build_init(&build, trace, source->options.context_max) &&
                   read_form(&build, source, &line, problem);
    if (!is_read) {
        snprintf(fault, TRACE_FAULT_BYTES, "%u: %s", (unsigned)line, problem);
        trace_free(trace);
    }
    build_free(&build);
    return is_read;
}

/* What the file has, up to FILE_BYTES_MAX. It is all of it where feof() is true afterwards. */
static char *read_bytes(FILE *file, size_t *bytes)
{
    char *text = NULL;
    *bytes = 0;
    for (size_t room = 1 << 16; room <= FILE_BYTES_MAX; room *= 2) {
        char *moved = realloc(text, room);
        if (moved == NULL) {
            return text;
        }
        text = moved;
        *bytes += fread(text + *bytes, 1, room - *bytes, file);
        if (*bytes < room) {
            return text;
        }
    }
    (void)fgetc(file);              /* a file of just so many bytes ends here */
    return text;
}

/* The file in memory, or NULL after a message. */
static char *read_file(const char *path, const char *program, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *text = file != NULL ? read_bytes(file, bytes) : NULL;
    if (text != NULL && feof(file) && ferror(file) == 0) {
        fclose(file);
        return text;
    }
    if (file != NULL && *bytes == FILE_BYTES_MAX && ferror(file) == 0) {
        fprintf(stderr, "%s: %s: longer than 1 GiB, the most that a trace may have\n", program,
                path);
    } else {
        fprintf(stderr, "%s: %s: cannot be read: %s\n", program, path, strerror(errno));
    }
    if (file != NULL) {
        fclose(file);
    }
    free(text);
    return NULL;
}

int trace_load(struct trace *trace, const char *path, const struct trace_options *options)
{
    struct trace_source source = {.options = *options};
    char fault[TRACE_FAULT_BYTES];
    const char *form = options->form;
    const char *program = options->program != NULL ? options->program : "agx";
    if (form != NULL && strcmp(form, NATIVE) != 0 && !forms_have(form)) {
        fprintf(stderr, "%s: --form: %s is none of " TRACE_FORMS "\n", program, form);
        return EXIT_USAGE;
    }
    char *text = read_file(path, program, &source.bytes);
    if (text == NULL) {
        return EXIT_SYSTEM;
    }
    source.text = text;
    bool is_read = trace_read(trace, &source, fault);
    free(text);
    if (!is_read) {
        fprintf(stderr, "%s: %s:%s\n", program, path, fault);
        return EXIT_USAGE;
    }
    return EXIT_COMPLETE;
}
