/* SPDX-License-Identifier: MIT */
/*
 * Goal: a step's moves copy the right blocks, phase by phase and within the device one after the
 * other, in runs or one by one, past the caches or through them, on any number of threads. A call
 * whose KV went to the host and came back into other blocks, or begins with a copy of another
 * call's, gives the same tokens and logits.
 * Method: blocks with different contents, and random lists of moves against a plain copy in three
 * phases; then the tiny model.
 */
#define TEST_ARENA_BYTES (32u << 20)
#include "selftest/unit/test.h"

#include "kernels/round/piece.h"
#include "selftest/unit/kernels/tiny_model.h"

static struct tiny tiny;

static void start_with(struct rig *rig, uint32_t threads, enum kernels_kv_type kv_type)
{
    struct arena *arena = test_arena();
    tiny_make(&tiny, GGUF_F32, false, 7);
    struct kernels_settings settings = rig_settings(kernels_simd_best(), threads);
    settings.kv_type = kv_type;
    rig_start(rig, &settings, tiny_weights(&tiny, arena), arena);
    rig_clear(rig);
}

static void start(struct rig *rig, uint32_t threads)
{
    start_with(rig, threads, KERNELS_KV_F32);
}

static void move(struct rig *rig, uint32_t from, uint32_t to)
{
    struct step_header *header = step_header(&rig->step);
    assert_true(header->moves_count < rig->step.layout.moves_max);
    step_moves(&rig->step)[header->moves_count++] = (struct step_move){.from = from, .to = to};
}

/* Every float of a block encodes the block's content, and its own piece and index there. */
static float content_at(uint32_t content, uint32_t piece, uint64_t at)
{
    return (float)(content * 8191 + piece * 509 + at);
}

static float *piece_at(const struct rig *rig, uint32_t block, uint32_t index, uint64_t *count)
{
    struct kernels_piece piece = kernels_piece(rig->kernels, block, index);
    *count = piece.bytes / sizeof(float);
    return (float *)(void *)piece.at;
}

static uint64_t block_write(const struct rig *rig, uint32_t block, uint32_t content)
{
    uint64_t count = 0, bytes = 0;
    for (uint32_t i = 0; i < kernels_pieces(rig->kernels); i++) {
        float *piece = piece_at(rig, block, i, &count);
        for (uint64_t at = 0; at < count; at++) {
            piece[at] = content_at(content, i, at);
        }
        bytes += count * sizeof(float);
    }
    return bytes;
}

static void assert_block(const struct rig *rig, uint32_t block, uint32_t content)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < kernels_pieces(rig->kernels); i++) {
        const float *piece = piece_at(rig, block, i, &count);
        for (uint64_t at = 0; at < count; at++) {
            assert_true(piece[at] == content_at(content, i, at));
        }
    }
}

static void contents_write(const struct rig *rig, uint32_t *contents, uint32_t blocks)
{
    for (uint32_t i = 0; i < blocks; i++) {
        contents[i] = i;
        assert_int_equal(block_write(rig, i, i), rig->kernels->kv_block_bytes);
    }
}

static void assert_contents(const struct rig *rig, const uint32_t *contents, uint32_t blocks)
{
    for (uint32_t i = 0; i < blocks; i++) {
        assert_block(rig, i, contents[i]);
    }
}

enum { DEVICE = 128, HOST = 40 };

/* Within the device. The targets are the blocks before `to`, which no other move fills; most of
 * them are read before they are filled. */
static void add_random_copies(struct rig *rig, uint32_t to, uint64_t *random)
{
    uint32_t count = tiny_random(random) % 12;
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t distance = 1 + tiny_random(random) % 3;
        move(rig, (to + 2 * DEVICE - i - distance) % DEVICE, (to + DEVICE - i) % DEVICE);
    }
}

