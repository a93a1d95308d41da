/* SPDX-License-Identifier: MIT */
/*
 * What: the oracle: what each client must receive. When a call is made, the oracle works out the
 * tokens that an undisturbed engine would give it, and its natural end. Whatever happens, the
 * client may receive these tokens only, in order, and one end. Any other end needs a reason.
 */
#include <string.h>

#include "selftest/sim/sim.h"

#define DEADLINE_US_MAX (5 * SIM_SECOND_US)
#define PATIENCE_US_MAX (SIM_SECOND_US / 2)
#define THEMES          3
#define DOMAINS         3               /* clients.c: two users, and all on TCP */

void sim_program_id(uint32_t program, uint8_t *id)
{
    memset(id, 0x5a, CALL_PROGRAM_ID_BYTES);
    memcpy(id + 4, &program, sizeof program);
}

/* ---- a new call ------------------------------------------------------------------------------ */

static struct sim_call *take(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        if (!sim->calls[i].in_use) {
            return &sim->calls[i];
        }
    }
    return NULL;
}

uint32_t sim_theme_choose(struct sim *sim)
{
    return sim_choose(sim, THEMES);
}

uint32_t sim_theme_token(const struct sim *sim, uint32_t theme, uint32_t index)
{
    return (theme * 7 + index * (index + theme)) % sim->limits.vocab_tokens;
}

/* Prompts begin alike: with one of a few themes, or with the tokens of the program's last call. */
static uint32_t draw_prompt(struct sim *sim, uint32_t program, uint32_t *tokens)
{
    const struct sim_program *past = &sim->programs[program];
    uint32_t most = sim->limits.context_tokens - 1, count = 0;
    if (past->tokens_count > 0 && sim_choose(sim, 2) == 1) {
        count = past->tokens_count < most ? past->tokens_count : most;
        count = sim_choose(sim, 4) == 3 ? sim_between(sim, 1, count) : count;
        memcpy(tokens, past->tokens, count * sizeof *tokens);
        for (uint32_t more = sim_choose(sim, 9); more > 0 && count < most; more--) {
            tokens[count++] = sim_choose(sim, sim->limits.vocab_tokens);
        }
        return count;
    }
    uint32_t theme = sim_theme_choose(sim);
    count = sim_between(sim, 1, most);
    for (uint32_t i = 0; i < count; i++) {
        tokens[i] = sim_theme_token(sim, theme, i);
    }
    return count;
}

/* How the call's last token ends it: as EOS, or as an id that its client has named. */
static enum agx_finish finish_of(const struct sim *sim, const struct sim_call *call, uint32_t last)
{
    bool is_named = call->sampling.stop_ids_count > 0 && call->sampling.stop_ids[0] == last;
    if (is_named) {
        return AGX_FINISH_STOP_ID;
    }
    bool has_eos = sim->swarm.has_words && !call->ignores_eos;
    return has_eos && last == sim_words()->info.eos_id ? AGX_FINISH_EOS : AGX_FINISH_LENGTH;
}

/* Works out the tokens of an undisturbed engine, and the end. */
static void judge(struct sim *sim, struct sim_call *call)
{
    static struct fake_engine engine;
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    struct call_sampling sampling = call->sampling;
    sim_program_id(call->program, id);
    engine.vocab_tokens = sim->limits.vocab_tokens;
    engine.repeats = sim->loop.sched.settings.speculate > 0;
    engine.declared = &sim->declared;
    engine.salts[0] = sim_salt(sim, sim_client_domain(sim, call->client), id);
    if (sim->swarm.has_words && !call->ignores_eos) {
        sampling.stop_ids[sampling.stop_ids_count++] = sim_words()->info.eos_id;
    }
    call->expected = fake_engine_oracle(&engine, call->tokens, call->prompt_tokens,
                                        call->max_tokens, &sampling);
    call->finish = finish_of(sim, call, call->tokens[call->prompt_tokens + call->expected - 1]);
    uint32_t stop_tokens = sim_words_stop_tokens(call);
    if (stop_tokens > 0) {
        call->expected = stop_tokens;
        call->finish = AGX_FINISH_STOP_TEXT;
    }
}

static void draw_words(struct sim *sim, struct sim_call *call)
{
    call->wants_text = sim_choose(sim, 2) == 1;
    call->ignores_eos = sim_choose(sim, 2) == 1;
    sim_words_stops(sim, call);
    if (sim_choose(sim, 4) == 3) {
        sim_words_prompt(sim, call);
    }
}

