/* SPDX-License-Identifier: MIT */
/*
 * Goal: the GPU engine does with a step what the CPU engine does, and the numbers of a row depend
 * on that row only, with our own products and with the library's. Method: both get the same records
 * with the same small random models; the GPU engine runs on the soft GPU through the driver's entry
 * points. Weights that are floats, own products: tokens, counts and rounds must be equal; attention
 * and norms sum in another order there, so logits are compared by the tokens that they choose. Else
 * (halves, which round the inputs of products, and the library's products): logits are compared.
 * Digests of the GPU's own logits must be equal to the bit, alone, in chunks, in a batch, after a
 * move to the host and back.
 */
#include "selftest/unit/cuda/engine_rig.h"

/* The results of a record. */
struct outcome {
    uint32_t rows, rounds;
    struct step_out outs[14];
    uint32_t tokens[14][DECODED];
};

static void take_outcome(struct outcome *outcome)
{
    const struct step *step = &pair.cpu.step;
    memset(outcome, 0, sizeof *outcome);
    outcome->rows = step_header(step)->rows_count;
    outcome->rounds = *step_rounds(step);
    for (uint32_t r = 0; r < outcome->rows; r++) {
        outcome->outs[r] = *step_out(step, r);
        memcpy(outcome->tokens[r], step_out_tokens(step, r),
               outcome->outs[r].produced * sizeof(uint32_t));
    }
}

/* Runs the record on both; the results must be equal, except digests. */
static void run_both(void)
{
    struct outcome cpu, gpu;
    kernels_run(pair.cpu.kernels, &pair.cpu.step);
    take_outcome(&cpu);
    run_gpu();
    take_outcome(&gpu);
    assert_int_equal(cpu.rounds, gpu.rounds);
    for (uint32_t r = 0; r < cpu.rows; r++) {
        assert_int_equal(cpu.outs[r].result, gpu.outs[r].result);
        assert_int_equal(cpu.outs[r].produced, gpu.outs[r].produced);
    }
    assert_memory_equal(cpu.tokens, gpu.tokens, sizeof cpu.tokens);
}

/* A prompt in two steps, then beside rows of other lengths. */
static void check_alike(void)
{
    rig_clear(&pair.cpu);
    add_row(0, PROMPT_TOKENS, 0, DECODED, 0);
    run_both();
    rig_clear(&pair.cpu);
    add_row(0, 7, 0, 0, 16);
    run_both();
    rig_clear(&pair.cpu);
    add_row(7, PROMPT_TOKENS - 7, 7, DECODED, 16);
    for (uint32_t i = 1; i < 7; i++) {
        add_row(i, i, 0, DECODED - i, 16 + 16 * i);
    }
    run_both();
}

static void test_run_like_the_cpu_in_every_family(void **state)
{
    (void)state;
    for (uint32_t family = 0; family < model_families_count; family++) {
        for (uint32_t i = 0; i < 2; i++) {
            struct model_shape shape = tiny_shape(GGUF_F32, i == 1);
            shape.family = &model_families[family];
            tiny_make_shape(&tiny, &shape, GGUF_F32, 7);
            pair_start(i == 1, OWN);
            check_alike();
            pair_stop();
        }
    }
}

static struct step_row *ask(uint32_t offset, uint32_t count, uint32_t block)
{
    struct step_row *row = add_row(offset, count, offset, DECODED, block);
    row->wants_digest = true;
    return row;
}

/* So many other rows that the row is not in the first product of the library, nor among the few
 * rows or in the first tile of our own. */
static void add_crowd(void)
{
    uint32_t text[110];
    for (uint32_t i = 0; i < 110; i++) {
        text[i] = i * 7 % 75;
    }
    for (uint32_t r = 0; r < 2; r++) {
        rig_row(&pair.cpu, text, 110, 0, 0);
        rig_blocks(&pair.cpu, r, 32 + 16 * r, 1);
    }
}

