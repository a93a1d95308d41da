/* SPDX-License-Identifier: MIT */
/*
 * What: the trace event format, "JSON object" variant: X for a stretch, i for an instant, M for a
 * name. jansson makes each event, which is written at once. At the end the stream's error flag
 * tells whether all were written.
 */
#include "tools/trace/chrome.h"

#include <inttypes.h>
#include <jansson.h>

bool chrome_open(struct chrome *chrome, const char *path)
{
    *chrome = (struct chrome){.file = fopen(path, "w"), .path = path};
    if (chrome->file != NULL) {
        fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", chrome->file);
    }
    return chrome->file != NULL;
}

bool chrome_close(struct chrome *chrome)
{
    fputs("\n]}\n", chrome->file);
    bool failed = chrome->failed || ferror(chrome->file) != 0;
    return fclose(chrome->file) == 0 && !failed;
}

/* The fields that every event has. */
static json_t *begin_event(struct chrome_track track, const char *name, const char *phase)
{
    return json_pack("{s:s, s:s, s:I, s:I}", "name", name, "ph", phase, "pid",
                     (json_int_t)track.pid, "tid", (json_int_t)track.tid);
}

static void end_event(struct chrome *chrome, json_t *event)
{
    fputs(chrome->events++ == 0 ? "\n" : ",\n", chrome->file);
    if (event == NULL || json_dumpf(event, chrome->file, JSON_COMPACT) != 0) {
        fputs("{}", chrome->file);
        chrome->failed = true;
    }
    json_decref(event);
}

/* Some readers keep numbers as doubles, and some refuse those of 64 bits; clients choose the ids of
 * calls freely. */
#define INTEGER_MAX ((UINT64_C(1) << 53) - 1)

static json_t *number(uint64_t value)
{
    return value <= INTEGER_MAX ? json_integer((json_int_t)value)
                                : json_sprintf("%" PRIu64, value);
}

static void add_arguments(json_t *event, const struct chrome_argument *arguments)
{
    if (arguments == NULL || arguments->name == NULL) {
        return;
    }
    json_t *object = json_object();
    for (; arguments->name != NULL; arguments++) {
        json_object_set_new(object, arguments->name, number(arguments->value));
    }
    json_object_set_new(event, "args", object);
}

static void write_meta(struct chrome *chrome, struct chrome_track track, const char *kind,
                       const char *field, json_t *value)
{
    json_t *event = begin_event(track, kind, "M");
    json_object_set_new(event, "args", json_pack("{s:o}", field, value));
    end_event(chrome, event);
}

void chrome_name_process(struct chrome *chrome, uint32_t pid, const char *name)
{
    const struct chrome_track track = {.pid = pid, .tid = 1};
    write_meta(chrome, track, "process_name", "name", json_string(name));
    write_meta(chrome, track, "process_sort_index", "sort_index", number(pid));
}

void chrome_name_track(struct chrome *chrome, struct chrome_track track, const char *name)
{
    write_meta(chrome, track, "thread_name", "name", json_string(name));
    write_meta(chrome, track, "thread_sort_index", "sort_index", number(track.tid));
}

void chrome_stretch(struct chrome *chrome, struct chrome_track track, const char *name,
                    struct chrome_span span, const struct chrome_argument *arguments)
{
    if (span.to_us <= span.from_us) {
        return;
    }
    json_t *event = begin_event(track, name, "X");
    json_object_set_new(event, "ts", number(span.from_us));
    json_object_set_new(event, "dur", number(span.to_us - span.from_us));
    add_arguments(event, arguments);
    end_event(chrome, event);
}

void chrome_instant(struct chrome *chrome, struct chrome_track track, const char *name,
                    uint64_t at_us, const struct chrome_argument *arguments)
{
    json_t *event = begin_event(track, name, "i");
    json_object_set_new(event, "ts", number(at_us));
    json_object_set_new(event, "s", json_string("t"));
    add_arguments(event, arguments);
    end_event(chrome, event);
}
