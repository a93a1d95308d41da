/* SPDX-License-Identifier: MIT */
/*
 * Goal: on the GPU, too, a row with drafts brings the tokens, digests and log probabilities that it
 * brings without, bit for bit, beside whatever rows; and in floats it makes the drafts that the CPU
 * engine makes, and as many rounds.
 * Method: random calls whose texts repeat themselves, since a bias leaves them few tokens; greedy,
 * drawn, with penalties. Each runs alone without drafts, then three together with drafts of 1 to 5
 * tokens, step by step, with prompts that go first in tiles and then one by one.
 */
#include "selftest/unit/cuda/engine_rig.h"

#include "config/base/bounds.h"

enum {
    CALLS = 24, TOGETHER = 3, PROMPT_MAX = 30, STEPS = 5, RECALLED = 20,
    KNOWN_MAX = RECALLED + PROMPT_MAX + STEPS * DECODED, ENTRIES = 3,
};

/* Of a call after a step. */
struct brought {
    uint32_t tokens[DECODED];
    uint64_t digest;
    struct call_logprob entries[DECODED * ENTRIES];
};

struct drafted_call {
    uint32_t known[KNOWN_MAX];          /* recalled, prompt, generated */
    uint32_t recalled, prompt, generated;
    struct call_sampling sampling;
    struct call_bias biases[3];
    struct brought brought[STEPS];      /* alone */
};
static struct drafted_call calls[CALLS];

static uint64_t random_state;

static uint32_t below(uint32_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % bound;
}

static struct call_sampling draw_sampling(void)
{
    const struct call_sampling kinds[] = {
        {.top_p = 1, .repeat_penalty = 1},
        {.temperature = 0.7f, .top_k = 2, .top_p = 1, .repeat_penalty = 1},
        {.temperature = 0.4f, .top_p = 0.5f, .repeat_penalty = 1.1f},
        {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .presence_penalty = 0.5f,
         .frequency_penalty = 0.1f},
    };
    struct call_sampling sampling = kinds[below(4)];
    sampling.seed = 1 + below(1000);
    sampling.wants_logprobs = below(2) == 0;
    sampling.top_logprobs = sampling.wants_logprobs ? ENTRIES - 1 : 0;
    sampling.biases_count = below(4);
    return sampling;
}

static void draw_call(struct drafted_call *call)
{
    uint32_t period = 1 + below(5), first = below(40);
    memset(call, 0, sizeof *call);
    call->recalled = below(RECALLED + 1);
    call->prompt = 1 + below(PROMPT_MAX);
    for (uint32_t i = 0; i < call->recalled + call->prompt; i++) {
        call->known[i] = 1 + first + i % period;
    }
    call->sampling = draw_sampling();
    for (uint32_t i = 0; i < 3; i++) {
        call->biases[i] = (struct call_bias){1 + first + i, 50};
    }
}

static uint32_t known_of(const struct drafted_call *call)
{
    return call->prompt + call->generated;
}

/* The call's next row: what its KV has not, and DECODED tokens. */
static void add_next(const struct drafted_call *call, uint32_t drafts)
{
    const uint32_t *text = call->known + call->recalled;
    uint32_t held = call->generated > 0 ? known_of(call) - 1 : 0, known = known_of(call);
    uint32_t r = step_header(&pair.cpu.step)->rows_count;
    struct step_row *row = rig_row(&pair.cpu, text + held, known - held, held, DECODED);
    rig_blocks(&pair.cpu, r, r * pair.cpu.settings.blocks_per_call, 1);
    row->sampling = call->sampling;
    memcpy(row->biases, call->biases, sizeof call->biases);
    row->history_count = call->sampling.repeat_penalty != 1 ? lesser(known, CALL_REPEAT_TOKENS) : 0;
    memcpy(row->history, text + known - row->history_count,
           row->history_count * sizeof *row->history);
    row->drafts = drafts;
    row->past_count = call->recalled + known;
    row->generated_count = call->sampling.presence_penalty != 0 ? call->generated : 0;
    memcpy(step_past(&pair.cpu.step, r), call->known, row->past_count * sizeof *call->known);
}