/* The same call in every surrounding. In tiles: products of many rows are cut. */
static void check_same_bits(bool in_tiles)
{
    struct step *step = &pair.cpu.step;
    rig_clear(&pair.cpu);
    ask(0, PROMPT_TOKENS, 0);
    run_gpu();
    const struct step_out alone = *step_out(step, 0);
    assert_int_equal(alone.produced, DECODED);
    assert_true(pair.told > 0);

    for (uint32_t cut = 1; cut < PROMPT_TOKENS; cut += 5) {     /* in two chunks, beside others */
        rig_clear(&pair.cpu);
        add_row(3, 4, 0, 2, 64);
        add_row(0, cut, 0, 0, 16);
        run_gpu();
        rig_clear(&pair.cpu);
        add_row(5, 1, 0, 3, 64);
        ask(cut, PROMPT_TOKENS - (uint32_t)cut, 16);
        run_gpu();
        assert_int_equal(step_out(step, 1)->digest, alone.digest);
    }
    if (in_tiles) {
        rig_clear(&pair.cpu);
        add_crowd();
        ask(0, PROMPT_TOKENS, 16);
        run_gpu();
        assert_int_equal(step_out(step, 2)->digest, alone.digest);
    }
}

static void test_run_same_call_same_bits(void **state)
{
    (void)state;
    static const enum gguf_type types[] = {GGUF_F32,  GGUF_F16,  GGUF_BF16, GGUF_Q8_0,
                                           GGUF_Q4_0, GGUF_Q4_K, GGUF_Q6_K};
    for (uint32_t family = 0; family < model_families_count; family++) {
        uint32_t count = family == 0 ? sizeof types / sizeof *types : 4;
        for (uint32_t i = 0; i < 2 * count; i++) {
            struct model_shape shape = tiny_shape(types[i / 2], i / 2 == 1);
            shape.family = &model_families[family];
            tiny_make_shape(&tiny, &shape, types[i / 2], 7);
            pair_start(i / 2 == 2, (enum products)(i % 2));
            check_same_bits(i % 2 == LIBRARY || types[i / 2] != GGUF_F32);
            pair_stop();
        }
    }
}

/* ---- logits ---- */

static uint32_t best_of(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

/* The largest difference of one row's logits on CPU and GPU. If the GPU chooses another token, the
 * CPU's logits of the two tokens must be as close. */
static float logits_apart(void)
{
    uint32_t vocab = tiny.gguf.shape.vocab_tokens;
    const float *cpu = kernels_logits(pair.cpu.kernels, 0);
    const float *gpu = device_read(pair.gpu->logits.at, vocab * sizeof *gpu);
    float apart = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        float each = fabsf(cpu[i] - gpu[i]);
        assert_true(isfinite(each));
        apart = each > apart ? each : apart;
    }
    assert_true(cpu[best_of(cpu, vocab)] - cpu[best_of(gpu, vocab)] <= 2 * apart);
    return apart;
}

/* Both feed the tokens that the CPU has sampled. */
static void check_logits(float apart_max, uint32_t same_min)
{
    float apart = 0, largest = 0;
    uint32_t same = 0, token = 0;
    for (uint32_t i = 0; i < 24; i++) {
        rig_clear(&pair.cpu);
        add_row(0, i == 0 ? PROMPT_TOKENS : 1, i == 0 ? 0 : PROMPT_TOKENS - 1 + i, 1, 0);
        step_tokens(&pair.cpu.step)[0] = i == 0 ? prompt[0] : token;
        kernels_run(pair.cpu.kernels, &pair.cpu.step);
        token = step_out_tokens(&pair.cpu.step, 0)[0];
        run_gpu();
        same += step_out_tokens(&pair.cpu.step, 0)[0] == token;
        const float each = logits_apart(), best = kernels_logits(pair.cpu.kernels, 0)[token];
        apart = each > apart ? each : apart;
        largest = best > largest ? best : largest;
    }
    print_message("logits of up to %.1f are %.2g apart at most, %u of 24 tokens are the same\n",
                  (double)largest, (double)apart, same);
    assert_true(apart <= apart_max);
    assert_true(same >= same_min);
}

static void test_logits_are_near_the_cpus(void **state)
{
    (void)state;
    static const struct {
        enum gguf_type type;
        float apart_max;
        uint32_t same_min;
    } cases[] = {{GGUF_F32, 1e-5f, 24}, {GGUF_F16, 5e-3f, 23}, {GGUF_BF16, 4e-2f, 23},
                 {GGUF_Q8_0, 1e-1f, 20}, {GGUF_Q4_0, 2e-1f, 20}, {GGUF_Q4_K, 2e-1f, 20},
                 {GGUF_Q6_K, 2e-1f, 20}};
    for (uint32_t family = 0; family < model_families_count; family++) {
        uint32_t count = family == 0 ? sizeof cases / sizeof cases[0] : 4;
        for (uint32_t i = 0; i < PRODUCTS * count; i++) {
            enum gguf_type type = cases[i / PRODUCTS].type;
            struct model_shape shape = tiny_shape(type, false);
            shape.family = &model_families[family];
            tiny_make_shape(&tiny, &shape, type, 7);
            pair_start(false, (enum products)(i % PRODUCTS));
            check_logits(cases[i / PRODUCTS].apart_max, cases[i / PRODUCTS].same_min);
            pair_stop();
        }
    }
}

