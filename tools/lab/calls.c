/* SPDX-License-Identifier: MIT */
/*
 * What: the waiting, service and cost of each call, as CSV. docs/lab.md names the columns.
 * Invariants: wait_s + run_s is the time from due to over; prefill_s and copy_s are parts of run_s.
 * Of a program with a refused call, the calls that ended are in the table.
 */
#include "tools/lab/calls.h"

#include <inttypes.h>

#include "config/base/assert.h"
#include "tools/lab/lab.h"

FILE *calls_open(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "agentix-lab: %s: cannot be written\n", path);
        return NULL;
    }
    fputs("program,call,due_s,wait_s,run_s,prefill_s,copy_s,prompt_tokens,cached_tokens,"
          "output_tokens,preemptions,swap_ins\n", file);
    return file;
}

int calls_close(FILE *file)
{
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        fprintf(stderr, "agentix-lab: --calls-out: not all could be written\n");
        return LAB_EXIT_SYSTEM;
    }
    return LAB_EXIT_OK;
}

void calls_write(const struct lab *lab, const struct wire_done *done)
{
    const struct player_call *played = &lab->clients.player.calls[done->call_id];
    const struct lab_call *call = &lab->clients.calls[done->call_id];
    ASSERT(call->prefill_us + call->copy_us <= done->service_us);
    if (lab->calls_file == NULL) {
        return;
    }
    fprintf(lab->calls_file,
            "%" PRIu32 ",%" PRIu32 ",%.6f,%.6f,%.6f,%.6f,%.6f,%" PRIu32 ",%" PRIu32 ",%" PRIu32
            ",%" PRIu32 ",%" PRIu32 "\n", played->run, played->number,
            (double)(played->due_us - LAB_EPOCH_US) / 1e6, (double)done->wait_us / 1e6,
            (double)done->service_us / 1e6, (double)call->prefill_us / 1e6,
            (double)call->copy_us / 1e6, done->prompt_tokens, done->cached_tokens,
            done->generated_tokens, done->preemptions, call->swap_ins);
}
