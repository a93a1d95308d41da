/* SPDX-License-Identifier: MIT */
/*
 * Goal: a row with drafts brings the same tokens, digests and log probabilities as without, bit for
 * bit, in fewer rounds, and writes no KV but its own.
 * Method: calls on the tiny model with every kind of sampling, whose prompts repeat and whose
 * tokens soon do. Each runs alone and without drafts, by plain kernels; then in steps of several
 * rows with drafts of 1 to 15 tokens, with every set of kernels, and on two threads, with prompts
 * in chunks and steps of 1 to 16 tokens. A block of no row is watched.
 */
#define DECODED_MAX 32
#include "selftest/unit/kernels/engine_rig.h"

enum { CALLS = 48, PROMPT_MAX = 40, TOGETHER = 4, BATCH = 32, BLOCKS = 10, FOREIGN = 126 };

struct drafted_call {
    uint32_t prompt_count, known;
    uint32_t tokens[PROMPT_MAX + DECODED_MAX];
    struct call_logprob entries[DECODED_MAX * 3];
    struct call_sampling sampling;
    struct call_bias bias;
};

static struct drafted_call calls[CALLS];
static uint64_t random_state = 5;
static uint64_t drafted, agreed, refused, rounds_saved;

static uint32_t below(uint32_t bound)
{
    return tiny_random(&random_state) % bound;
}

static void draw_sampling(struct drafted_call *call)
{
    struct call_sampling *s = &call->sampling;
    *s = (struct call_sampling){.seed = tiny_random(&random_state), .top_p = 1,
                                .repeat_penalty = 1};
    s->temperature = below(2) == 0 ? 0.0f : 0.01f + 0.05f * (float)below(16);
    s->top_k = below(3) == 0 ? 1 + below(20) : 0;
    s->top_p = below(3) == 0 ? 0.5f + 0.1f * (float)below(5) : 1.0f;
    s->min_p = below(4) == 0 ? 0.05f : 0.0f;
    s->repeat_penalty = below(4) == 0 ? 1.1f : 1.0f;
    s->frequency_penalty = below(4) == 0 ? 0.3f : 0.0f;
    s->presence_penalty = below(4) == 0 ? 0.2f : 0.0f;
    s->biases_count = below(4) == 0;
    s->wants_logprobs = below(3) == 0;
    s->top_logprobs = s->wants_logprobs ? below(3) : 0;
    s->stop_ids_count = below(3) == 0;
    s->stop_ids[0] = below(75);
    call->bias = (struct call_bias){below(75), 2.0f};
}

static void draw_call(struct drafted_call *call)
{
    uint32_t period = 1 + below(12);
    memset(call, 0, sizeof *call);
    call->prompt_count = call->known = 1 + below(PROMPT_MAX);
    for (uint32_t i = 0; i < call->prompt_count; i++) {
        call->tokens[i] = i < period ? below(75) : call->tokens[i - period];
    }
    draw_sampling(call);
}

/* The row of a call whose first `held` positions are there: it feeds up to `to` and decodes. */
static void add_row(struct rig *rig, const struct drafted_call *call, uint32_t held, uint32_t to,
                    uint32_t steps)
{
    uint32_t r = step_header(&rig->step)->rows_count;
    struct step_row *row = rig_row(rig, call->tokens + held, to - held, held, steps);
    uint32_t count = to < CALL_REPEAT_TOKENS ? to : CALL_REPEAT_TOKENS;
    row->sampling = call->sampling;
    row->biases[0] = call->bias;
    row->history_count = call->sampling.repeat_penalty != 1.0f ? count : 0;
    memcpy(row->history, call->tokens + to - row->history_count,
           row->history_count * sizeof(uint32_t));
    row->past_count = to;
    row->generated_count =
        call_counts_tokens(&call->sampling) ? to - call->prompt_count : 0;
    memcpy(step_past(&rig->step, r), call->tokens, to * sizeof(uint32_t));
    row->blocks_count = steps == 0 ? (to + 7) / 8 : (to + steps + 6) / 8;
}

