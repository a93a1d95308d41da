/* SPDX-License-Identifier: MIT */
/*
 * What: the virtual clients: the player of the trace (tools/trace/player.h) says which call is due.
 * Here it becomes a call of the appliance, and its answers become figures.
 *
 * lab_submit() is the one entry that the lab has and the appliance has not: a call goes straight
 * into its slot and its command into the inbox, in place of a CALL frame. From there on net, sched
 * and kvmem treat it as any other call; it is attached to its connection, and its answers are
 * frames. Why: the checksum of a frame with 6,000 ids takes a tenth of a millisecond on each side,
 * and the lab is to schedule 20,000 calls a second (docs/decisions/0020).
 *
 * Invariants: a call's index is its call id; its response time counts from when it was due. A slot
 * is as net_call_intake() would leave it for a call with these fields: greedy, no stop ids, EOS
 * ignored, no deadline, no text. It also has what only a trace knows (foretold.c).
 * Bounds: O(log calls) for each call, and its prompt.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/assert.h"
#include "net/connection.h"
#include "net/open_calls.h"
#include "tools/lab/lab.h"

#define CALLS_MAX  (1u << 27)
#define SPAN_S_MAX 1e11             /* from the first arrival to the last: 3,000 years */

void lab_program_id(const struct lab *lab, uint32_t run, uint8_t *id)
{
    uint64_t number = run, seed = lab->settings->seed;
    memcpy(id, &number, sizeof number);
    memcpy(id + sizeof number, &seed, sizeof seed);
}

/* ---- before the first arrival ---------------------------------------------------------------- */

static int out_of_memory(void)
{
    fprintf(stderr, "agentix-lab: out of memory\n");
    return LAB_EXIT_SYSTEM;
}

static double rate_of(const struct lab_settings *settings, const struct trace *trace)
{
    if (settings->offline || settings->sessions > 0 || trace->programs_count == 0) {
        return 0;
    }
    return settings->rate != 0 ? settings->rate : player_natural_rate(trace, settings->programs);
}

/* Microseconds are counted in 64 bits. */
static int check_span(const struct lab *lab, double rate)
{
    uint32_t programs = lab->settings->programs > 0 ? lab->settings->programs
                                                    : lab->trace->programs_count;
    if (rate == 0 || programs / rate <= SPAN_S_MAX) {
        return LAB_EXIT_OK;
    }
    fprintf(stderr, "agentix-lab: --programs, --rate: %" PRIu32 " programs arrive within %.3g s; "
            "%.0e s are the most that the lab plays\n", programs, programs / rate, SPAN_S_MAX);
    return LAB_EXIT_USAGE;
}

static int start_player(struct lab *lab)
{
    struct lab_clients *clients = &lab->clients;
    const struct player_settings settings = {
        .programs = lab->settings->programs, .calls_max = CALLS_MAX,
        .sessions = lab->settings->sessions,
        .rate = rate_of(lab->settings, lab->trace), .gap_scale = 1,
        .gap_s_max = lab->settings->gap_s_max, .start_us = LAB_EPOCH_US,
        .seed = lab->settings->seed};
    if (check_span(lab, settings.rate) != LAB_EXIT_OK) {
        return LAB_EXIT_USAGE;
    }
    enum player_start start = player_init(&clients->player, lab->trace, &settings);
    lab->result.rate = settings.rate;
    lab->result.programs = clients->player.runs_count;
    lab->result.calls = clients->player.calls_count;
    if (start == PLAYER_TOO_MANY_CALLS) {
        fprintf(stderr, "agentix-lab: --programs: %llu calls are too many\n",
                (unsigned long long)player_calls(lab->trace, settings.programs));
        return LAB_EXIT_USAGE;
    }
    return start == PLAYER_READY ? LAB_EXIT_OK : out_of_memory();
}

