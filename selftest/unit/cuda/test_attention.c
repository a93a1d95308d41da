/* SPDX-License-Identifier: MIT
 *
 * Goal: decode and prefill give each token slot the bits that attention.h defines, whatever attends
 * beside it, and no number that a slot does not see gets into them.
 * Method: KV blocks anywhere, NaN for every unseen number, lengths around the edges of chunks and
 * splits, groups of all kinds; against a plain twin slot by slot, which is itself compared with
 * attention in double precision.
 */
#include "selftest/unit/cuda/kv_rig.h"

#include "kernels/exp.h"

enum { TOKENS_MAX = 1200, FEEDS_MAX = 48, DIM_MAX = 128 };

struct scene {
    struct gpu_attention a;
    struct gpu_slot slots[FEEDS_MAX];
    float *q, *out;
    float expected[DIM_MAX];
};

static struct scene scene;

/* ---- twins ---- */

struct gathered {
    float largest, sum, out[DIM_MAX];
};

static float key_score(uint32_t slot, uint32_t head, uint32_t t)
{
    const struct gpu_attention *a = &scene.a;
    const struct gpu_kv *kv = &a->kv;
    const uint8_t *key = kv_at(kv, scene.slots[slot].row, t, 0, head / (a->heads / kv->kv_heads));
    float score = 0;
    for (uint32_t c = 0; c < kv->head_dim; c++) {
        score = fmaf(scene.q[slot * a->q_stride + head * kv->head_dim + c],
                     gpu_load(key, kv->type, c), score);
    }
    return score;
}

/* Tokens first .. first + count - 1 of a chunk. */
static void twin_chunk(struct gathered *g, uint32_t slot, uint32_t head, uint32_t first,
                       uint32_t count)
{
    const struct gpu_attention *a = &scene.a;
    float scores[32], weights[32] = {0}, before = g->largest;
    for (uint32_t t = 0; t < count; t++) {
        scores[t] = key_score(slot, head, first + t);
        g->largest = fmaxf(g->largest, scores[t]);
    }
    float shrink = kernels_exp((before - g->largest) * a->scale);
    for (uint32_t t = 0; t < count; t++) {
        weights[t] = kernels_exp((scores[t] - g->largest) * a->scale);
    }
    g->sum = fmaf(g->sum, shrink, rig_warp_sum(weights));
    for (uint32_t c = 0; c < a->kv.head_dim; c++) {
        g->out[c] *= shrink;
        for (uint32_t t = 0; t < count; t++) {
            const uint8_t *value = kv_at(&a->kv, scene.slots[slot].row, first + t, 1,
                                         head / (a->heads / a->kv.kv_heads));
            g->out[c] = fmaf(weights[t], gpu_load(value, a->kv.type, c), g->out[c]);
        }
    }
}

static void twin_merge(struct gathered *all, const struct gathered *split)
{
    float largest = fmaxf(all->largest, split->largest);
    float before = kernels_exp((all->largest - largest) * scene.a.scale);
    float now = kernels_exp((split->largest - largest) * scene.a.scale);
    all->largest = largest;
    all->sum = fmaf(all->sum, before, now * split->sum);
    for (uint32_t c = 0; c < scene.a.kv.head_dim; c++) {
        all->out[c] = fmaf(all->out[c], before, now * split->out[c]);
    }
}

static void twin(uint32_t slot, uint32_t head)
{
    uint32_t tokens = scene.slots[slot].position + 1;
    struct gathered all = {.largest = -INFINITY};
    for (uint32_t first = 0; first < tokens; first += GPU_SPLIT_TOKENS) {
        uint32_t end = gpu_smaller(tokens, first + GPU_SPLIT_TOKENS);
        struct gathered split = {.largest = -INFINITY};
        for (uint32_t t = first; t < end; t += GPU_CHUNK_TOKENS) {
            twin_chunk(&split, slot, head, t, gpu_smaller(end - t, GPU_CHUNK_TOKENS));
        }
        twin_merge(&all, &split);
    }
    for (uint32_t c = 0; c < scene.a.kv.head_dim; c++) {
        scene.expected[c] = all.out[c] * (1.0f / all.sum);
    }
}

