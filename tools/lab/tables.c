/* SPDX-License-Identifier: MIT */
/*
 * What: the waiting, service and cost of each call, the cost and the end of each program, as CSV;
 * first prompt and cost of each program, as samples for tools/predict.
 * Invariants: wait_s + run_s is the time from due to over; prefill_s and copy_s are parts of run_s.
 * Of a program with a refused call, the calls that ended are in the table, and its own line has no
 * end.
 */
#include "tools/lab/tables.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "tools/lab/lab.h"

static const char calls_head[] = "program,call,due_s,wait_s,run_s,prefill_s,copy_s,prompt_tokens,"
                                 "cached_tokens,output_tokens,preemptions,swap_ins\n";
static const char programs_head[] = "class,arrival_s,finish_s,cost,predicted,tag,ideal_finish_s\n";

static double seconds_of(uint64_t at_us)
{
    return (double)(at_us - LAB_EPOCH_US) / 1e6;
}

/* `path` NULL: no such table. */
static int open_table(FILE **file, const char *path, const char *head)
{
    if (path == NULL) {
        return LAB_EXIT_OK;
    }
    *file = fopen(path, "w");
    if (*file == NULL) {
        fprintf(stderr, "agentix-lab: %s: cannot be written: %s\n", path, strerror(errno));
        return LAB_EXIT_SYSTEM;
    }
    fputs(head, *file);
    return LAB_EXIT_OK;
}

int tables_open(struct tables *tables, const struct lab_settings *settings)
{
    int code = open_table(&tables->calls, settings->calls_path, calls_head);
    code = code != LAB_EXIT_OK ? code : open_table(&tables->programs, settings->programs_path,
                                                   programs_head);
    return code != LAB_EXIT_OK ? code : open_table(&tables->samples, settings->samples_path, "");
}

static int close_table(FILE *file, const char *option)
{
    bool failed = file != NULL && ferror(file) != 0;
    if (file != NULL && (fclose(file) != 0 || failed)) {
        fprintf(stderr, "agentix-lab: %s: not all could be written\n", option);
        return LAB_EXIT_SYSTEM;
    }
    return LAB_EXIT_OK;
}

int tables_close(struct tables *tables)
{
    int code = close_table(tables->calls, "--calls-out");
    int programs = close_table(tables->programs, "--programs-out");
    int samples = close_table(tables->samples, "--samples-out");
    code = code != LAB_EXIT_OK ? code : programs;
    return code != LAB_EXIT_OK ? code : samples;
}

void tables_call(const struct lab *lab, const struct wire_done *done)
{
    const struct player_call *played = &lab->clients.player.calls[done->call_id];
    const struct lab_call *call = &lab->clients.calls[done->call_id];
    ASSERT(call->prefill_us + call->copy_us <= done->service_us);
    if (lab->tables.calls == NULL) {
        return;
    }
    fprintf(lab->tables.calls,
            "%" PRIu32 ",%" PRIu32 ",%.6f,%.6f,%.6f,%.6f,%.6f,%" PRIu32 ",%" PRIu32 ",%" PRIu32
            ",%" PRIu32 ",%" PRIu32 "\n", played->run, played->number,
            seconds_of(played->due_us), (double)done->wait_us / 1e6,
            (double)done->service_us / 1e6, (double)call->prefill_us / 1e6,
            (double)call->copy_us / 1e6, done->prompt_tokens, done->cached_tokens,
            done->generated_tokens, done->preemptions, call->swap_ins);
}

static void write_program(const struct lab *lab, uint32_t run)
{
    const struct player_run *played = &lab->clients.player.runs[run];
    const struct lab_foretold *foretold = &lab->clients.foretold[run];
    const struct figures_program *outcome = &lab->clients.outcomes[run];
    FILE *file = lab->tables.programs;
    fprintf(file, "%s,%.6f,", lab->trace->classes[played->program->class].name,
            seconds_of(played->arrival_us));
    if (outcome->completed) {
        fprintf(file, "%.6f", seconds_of(played->arrival_us + outcome->whole_us));
    }
    fprintf(file, ",%" PRIu64 ",", foretold->cost);
    if (foretold->predicted > 0) {
        fprintf(file, "%" PRIu64, foretold->predicted);
    }
    if (foretold->ideal_us > 0) {
        fprintf(file, ",%" PRIu64 ",%.6f\n", foretold->tag, seconds_of(foretold->ideal_us));
    } else {
        fputs(",,\n", file);
    }
}

/* `ids`: room for a context. */
static int write_sample(struct lab *lab, uint32_t run, uint32_t *ids)
{
    const struct trace_program *program = lab->clients.player.runs[run].program;
    uint32_t count = prompt_tokens(&lab->prompts.book, program->calls_first);
    FILE *file = lab->tables.samples;
    prompts_write(&lab->prompts, program, run, 0, ids);
    json_t *tokens = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_array_append_new(tokens, json_integer(ids[i]));
    }
    json_t *sample = json_pack("{s:s, s:o, s:I}", "class",
                               lab->trace->classes[program->class].name, "tokens", tokens, "cost",
                               (json_int_t)lab->clients.foretold[run].cost);
    if (sample == NULL || json_dumpf(sample, file, JSON_COMPACT) != 0) {
        fprintf(stderr, "agentix-lab: --samples-out: program %" PRIu32 " cannot be written\n", run);
        return LAB_EXIT_SYSTEM;
    }
    json_decref(sample);
    fputc('\n', file);
    return LAB_EXIT_OK;
}

static int write_samples(struct lab *lab)
{
    uint32_t *ids = calloc(lab->limits.context_tokens, sizeof *ids);
    if (ids == NULL) {
        fprintf(stderr, "agentix-lab: out of memory\n");
        return LAB_EXIT_SYSTEM;
    }
    int code = LAB_EXIT_OK;
    for (uint32_t i = 0; code == LAB_EXIT_OK && i < lab->result.programs; i++) {
        code = write_sample(lab, i, ids);
    }
    free(ids);
    return code;
}

int tables_programs(struct lab *lab)
{
    for (uint32_t i = 0; lab->tables.programs != NULL && i < lab->result.programs; i++) {
        write_program(lab, i);
    }
    return lab->tables.samples != NULL ? write_samples(lab) : LAB_EXIT_OK;
}