static int start_sessions(struct lab *lab)
{
    uint32_t count = lab->settings->sessions, programs = lab->result.programs;
    if (!sessions_fit(count, programs)) {
        fprintf(stderr, "agentix-lab: --sessions: %" PRIu32 " programs are too few for %" PRIu32
                " sessions: three for each are needed, the middle is measured;\nagentix-lab: "
                "--programs N repeats those of the file\n", programs, count);
        return LAB_EXIT_USAGE;
    }
    sessions_init(&lab->clients.sessions, count, programs);
    lab->result.sessions = count;
    return LAB_EXIT_OK;
}

int lab_clients_init(struct lab *lab)
{
    struct lab_clients *clients = &lab->clients;
    int code = start_player(lab);
    code = code != LAB_EXIT_OK ? code : start_sessions(lab);
    if (code != LAB_EXIT_OK) {
        return code;
    }
    uint32_t runs = clients->player.runs_count;
    clients->outcomes = calloc(runs, sizeof *clients->outcomes);
    clients->calls = calloc(clients->player.calls_count, sizeof *clients->calls);
    bool taken = serving_init(&clients->serving, clients->player.calls_count, runs);
    if (!taken || clients->outcomes == NULL || clients->calls == NULL) {
        return out_of_memory();
    }
    return lab_foretold_init(lab);
}

void lab_clients_free(struct lab *lab)
{
    player_free(&lab->clients.player);
    serving_free(&lab->clients.serving);
    free(lab->clients.foretold);
    free(lab->clients.outcomes);
    free(lab->clients.calls);
}

/* ---- a call's way ---------------------------------------------------------------------------- */

static void fill_call(const struct lab *lab, uint32_t index, struct call *call)
{
    const struct player *player = &lab->clients.player;
    const struct player_call *played = &player->calls[index];
    uint32_t traced = player_traced(player, index);
    call->client_call_id = index;
    call->domain = lab->loop.net.connections[lab_socket_of(lab, played->run)->slot].domain;
    lab_program_id(lab, played->run, call->program_id);
    call->thread = played->number;
    call->sampling.top_p = 1;
    call->sampling.repeat_penalty = 1;
    call->max_tokens = lab->prompts.book.out[traced];
    call->deadline_us = UINT64_MAX;
    call->arrived_us = lab->now_us;
    lab_foretold_fill(lab, played->run, traced, &call->foretold);
    call->emit.digest = WIRE_DIGEST_START;
    call->prompt_tokens = prompt_tokens(&lab->prompts.book, traced);
    ASSERT(call->prompt_tokens + call->max_tokens <= lab->limits.context_tokens);
}

bool lab_submit(struct lab *lab, uint32_t index)
{
    struct loop *loop = &lab->loop;
    const struct player_call *played = &lab->clients.player.calls[index];
    uint32_t slot = call_take(&loop->calls, 0);
    if (slot == CALL_NONE) {
        return false;
    }
    struct call *call = &loop->calls.calls[slot];
    fill_call(lab, index, call);
    prompts_write(&lab->prompts, lab->clients.player.runs[played->run].program, played->run,
                  played->number, call->tokens);
    net_connection_attach(&loop->net, lab_socket_of(lab, played->run)->slot, slot);
    net_open_insert(&loop->net, slot);
    struct command command = {.kind = COMMAND_CALL, .call = slot};
    const char *class = lab_foretold_class(lab, played->run);
    memcpy(command.class_name, class, strnlen(class, CALL_CLASS_BYTES));
    exchange_command(&loop->exchange, &command);
    return true;
}

void lab_clients_submit_due(struct lab *lab)
{
    struct player *player = &lab->clients.player;
    uint32_t index;
    while (player_due(player, lab->now_us, &index)) {
        uint32_t run = player->calls[index].run;
        timeline_due(&lab->timeline, run, index, lab->now_us);
        if (!player->runs[run].failed && !lab_submit(lab, index)) {
            lab_clients_refused(lab, index);
        }
    }
}