/* Attention by its formula, without a defined order. */
static double plain_channel(uint32_t slot, uint32_t head, uint32_t c)
{
    const struct gpu_kv *kv = &scene.a.kv;
    double sum = 0, out = 0;
    for (uint32_t t = 0; t <= scene.slots[slot].position; t++) {
        double weight = exp((double)key_score(slot, head, t) * scene.a.scale);
        sum += weight;
        const uint8_t *value = kv_at(kv, scene.slots[slot].row, t, 1,
                                     head / (scene.a.heads / kv->kv_heads));
        out += weight * gpu_load(value, kv->type, c);
    }
    return out / sum;
}

/* ---- the kernels ---- */

static void scene_make(uint32_t type, uint32_t kv_heads, uint32_t group, uint32_t head_dim)
{
    uint32_t heads = kv_heads * group, width = heads * head_dim;
    uint64_t stride = width + 3;
    scene.q = rig_floats((FEEDS_MAX - 1) * stride + width);
    scene.out = rig_take(((FEEDS_MAX - 1) * stride + width) * sizeof *scene.out);
    scene.a = (struct gpu_attention){
        .kv = kv_make(type, kv_heads, head_dim, 8, TOKENS_MAX),
        .q = rig_address(scene.q),
        .out = rig_address(scene.out),
        .q_stride = stride,
        .out_stride = stride,
        .heads = heads,
        .out_type = GPU_F32,
        .scale = 1.0f / sqrtf((float)head_dim),
    };
}

static void slots_place(uint32_t count)
{
    scene.a.slots = rig_address(rig_copy(scene.slots, count * sizeof *scene.slots));
    scene.a.slots_count = count;
}

static void run_decode(uint32_t splits)
{
    uint64_t floats = (uint64_t)scene.a.slots_count * scene.a.heads * splits *
                      (scene.a.kv.head_dim + 2);
    uint64_t partials = rig_address(rig_take(floats * sizeof(float)));
    struct gpu_attend_split split = {scene.a, partials, splits, splits};
    struct gpu_attend_merge merge = {scene.a, partials, splits};
    RIG_LAUNCH(attend_split, &split);
    RIG_LAUNCH(attend_merge, &merge);
}

static void run_prefill(const struct gpu_tile *tiles, uint32_t count)
{
    struct gpu_attend_tile args = {scene.a, rig_address(rig_copy(tiles, count * sizeof *tiles)),
                                   count};
    RIG_LAUNCH(attend_tile, &args);
}

static void check_slot(uint32_t slot)
{
    uint32_t dim = scene.a.kv.head_dim;
    for (uint32_t head = 0; head < scene.a.heads; head++) {
        twin(slot, head);
        assert_memory_equal(scene.out + slot * scene.a.out_stride + head * dim, scene.expected,
                            dim * sizeof(float));
    }
}

static void check_decode(uint32_t type, uint32_t kv_heads, uint32_t group, uint32_t head_dim,
                         const uint32_t lengths[KV_ROWS])
{
    scene_make(type, kv_heads, group, head_dim);
    for (uint32_t row = 0; row < KV_ROWS; row++) {
        kv_fill(&scene.a.kv, row, lengths[row]);
        scene.slots[row] = (struct gpu_slot){0, lengths[row] - 1, row};
    }
    slots_place(KV_ROWS);
    run_decode(3);
    for (uint32_t row = 0; row < KV_ROWS; row++) {
        check_slot(row);
    }
}

static void test_decode_lengths_and_groups_equal_twin(void **state)
{
    (void)state;
    const uint32_t edges[KV_ROWS] = {1, 511, 512, 513}, chunks[KV_ROWS] = {31, 32, 33, 1111};
    check_decode(GPU_F32, 2, 1, 8, edges);
    check_decode(GPU_F32, 1, 4, 40, chunks);
    check_decode(GPU_F16, 1, 7, 64, (const uint32_t[]){1, 40, 64, 97});
    check_decode(GPU_BF16, 2, 16, 16, (const uint32_t[]){9, 40, 65, 130});
    check_decode(GPU_F32, 2, 20, 5, (const uint32_t[]){3, 32, 64, 70});      /* two sets */
    check_decode(GPU_BF16, 1, 2, 128, (const uint32_t[]){3, 32, 64, 70});
}

/* The sum has the value of an attention, not only the bits of its twin. */
static void test_decode_is_attention(void **state)
{
    (void)state;
    const uint32_t lengths[KV_ROWS] = {1, 100, 600, 1100};
    check_decode(GPU_F32, 1, 2, 16, lengths);
    for (uint32_t i = 0; i < KV_ROWS * 32; i++) {
        float out = scene.out[i / 32 * scene.a.out_stride + i % 32];
        double expected = plain_channel(i / 32, i % 32 / 16, i % 16);
        assert_true(fabs(out - expected) < 2e-6);
    }
}

