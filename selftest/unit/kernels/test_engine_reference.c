/* SPDX-License-Identifier: MIT */
/*
 * Goal: logits are those of a naive forward pass in double, for every family and type of weights.
 * Method: a small random model with odd sizes. The largest difference of a logit must stay below
 * 2e-4, with KV in halves below 5e-3, in levels below 3e-2 (logits are about 1).
 */
#include "selftest/unit/kernels/engine_rig.h"

/* ---- the naive forward pass in double ---- */

#define REF_TOKENS 20
#define REF_WIDTH  256

static double ref_weight(const struct gguf_tensor *tensor, uint64_t row, uint64_t column)
{
    return tiny_weight(tiny.bytes + tensor->offset, (enum gguf_type)tensor->type,
                       row * tensor->dims[0] + column);
}

/* NULL if this model has none. */
static const struct gguf_tensor *ref_tensor(int layer, const char *name)
{
    char full[GGUF_NAME_BYTES];
    const char *suffix = strchr(name, '.') != NULL ? "" : ".weight";
    if (layer >= 0) {
        snprintf(full, sizeof full, "blk.%d.%s%s", layer, name, suffix);
    } else {
        snprintf(full, sizeof full, "%s%s", name, suffix);
    }
    return gguf_tensor_find(&tiny.gguf, full);
}

static void ref_product(double *y, int layer, const char *name, const double *x)
{
    const struct gguf_tensor *tensor = ref_tensor(layer, name);
    for (uint64_t o = 0; o < tensor->dims[1]; o++) {
        y[o] = 0;
        for (uint64_t i = 0; i < tensor->dims[0]; i++) {
            bool rounds = tensor->type == GGUF_BF16;
            float bfloat = kernels_float_of_bfloat(kernels_bfloat_of((float)x[i]));
            y[o] += (rounds ? bfloat : x[i]) * ref_weight(tensor, o, i);
        }
    }
}

static void ref_bias(double *y, int layer, const char *name)
{
    const struct gguf_tensor *tensor = ref_tensor(layer, name);
    for (uint64_t i = 0; tensor != NULL && i < tensor->dims[0]; i++) {
        y[i] += ref_weight(tensor, 0, i);
    }
}

static void ref_norm(double *y, int layer, const char *name, const double *x)
{
    const struct gguf_tensor *tensor = ref_tensor(layer, name);
    uint64_t dim = tensor->dims[0];
    double sum = 0;
    for (uint64_t i = 0; i < dim; i++) {
        sum += x[i] * x[i];
    }
    for (uint64_t i = 0; i < dim; i++) {
        y[i] = x[i] / sqrt(sum / (double)dim + tiny.gguf.shape.norm_epsilon) *
               ref_weight(tensor, 0, i);
    }
}

static void ref_head_norms(double *v, int layer, const char *name, uint32_t heads)
{
    const struct model_shape *s = &tiny.gguf.shape;
    for (uint32_t h = 0; ref_tensor(layer, name) != NULL && h < heads; h++) {
        ref_norm(v + h * s->head_dim, layer, name, v + h * s->head_dim);
    }
}

static void ref_rope(double *v, uint32_t heads, uint32_t position)
{
    const struct model_shape *s = &tiny.gguf.shape;
    const struct gguf_tensor *factors = ref_tensor(-1, "rope_freqs");
    bool adjacent = s->family->rope_pairs == ROPE_ADJACENT;
    for (uint32_t h = 0; h < heads; h++) {
        double *head = v + h * s->head_dim;
        for (uint32_t i = 0; i < s->rope_dim / 2; i++) {
            double *x = adjacent ? &head[2 * i] : &head[i];
            double *y = adjacent ? &head[2 * i + 1] : &head[i + s->rope_dim / 2];
            double angle = position / s->rope_scale * pow(s->rope_base, -2.0 * i / s->rope_dim);
            angle /= factors ? ref_weight(factors, 0, i) : 1;
            double a = *x, b = *y;
            *x = a * cos(angle) - b * sin(angle);
            *y = a * sin(angle) + b * cos(angle);
        }
    }
}

static double ref_keys[2][REF_TOKENS][REF_WIDTH], ref_values[2][REF_TOKENS][REF_WIDTH];

static void ref_attend(double *out, const double *q, uint32_t layer, uint32_t position)
{
    const struct model_shape *s = &tiny.gguf.shape;
    for (uint32_t h = 0; h < s->heads; h++) {
        uint32_t kv = h / (s->heads / s->kv_heads) * s->head_dim;
        double weights[REF_TOKENS], total = 0;
        for (uint32_t t = 0; t <= position; t++) {
            double score = 0;
            for (uint32_t d = 0; d < s->head_dim; d++) {
                score += q[h * s->head_dim + d] * ref_keys[layer][t][kv + d];
            }
            weights[t] = exp(score / sqrt(s->head_dim));
            total += weights[t];
        }
        for (uint32_t d = 0; d < s->head_dim; d++) {
            double *sum = &out[h * s->head_dim + d];
            *sum = 0;
            for (uint32_t t = 0; t <= position; t++) {
                *sum += weights[t] / total * ref_values[layer][t][kv + d];
            }
        }
    }
}

