/* SPDX-License-Identifier: MIT */
/*
 * What: the trace event format, "JSON object" variant: X for a stretch, i for an instant, M for a
 * name. Written at once; the stream's error flag tells at the end whether all of it was.
 */
#include "tools/agx/chrome.h"

#include <inttypes.h>
#include <stdbool.h>

#include "tools/agx/command.h"

int chrome_open(struct chrome *chrome, const char *path)
{
    *chrome = (struct chrome){.file = fopen(path, "w"), .path = path};
    if (chrome->file == NULL) {
        fprintf(stderr, "agx: %s: cannot be written\n", path);
        return EXIT_SYSTEM;
    }
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", chrome->file);
    return EXIT_COMPLETE;
}

int chrome_close(struct chrome *chrome)
{
    fputs("\n]}\n", chrome->file);
    bool failed = ferror(chrome->file) != 0;
    if (fclose(chrome->file) != 0 || failed) {
        fprintf(stderr, "agx: %s: not all could be written\n", chrome->path);
        return EXIT_SYSTEM;
    }
    return EXIT_COMPLETE;
}

/* Many a reader keeps numbers as doubles, and some refuse those of 64 bits; ids of calls are the
 * clients' choice. */
#define INTEGER_MAX ((UINT64_C(1) << 53) - 1)

/* Up to the fields that the kind of event has of its own. */
static void begin_event(struct chrome *chrome, struct chrome_track track, const char *name,
                        char phase)
{
    fprintf(chrome->file, "%s\n{\"name\":\"%s\",\"ph\":\"%c\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32,
            chrome->events++ == 0 ? "" : ",", name, phase, track.pid, track.tid);
}

static void end_event(struct chrome *chrome, const struct chrome_argument *arguments)
{
    if (arguments != NULL && arguments->name != NULL) {
        const char *before = ",\"args\":{";
        for (; arguments->name != NULL; arguments++) {
            const char *quote = arguments->value > INTEGER_MAX ? "\"" : "";
            fprintf(chrome->file, "%s\"%s\":%s%" PRIu64 "%s", before, arguments->name, quote,
                    arguments->value, quote);
            before = ",";
        }
        fputs("}", chrome->file);
    }
    fputs("}", chrome->file);
}

static void write_name(struct chrome *chrome, struct chrome_track track, const char *kind,
                       const char *name)
{
    begin_event(chrome, track, kind, 'M');
    fprintf(chrome->file, ",\"args\":{\"name\":\"%s\"}}", name);
}

void chrome_name_process(struct chrome *chrome, uint32_t pid, const char *name)
{
    const struct chrome_track track = {.pid = pid, .tid = 1};
    write_name(chrome, track, "process_name", name);
    begin_event(chrome, track, "process_sort_index", 'M');
    end_event(chrome, (struct chrome_argument[]){{"sort_index", pid}, {NULL, 0}});
}

void chrome_name_track(struct chrome *chrome, struct chrome_track track, const char *name)
{
    write_name(chrome, track, "thread_name", name);
    begin_event(chrome, track, "thread_sort_index", 'M');
    end_event(chrome, (struct chrome_argument[]){{"sort_index", track.tid}, {NULL, 0}});
}

void chrome_stretch(struct chrome *chrome, struct chrome_track track, const char *name,
                    uint64_t from_us, uint64_t to_us, const struct chrome_argument *arguments)
{
    if (to_us > from_us) {
        begin_event(chrome, track, name, 'X');
        fprintf(chrome->file, ",\"ts\":%" PRIu64 ",\"dur\":%" PRIu64, from_us, to_us - from_us);
        end_event(chrome, arguments);
    }
}

void chrome_instant(struct chrome *chrome, struct chrome_track track, const char *name,
                    uint64_t at_us, const struct chrome_argument *arguments)
{
    begin_event(chrome, track, name, 'i');
    fprintf(chrome->file, ",\"ts\":%" PRIu64 ",\"s\":\"t\"", at_us);
    end_event(chrome, arguments);
}