static void take_brought(uint32_t r, struct brought *brought)
{
    const struct step *step = &pair.cpu.step;
    memset(brought, 0, sizeof *brought);
    assert_int_equal(step_out(step, r)->result, STEP_ROW_OK);
    assert_int_equal(step_out(step, r)->produced, DECODED);
    brought->digest = step_out(step, r)->digest;
    memcpy(brought->tokens, step_out_tokens(step, r), sizeof brought->tokens);
    if (step_row(step, r)->sampling.wants_logprobs) {
        memcpy(brought->entries, step_logprobs(step, r, 0), sizeof brought->entries);
    }
}

static void go_on(struct drafted_call *call, const struct brought *brought)
{
    memcpy(call->known + call->recalled + known_of(call), brought->tokens, sizeof brought->tokens);
    call->generated += DECODED;
}

static void run_call_alone(struct drafted_call *call)
{
    for (uint32_t s = 0; s < STEPS; s++) {
        rig_clear(&pair.cpu);
        add_next(call, 0);
        run_gpu();
        take_brought(0, &call->brought[s]);
        assert_int_equal(*step_rounds(&pair.cpu.step), DECODED);
        assert_int_equal(step_out(&pair.cpu.step, 0)->drafted, 0);
        go_on(call, &call->brought[s]);
    }
    call->generated = 0;
}

static uint32_t agreed, refused;

/* What the CPU engine says of the same record. */
static void compare_counts(void)
{
    enum { ROWS = 4 };
    const struct step *step = &pair.cpu.step;
    struct step_out outs[ROWS];
    uint32_t rounds = *step_rounds(step), rows = step_header(step)->rows_count;
    assert_true(rows <= ROWS);
    for (uint32_t r = 0; r < rows; r++) {
        outs[r] = *step_out(step, r);
    }
    kernels_run(pair.cpu.kernels, step);
    assert_int_equal(*step_rounds(step), rounds);
    for (uint32_t r = 0; r < rows; r++) {
        assert_int_equal(step_out(step, r)->produced, outs[r].produced);
        assert_int_equal(step_out(step, r)->drafted, outs[r].drafted);
        assert_int_equal(step_out(step, r)->agreed, outs[r].agreed);
        assert_int_equal(step_out(step, r)->refused, outs[r].refused);
    }
}

static void run_together(struct drafted_call *batch, uint32_t s, bool as_the_cpu)
{
    const struct step *step = &pair.cpu.step;
    uint32_t room = pair.cpu.settings.batch_calls - TOGETHER, least = DECODED;
    rig_clear(&pair.cpu);
    for (uint32_t c = 0; c < TOGETHER; c++) {
        uint32_t drafts = lesser(below(room + 1), room);
        add_next(&batch[c], drafts);
        room -= drafts;
    }
    run_gpu();
    for (uint32_t c = 0; c < TOGETHER; c++) {
        struct brought brought;
        take_brought(c, &brought);
        assert_memory_equal(&brought, &batch[c].brought[s], sizeof brought);
        go_on(&batch[c], &brought);
        agreed += step_out(step, c)->agreed;
        refused += step_out(step, c)->refused;
        assert_true(step_out(step, c)->drafted >= step_out(step, c)->agreed);
        least = lesser(least, step_out(step, c)->agreed);
    }
    assert_int_equal(*step_rounds(step), DECODED - least);
    if (as_the_cpu) {
        compare_counts();
    }
}

static void check_type(enum gguf_type type, bool halves, enum products products, uint32_t count)
{
    struct model_shape shape = tiny_shape(type, false);
    tiny_make_shape(&tiny, &shape, type, 7);
    pair_start(halves, products);
    agreed = refused = 0;
    for (uint32_t i = 0; i < count; i++) {
        draw_call(&calls[i]);
        run_call_alone(&calls[i]);
    }
    for (uint32_t i = 0; i < count; i += TOGETHER) {
        for (uint32_t s = 0; s < STEPS; s++) {
            run_together(&calls[i], s, type == GGUF_F32 && !halves && products == OWN);
        }
    }
    print_message("%s: %u agreed, %u drafts refused\n", gguf_type_name(type), agreed, refused);
    assert_true(agreed > 2 * count && refused > count / 2);
    pair_stop();
}

static void test_drafts_change_no_bit(void **state)
{
    (void)state;
    random_state = 1;
    check_type(GGUF_F32, false, OWN, CALLS);
    check_type(GGUF_F32, true, LIBRARY, CALLS / 4);     /* the soft GPU takes its time */
    check_type(GGUF_F16, true, OWN, CALLS / 4);
    check_type(GGUF_Q8_0, true, OWN, CALLS / 4);
    check_type(GGUF_Q4_K, true, OWN, CALLS / 4);
}

