/* SPDX-License-Identifier: MIT
 *
 * What: the rounds of a step.
 *
 *   run        the moves of the step, then its rounds: thread 0 writes the token slots, all threads
 *              run the forward pass, rows are sampled in parallel. The step ends when no row needs
 *              another token. While a round is left, standby rows take the places of rows that have
 *              ended. The core's early stop may end the step sooner, between two rounds
 *   drafts     the thread that samples a row makes its draft for the next round. A row's gathers
 *              are sampled one after the other, by one thread, each with all tokens before it: a
 *              token and its log probabilities, penalties and digest are those of single rounds
 *
 *   doubt      in a step that is doubted, after each forward pass and each sampling the next thread
 *              does the same once more (doubt.c); what comes out otherwise ends the step
 *
 * Invariants: a row writes only its own out, out tokens and KV blocks. A row with a logit that is
 * not finite stops, which no other row notices. No round has more rows than rows_active.
 *
 * Bounds: at most steps_per_plan rounds; no memory but what kernels_init() took.
 */
#include "kernels/engine_state.h"

#include "config/base/bounds.h"
#include "kernels/round/draft.h"
#include "config/base/fnv.h"
#include "kernels/logprob.h"

static void slot_add(struct kernels *k, struct kernels_slot slot, bool wants_logits)
{
    ASSERT(k->slots_count < k->settings.step_tokens);
    ASSERT(slot.position < k->settings.context_tokens && slot.token < k->shape.vocab_tokens);
    slot.gather = KERNELS_GATHER_NONE;
    if (wants_logits) {
        ASSERT(k->gathers_count < k->settings.batch_calls);
        slot.gather = k->gathers_count++;
    }
    k->slots[k->slots_count++] = slot;
}

/* Where the row's next token will lie. */
static uint32_t position_of(const struct step_row *row, const struct step_out *out)
{
    return row->first_position + row->tokens_count + out->produced;
}

/* What may follow, for the round that comes. */
static void place_draft(const struct kernels *k, struct kernels_place *place)
{
    const struct step_row *row = step_row(k->step, place->row);
    uint32_t produced = step_out(k->step, place->row)->produced;
    ASSERT(row->drafts <= STEP_DRAFTS_MAX && produced < row->decode_steps);
    const struct draft_text text = {
        .past = step_past(k->step, place->row), .past_count = row->past_count,
        .produced = step_out_tokens(k->step, place->row), .produced_count = produced};
    uint32_t most = lesser(row->drafts, row->decode_steps - produced - 1);
    place->draft_count = draft_find(&text, place->draft, most);
}

/* The row's last token in this place, whose slot comes next, and its draft are sampled. */
static void place_add(struct kernels *k, struct kernels_slot last,
                      const struct kernels_place *place)
{
    struct kernels_place *to = &k->places[k->places_count++];
    *to = *place;               /* perhaps the same */
    to->gather = k->gathers_count;
    to->known = step_out(k->step, to->row)->produced;
    slot_add(k, last, true);
    for (uint32_t i = 0; i < to->draft_count; i++) {
        last.token = to->draft[i];
        last.position++;
        slot_add(k, last, true);
    }
}

/* A slot for each token of a row that begins; the last one is sampled if the row samples. */
static void row_begin(struct kernels *k, uint32_t r)
{
    const struct step_row *row = step_row(k->step, r);
    const uint32_t *tokens = step_tokens(k->step) + row->tokens_first;
    struct kernels_place place = {.row = r};
    for (uint32_t i = 0; i < row->tokens_count; i++) {
        struct kernels_slot slot = {
            .token = tokens[i], .position = row->first_position + i, .row = r};
        if (row->decode_steps == 0 || i + 1 < row->tokens_count) {
            slot_add(k, slot, false);
        } else {
            place_draft(k, &place);
            place_add(k, slot, &place);
        }
    }
}

/* The first round: the rows that run from the start. */
static void round_first(struct kernels *k)
{
    const struct step_header *header = step_header(k->step);
    k->round = 0;
    k->slots_count = 0;
    k->places_count = k->gathers_count = 0;
    k->standby_next = header->rows_active;
    for (uint32_t r = 0; r < header->rows_count; r++) {
        *step_out(k->step, r) = (struct step_out){.result = STEP_ROW_OK};
    }
    step_progress_begin(k->step);
    for (uint32_t r = 0; r < header->rows_active; r++) {
        row_begin(k, r);
    }
}

static bool is_stop_id(const struct call_sampling *sampling, uint32_t token)
{
    for (uint32_t i = 0; i < sampling->stop_ids_count; i++) {
        if (sampling->stop_ids[i] == token) {
            return true;
        }
    }
    return false;
}

