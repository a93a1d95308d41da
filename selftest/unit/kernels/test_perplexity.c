/* SPDX-License-Identifier: MIT
 *
 * Goal: KV in 16 and in 8 bits raises the perplexity of trained models by less than it may.
 * Method: the engine with KV in floats draws texts at temperature 1; another engine is fed the same
 * tokens, one a step. Perplexities are those over all ids at each place, with the probabilities of
 * the first engine, as tools/bench/kv_types.py has them: the exponent of the mean divergence is the
 * ratio. It is the same number on every CPU.
 */
#define TEST_ARENA_BYTES (64u << 20)
#include "selftest/unit/kernels/trained.h"

enum { WINDOWS = 16, TOGETHER = 8, WINDOW_TOKENS = 256, BLOCK_TOKENS = 8, PLAIN_FIRST = 3 };

static void start(struct rig *rig, const struct kernels_weights *weights,
                  enum kernels_kv_type kv_type, struct arena *arena)
{
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 1);
    settings.kv_type = kv_type;
    settings.context_tokens = WINDOW_TOKENS;
    settings.blocks_per_call = WINDOW_TOKENS / BLOCK_TOKENS;
    settings.kv_blocks = TOGETHER * settings.blocks_per_call;
    settings.kv_host_blocks = 0;
    rig_start(rig, &settings, weights, arena);
}

/* One token for each window; each draws the next. */
static void feed(struct rig *rig, const uint32_t *tokens, uint32_t position, uint32_t first_window)
{
    rig_clear(rig);
    for (uint32_t w = 0; w < TOGETHER; w++) {
        struct step_row *row = rig_row(rig, &tokens[w], 1, position, 1);
        row->sampling.temperature = 1;
        row->sampling.seed = first_window + w;
        rig_blocks(rig, w, w * rig->settings.blocks_per_call, 1);
    }
    kernels_run(rig->kernels, &rig->step);
}

/* The sum of exp(logits - largest), and the largest. */
static double partition(const float *logits, uint32_t count, double *largest)
{
    double sum = 0;
    *largest = logits[0];
    for (uint32_t i = 1; i < count; i++) {
        *largest = logits[i] > *largest ? logits[i] : *largest;
    }
    for (uint32_t i = 0; i < count; i++) {
        sum += exp(logits[i] - *largest);
    }
    return sum;
}

/* By how much the second engine's log-probability of an id is less, on average by the first's. */
static double divergence(const float *logits, const float *others, uint32_t count)
{
    double largest, others_largest, sum = 0;
    double all = partition(logits, count, &largest);
    double others_all = partition(others, count, &others_largest);
    for (uint32_t i = 0; i < count; i++) {
        double logprob = logits[i] - largest - log(all);
        sum += exp(logprob) * (logprob - (others[i] - others_largest - log(others_all)));
    }
    return sum;
}

/* Of TOGETHER windows, over all places. */
static double windows_divergence(struct rig *floats, struct rig *rounded, uint32_t first_window)
{
    uint32_t tokens[TOGETHER], vocab = trained_gguf.shape.vocab_tokens;
    double sum = 0;
    for (uint32_t w = 0; w < TOGETHER; w++) {
        tokens[w] = trained_gguf.vocab.bos_id;
    }
    for (uint32_t position = 0; position + 1 < WINDOW_TOKENS; position++) {
        feed(floats, tokens, position, first_window);
        feed(rounded, tokens, position, first_window);
        for (uint32_t w = 0; w < TOGETHER; w++) {
            sum += divergence(kernels_logits(floats->kernels, w),
                              kernels_logits(rounded->kernels, w), vocab);
            tokens[w] = position == 0 ? PLAIN_FIRST + first_window + w
                                      : step_out_tokens(&floats->step, w)[0];
        }
    }
    return sum;
}

/* The type raises perplexity by `least` to `most`: what loses less is not the type. */
static void check_loss(const char *path, enum kernels_kv_type kv_type, double least, double most)
{
    struct arena *arena = test_arena();
    struct kernels_weights *weights = trained_load(path, NULL, arena);
    struct rig floats, rounded;
    double sum = 0;
    start(&floats, weights, KERNELS_KV_F32, arena);
    start(&rounded, weights, kv_type, arena);
    for (uint32_t w = 0; w < WINDOWS; w += TOGETHER) {
        sum += windows_divergence(&floats, &rounded, w);
    }
    double raised = exp(sum / (WINDOWS * (WINDOW_TOKENS - 1))) - 1;
    print_message("%s, KV type %u: %+.4f %%\n", path, (unsigned)kv_type, 100 * raised);
    assert_true(raised >= least && raised <= most);
    kernels_stop(floats.kernels);
    kernels_stop(rounded.kernels);
}

static void test_perplexity_of_the_embedded_model(void **state)
{
    (void)state;
    check_loss(TRAINED_EMBEDDED, KERNELS_KV_F32, 0, 0);
    check_loss(TRAINED_EMBEDDED, KERNELS_KV_F16, 1e-7, 1e-4);
    check_loss(TRAINED_EMBEDDED, KERNELS_KV_Q8, 1e-5, 1e-3);
}

static void test_perplexity_of_a_model_of_others(void **state)
{
    (void)state;
    trained_need(TRAINED_STORIES);
    check_loss(TRAINED_STORIES, KERNELS_KV_F16, 1e-7, 1e-4);
    check_loss(TRAINED_STORIES, KERNELS_KV_Q8, 1e-5, 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_perplexity_of_the_embedded_model),
        cmocka_unit_test(test_perplexity_of_a_model_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