/* A call without features. */
static struct sim_call *begin(struct sim *sim, uint32_t client)
{
    struct sim_call *call = take(sim);
    if (call != NULL) {
        memset(call, 0, offsetof(struct sim_call, tokens));
        call->client = client;
        call->call_id = (uint64_t)client << 40 | ++sim->clients[client].calls_number;
        call->sampling.seed = ++sim->calls_number;
        call->sent_us = sim->loop.now_us;
        call->others = sim->clients[client].calls_open;
    }
    return call;
}

struct sim_call *sim_call_plain(struct sim *sim, uint32_t client, const struct sim_call *like)
{
    struct sim_call *call = begin(sim, client);
    if (call != NULL) {
        call->program = like->program;
        call->prompt_tokens = like->prompt_tokens;
        call->max_tokens = like->max_tokens;
        call->deadline_us = like->deadline_us;
        for (uint32_t i = 0; i < call->prompt_tokens; i++) {
            call->tokens[i] = sim_theme_token(sim, 0, i);
        }
        judge(sim, call);
    }
    return call;
}

struct sim_call *sim_call_follow(struct sim *sim, uint32_t client, const struct sim_call *like)
{
    const struct sim_program *past = &sim->programs[like->program];
    struct sim_call *call = begin(sim, client);
    if (call != NULL) {
        call->program = like->program;
        call->prompt_tokens = past->tokens_count + like->prompt_tokens;
        call->max_tokens = like->max_tokens;
        memcpy(call->tokens, past->tokens, past->tokens_count * sizeof *call->tokens);
        for (uint32_t i = past->tokens_count; i < call->prompt_tokens; i++) {
            call->tokens[i] = sim_theme_token(sim, 0, i);
        }
        judge(sim, call);
    }
    return call;
}

struct sim_call *sim_call_begin(struct sim *sim, uint32_t client)
{
    struct sim_call *call = begin(sim, client);
    if (call == NULL) {
        return NULL;
    }
    call->program = sim_choose(sim, sim->swarm.programs);
    if (sim->swarm.has_words) {
        draw_words(sim, call);
    }
    if (!call->is_text) {
        call->prompt_tokens = draw_prompt(sim, call->program, call->tokens);
    }
    call->max_tokens = sim_between(sim, 1, sim->limits.context_tokens - call->prompt_tokens);
    if (sim_choose(sim, 3) == 2) {
        call->sampling.stop_ids_count = 1;
        call->sampling.stop_ids[0] = sim_choose(sim, sim->limits.vocab_tokens);
    }
    bool has_deadline = sim_choose(sim, sim->swarm.deadline_rate) == 1;
    call->deadline_us = has_deadline ? 1 + sim_time(sim, DEADLINE_US_MAX) : 0;
    call->is_poison = sim_fault(sim, SIM_FAULT_POISON);
    judge(sim, call);
    return call;
}

struct sim_call *sim_call_find(struct sim *sim, uint32_t client, uint64_t call_id)
{
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        struct sim_call *call = &sim->calls[i];
        if (call->in_use && call->client == client && call->call_id == call_id) {
            return call;
        }
    }
    return NULL;
}

void sim_oracle_excuse(struct sim *sim, uint64_t seed, enum status status)
{
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        if (sim->calls[i].in_use && sim->calls[i].sampling.seed == seed) {
            sim->calls[i].excuses |= UINT64_C(1) << status;
            sim->calls[i].spoilt++;
        }
    }
}

/* ---- what comes back ------------------------------------------------------------------------- */

static struct sim_call *call_of(struct sim *sim, uint32_t client, const struct agx_event *event)
{
    struct sim_call *call = sim_call_find(sim, client, event->call_id);
    SIM_REQUIRE(sim, call != NULL, INVARIANT_TERMINAL, "client %u: a frame for call %llx, which is "
                "not open", client, (unsigned long long)event->call_id);
    return call;
}

static void end_call(struct sim *sim, struct sim_call *call)
{
    call->in_use = false;
    sim->clients[call->client].calls_open--;
}

/* The client waits before its next call: at once the answer would be the same. */
static void discourage(struct sim *sim, uint32_t client)
{
    sim->clients[client].patient_until_us = sim->now_us + sim_time(sim, PATIENCE_US_MAX);
}