static void ref_qkv(double *q, double *k, double *v, int layer, const double *n)
{
    const struct model_shape *s = &tiny.gguf.shape;
    ref_product(q, layer, "attn_q", n);
    ref_product(k, layer, "attn_k", n);
    ref_product(v, layer, "attn_v", n);
    ref_bias(q, layer, "attn_q.bias");
    ref_bias(k, layer, "attn_k.bias");
    ref_bias(v, layer, "attn_v.bias");
    ref_head_norms(q, layer, "attn_q_norm", s->heads);
    ref_head_norms(k, layer, "attn_k_norm", s->kv_heads);
}

static void ref_forward(double *logits, uint32_t token, uint32_t position)
{
    const struct model_shape *s = &tiny.gguf.shape;
    double x[REF_WIDTH], n[REF_WIDTH], q[REF_WIDTH], a[REF_WIDTH], y[REF_WIDTH], g[REF_WIDTH];
    for (uint32_t i = 0; i < s->dim; i++) {
        x[i] = ref_weight(ref_tensor(-1, "token_embd"), token, i);
    }
    for (uint32_t l = 0; l < s->layers; l++) {
        ref_norm(n, (int)l, "attn_norm", x);
        ref_qkv(q, ref_keys[l][position], ref_values[l][position], (int)l, n);
        ref_rope(q, s->heads, position);
        ref_rope(ref_keys[l][position], s->kv_heads, position);
        ref_attend(a, q, l, position);
        ref_product(y, (int)l, "attn_output", a);
        for (uint32_t i = 0; i < s->dim; i++) {
            x[i] += y[i];
        }
        ref_norm(n, (int)l, "ffn_norm", x);
        ref_product(g, (int)l, "ffn_gate", n);
        ref_product(y, (int)l, "ffn_up", n);
        for (uint32_t i = 0; i < s->ffn_dim; i++) {
            g[i] = g[i] / (1 + exp(-g[i])) * y[i];
        }
        ref_product(y, (int)l, "ffn_down", g);
        for (uint32_t i = 0; i < s->dim; i++) {
            x[i] += y[i];
        }
    }
    ref_norm(n, -1, "output_norm", x);
    ref_product(logits, -1, s->tied_output ? "token_embd" : "output", n);
}

/* Returns the largest difference. */
static double assert_logits_near(const struct rig *rig, const double *expected, double bound)
{
    double largest = 0;
    for (uint32_t i = 0; i < tiny.gguf.shape.vocab_tokens; i++) {
        double difference = fabs(expected[i] - (double)kernels_logits(rig->kernels, 0)[i]);
        assert_true(difference < bound);
        largest = largest > difference ? largest : difference;
    }
    return largest;
}

static void check_logits(double tolerance)
{
    double expected[REF_WIDTH];
    for (uint32_t t = 0; t < PROMPT_TOKENS; t++) {
        ref_forward(expected, prompt[t], t);
    }
    struct arena *arena = test_arena();
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 1);
    struct rig rig;
    rig_start(&rig, &settings, tiny_weights(&tiny, arena), arena);
    rig_row(&rig, prompt, PROMPT_TOKENS, 0, 1);
    rig_blocks(&rig, 0, 0, 1);
    kernels_run(rig.kernels, &rig.step);
    assert_logits_near(&rig, expected, tolerance);
    kernels_stop(rig.kernels);
}

static void test_run_logits_match_naive_double(void **state)
{
    (void)state;
    const struct {
        enum gguf_type type;
        bool tied;
        double tolerance;   /* activations of eight bits are off by half a hundredth; of bfloats
                             * one in some hundred is rounded the other way, by a 256th */
        float rope_scale;
    } cases[] = {{GGUF_F32, false, 2e-4, 1}, {GGUF_F32, true, 2e-4, 1}, {GGUF_F16, false, 2e-4, 1},
                 {GGUF_BF16, false, 1e-2, 1}, {GGUF_Q8_0, false, 0.1, 1},
                 {GGUF_Q4_0, false, 0.1, 1}, {GGUF_Q4_K, false, 0.1, 1},
                 {GGUF_Q6_K, false, 0.1, 1}, {GGUF_F32, true, 2e-4, 4}};
    for (uint32_t family = 0; family < model_families_count; family++) {
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            struct model_shape shape = tiny_shape(cases[c].type, cases[c].tied);
            shape.family = &model_families[family];
            shape.rope_scale = cases[c].rope_scale;
            tiny_make_shape(&tiny, &shape, cases[c].type, 11 + c);
            if (family == 0 || cases[c].tolerance < 1e-2) {     /* no family sees the type */
                check_logits(cases[c].tolerance);
            }
        }
    }
}