/* The contents of the blocks after the moves of the list. */
static void apply_moves(const struct rig *rig, uint32_t *contents)
{
    for (uint32_t phase = 0; phase < 3; phase++) {
        for (uint32_t i = 0; i < step_header(&rig->step)->moves_count; i++) {
            const struct step_move *move = &step_moves(&rig->step)[i];
            if (phase == (move->to >= DEVICE ? 0 : move->from >= DEVICE ? 2 : 1)) {
                contents[move->to] = contents[move->from];
            }
        }
    }
}

/* A list as kvmem would write it, with the phases in any order: no target twice, no host block on
 * both sides. Strides of one make runs. */
static void add_random_moves(struct rig *rig, uint32_t *contents, uint64_t *random)
{
    uint32_t out_first = DEVICE + tiny_random(random) % (HOST / 2);
    uint32_t in_first = DEVICE + HOST / 2 + tiny_random(random) % (HOST / 4);
    uint32_t out_count = tiny_random(random) % (DEVICE + HOST / 2 - out_first + 1);
    uint32_t in_count = tiny_random(random) % (HOST / 4 + 1);
    uint32_t from = tiny_random(random) % DEVICE, to = tiny_random(random) % DEVICE;
    uint32_t stride = tiny_random(random) % 2 ? 1 : 3;
    for (uint32_t i = 0; i < out_count || i < in_count; i++) {
        if (i < in_count) {
            move(rig, in_first + i, (to + i * stride) % DEVICE);
        }
        if (i < out_count) {
            move(rig, (from + i * stride) % DEVICE, out_first + i);
        }
        if (i == 2) {
            add_random_copies(rig, to, random);
        }
    }
    if (tiny_random(random) % 2) {      /* as kvmem writes them: runs lie together */
        step_header(&rig->step)->moves_count = 0;
        for (uint32_t i = 0; i < out_count; i++) {
            move(rig, (from + i * stride) % DEVICE, out_first + i);
        }
        add_random_copies(rig, to, random);
        for (uint32_t i = 0; i < in_count; i++) {
            move(rig, in_first + i, (to + i * stride) % DEVICE);
        }
    }
    apply_moves(rig, contents);
}

static void test_moves_copy_phase_by_phase(void **state)
{
    (void)state;
    for (uint32_t trial = 0; trial < 3 * KERNELS_KV_TYPES; trial++) {
        uint32_t threads = 1 + trial / KERNELS_KV_TYPES;
        struct rig rig;
        start_with(&rig, threads, (enum kernels_kv_type)(trial % KERNELS_KV_TYPES));
        uint64_t random = threads;
        uint32_t blocks = rig.settings.kv_blocks + rig.settings.kv_host_blocks;
        uint32_t contents[256];
        contents_write(&rig, contents, blocks);
        for (uint32_t round = 0; round < 100; round++) {
            rig_clear(&rig);
            rig.kernels->phase_work_min = round % 2 ? 0 : UINT64_MAX;
            rig.kernels->cached_bytes_max = round % 4 < 2 ? 0 : UINT64_MAX;
            add_random_moves(&rig, contents, &random);
            uint64_t heartbeat = rig.heartbeat;
            kernels_run(rig.kernels, &rig.step);
            assert_contents(&rig, contents, blocks);
            assert_true(step_header(&rig.step)->moves_count < threads ||
                        rig.heartbeat > heartbeat);
        }
        kernels_stop(rig.kernels);
    }
}

/* As the core writes them: phase by phase. Only thread 0 counts heartbeats. */
static void test_each_thread_has_a_share_of_every_phase(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 2);
    for (uint32_t i = 0; i < 8; i++) {
        move(&rig, i * 2, 128 + i * 2);             /* no two are one copy */
    }
    for (uint32_t i = 0; i < 3; i++) {
        move(&rig, 60 + i, 64 + i);                 /* every thread copies a part of these */
    }
    for (uint32_t i = 0; i < 8; i++) {
        move(&rig, 128 + 16 + i * 2, 32 + i * 2);
    }
    rig.kernels->phase_work_min = 0;
    uint64_t heartbeat = rig.heartbeat;
    kernels_run(rig.kernels, &rig.step);
    assert_int_equal(rig.heartbeat - heartbeat, 8 / 2 + 1 + 3 + 1 + 8 / 2 + 1);
    kernels_stop(rig.kernels);
}