/* Of the token that came as the call's token `index`. */
static void check_logprobs(struct sim *sim, const struct sim_call *call,
                           const struct agx_event *event, uint32_t index)
{
    const struct fake_engine engine = {.vocab_tokens = sim->limits.vocab_tokens};
    uint32_t each = call->frame.want_logprobs ? 1 + call->frame.top_logprobs : 0;
    uint32_t i = index - event->first_index;
    SIM_REQUIRE(sim, event->logprobs_each == each, INVARIANT_TOKENS, "%u log probabilities, not %u",
                event->logprobs_each, each);
    for (uint32_t k = 0; k < each; k++) {
        struct call_logprob wanted =
            fake_engine_logprob(&engine, call->sampling.seed, call->prompt_tokens + index,
                                (struct fake_entry){event->tokens[i], k});
        const struct agx_logprob *got = &event->logprobs[i * each + k];
        SIM_REQUIRE(sim, got->token == wanted.token && got->logprob == wanted.logprob,
                    INVARIANT_TOKENS, "call %llu, token %u: another log probability",
                    (unsigned long long)call->sampling.seed, index);
    }
}

static void take_tokens(struct sim *sim, uint32_t client, const struct agx_event *event)
{
    struct sim_call *call = call_of(sim, client, event);
    SIM_REQUIRE(sim, call->accepted, INVARIANT_TERMINAL, "tokens before ACCEPT");
    for (uint32_t i = 0; i < event->tokens_count; i++) {
        uint32_t index = call->received++;
        SIM_REQUIRE(sim, index < call->expected, INVARIANT_TOKENS,
                    "call %llu: more than its %u tokens", (unsigned long long)call->sampling.seed,
                    call->expected);
        SIM_REQUIRE(sim, event->tokens[i] == call->tokens[call->prompt_tokens + index],
                    INVARIANT_TOKENS, "call %llu: token %u is %u, not %u",
                    (unsigned long long)call->sampling.seed, index, event->tokens[i],
                    call->tokens[call->prompt_tokens + index]);
        check_logprobs(sim, call, event, index);
    }
    SIM_REQUIRE(sim, call->text_bytes + event->text_bytes <= SIM_TEXT_BYTES, INVARIANT_TEXT,
                "call %llu: too much text", (unsigned long long)call->sampling.seed);
    memcpy(call->text + call->text_bytes, event->text, event->text_bytes);
    call->text_bytes += event->text_bytes;
    SIM_REQUIRE(sim, event->queue < sim->queues_most, INVARIANT_ANSWER,
                "queue %u", event->queue);
}

static bool may_fail(const struct sim *sim, const struct sim_call *call, uint16_t code)
{
    uint64_t bit = UINT64_C(1) << status_from_wire(code);
    return (call->spoilt >= CALL_FAULTS_MAX && (call->excuses & bit) != 0) ||
           (call->deaths_alone >= CALL_DEATHS_MAX && code == status_wire(STATUS_DEVICE_POISON)) ||
           (sim_has_failed(sim) && code == status_wire(STATUS_DEVICE_FAILED)) ||
           (sim->orders.drain && code == status_wire(STATUS_GONE_SHUTDOWN));
}

/* The shorter of the client's deadline and the operator's. */
static uint64_t deadline_of(const struct sim *sim, const struct sim_call *call)
{
    uint64_t most_us = sim->options.limits_call_deadline.number;
    uint64_t own_us = call->deadline_us > 0 ? call->deadline_us : UINT64_MAX / 2;
    return most_us > 0 && most_us < own_us ? most_us : own_us;
}

static void check_end(struct sim *sim, const struct sim_call *call, const struct agx_event *event)
{
    unsigned long long number = call->sampling.seed;
    switch (event->finish) {
    case AGX_FINISH_CANCELLED:
        SIM_REQUIRE(sim, call->cancelled, INVARIANT_TERMINAL,
                    "call %llu was cancelled, and not by its client", number);
        return;
    case AGX_FINISH_DEADLINE:
        SIM_REQUIRE(sim, sim->loop.now_us >= call->sent_us + deadline_of(sim, call),
                    INVARIANT_DEADLINES, "call %llu: its deadline has not passed", number);
        return;
    case AGX_FINISH_FAILED:
        SIM_REQUIRE(sim, may_fail(sim, call, event->code), INVARIANT_TERMINAL,
                    "call %llu failed without a reason: %u", number, event->code);
        return;
    default:
        SIM_REQUIRE(sim, event->finish == call->finish && call->received == call->expected,
                    INVARIANT_TERMINAL, "call %llu ended by %s with %u tokens, not by %s with %u",
                    number, agx_finish_text(event->finish), call->received,
                    agx_finish_text(call->finish), call->expected);
    }
}