static void test_decode_slots_without_row_get_zeros(void **state)
{
    (void)state;
    scene_make(GPU_F32, 1, 2, 8);
    kv_fill(&scene.a.kv, 0, 20);
    scene.slots[0] = (struct gpu_slot){0, 0, GPU_NONE};
    scene.slots[1] = (struct gpu_slot){0, 19, 0};
    slots_place(2);
    run_decode(1);
    check_slot(1);
    for (uint32_t c = 0; c < 16; c++) {
        assert_float_equal(scene.out[c], 0, 0);
    }
}

/* One number that is not finite makes the heads that see it NaN, and no other row. */
static void test_decode_not_finite_shows(void **state)
{
    (void)state;
    const uint32_t lengths[KV_ROWS] = {40, 600, 70, 33};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (uint32_t i = 0; i < 6; i++) {
        check_decode(GPU_F32, 1, 2, 8, lengths);
        memcpy(kv_at(&scene.a.kv, 1, 37, i % 2, 0), &bad[i / 2], sizeof *bad);
        float before = scene.out[2 * scene.a.out_stride];
        run_decode(2);
        bool shows = false;
        for (uint32_t c = 0; c < 8; c++) {
            shows |= !isfinite(scene.out[scene.a.out_stride + c]);
        }
        /* A key of -infinity or +infinity times a query may be a score of -infinity: no weight. */
        assert_true(shows || (i % 2 == 0 && i > 0));
        assert_float_equal(scene.out[2 * scene.a.out_stride], before, 0);
    }
}

/* ---- prefill ---- */

/* A chunk of a prompt, from `first` to `end`, in tiles as an engine would cut them. */
static void check_prefill(uint32_t type, uint32_t group, uint32_t head_dim, uint32_t first,
                          uint32_t end)
{
    struct gpu_tile tiles[FEEDS_MAX];
    uint32_t count = 0, tile_slots = gpu_tile_slots(group, 1), slots = end - first;
    scene_make(type, 1, group, head_dim);
    kv_fill(&scene.a.kv, 2, end);
    for (uint32_t i = 0; i < slots; i++) {
        scene.slots[i] = (struct gpu_slot){0, first + i, 2};
    }
    for (uint32_t i = 0; i < slots; i += tile_slots) {
        tiles[count++] = (struct gpu_tile){i, gpu_smaller(tile_slots, slots - i)};
    }
    slots_place(slots);
    run_prefill(tiles, count);
    for (uint32_t slot = 0; slot < slots; slot++) {
        check_slot(slot);
    }
}

static void test_prefill_chunks_equal_twin(void **state)
{
    (void)state;
    check_prefill(GPU_F32, 1, 8, 0, 40);
    check_prefill(GPU_F32, 4, 16, 500, 530);
    check_prefill(GPU_F16, 7, 32, 20, 45);
    check_prefill(GPU_BF16, 16, 8, 1020, 1030);
    check_prefill(GPU_F32, 20, 8, 27, 36);
}

/* Tiles of any size, in any order: the same bits; so are those of decode. */
static void test_prefill_tiles_do_not_show(void **state)
{
    (void)state;
    check_prefill(GPU_F16, 2, 24, 505, 521);
    uint64_t numbers = 15 * scene.a.out_stride + scene.a.heads * scene.a.kv.head_dim;
    float *before = rig_copy(scene.out, numbers * sizeof *before);
    const struct gpu_tile tiles[] = {{9, 7}, {0, 1}, {1, 5}, {6, 3}};
    memset(scene.out, 0xff, numbers * sizeof *before);
    run_prefill(tiles, 4);
    assert_memory_equal(scene.out, before, numbers * sizeof *before);
    memset(scene.out, 0xff, numbers * sizeof *before);
    run_decode(2);
    assert_memory_equal(scene.out, before, numbers * sizeof *before);
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_decode_lengths_and_groups_equal_twin),
    RIG_TEST(test_decode_is_attention),
    RIG_TEST(test_decode_slots_without_row_get_zeros),
    RIG_TEST(test_decode_not_finite_shows),
    RIG_TEST(test_prefill_chunks_equal_twin),
    RIG_TEST(test_prefill_tiles_do_not_show),
};

rig_main(tests)