/* Shapes whose matrices end where the next one begins, and one where they do not. */
static void test_matrices_that_lie_together_are_one_product(void **state)
{
    (void)state;
    static const struct {
        enum gguf_type shape, type;
        bool is_joined;
    } cases[] = {{GGUF_Q8_0, GGUF_F32, true}, {GGUF_Q8_0, GGUF_F16, true},
                 {GGUF_Q8_0, GGUF_BF16, true}, {GGUF_Q4_K, GGUF_Q4_K, true},
                 {GGUF_Q4_K, GGUF_Q6_K, true}, {GGUF_F16, GGUF_F16, false}};
    for (uint32_t i = 0; i < PRODUCTS * sizeof cases / sizeof cases[0]; i++) {
        enum gguf_type type = cases[i / PRODUCTS].type;
        const struct model_shape shape = tiny_shape(cases[i / PRODUCTS].shape, false);
        tiny_make_shape(&tiny, &shape, type, 7);
        pair_start(false, (enum products)(i % PRODUCTS));
        const struct gpu_layer *layer = &pair.gpu->weights.layers[1];
        uint32_t outputs = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
        bool is_joined = cases[i / PRODUCTS].is_joined;
        assert_int_equal(layer->attn_qkv.outputs, is_joined ? outputs : 0);
        assert_int_equal(layer->ffn_gate_up.outputs, is_joined ? 2 * shape.ffn_dim : 0);
        check_logits(type == GGUF_F32 ? 1e-5f : 2e-1f, type == GGUF_F32 ? 24 : 20);
        if (type == GGUF_F16) {
            check_same_bits(true);
        }
        pair_stop();
    }
}

/* Of two types by turns, as files of K-quants are, and with an output that is the embedding. */
static void test_models_of_mixed_levels_are_near_the_cpus(void **state)
{
    (void)state;
    static const enum gguf_type types[] = {GGUF_Q4_K, GGUF_Q6_K, GGUF_Q4_K};
    for (uint32_t i = 0; i < 2 * PRODUCTS; i++) {
        const struct model_shape shape = tiny_shape(GGUF_Q4_K, i / PRODUCTS == 1);
        tiny_make_types(&tiny, &shape, types + i / PRODUCTS, 2, 7);
        pair_start(false, (enum products)(i % PRODUCTS));
        check_logits(2e-1f, 20);
        pair_stop();
    }
}

/* ---- moves, rounds, failures ---- */

/* Loads the weights again where they are, and returns their bytes. */
static const void *load_again(struct gpu_weights *weights, uint64_t staging_bytes)
{
    struct config_error error = {{0}};
    struct gpu_queue again = pair.queue;
    uint64_t bytes = gpu_weights_bytes(&tiny.gguf);
    again.used_bytes -= bytes;
    uint64_t at = again.memory + again.used_bytes;
    const struct gpu_loading loading = {&again, &tiny.source, pair.gpu->staging, staging_bytes,
                                        &pair.heartbeat};
    gpu_clear(&pair.queue, at, bytes);
    assert_status(STATUS_OK, gpu_weights_load(weights, &loading, &tiny.gguf, &error));
    return device_read(at, bytes);
}

/* Through buffers that hold a panel, or some, or all. */
static void test_panels_are_the_same_in_strips_of_any_size(void **state)
{
    (void)state;
    static const enum gguf_type types[] = {GGUF_Q8_0, GGUF_Q4_0, GGUF_Q4_K, GGUF_Q6_K};
    static struct gpu_weights weights;
    static uint8_t all[2 * TINY_FILE_BYTES];
    for (uint32_t i = 0; i < 3 * sizeof types / sizeof types[0]; i++) {
        tiny_make(&tiny, types[i / 3], i % 2 == 1, 7);
        pair_start(false, OWN);
        uint64_t bytes = gpu_weights_bytes(&tiny.gguf);
        assert_true(bytes <= sizeof all);
        memcpy(all, load_again(&weights, GPU_STAGING_BYTES), bytes);
        assert_memory_equal(load_again(&weights, (20u + 17 * (i % 3)) << 10), all, bytes);
        assert_memory_equal(&weights.layers, &pair.gpu->weights.layers, sizeof weights.layers);
        pair_stop();
    }
}