/* The rest of a table, which a row must not use, names a block of another. */
static void own_blocks(struct rig *rig, uint32_t row, uint32_t place)
{
    for (uint32_t i = 0; i < rig->settings.blocks_per_call; i++) {
        bool is_own = i < step_row(&rig->step, row)->blocks_count;
        step_blocks(&rig->step, row)[i] = is_own ? BLOCKS * place + i : FOREIGN;
    }
}

static bool has_stopped(const struct drafted_call *call)
{
    return call->known > call->prompt_count && call->sampling.stop_ids_count > 0 &&
           call->tokens[call->known - 1] == call->sampling.stop_ids[0];
}

static bool needs_more(const struct drafted_call *call)
{
    return call->known < call->prompt_count + DECODED_MAX && !has_stopped(call);
}

/* Takes what the row brought, and says how many rounds it had. */
static uint32_t take(const struct rig *rig, uint32_t row, struct drafted_call *call)
{
    const struct step_out *out = step_out(&rig->step, row);
    uint32_t entries = call_logprob_entries(&call->sampling);
    assert_int_equal(out->result, STEP_ROW_OK);
    assert_true(out->produced >= 1 && out->agreed < out->produced && out->agreed <= out->drafted);
    assert_true(out->refused <= out->produced - out->agreed);
    memcpy(call->entries + (call->known - call->prompt_count) * entries,
           step_logprobs(&rig->step, row, 0),
           out->produced * entries * sizeof *call->entries);
    memcpy(call->tokens + call->known, step_out_tokens(&rig->step, row),
           out->produced * sizeof(uint32_t));
    call->known += out->produced;
    drafted += out->drafted;
    agreed += out->agreed;
    refused += out->refused;
    return out->produced - out->agreed;
}

/* ---- alone ---- */

static void run_call_alone(struct rig *rig, struct drafted_call *call)
{
    uint32_t held = 0;
    while (needs_more(call)) {
        uint32_t left = call->prompt_count + DECODED_MAX - call->known;
        rig_clear(rig);
        add_row(rig, call, held, call->known, left < 16 ? left : 16);
        own_blocks(rig, 0, 0);
        held = call->known;
        kernels_run(rig->kernels, &rig->step);
        uint32_t rounds = take(rig, 0, call);
        held = call->known - 1;
        assert_int_equal(rounds, *step_rounds(&rig->step));
    }
}

/* ---- together, with drafts ---- */

/* The next row of a call of this batch: a chunk of its prompt, or tokens. */
static void add_next(struct rig *rig, const struct drafted_call *call, uint32_t *held,
                     uint32_t place)
{
    uint32_t r = step_header(&rig->step)->rows_count;
    uint32_t to = *held + 1 < call->known ? *held + 1 + below(call->known - *held) : call->known;
    uint32_t left = call->prompt_count + DECODED_MAX - call->known, steps = 1 + below(16);
    steps = to < call->known ? 0 : steps < left ? steps : left;
    add_row(rig, call, *held, to, steps);
    step_row(&rig->step, r)->drafts = steps > 0 ? below(BATCH / TOGETHER * 2) : 0;
    own_blocks(rig, r, place);
    *held = to;
}

/* All rows together have no more than the batch. */
static void limit_drafts(struct rig *rig)
{
    uint32_t room = BATCH - step_header(&rig->step)->rows_count;
    for (uint32_t r = 0; r < step_header(&rig->step)->rows_count; r++) {
        struct step_row *row = step_row(&rig->step, r);
        row->drafts = row->drafts < room ? row->drafts : room;
        room -= row->drafts;
    }
}

