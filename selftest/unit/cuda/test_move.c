/* SPDX-License-Identifier: MIT */
/*
 * Goal: after the moves of a step every block has the contents that the phases of step.h define, in
 * whatever order the streams run. A move that cannot be made fails the step.
 * Method: random steps against a model of both tiers, in which a block is one number; the soft GPU
 * with each of the streams ahead of the others. Rows fill blocks that have just left.
 */
#include "selftest/unit/cuda/engine_rig.h"

#define SEEDS 12
#define STEPS 12
#define DEVICE_BLOCKS 128       /* of rig_settings() */
#define HOST_BLOCKS   40
#define BLOCKS        (DEVICE_BLOCKS + HOST_BLOCKS)

static uint32_t blocks[BLOCKS];         /* the model: the content of each */
static uint32_t next_content;
static uint64_t random_state;
static bool is_target[BLOCKS], is_source[BLOCKS];

static uint32_t random_below(uint32_t below)
{
    return tiny_random(&random_state) % below;
}

/* ---- memory ---- */

#define WORDS_MAX 4096
static uint32_t words[WORDS_MAX];

/* Every word of a block encodes the block's content and the word's index. */
static uint64_t words_of(uint32_t content)
{
    uint64_t bytes = pair.gpu->kv.block_bytes;
    assert_true(bytes <= sizeof words);
    for (uint32_t i = 0; i < bytes / sizeof *words; i++) {
        words[i] = content << 16 | i;
    }
    return bytes;
}

static uint8_t *host_block(uint32_t block)
{
    return pair.gpu->kv_host + (block - DEVICE_BLOCKS) * pair.gpu->kv.block_bytes;
}

static void fill(uint32_t block)
{
    uint64_t bytes = words_of(next_content);
    blocks[block] = next_content++;
    if (block < DEVICE_BLOCKS) {
        device_write(pair.gpu->kv.blocks + block * bytes, words, bytes);
    } else {
        memcpy(host_block(block), words, bytes);
    }
}

static void fill_all(void)
{
    next_content = 1;
    for (uint32_t block = 0; block < BLOCKS; block++) {
        fill(block);
    }
}

static void check_blocks(void)
{
    const uint8_t *device = device_read(pair.gpu->kv.blocks,
                                        DEVICE_BLOCKS * pair.gpu->kv.block_bytes);
    for (uint32_t block = 0; block < BLOCKS; block++) {
        uint64_t bytes = words_of(blocks[block]);
        const uint8_t *at = block < DEVICE_BLOCKS ? device + block * bytes : host_block(block);
        if (memcmp(at, words, bytes) != 0) {
            fail_msg("block %u is not what came from content %u", block, blocks[block]);
        }
    }
}

/* ---- random moves ---- */

static struct step_move moves[3][BLOCKS];       /* by phase */
static uint32_t counts[3];

static void add(enum step_phase phase, uint32_t from, uint32_t to)
{
    is_source[from] = true;
    is_target[to] = true;
    moves[phase][counts[phase]++] = (struct step_move){from, to};
}

static bool may_move(enum step_phase phase, uint32_t from, uint32_t to)
{
    bool is_of_phase = from < BLOCKS && to < BLOCKS && from != to &&
                      (from < DEVICE_BLOCKS || to < DEVICE_BLOCKS) &&
                      step_move_phase(&(struct step_move){from, to}, DEVICE_BLOCKS) == phase;
    return is_of_phase && !is_target[to] &&
           (from < DEVICE_BLOCKS || !(is_target[from] || is_source[from])) &&
           (to < DEVICE_BLOCKS || !is_source[to]);
}

/* Moves some blocks from `from` on, in the same order, backwards, or with gaps. */
static void add_some(enum step_phase phase, uint32_t most)
{
    static const uint32_t first[3][2] = {[STEP_PHASE_OUT] = {0, DEVICE_BLOCKS},
                                         [STEP_PHASE_WITHIN] = {0, 0},
                                         [STEP_PHASE_IN] = {DEVICE_BLOCKS, 0}};
    const uint32_t *begin = first[phase];
    uint32_t from = begin[0] + random_below(begin[0] == 0 ? DEVICE_BLOCKS : HOST_BLOCKS);
    uint32_t to = begin[1] + random_below(begin[1] == 0 ? DEVICE_BLOCKS : HOST_BLOCKS);
    uint32_t stride = 1 + random_below(3) % 2, count = 1 + random_below(most);
    bool goes_back = random_below(3) == 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t device_step = i * stride, host_step = goes_back ? count - 1 - i : i;
        uint32_t f = from + (phase == STEP_PHASE_IN ? host_step : device_step);
        uint32_t t = to + (phase == STEP_PHASE_OUT ? host_step : device_step);
        if (may_move(phase, f, t)) {
            add(phase, f, t);
        }
    }
}