/* The text of a call is that of its tokens; if it ended early, without what waited. The caller of a
 * call that was sent again may have more from the last time: a beginning of the whole text. So may
 * one whose last token a core has told that died before the call's end: it goes on, and may be
 * cancelled. */
static void check_text(struct sim *sim, const struct sim_call *call,
                       const struct agx_event *event)
{
    char wanted[SIM_TEXT_BYTES];
    bool is_early = event->finish > AGX_FINISH_STOP_TEXT;
    bool has_all = sim_has_taken_over(sim) && call->received == call->expected;
    bool may_be_longer = is_early && (call->is_resent || has_all);
    uint32_t tokens = may_be_longer ? call->expected : call->received;
    uint32_t bytes =
        call->wants_text ? sim_words_text(call, tokens, !is_early || may_be_longer, wanted) : 0;
    bool has_length = may_be_longer ? call->text_bytes <= bytes : call->text_bytes == bytes;
    SIM_REQUIRE(sim, has_length && memcmp(wanted, call->text, call->text_bytes) == 0,
                INVARIANT_TEXT, "call %llu: its text is '%.*s', not '%.*s'",
                (unsigned long long)call->sampling.seed, (int)call->text_bytes, call->text,
                (int)bytes, wanted);
}

static void remember(struct sim *sim, const struct sim_call *call)
{
    struct sim_program *past = &sim->programs[call->program];
    past->tokens_count = call->prompt_tokens + call->received;
    memcpy(past->tokens, call->tokens, past->tokens_count * sizeof *past->tokens);
}

static void take_done(struct sim *sim, uint32_t client, const struct agx_event *event)
{
    struct sim_call *call = call_of(sim, client, event);
    sim_say(sim, "client %u: call %llu done: %s, %u tokens", client,
            (unsigned long long)call->sampling.seed, agx_finish_text(event->finish),
            event->generated_tokens);
    SIM_REQUIRE(sim, event->prompt_tokens == call->prompt_tokens &&
                         event->cached_tokens <= call->prompt_tokens &&
                         event->generated_tokens == call->received,
                INVARIANT_ANSWER, "DONE has other counts than the call");
    bool may_replay = call->is_resent || sim_has_taken_over(sim);
    SIM_REQUIRE(sim, may_replay || !event->is_replayed, INVARIANT_ANSWER,
                "call %llu is on record, made once", (unsigned long long)call->sampling.seed);
    SIM_REQUIRE(sim, event->wait_us + event->service_us <= event->total_us, INVARIANT_ANSWER,
                "call %llu: %llu us of waiting and %llu us of service in %llu us",
                (unsigned long long)call->sampling.seed, (unsigned long long)event->wait_us,
                (unsigned long long)event->service_us, (unsigned long long)event->total_us);
    call->cached_tokens = event->cached_tokens;
    check_end(sim, call, event);
    check_text(sim, call, event);
    if (event->finish == AGX_FINISH_FAILED) {
        discourage(sim, client);
    }
    remember(sim, call);
    end_call(sim, call);
}

/* True when a hostile client may have, or have had, a call with the id of one of ours. */
static bool has_namesakes(const struct sim *sim, uint32_t client)
{
    uint64_t domain = sim_client_domain(sim, client);
    for (uint32_t i = 0; i < sim->swarm.hostiles; i++) {
        if (sim_client_domain(sim, i) == domain) {
            return true;
        }
    }
    return false;
}

static bool may_refuse(const struct sim *sim, const struct sim_call *call, uint16_t code)
{
    return code == status_wire(STATUS_BUSY_CALLS) ||
           (sim_has_failed(sim) && code == status_wire(STATUS_DEVICE_FAILED)) ||
           (code == status_wire(STATUS_BUSY_CALLS_OF_CONN) &&
            call->others >= sim->limits.calls_per_connection) ||
           (code == status_wire(STATUS_BUSY_PROGRAMS) &&
            (sim->swarm.programs * DOMAINS > sim->limits.programs || sim->swarm.hostiles > 0 ||
             sim->swarm.flow_clients > 0 || sim->swarm.has_keys)) ||
           (code == status_wire(STATUS_BUSY_CALLS_OF_KEY) && sim->swarm.has_keys) ||
           (code == status_wire(STATUS_BUSY_CALLS_OF_PROG) &&
            sim->limits.calls_per_program < sim->limits.calls) ||
           (code == status_wire(STATUS_BUSY_DRAINING) && sim->orders.drain) ||
           (has_namesakes(sim, call->client) &&
            (code == status_wire(STATUS_BAD_CALL_OPEN) ||
             code == status_wire(STATUS_BUSY_CALL_OPEN) ||
             code == status_wire(STATUS_BAD_CALL_REUSED)));
}