/* Draws the gaps before the calls that the end of call `index` has just released. */
static void draw_gaps(struct lab *lab, uint32_t index)
{
    const struct player *player = &lab->clients.player;
    const struct trace_call *traced = &lab->trace->calls[player_traced(player, index)];
    uint32_t run = player->calls[index].run;
    for (uint32_t i = 0; i < traced->next_count; i++) {
        uint32_t next = player->runs[run].calls_first + lab->trace->links[traced->next_first + i];
        if (player->calls[next].place == PLAYER_TIMED) {
            timeline_gap(&lab->timeline, run, next, lab->now_us,
                         player->calls[next].due_us - lab->now_us);
        }
    }
}

void lab_clients_generated(struct lab *lab, uint32_t index)
{
    struct lab_clients *clients = &lab->clients;
    const struct player_call *call = &clients->player.calls[index];
    const struct player_run *run = &clients->player.runs[call->run];
    struct figures_program *outcome = &clients->outcomes[call->run];
    uint32_t traced = player_traced(&clients->player, index);
    bool is_last = player_over(&clients->player, index, lab->now_us);
    clients->generated++;
    lab_foretold_over(lab, call->run, traced);
    timeline_over(&lab->timeline, call->run, index, lab->now_us);
    if (run->failed) {
        return;
    }
    const uint64_t times_us[] = {call->due_us, clients->calls[index].first_us, lab->now_us};
    serving_call(&clients->serving, times_us, lab->prompts.book.out[traced]);
    outcome->tokens += lab->prompts.book.out[traced];
    draw_gaps(lab, index);
    if (is_last) {
        outcome->path_us = run->path_us;
        outcome->whole_us = lab->now_us - run->arrival_us;
        outcome->completed = true;
        serving_job(&clients->serving, outcome->whole_us);
        sessions_program(&clients->sessions, run->path_us, outcome->tokens, lab->now_us);
        lab_frames_program_end(lab, call->run);
    }
}

/* Of what the call answers, wherever and however often that was computed. */
static uint64_t digest_of(const struct lab *lab, uint32_t index)
{
    const struct player_call *call = &lab->clients.player.calls[index];
    uint32_t count = lab->prompts.book.out[player_traced(&lab->clients.player, index)];
    uint32_t key = prompts_output_key(&lab->prompts, call->run, call->number);
    uint64_t digest = WIRE_DIGEST_START;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t token = prompts_output_token(&lab->prompts, key, i);
        digest = wire_digest(digest, &token, 1);
    }
    return digest;
}

static void note_engine(struct lab_engine_result *engine, const struct wire_done *done)
{
    engine->calls++;
    engine->prompt_tokens += done->prompt_tokens;
    engine->cached_tokens += done->cached_tokens;
}

void lab_clients_done(struct lab *lab, const struct wire_done *done)
{
    const struct player *player = &lab->clients.player;
    uint32_t index = (uint32_t)done->call_id, traced = player_traced(player, index);
    ASSERT(player->calls[index].place == PLAYER_OVER && done->finish == CALL_FINISH_LENGTH);
    ASSERT(done->generated_tokens == lab->prompts.book.out[traced]);
    ASSERT(done->digest == digest_of(lab, index));
    lab->clients.done++;
    sessions_call(&lab->clients.sessions, done->generated_tokens, done->prompt_tokens,
                  done->cached_tokens);
    tables_call(lab, done);
    note_engine(&lab->result.engines[lab->clients.calls[index].engine], done);
    lab->result.wait_s_total += (double)done->wait_us / 1e6;
    lab->result.prompt_tokens += done->prompt_tokens;
    lab->result.cached_tokens += done->cached_tokens;
    lab->result.cut_prompts += done->prompt_tokens < lab->prompts.book.whole[traced];
}

void lab_clients_refused(struct lab *lab, uint32_t index)
{
    ASSERT(index < lab->clients.player.calls_count);
    lab->result.refused_calls++;
    if (player_fail(&lab->clients.player, index, lab->now_us)) {
        lab->result.failed_programs++;
        sessions_failure(&lab->clients.sessions, lab->now_us);
    }
}