/* The record's list: phases mixed, each in its order. */
static void write_moves(void)
{
    uint32_t at[3] = {0};
    uint32_t left = counts[0] + counts[1] + counts[2];
    while (left > 0) {
        uint32_t phase = random_below(3);
        if (at[phase] < counts[phase]) {
            struct step_move move = moves[phase][at[phase]++];
            add_move(move.from, move.to);
            left--;
        }
    }
}

static void choose_moves(void)
{
    memset(is_target, 0, sizeof is_target);
    memset(is_source, 0, sizeof is_source);
    memset(counts, 0, sizeof counts);
    rig_clear(&pair.cpu);
    for (uint32_t i = random_below(4); i > 0; i--) {
        add_some(STEP_PHASE_OUT, 30);
    }
    for (uint32_t i = random_below(3); i > 0; i--) {
        add_some(STEP_PHASE_WITHIN, 6);
    }
    for (uint32_t i = random_below(4); i > 0; i--) {
        add_some(STEP_PHASE_IN, 30);
    }
    write_moves();
    for (uint32_t phase = 0; phase < 3; phase++) {
        for (uint32_t i = 0; i < counts[phase]; i++) {
            blocks[moves[phase][i].to] = blocks[moves[phase][i].from];
        }
    }
}

/* A block that leaves in this step and gets no move; a row fills it. BLOCKS: there is none. */
static uint32_t add_filling_row(void)
{
    for (uint32_t i = 0; i < counts[STEP_PHASE_OUT]; i++) {
        uint32_t block = moves[STEP_PHASE_OUT][i].from;
        if (!is_target[block] && random_below(2) == 0) {
            add_row(0, 8, 0, 0, block);
            step_row(&pair.cpu.step, 0)->blocks_count = 1;
            return block;
        }
    }
    return BLOCKS;
}

static void check_steps(uint64_t seed)
{
    random_state = seed;
    fill_all();
    for (uint32_t i = 0; i < STEPS; i++) {
        choose_moves();
        uint32_t filled = add_filling_row();
        run_gpu();
        if (filled < BLOCKS) {
            fill(filled);
        }
        check_blocks();
    }
}

static void test_random_moves_match_a_model_of_memory(void **state)
{
    (void)state;
    tiny_make(&tiny, GGUF_F32, true, 7);
    for (uint32_t first = 0; first <= 3; first++) {
        set_first(first);
        pair_start(false, OWN);
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            check_steps(seed);
        }
        pair_stop();
    }
    unsetenv("SOFTGPU_FIRST");
}

/* Nine neighbouring blocks that are listed in reverse order are one copy. With the record's two
 * that makes three, and the fourth copy would be corrupt. */
static void test_blocks_side_by_side_are_one_copy(void **state)
{
    (void)state;
    skip_on_a_chip("its copies cannot be counted");
    tiny_make(&tiny, GGUF_F32, true, 7);
    pair_start(false, OWN);
    fill_all();
    rig_clear(&pair.cpu);
    for (uint32_t i = 9; i > 0; i--) {
        add_move(20 + i, DEVICE_BLOCKS + 5 + i);
        blocks[DEVICE_BLOCKS + 5 + i] = blocks[20 + i];
    }
    set_faults("corrupt:4");
    run_gpu();
    set_faults("");
    check_blocks();
    assert_memory_equal(pair.gpu->left, (const uint8_t[DEVICE_BLOCKS]){0}, DEVICE_BLOCKS);
    pair_stop();
}

/* Twenty blocks in one piece on the host and apart on the device, in each direction: one launch
 * each, and each is refused once. */
static void test_a_swap_that_is_not_launched_fails_the_step(void **state)
{
    (void)state;
    skip_on_a_chip("it refuses nothing");
    tiny_make(&tiny, GGUF_F32, true, 7);
    for (uint32_t launch = 1; launch <= 3; launch++) {
        pair_start(false, OWN);
        rig_clear(&pair.cpu);
        for (uint32_t i = 0; i < 20; i++) {
            add_move(2 * i, DEVICE_BLOCKS + i);
            add_move(DEVICE_BLOCKS + 20 + i, 2 * i + 1);
        }
        set_faults((const char *[]){"launch:1", "launch:2", "launch:3"}[launch - 1]);
        assert_status(launch < 3 ? STATUS_DEVICE_LAUNCH : STATUS_OK,
                      gpu_engine_run(pair.gpu, &pair.cpu.step));
        pair_stop();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_random_moves_match_a_model_of_memory, clean_up),
        cmocka_unit_test_teardown(test_blocks_side_by_side_are_one_copy, clean_up),
        cmocka_unit_test_teardown(test_a_swap_that_is_not_launched_fails_the_step, clean_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