static void test_a_product_that_the_library_refuses_fails_the_step(void **state)
{
    (void)state;
    skip_on_a_chip("it refuses nothing");
    tiny_make(&tiny, GGUF_F32, false, 7);
    pair_start(false, LIBRARY);
    rig_clear(&pair.cpu);
    add_row(0, 5, 0, 1, 0);
    set_faults("launch:3");                 /* after embed and rms_norm */
    assert_status(STATUS_DEVICE_LAUNCH, gpu_engine_run(pair.gpu, &pair.cpu.step));
    assert_string_equal(pair.queue.failed, "cublasGemmEx");
    pair_stop();
}

/* Blocks 0 .. 2 go to the host, other calls take their places, they come back elsewhere. */
static void check_moves_lose_nothing(void)
{
    uint32_t device_blocks = pair.cpu.settings.kv_blocks;
    rig_clear(&pair.cpu);
    ask(0, PROMPT_TOKENS, 0);
    run_gpu();
    const struct step_out alone = *step_out(&pair.cpu.step, 0);
    rig_clear(&pair.cpu);
    add_row(0, PROMPT_TOKENS - 1, 0, 0, 0);
    run_gpu();
    rig_clear(&pair.cpu);                   /* out, and within: block 2 by way of block 90 */
    add_move(0, device_blocks + 5);
    add_move(1, device_blocks + 6);
    add_move(2, 90);
    add_row(4, 9, 0, 4, 0);
    run_gpu();
    rig_clear(&pair.cpu);
    add_move(90, 50);
    add_move(device_blocks + 6, 49);
    add_move(device_blocks + 5, 48);
    ask(PROMPT_TOKENS - 1, 1, 48);
    run_gpu();
    assert_int_equal(step_out(&pair.cpu.step, 0)->digest, alone.digest);
}

/* With each stream ahead of the others. */
static void test_moves_lose_nothing(void **state)
{
    (void)state;
    tiny_make(&tiny, GGUF_F32, true, 7);
    for (uint32_t first = 0; first <= 3; first++) {
        set_first(first);
        pair_start(false, first % 2 == 0 ? OWN : LIBRARY);
        check_moves_lose_nothing();
        pair_stop();
    }
    unsetenv("SOFTGPU_FIRST");
}

static void test_standbys_stops_and_early_stop_as_on_the_cpu(void **state)
{
    (void)state;
    tiny_make(&tiny, GGUF_F32, false, 7);
    pair_start(false, OWN);
    for (uint32_t early_stop = STEP_STOP_LAST; early_stop <= STEP_STOP_ROUND; early_stop++) {
        rig_clear(&pair.cpu);
        add_row(0, 5, 0, 2, 0);
        add_row(5, 3, 0, DECODED, 16);
        add_row(9, 1, 0, 5, 32)->sampling.temperature = 0.8f;
        add_row(2, 1, 0, 3, 48);
        add_row(3, 1, 0, 6, 64);
        step_header(&pair.cpu.step)->rows_active = 3;
        step_stop_early(&pair.cpu.step, early_stop);
        run_both();
    }
    rig_clear(&pair.cpu);                   /* what comes second ends it */
    add_row(0, PROMPT_TOKENS, 0, DECODED, 0);
    run_both();
    uint32_t second = step_out_tokens(&pair.cpu.step, 0)[1];
    rig_clear(&pair.cpu);
    struct step_row *row = add_row(0, PROMPT_TOKENS, 0, DECODED, 0);
    row->sampling.stop_ids_count = 1;
    row->sampling.stop_ids[0] = second;
    run_both();
    assert_true(step_out(&pair.cpu.step, 0)->produced <= 2);
    pair_stop();
}