static void test_moves_within_the_host_are_our_bug(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, 1);
    move(&rig, 128, 129);
    expect_assert_failure(kernels_run(rig.kernels, &rig.step));
    rig_clear(&rig);
    move(&rig, 1, 128 + 40);
    expect_assert_failure(kernels_run(rig.kernels, &rig.step));
    kernels_stop(rig.kernels);
}

enum { TOKENS = 19, DECODED = 8, BLOCKS = 3 };

/* The last prompt token and all decode steps, from KV in the blocks from `first` on. */
static void finish(struct rig *rig, uint32_t first, uint32_t *tokens, float *logits)
{
    rig_row(rig, (const uint32_t[]){33}, 1, TOKENS, DECODED);
    rig_blocks(rig, 0, first, 1);
    kernels_run(rig->kernels, &rig->step);
    assert_int_equal(step_out(&rig->step, 0)->produced, DECODED);
    memcpy(tokens, step_out_tokens(&rig->step, 0), DECODED * sizeof *tokens);
    memcpy(logits, kernels_logits(rig->kernels, 0), 75 * sizeof *logits);
}

static void test_swapped_call_says_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t trial = 0; trial < 4 * KERNELS_KV_TYPES; trial++) {
        uint32_t threads = 1 + trial % 2;
        struct rig rig;
        uint32_t prompt[TOKENS], expected[DECODED], tokens[DECODED];
        float expected_logits[75], logits[75];
        for (uint32_t i = 0; i < TOKENS; i++) {
            prompt[i] = (i * 11 + 5) % 75;
        }
        start_with(&rig, threads, (enum kernels_kv_type)(trial / 4));
        rig.kernels->cached_bytes_max = trial % 4 < 2 ? 0 : UINT64_MAX;
        rig_row(&rig, prompt, TOKENS, 0, 0);
        rig_blocks(&rig, 0, 4, 1);
        kernels_run(rig.kernels, &rig.step);
        rig_clear(&rig);
        for (uint32_t i = 0; i < BLOCKS; i++) {     /* out; another call takes the blocks at once */
            move(&rig, 4 + i, 128 + 7 * i);
        }
        rig_row(&rig, prompt + 3, 16, 0, DECODED);
        rig_blocks(&rig, 0, 4, 1);
        kernels_run(rig.kernels, &rig.step);
        rig_clear(&rig);
        for (uint32_t i = 0; i < BLOCKS; i++) {     /* in, elsewhere, and on in the same step */
            move(&rig, 128 + 7 * i, 100 + i);
        }
        finish(&rig, 100, tokens, logits);
        rig_clear(&rig);                            /* the same without */
        rig_row(&rig, prompt, TOKENS, 0, 0);
        rig_blocks(&rig, 0, 50, 1);
        kernels_run(rig.kernels, &rig.step);
        rig_clear(&rig);
        finish(&rig, 50, expected, expected_logits);
        assert_memory_equal(tokens, expected, sizeof expected);
        assert_memory_equal(logits, expected_logits, sizeof expected_logits);
        kernels_stop(rig.kernels);
    }
}