/* True when row r needs another token. */
static bool row_goes_on(const struct kernels *k, uint32_t r)
{
    const struct step_row *row = step_row(k->step, r);
    const struct step_out *out = step_out(k->step, r);
    const uint32_t *tokens = step_out_tokens(k->step, r);
    return out->result == STEP_ROW_OK && out->produced < row->decode_steps &&
           !is_stop_id(&row->sampling, tokens[out->produced - 1]);
}

/* Gives free places to the next standby rows. */
static void enter_standbys(struct kernels *k)
{
    const struct step_header *header = step_header(k->step);
    while (k->places_count < header->rows_active && k->standby_next < header->rows_count) {
        const struct step_row *row = step_row(k->step, k->standby_next);
        ASSERT(row->tokens_count == 1 && row->decode_steps > 0 && row->drafts == 0);
        row_begin(k, k->standby_next++);
    }
}

/* Slots for the places of the last round whose rows go on, each with the token that its row has
 * sampled last. */
static void places_go_on(struct kernels *k, uint32_t before)
{
    for (uint32_t p = 0; p < before; p++) {
        uint32_t r = k->places[p].row;
        if (row_goes_on(k, r)) {
            const struct step_out *out = step_out(k->step, r);
            struct kernels_slot last = {
                .token = step_out_tokens(k->step, r)[out->produced - 1],
                .position = position_of(step_row(k->step, r), out) - 1,
                .row = r,
            };
            place_add(k, last, &k->places[p]);
        }
    }
}

/* A later round, if there is one: the rows that go on, and the standby rows that enter. */
static void round_next(struct kernels *k)
{
    uint32_t before = k->places_count;
    enum step_stop early_stop = step_early_stop(k->step);
    k->slots_count = 0;
    k->places_count = k->gathers_count = 0;
    step_progress_round(k->step, ++k->round);
    if (k->round == k->settings.steps_per_plan || early_stop == STEP_STOP_ROUND) {
        return;
    }
    places_go_on(k, before);
    enter_standbys(k);
    if (early_stop == STEP_STOP_ROW && k->places_count < before) {
        k->slots_count = 0;
    }
}

/* What the row samples from these logits after `produced` tokens of the step. */
static uint32_t row_token(struct kernels *k, uint32_t r, const float *logits, uint32_t produced,
                          struct kernels_scratch *scratch)
{
    const struct step_row *row = step_row(k->step, r);
    struct kernels_given given = {
        .history = row->history,
        .history_count = row->history_count,
        .generated = step_generated(k->step, r),
        .generated_count = row->generated_count,
        .produced = step_out_tokens(k->step, r),
        .produced_count = produced,
        .biases = row->biases,
    };
    return kernels_sample(&scratch->sampler, logits, &row->sampling, &given,
                          row->first_position + row->tokens_count + produced);
}

static const float *logits_of(const struct kernels *k, uint32_t gather)
{
    return k->logits.at + gather * k->logits.stride;
}

/* The row's next token, from these logits. False: a logit is not finite. */
static bool row_sample(struct kernels *k, uint32_t r, uint32_t gather,
                       struct kernels_scratch *scratch)
{
    const struct step_row *row = step_row(k->step, r);
    struct step_out *out = step_out(k->step, r);
    const float *logits = logits_of(k, gather);
    if (!k->ops->is_finite(logits, k->shape.vocab_tokens)) {
        *out = (struct step_out){.result = STEP_ROW_NOT_FINITE};
        return false;
    }
    if (row->wants_digest) {
        uint64_t before = out->produced == 0 ? FNV_START : out->digest;
        out->digest = fnv_add(before, logits, k->shape.vocab_tokens * sizeof *logits);
    }
    uint32_t token = row_token(k, r, logits, out->produced, scratch);
    uint32_t entries = call_logprob_entries(&row->sampling);
    if (entries > 0) {
        kernels_logprobs(&scratch->sampler, logits, token,
                         step_logprobs(k->step, r, out->produced * entries), entries);
    }
    step_out_tokens(k->step, r)[out->produced] = token;
    step_out_publish(out, out->produced + 1);
    return true;
}