/* A row that ends gives its own place to a standby; the places of its drafts stay empty. */
static void test_standbys_enter_beside_drafts_as_on_the_cpu(void **state)
{
    (void)state;
    tiny_make(&tiny, GGUF_F32, false, 7);
    for (uint32_t early_stop = STEP_STOP_LAST; early_stop <= STEP_STOP_ROUND; early_stop++) {
        pair_start(false, OWN);
        random_state = 5 + early_stop;
        for (uint32_t i = 0; i < CALLS; i++) {
            const struct step *step = &pair.cpu.step;
            struct drafted_call call;
            draw_call(&call);
            rig_clear(&pair.cpu);
            add_next(&call, 3);
            step_row(step, 0)->decode_steps = 2 + i % 5;    /* more or fewer than its drafts */
            draw_call(&call);
            add_next(&call, 2);
            add_row(3, 1, 0, 6, 64);
            add_row(4, 1, 0, 5, 80);
            step_header(step)->rows_active = 2;
            step_stop_early(step, early_stop);
            run_gpu();
            uint32_t tokens[4][DECODED];
            for (uint32_t r = 0; r < 4; r++) {
                memcpy(tokens[r], step_out_tokens(step, r), sizeof tokens[r]);
            }
            compare_counts();
            for (uint32_t r = 0; r < 4; r++) {
                assert_memory_equal(step_out_tokens(step, r), tokens[r],
                                    step_out(step, r)->produced * sizeof tokens[r][0]);
            }
        }
        pair_stop();
    }
}

/* A greedy row of tokens first .. first + count - 1 of the text. */
static const struct step_out *run_text(const uint32_t *text, uint32_t first, uint32_t count,
                                       uint32_t decode_steps, uint32_t drafts)
{
    rig_clear(&pair.cpu);
    struct step_row *row = rig_row(&pair.cpu, text + first, count, first, decode_steps);
    rig_blocks(&pair.cpu, 0, 0, 1);
    row->drafts = drafts;
    row->past_count = first + count;
    memcpy(step_past(&pair.cpu.step, 0), text, row->past_count * sizeof *text);
    row->sampling.biases_count = 1;
    row->biases[0] = (struct call_bias){5, 100};
    run_gpu();
    assert_int_equal(step_out(&pair.cpu.step, 0)->result, STEP_ROW_OK);
    assert_int_equal(step_out(&pair.cpu.step, 0)->produced, decode_steps);
    return step_out(&pair.cpu.step, 0);
}

/* A prompt in chunks, and a draft that reaches beyond what the row's first token needs of
 * attention: KV comes to be the same as in tiles, which have no splits. */
static void test_a_draft_begins_a_split(void **state)
{
    (void)state;
    enum { PROMPT = GPU_SPLIT_TOKENS - 4, CHUNK = PROMPT / 2, BROUGHT = DECODED - 1 };
    struct kernels_settings settings = pair_settings(false);
    uint32_t text[PROMPT + DECODED], same = PROMPT - 5;
    for (uint32_t i = 0; i < PROMPT + DECODED; i++) {
        text[i] = i < same ? 10 + i * 7 % 60 : 5;
    }
    tiny_make(&tiny, GGUF_F32, false, 7);
    settings.context_tokens = settings.past_tokens = 2 * GPU_SPLIT_TOKENS;
    settings.blocks_per_call = settings.context_tokens / settings.kv_block_tokens;
    pair_start_as(&settings, OWN);
    run_text(text, 0, CHUNK, 0, 0);
    run_text(text, CHUNK, PROMPT - CHUNK - 1, 0, 0);
    assert_int_equal(run_text(text, PROMPT - 1, 1, BROUGHT, 5)->agreed, 5);
    assert_int_equal(*step_rounds(&pair.cpu.step), BROUGHT - 5);
    uint64_t digest = run_text(text, PROMPT + BROUGHT - 1, 1, 1, 0)->digest;
    assert_true(run_text(text, PROMPT - 1, 1 + BROUGHT, 1, 0)->digest == digest);
    pair_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_drafts_change_no_bit, clean_up),
        cmocka_unit_test_teardown(test_standbys_enter_beside_drafts_as_on_the_cpu, clean_up),
        cmocka_unit_test_teardown(test_a_draft_begins_a_split, clean_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