static bool step_together(struct rig *rig, struct drafted_call *batch, uint32_t *held)
{
    uint32_t of[TOGETHER], rows = 0, most = 0;
    rig_clear(rig);
    for (uint32_t c = 0; c < TOGETHER; c++) {
        if (needs_more(&batch[c])) {
            add_next(rig, &batch[c], &held[c], c);
            of[rows++] = c;
        }
    }
    if (rows == 0) {
        return false;
    }
    limit_drafts(rig);
    kernels_run(rig->kernels, &rig->step);
    for (uint32_t r = 0; r < rows; r++) {
        if (step_row(&rig->step, r)->decode_steps > 0) {
            uint32_t before = batch[of[r]].known;
            uint32_t rounds = take(rig, r, &batch[of[r]]);
            rounds_saved += batch[of[r]].known - before - rounds;
            most = rounds > most ? rounds : most;
            held[of[r]] = batch[of[r]].known - 1;
        }
    }
    assert_int_equal(*step_rounds(&rig->step), most > 0 ? most : 1);
    return true;
}

static void check_together(struct rig *rig, uint32_t first)
{
    static struct drafted_call batch[TOGETHER];
    uint32_t held[TOGETHER] = {0};
    for (uint32_t c = 0; c < TOGETHER; c++) {
        batch[c] = calls[first + c];
        batch[c].known = batch[c].prompt_count;
        memset(batch[c].tokens + batch[c].known, 0xff, DECODED_MAX * sizeof(uint32_t));
        memset(batch[c].entries, 0, sizeof batch[c].entries);
    }
    while (step_together(rig, batch, held)) {
    }
    for (uint32_t c = 0; c < TOGETHER; c++) {
        const struct drafted_call *expected = &calls[first + c];
        assert_int_equal(batch[c].known, expected->known);
        assert_memory_equal(batch[c].tokens, expected->tokens,
                            expected->known * sizeof(uint32_t));
        assert_memory_equal(batch[c].entries, expected->entries, sizeof expected->entries);
    }
}

static void start(struct rig *rig, enum kernels_simd simd, uint32_t threads)
{
    struct arena *arena = test_arena();
    struct kernels_settings settings = rig_settings(simd, threads);
    settings.batch_calls = BATCH;
    settings.steps_per_plan = 16;
    settings.step_tokens = TOGETHER * PROMPT_MAX + BATCH;
    rig_start(rig, &settings, tiny_weights(&tiny, arena), arena);
    poison(rig);
}

static uint64_t foreign_digest(const struct rig *rig)
{
    uint64_t digest = FNV_START;
    for (uint32_t i = 0; i < kernels_pieces(rig->kernels); i++) {
        struct kernels_piece piece = kernels_piece(rig->kernels, FOREIGN, i);
        digest = fnv_add_words(digest, piece.at, piece.bytes);
    }
    return digest;
}

static void check_set(enum kernels_simd simd, uint32_t threads, uint32_t count)
{
    struct rig rig;
    start(&rig, simd, threads);
    uint64_t before = foreign_digest(&rig);
    for (uint32_t i = 0; i + TOGETHER <= count; i += TOGETHER) {
        check_together(&rig, i);
    }
    assert_int_equal(foreign_digest(&rig), before);
    kernels_stop(rig.kernels);
}

static void check_type(enum gguf_type type)
{
    struct rig rig;
    tiny_make(&tiny, type, false, 7);
    start(&rig, KERNELS_PLAIN, 1);
    for (uint32_t i = 0; i < CALLS; i++) {
        draw_call(&calls[i]);
        run_call_alone(&rig, &calls[i]);
    }
    kernels_stop(rig.kernels);
    assert_int_equal(drafted, 0);
    for (enum kernels_simd simd = KERNELS_PLAIN; simd <= kernels_simd_best(); simd++) {
        check_set(simd, 1, CALLS);
    }
    if (type == GGUF_Q8_0) {        /* it waits for barriers: slow where CPUs are busy */
        check_set(kernels_simd_best(), 2, TOGETHER);
    }
    print_message("%s: %llu drafted, %llu agreed, %llu drafts refused\n", gguf_type_name(type),
                  (unsigned long long)drafted, (unsigned long long)agreed,
                  (unsigned long long)refused);
    assert_true(agreed > 300 && refused > 150);
    assert_int_equal(rounds_saved, agreed);
    drafted = agreed = refused = rounds_saved = 0;
}

static void test_drafts_change_no_bit(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TINY_TYPES; i++) {
        check_type(tiny_types[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafts_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