/* Samples along the draft, up to the first token that the draft has not. */
static void place_sample(struct kernels *k, struct kernels_place *place,
                         struct kernels_scratch *scratch)
{
    uint32_t r = place->row;
    struct step_out *out = step_out(k->step, r);
    const uint32_t *tokens = step_out_tokens(k->step, r);
    uint32_t at = 0;
    bool is_finite = row_sample(k, r, place->gather, scratch);
    while (is_finite && at < place->draft_count && row_goes_on(k, r) &&
           tokens[out->produced - 1] == place->draft[at]) {
        is_finite = row_sample(k, r, place->gather + ++at, scratch);
    }
    if (is_finite) {
        out->drafted += place->draft_count;
        out->agreed += at;
        out->refused += at < place->draft_count && tokens[out->produced - 1] != place->draft[at];
    }
    if (row_goes_on(k, r)) {
        place_draft(k, place);
    }
}

/* The last round is not told: kernels_run() returns. */
static void tell_round(const struct kernels *k)
{
    if (k->slots_count > 0 && k->on_round.tell != NULL) {
        k->on_round.tell(k->on_round.context);
    }
}

/* True when the tokens that a place has got in this round are sampled once more. */
static bool place_holds(struct kernels *k, const struct kernels_place *place,
                        struct kernels_scratch *scratch)
{
    const uint32_t *tokens = step_out_tokens(k->step, place->row);
    uint32_t produced = step_out(k->step, place->row)->produced;
    for (uint32_t at = place->known; at < produced; at++) {
        const float *logits = logits_of(k, place->gather + at - place->known);
        if (row_token(k, place->row, logits, at, scratch) != tokens[at]) {
            return false;
        }
    }
    return true;
}

/* Every place, once more, by another thread. */
static void doubt_samples(struct kernels *k, uint32_t thread)
{
    uint32_t part = kernels_doubt_part(k, thread);
    kernels_threads_wait(&k->threads);
    for (uint32_t p = part; p < k->places_count; p += k->threads.active) {
        if (!place_holds(k, &k->places[p], &k->scratch[part])) {
            k->is_refuted = true;
        }
    }
}

static void run_round(struct kernels *k, uint32_t thread)
{
    kernels_forward(k, thread);
    if (k->is_doubted) {
        kernels_doubt_forward(k, thread);
    }
    for (uint32_t p = thread; p < k->places_count; p += k->threads.active) {
        place_sample(k, &k->places[p], &k->scratch[thread]);
    }
    if (k->is_doubted) {
        doubt_samples(k, thread);
    }
}

void kernels_work(void *context, uint32_t thread)
{
    struct kernels *k = context;
    kernels_moves(k, thread);
    while (k->slots_count > 0) {
        run_round(k, thread);
        kernels_threads_wait(&k->threads);
        if (thread == 0 && k->is_refuted) {
            k->slots_count = 0;
        } else if (thread == 0) {
            round_next(k);
            tell_round(k);
        }
        kernels_threads_wait(&k->threads);
    }
}

/* Multiply-adds of one token slot, divided by the barriers of a forward pass. */
static uint64_t work_of_slot(const struct model_shape *shape)
{
    uint64_t heads = (uint64_t)shape->heads * shape->head_dim;
    uint64_t kv_heads = (uint64_t)shape->kv_heads * shape->head_dim;
    uint64_t layer = shape->dim * (2 * heads + 2 * kv_heads + 3 * (uint64_t)shape->ffn_dim);
    uint64_t output = (uint64_t)shape->dim * shape->vocab_tokens;
    return (layer * shape->layers + output) / (shape->layers * KERNELS_PHASES + 1);
}

/* True when there is too little work for more than one thread. But for drafts, which come and go
 * within a step and do not count here, no later round has more slots than the first. */
static bool is_small(const struct kernels *k)
{
    uint64_t moved_floats =
        step_header(k->step)->moves_count * k->kv_block_bytes / sizeof(float);
    uint32_t drafts = k->gathers_count - k->places_count;
    return work_of_slot(&k->shape) * (k->slots_count - drafts) < k->phase_work_min &&
           moved_floats < k->phase_work_min;
}

void kernels_run(struct kernels *kernels, const struct step *step)
{
    const struct step_header *header = step_header(step);
    const struct kernels_settings *settings = &kernels->settings;
    ASSERT(header->rows_active <= settings->batch_calls);
    ASSERT(header->rows_active <= header->rows_count);
    ASSERT(header->rows_count <= settings->batch_calls + settings->standby_calls);
    kernels->step = step;
    kernels->is_doubted = header->is_doubted;
    kernels->is_refuted = false;
    round_first(kernels);
    kernels_threads_run(&kernels->threads, !kernels->is_doubted && is_small(kernels));
    if (kernels->is_doubted) {
        step_progress(step)->doubt =
            kernels->is_refuted ? STEP_DOUBT_REFUTED : STEP_DOUBT_HELD;
    }
}
