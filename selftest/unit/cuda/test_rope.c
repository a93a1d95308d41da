/* SPDX-License-Identifier: MIT
 *
 * Goal: queries, keys and values of every family are biased, normalized, rotated and stored as
 * forward.h defines, each in the KV block of its position, and nothing else in KV is written.
 * Method: the choices of config/model/family.def and more, against a plain twin; the pool is NaN
 * except for what was stored.
 */
#include "selftest/unit/cuda/kv_rig.h"

#define CONTEXT 40u
#define EPSILON 1e-6f

enum { FEEDS = 5, HEADS = 6, KV_HEADS = 2 };

struct scene {
    struct gpu_rope args;
    struct gpu_slot slots[FEEDS];
    float *table, *before[3], *now[3], *bias[3], *norm[3];
};

static struct scene scene;

static uint32_t width(uint32_t what)
{
    return (what == 0 ? HEADS : KV_HEADS) * scene.args.kv.head_dim;
}

static void scene_make(uint32_t type, uint32_t head_dim, bool has_bias, bool has_norm)
{
    uint64_t addresses[3], biases[3];
    scene.args.kv = kv_make(type, KV_HEADS, head_dim, 8, CONTEXT);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t numbers = FEEDS * (width(i) + 2);
        scene.now[i] = rig_floats(numbers);
        scene.before[i] = rig_copy(scene.now[i], numbers * sizeof(float));
        scene.bias[i] = has_bias ? rig_floats(width(i)) : NULL;
        scene.norm[i] = has_norm && i < 2 ? rig_floats(head_dim) : NULL;
        addresses[i] = rig_address(scene.now[i]);
        biases[i] = rig_address(scene.bias[i]);
    }
    scene.args.q = addresses[0], scene.args.k = addresses[1], scene.args.v = addresses[2];
    scene.args.q_bias = biases[0], scene.args.k_bias = biases[1], scene.args.v_bias = biases[2];
    scene.args.q_norm = rig_address(scene.norm[0]), scene.args.k_norm = rig_address(scene.norm[1]);
    scene.args.q_stride = width(0) + 2;
    scene.args.k_stride = scene.args.v_stride = width(1) + 2;
}

static void scene_run(uint32_t rope_dim, bool halves)
{
    const uint32_t positions[FEEDS] = {0, 7, 8, 39, 21}, rows[FEEDS] = {0, 1, 1, 3, GPU_NONE};
    for (uint32_t i = 0; i < FEEDS; i++) {
        scene.slots[i] = (struct gpu_slot){0, positions[i], rows[i]};
    }
    scene.table = rig_floats(CONTEXT * rope_dim);
    scene.args.slots = rig_address(rig_copy(scene.slots, sizeof scene.slots));
    scene.args.table = rig_address(scene.table);
    scene.args.slots_count = FEEDS;
    scene.args.heads = HEADS;
    scene.args.rope_dim = rope_dim;
    scene.args.pairs_are_halves = halves;
    scene.args.epsilon = EPSILON;
    RIG_LAUNCH(rope, &scene.args);
}

/* The head as it must become: what = 0 queries, 1 keys, 2 values. */
static void twin(float *x, uint32_t what, uint32_t head, uint32_t slot)
{
    uint32_t dim = scene.args.kv.head_dim, rope_dim = scene.args.rope_dim;
    const float *norm = scene.norm[what], *bias = scene.bias[what];
    memcpy(x, scene.before[what] + slot * (width(what) + 2) + head * dim, dim * sizeof *x);
    for (uint32_t c = 0; c < dim && bias != NULL; c++) {
        x[c] += bias[head * dim + c];
    }
    float inverse = 1.0f / sqrtf(rig_squares(x, dim, 64) / (float)dim + EPSILON);
    for (uint32_t c = 0; c < dim && norm != NULL; c++) {
        x[c] = x[c] * inverse * norm[c];
    }
    const float *angles = scene.table + scene.slots[slot].position * rope_dim;
    for (uint32_t i = 0; i < rope_dim / 2 && what < 2; i++) {
        uint32_t first = scene.args.pairs_are_halves ? i : 2 * i;
        uint32_t second = scene.args.pairs_are_halves ? i + rope_dim / 2 : 2 * i + 1;
        float a = x[first], b = x[second];
        x[first] = a * angles[2 * i] - b * angles[2 * i + 1];
        x[second] = a * angles[2 * i + 1] + b * angles[2 * i];
    }
}

static void check_queries(void)
{
    uint32_t dim = scene.args.kv.head_dim;
    for (uint32_t i = 0; i < FEEDS * HEADS; i++) {
        uint64_t at = i / HEADS * scene.args.q_stride + i % HEADS * dim;
        float x[128];
        twin(x, 0, i % HEADS, i / HEADS);
        bool is_fed = scene.slots[i / HEADS].row != GPU_NONE;
        assert_memory_equal(scene.now[0] + at, is_fed ? x : scene.before[0] + at, dim * sizeof *x);
    }
}

/* Checks what the slots have stored, and makes it NaN again. */
static void check_stored(void)
{
    const struct gpu_kv *kv = &scene.args.kv;
    for (uint32_t i = 0; i < (FEEDS - 1) * KV_HEADS * 2; i++) {
        uint32_t slot = i / (KV_HEADS * 2), head = i / 2 % KV_HEADS, which = i % 2;
        float x[128];
        uint8_t expected[128 * 4];
        twin(x, 1 + which, head, slot);
        for (uint32_t c = 0; c < kv->head_dim; c++) {
            gpu_store(expected, kv->type, c, x[c]);
        }
        uint8_t *at = kv_at(kv, scene.slots[slot].row, scene.slots[slot].position, which, head);
        uint32_t bytes = kv->head_dim * number_bytes(kv->type);
        assert_memory_equal(at, expected, bytes);
        memset(at, 0xff, bytes);
    }
}

static void check_rope(uint32_t type, uint32_t head_dim, uint32_t rope_dim, bool halves)
{
    for (uint32_t family = 0; family < 4; family++) {
        scene_make(type, head_dim, family % 2, family / 2);
        scene_run(rope_dim, halves);
        check_queries();
        check_stored();
        uint64_t bytes = (KV_ROWS * CONTEXT / 8 + 3) * scene.args.kv.block_bytes;
        const uint8_t *pool = (const uint8_t *)scene.args.kv.blocks;
        for (uint64_t i = 0; i < bytes; i++) {
            assert_int_equal(pool[i], 0xff);
        }
    }
}

static void test_rope_families_equal_twin(void **state)
{
    (void)state;
    check_rope(GPU_F32, 64, 64, false);
    check_rope(GPU_F16, 64, 64, true);
    check_rope(GPU_BF16, 80, 32, true);     /* the rest of a head is not rotated */
    check_rope(GPU_F32, 128, 96, false);
    check_rope(GPU_F32, 6, 4, true);
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_rope_families_equal_twin),
};

rig_main(tests)