static void take_refusal(struct sim *sim, uint32_t client, const struct agx_event *event)
{
    struct sim_client *own = &sim->clients[client];
    const struct agx_fault *fault = agx_fault(&own->agx);
    if (strcmp(fault->frame, "CALL") == 0) {
        struct sim_call *call = call_of(sim, client, event);
        SIM_REQUIRE(sim, may_refuse(sim, call, event->code), INVARIANT_ANSWER,
                    "call %llu refused: %s, field %s", (unsigned long long)call->sampling.seed,
                    fault->text, fault->field);
        end_call(sim, call);
        discourage(sim, client);
    } else if (strcmp(fault->frame, "CANCEL") == 0) {
        /* It had ended before: its DONE was on the way. */
        SIM_REQUIRE(sim, own->cancels_sent > 0, INVARIANT_ANSWER, "CANCEL refused: none was sent");
        own->cancels_sent--;
    } else {
        SIM_REQUIRE(sim, own->answers_due > 0, INVARIANT_ANSWER, "%s refused: nothing was asked",
                    fault->frame);
        own->answers_due--;
    }
}

void sim_oracle_event(struct sim *sim, uint32_t client, const struct agx_event *event)
{
    struct sim_client *own = &sim->clients[client];
    if (sim->tenants.is_on && client != SIM_VICTIM) {
        return;                     /* an attacker's: the SDK has checked order and digest */
    }
    switch (event->kind) {
    case AGX_ACCEPTED:
        call_of(sim, client, event)->accepted = true;
        break;
    case AGX_TOKENS:
        take_tokens(sim, client, event);
        break;
    case AGX_DONE:
        take_done(sim, client, event);
        break;
    case AGX_REFUSED:
        take_refusal(sim, client, event);
        break;
    case AGX_PONG:
        SIM_REQUIRE(sim, own->pongs_due > 0 && event->nonce == own->pong_next++, INVARIANT_ANSWER,
                    "a PONG out of order");
        own->pongs_due--;
        break;
    case AGX_CHAT:
    case AGX_FLOW:
    case AGX_MODEL:
        SIM_REQUIRE(sim, false, INVARIANT_ANSWER, "an answer to what was not asked");
        break;
    case AGX_PROGRAM:
        SIM_REQUIRE(sim, own->answers_due > 0, INVARIANT_ANSWER, "an answer to no question");
        own->answers_due--;
    }
}

void sim_oracle_resent(struct sim *sim, uint32_t client)
{
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        if (sim->calls[i].in_use && sim->calls[i].client == client) {
            sim->calls[i].is_resent = true;
            sim->calls[i].deaths = 0;           /* it may be executed again */
        }
    }
}

void sim_oracle_lost(struct sim *sim, uint32_t client)
{
    for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
        if (sim->calls[i].in_use && sim->calls[i].client == client) {
            end_call(sim, &sim->calls[i]);
        }
    }
}

/* Rounds run in wait() only, so each one is at least a pass old here. What is doubted is not told:
 * whether it was comes out at the client. */
static void check_stream_of(struct sim *sim, const struct sched_engine *engine)
{
    if (!engine->step_in_flight || sim->engines[engine->index].has_scribbled ||
        sim->loop.engines[engine->index].state != WORLD_ENGINE_BUSY ||
        step_header(&engine->step)->is_doubted) {
        return;
    }
    for (uint32_t i = 0; i < engine->planned_count; i++) {
        const struct call *call = &sim->loop.calls.calls[engine->planned[i].call];
        uint32_t produced = step_out(&engine->step, i)->produced;
        bool is_live = call->generation == engine->planned[i].call_generation &&
                       call->state == CALL_RUNNING;
        SIM_REQUIRE(sim, !is_live || call->published_tokens >= call->generated_tokens + produced,
                    INVARIANT_STREAM, "row %u has %u tokens, %u of them published", i, produced,
                    call->published_tokens - call->generated_tokens);
    }
}

void sim_oracle_check_stream(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->limits.engines; i++) {
        check_stream_of(sim, &sim->loop.sched.engines[i]);
    }
}