/* The first round ends the step. What is queued until the host knows that is one round. */
static void test_a_step_that_ends_early_queues_no_more_rounds(void **state)
{
    (void)state;
    skip_on_a_chip("launches are counted by the soft GPU");
    tiny_make(&tiny, GGUF_F32, false, 7);
    pair_start(false, OWN);
    rig_clear(&pair.cpu);
    add_row(0, PROMPT_TOKENS, 0, DECODED, 0);
    uint64_t all = launches_of_step();
    uint32_t first = step_out_tokens(&pair.cpu.step, 0)[0];
    for (uint32_t asked = 0; asked < 2; asked++) {
        rig_clear(&pair.cpu);
        struct step_row *row = add_row(0, PROMPT_TOKENS, 0, DECODED, 0);
        if (asked == 0) {
            row->sampling.stop_ids_count = 1;
            row->sampling.stop_ids[0] = first;
        } else {
            step_stop_early(&pair.cpu.step, STEP_STOP_ROUND);
        }
        assert_true(launches_of_step() * DECODED <= 2 * all);
        assert_int_equal(step_out(&pair.cpu.step, 0)->produced, 1);
        assert_int_equal(*step_rounds(&pair.cpu.step), 1);
    }
    pair_stop();
}

/* A greedy round makes no weights, and only a ranked draw gathers candidates. */
static void test_a_round_has_the_passes_of_sampling_that_its_rows_need(void **state)
{
    (void)state;
    static const struct call_sampling samplings[] = {
        {.top_p = 1, .repeat_penalty = 1}, {.temperature = 1, .top_p = 1, .repeat_penalty = 1},
        {.temperature = 1, .top_p = 0.9f, .repeat_penalty = 1}};
    uint64_t launches[3];
    skip_on_a_chip("launches are counted by the soft GPU");
    tiny_make(&tiny, GGUF_F32, false, 7);
    pair_start(false, OWN);
    for (uint32_t i = 0; i < 3; i++) {
        rig_clear(&pair.cpu);
        add_row(0, PROMPT_TOKENS, 0, DECODED, 0)->sampling = samplings[i];
        launches[i] = launches_of_step();
    }
    assert_int_equal(launches[1], launches[0] + DECODED);
    assert_int_equal(launches[2], launches[1] + DECODED);
    pair_stop();
}

/* A heartbeat for each tensor at least, and for each round. */
static void test_heartbeat_counts_tensors_and_rounds(void **state)
{
    (void)state;
    tiny_make(&tiny, GGUF_F32, false, 7);
    pair_start(false, OWN);
    assert_true(pair.heartbeat >= 9 * tiny.gguf.shape.layers);
    pair.heartbeat = 0;
    rig_clear(&pair.cpu);
    add_row(0, 5, 0, 4, 0);
    run_gpu();
    assert_int_equal(pair.heartbeat, 4);
    pair_stop();
}

/* The record that comes back counts more tokens than a row can have. */
static void test_a_device_that_counts_wrongly_has_failed(void **state)
{
    (void)state;
    tiny_make(&tiny, GGUF_F32, false, 7);
    pair_start(false, OWN);
    rig_clear(&pair.cpu);
    add_row(0, 5, 0, 1, 0);
    run_gpu();
    struct gpu_out *outs = (void *)(pair.gpu->host + pair.gpu->record.outs);
    outs[0].produced = DECODED;
    assert_status(STATUS_OK, gpu_record_take(pair.gpu));
    outs[0].produced = DECODED + 1;
    assert_status(STATUS_DEVICE_FAILED, gpu_record_take(pair.gpu));
    pair_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_run_like_the_cpu_in_every_family, clean_up),
        cmocka_unit_test_teardown(test_run_same_call_same_bits, clean_up),
        cmocka_unit_test_teardown(test_logits_are_near_the_cpus, clean_up),
        cmocka_unit_test_teardown(test_matrices_that_lie_together_are_one_product, clean_up),
        cmocka_unit_test_teardown(test_models_of_mixed_levels_are_near_the_cpus, clean_up),
        cmocka_unit_test_teardown(test_panels_are_the_same_in_strips_of_any_size, clean_up),
        cmocka_unit_test_teardown(test_a_product_that_the_library_refuses_fails_the_step, clean_up),
        cmocka_unit_test_teardown(test_moves_lose_nothing, clean_up),
        cmocka_unit_test_teardown(test_standbys_stops_and_early_stop_as_on_the_cpu, clean_up),
        cmocka_unit_test_teardown(test_a_step_that_ends_early_queues_no_more_rounds, clean_up),
        cmocka_unit_test_teardown(
            test_a_round_has_the_passes_of_sampling_that_its_rows_need, clean_up),
        cmocka_unit_test_teardown(test_heartbeat_counts_tensors_and_rounds, clean_up),
        cmocka_unit_test_teardown(test_a_device_that_counts_wrongly_has_failed, clean_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