/* Halves round by 2^-11 at most, levels of values by a 254th of a head's largest number, of keys by
 * a 1020th of its range; what rounds less would pass the first bound, and not the second. */
static void check_kv_type(enum kernels_kv_type kv_type, double most, double least)
{
    tiny_make(&tiny, GGUF_F32, false, 11);
    double expected[REF_WIDTH];
    for (uint32_t t = 0; t < PROMPT_TOKENS; t++) {
        ref_forward(expected, prompt[t], t);
    }
    struct arena *arena = test_arena();
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 1);
    settings.kv_type = kv_type;
    struct rig rig;
    rig_start(&rig, &settings, tiny_weights(&tiny, arena), arena);
    rig_row(&rig, prompt, PROMPT_TOKENS, 0, 1);
    rig_blocks(&rig, 0, 0, 1);
    kernels_run(rig.kernels, &rig.step);
    double largest = assert_logits_near(&rig, expected, most);
    assert_true(largest > least);
    kernels_stop(rig.kernels);
}

static void test_run_rounded_kv_matches_naive_double(void **state)
{
    (void)state;
    check_kv_type(KERNELS_KV_F16, 5e-3, 1e-5);
    check_kv_type(KERNELS_KV_Q8, 3e-2, 2e-4);
}

/* Of keys, then of values, one channel is made so large that no half holds it. The middle of a key
 * in levels is a half, the scale of a value is not. */
static void test_run_what_no_half_holds_fails_its_row(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.attn_k.weight", "blk.1.attn_v.weight"};
    for (uint32_t i = 0; i < 2 * KERNELS_KV_TYPES; i++) {
        struct arena *arena = test_arena();
        struct kernels_settings settings = rig_settings(kernels_simd_best(), 2);
        settings.kv_type = (enum kernels_kv_type)(i / 2);
        tiny_make(&tiny, GGUF_F32, false, 7);
        const struct gguf_tensor *tensor = gguf_tensor_find(&tiny.gguf, names[i % 2]);
        float *weights = (float *)(void *)(tiny.bytes + tensor->offset);
        for (uint64_t c = 0; c < tensor->dims[0]; c++) {
            weights[c] *= 1e6f;             /* of channel 0 of the first head */
        }
        struct rig rig;
        rig_start(&rig, &settings, tiny_weights(&tiny, arena), arena);
        rig_row(&rig, prompt, PROMPT_TOKENS, 0, DECODED);
        rig_blocks(&rig, 0, 0, 1);
        kernels_run(rig.kernels, &rig.step);
        bool fails = settings.kv_type == KERNELS_KV_F16 ||
                     (settings.kv_type == KERNELS_KV_Q8 && i % 2 == 0);
        assert_int_equal(step_out(&rig.step, 0)->result,
                         fails ? STEP_ROW_NOT_FINITE : STEP_ROW_OK);
        kernels_stop(rig.kernels);
    }
}

static void test_logits_of_a_row_are_its_own(void **state)
{
    (void)state;
    struct arena *arena = test_arena();
    struct kernels_settings settings = rig_settings(kernels_simd_best(), 1);
    struct rig rig;
    float alone[75];
    tiny_make(&tiny, GGUF_F32, false, 5);
    rig_start(&rig, &settings, tiny_weights(&tiny, arena), arena);
    rig_row(&rig, prompt, PROMPT_TOKENS, 0, 1);
    rig_blocks(&rig, 0, 0, 1);
    kernels_run(rig.kernels, &rig.step);
    memcpy(alone, kernels_logits(rig.kernels, 0), sizeof alone);
    rig_clear(&rig);
    rig_row(&rig, prompt + 1, 5, 0, 1);
    rig_blocks(&rig, 0, 8, 1);
    rig_row(&rig, prompt, PROMPT_TOKENS, 0, 1);
    rig_blocks(&rig, 1, 0, 1);
    kernels_run(rig.kernels, &rig.step);
    assert_memory_equal(kernels_logits(rig.kernels, 1), alone, sizeof alone);
    assert_memory_not_equal(kernels_logits(rig.kernels, 0), alone, sizeof alone);
    kernels_stop(rig.kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_logits_match_naive_double),
        cmocka_unit_test(test_logits_of_a_row_are_its_own),
        cmocka_unit_test(test_run_rounded_kv_matches_naive_double),
        cmocka_unit_test(test_run_what_no_half_holds_fails_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