/* The prompt's last block comes from a call that parts from it at position 21. */
static void test_call_that_begins_with_a_copy_says_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t trial = 0; trial < 3 * KERNELS_KV_TYPES; trial++) {
        struct rig rig;
        uint32_t other[24], prompt[24], expected[DECODED];
        float expected_logits[75];
        for (uint32_t i = 0; i < 24; i++) {
            prompt[i] = (i * 11 + 5) % 75;
            other[i] = i < 21 ? prompt[i] : prompt[i] + 1;
        }
        start_with(&rig, 1 + trial / KERNELS_KV_TYPES,
                   (enum kernels_kv_type)(trial % KERNELS_KV_TYPES));
        rig_row(&rig, prompt, 24, 0, DECODED);
        rig_blocks(&rig, 0, 50, 1);
        kernels_run(rig.kernels, &rig.step);
        memcpy(expected, step_out_tokens(&rig.step, 0), sizeof expected);
        memcpy(expected_logits, kernels_logits(rig.kernels, 0), sizeof expected_logits);
        rig_clear(&rig);
        rig_row(&rig, other, 24, 0, 1);
        rig_blocks(&rig, 0, 4, 1);
        kernels_run(rig.kernels, &rig.step);
        rig_clear(&rig);
        move(&rig, 6, 9);                           /* the first two blocks are shared */
        rig_row(&rig, prompt + 21, 3, 21, DECODED);
        uint32_t *blocks = step_blocks(&rig.step, 0);
        rig_blocks(&rig, 0, 4, 1);
        blocks[2] = 9;
        kernels_run(rig.kernels, &rig.step);
        assert_memory_equal(step_out_tokens(&rig.step, 0), expected, sizeof expected);
        assert_memory_equal(kernels_logits(rig.kernels, 0), expected_logits,
                            sizeof expected_logits);
        kernels_stop(rig.kernels);
    }
}

static uint64_t planned_block_bytes(const struct model_shape *shape, enum kernels_kv_type kv_type)
{
    struct memory_plan plan = {0};
    struct kernels_settings settings = rig_settings(KERNELS_PLAIN, 1);
    settings.kv_type = kv_type;
    kernels_plan_memory(&plan, &settings, shape);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan.rows_count; i++) {
        if (strcmp(plan.rows[i].owner, "kernels kv blocks") == 0) {
            bytes = plan.rows[i].size_bytes;
        }
    }
    return bytes;
}

static void test_types_take_their_room_in_whole_cache_lines(void **state)
{
    (void)state;
    struct model_shape shape = tiny_shape(GGUF_F32, false);
    uint32_t numbers = 2 * 2 * 2 * 16 * 8;
    assert_int_equal(planned_block_bytes(&shape, KERNELS_KV_F32), numbers * 4);
    assert_int_equal(planned_block_bytes(&shape, KERNELS_KV_F16), numbers * 2);
    /* A head's 128 levels and the scales of its eight tokens, or their steps and middles: three
     * cache lines, in which the keys' signs have room, too. */
    assert_int_equal(planned_block_bytes(&shape, KERNELS_KV_Q8), 2 * 2 * (192 + 192));
    shape.layers = shape.kv_heads = 1;
    shape.head_dim = 8;
    assert_int_equal(planned_block_bytes(&shape, KERNELS_KV_F16), 2 * 8 * 8 * 2);
    assert_int_equal(planned_block_bytes(&shape, KERNELS_KV_Q8), 2 * 128);
}

/* What attention reads of neighbours is one stream. */
static void test_pieces_of_neighbours_are_neighbours(void **state)
{
    (void)state;
    struct rig rig;
    start_with(&rig, 1, KERNELS_KV_Q8);
    for (uint32_t i = 0; i < kernels_pieces(rig.kernels); i++) {
        for (uint32_t block = 0; block + 1 < DEVICE; block++) {
            struct kernels_piece piece = kernels_piece(rig.kernels, block, i);
            assert_ptr_equal(kernels_piece(rig.kernels, block + 1, i).at, piece.at + piece.bytes);
        }
    }
    kernels_stop(rig.kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moves_copy_phase_by_phase),
        cmocka_unit_test(test_each_thread_has_a_share_of_every_phase),
        cmocka_unit_test(test_moves_within_the_host_are_our_bug),
        cmocka_unit_test(test_swapped_call_says_the_same_bits),
        cmocka_unit_test(test_call_that_begins_with_a_copy_says_the_same_bits),
        cmocka_unit_test(test_types_take_their_room_in_whole_cache_lines),
        cmocka_unit_test(test_pieces_of_neighbours_are_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
