/* SPDX-License-Identifier: MIT
 *
 * Goal: from round to round the same rows go on, enter and end on the device as in the CPU engine
 * (kernels/round/round.c), whatever their places are; a step ends in the same round.
 * Method: random steps with stop ids, failures, prompts that do not sample, standby rows and early
 * stop; a twin that keeps a list of rows as the CPU engine does, without places.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "config/base/step.h"

enum { ROWS_MAX = 700, STEPS_MAX = 6, STOP = 9 };

struct scene {
    struct gpu_advance args;
    struct gpu_round *round;
    uint32_t *early_stop;
    struct gpu_row *rows;
    struct gpu_out *outs;
    uint32_t *tokens;
    struct gpu_place *places;
    struct gpu_slot *slots;
};

static struct scene scene;

/* The CPU engine's view: rows that sampled in the round, in no particular order. */
static struct twin {
    uint32_t gathers[ROWS_MAX], gathers_count;
    uint32_t round, standby_next;
    bool ended;
} twin;

static void row_make(uint32_t r, bool is_standby)
{
    struct gpu_row *row = &scene.rows[r];
    *row = (struct gpu_row){
        .first_position = rig_random(100),
        .tokens_count = is_standby ? 1 : 1 + rig_random(3),
        .decode_steps = is_standby ? 1 + rig_random(STEPS_MAX) : rig_random(STEPS_MAX + 1),
        .token = 1000 + r,
        .stop_ids_count = rig_random(GPU_STOP_IDS_MAX + 1),
    };
    for (uint32_t i = 0; i < row->stop_ids_count; i++) {
        row->stop_ids[i] = STOP + 10 * i;
    }
}

static void scene_make(uint32_t places, uint32_t rows)
{
    scene.round = rig_take(sizeof *scene.round);
    scene.early_stop = rig_take(sizeof *scene.early_stop);
    scene.rows = rig_take(rows * sizeof *scene.rows);
    scene.outs = memset(rig_take(rows * sizeof *scene.outs), 0, rows * sizeof *scene.outs);
    scene.tokens = rig_take(rows * STEPS_MAX * sizeof *scene.tokens);
    scene.places = rig_take(places * sizeof *scene.places);
    scene.slots = rig_take(places * sizeof *scene.slots);
    scene.args = (struct gpu_advance){
        .round = rig_address(scene.round),
        .early_stop = rig_address(scene.early_stop),
        .rows = rig_address(scene.rows),
        .outs = rig_address(scene.outs),
        .out_tokens = rig_address(scene.tokens),
        .places = rig_address(scene.places),
        .slots = rig_address(scene.slots),
        .own_count = places,
        .rows_count = rows,
        .steps_max = STEPS_MAX,
        .rounds_max = 1 + rig_random(STEPS_MAX),
    };
    *scene.round = (struct gpu_round){0, places, 0};
    *scene.early_stop = STEP_STOP_LAST;
    twin = (struct twin){.standby_next = places};
    for (uint32_t r = 0; r < rows; r++) {
        row_make(r, r >= places);
        if (r < places) {
            bool samples = scene.rows[r].decode_steps > 0;
            scene.places[r] =
                (struct gpu_place){.row = r, .slot = samples ? rig_random(4000) : GPU_NONE};
            twin.gathers[twin.gathers_count] = r;
            twin.gathers_count += samples;
        }
    }
}

/* What sampling does to the rows: a token, a stop id, or a logit that is not finite. */
static void rows_sample(void)
{
    for (uint32_t i = 0; i < twin.gathers_count; i++) {
        uint32_t r = twin.gathers[i];
        struct gpu_out *out = &scene.outs[r];
        if (rig_random(40) == 0) {
            *out = (struct gpu_out){.result = STEP_ROW_NOT_FINITE};
            continue;
        }
        uint32_t token = rig_random(8) == 0 ? STOP + 10 * rig_random(GPU_STOP_IDS_MAX) : 5;
        scene.tokens[r * STEPS_MAX + out->produced++] = token;
    }
}

static bool twin_goes_on(uint32_t r)
{
    const struct gpu_row *row = &scene.rows[r];
    const struct gpu_out *out = &scene.outs[r];
    if (out->result != STEP_ROW_OK || out->produced >= row->decode_steps) {
        return false;
    }
    uint32_t token = scene.tokens[r * STEPS_MAX + out->produced - 1];
    return token < STOP || (token - STOP) / 10 >= row->stop_ids_count;
}

/* kernels/round/round.c: round_next(). */
static void twin_advance(void)
{
    uint32_t before = twin.gathers_count, standbys = twin.standby_next;
    twin.gathers_count = 0;
    twin.ended = ++twin.round == scene.args.rounds_max || *scene.early_stop == STEP_STOP_ROUND;
    for (uint32_t i = 0; i < before && !twin.ended; i++) {
        twin.gathers[twin.gathers_count] = twin.gathers[i];
        twin.gathers_count += twin_goes_on(twin.gathers[i]);
    }
    while (!twin.ended && twin.gathers_count < scene.args.own_count &&
           standbys < scene.args.rows_count) {
        twin.gathers[twin.gathers_count++] = standbys++;
    }
    twin.ended |= twin.gathers_count == 0 ||
                  (*scene.early_stop == STEP_STOP_ROW && twin.gathers_count < before);
    twin.gathers_count = twin.ended ? 0 : twin.gathers_count;
    twin.standby_next = twin.ended ? twin.standby_next : standbys;
}

static void check_slot(uint32_t p)
{
    const struct gpu_slot *slot = &scene.slots[p];
    const struct gpu_row *row = &scene.rows[slot->row];
    uint32_t produced = scene.outs[slot->row].produced;
    assert_int_equal(scene.places[p].row, slot->row);
    assert_int_equal(scene.places[p].slot, p);
    assert_int_equal(slot->position, row->first_position + row->tokens_count + produced - 1);
    assert_int_equal(slot->token, produced == 0
                                      ? 1000 + slot->row
                                      : scene.tokens[slot->row * STEPS_MAX + produced - 1]);
}

/* The places have the twin's rows, each once. */
static void check_places(void)
{
    static uint32_t met[ROWS_MAX];
    uint32_t count = 0;
    memset(met, 0, sizeof met);
    for (uint32_t p = 0; p < scene.args.own_count; p++) {
        if (scene.slots[p].row == GPU_NONE) {
            assert_int_equal(scene.places[p].row, GPU_NONE);
            assert_int_equal(scene.places[p].slot, GPU_NONE);
            continue;
        }
        check_slot(p);
        met[scene.slots[p].row]++;
        count++;
    }
    assert_int_equal(count, twin.gathers_count);
    for (uint32_t i = 0; i < twin.gathers_count; i++) {
        assert_int_equal(met[twin.gathers[i]], 1);
    }
    assert_int_equal(scene.round->round, twin.round);
    assert_int_equal(scene.round->has_ended, twin.ended);
    assert_int_equal(scene.round->standby_next, twin.standby_next);
}

static void check_step(uint32_t places, uint32_t rows, uint32_t stop_one_in)
{
    scene_make(places, rows);
    while (!twin.ended) {
        uint32_t before[ROWS_MAX];
        rows_sample();
        if (rig_random(stop_one_in) == 0) {
            *scene.early_stop = *scene.early_stop == STEP_STOP_LAST ? 1 + rig_random(2) :
                STEP_STOP_ROUND;
        }
        for (uint32_t p = 0; p < places; p++) {
            before[p] = scene.places[p].slot == GPU_NONE ? GPU_NONE : scene.places[p].row;
        }
        twin_advance();
        RIG_LAUNCH(advance, &scene.args);
        check_places();
        for (uint32_t p = 0; p < places && !twin.ended; p++) {      /* rows that go on stay */
            assert_true(before[p] == GPU_NONE || !twin_goes_on(before[p]) ||
                        scene.places[p].row == before[p]);
        }
    }
    struct gpu_round end = *scene.round;
    RIG_LAUNCH(advance, &scene.args);           /* rounds after the end change nothing */
    assert_memory_equal(scene.round, &end, sizeof end);
    check_places();
}

static void test_advance_random_steps_as_the_cpu_engine(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t places = 1 + rig_random(12);
        check_step(places, places + rig_random(12), i % 2 == 0 ? 1000 : 4);
        rig_teardown(NULL);
    }
}

static void test_advance_more_places_than_threads(void **state)
{
    (void)state;
    check_step(GPU_ROUND_THREADS + 37, ROWS_MAX, 1000);
    check_step(ROWS_MAX, ROWS_MAX, 1000);
}

/* As many standby rows as free places, then one fewer. */
static void test_advance_prompts_give_their_places_away(void **state)
{
    (void)state;
    for (uint32_t standbys = 0; standbys <= 3; standbys++) {
        scene_make(3, 3 + standbys);
        scene.args.rounds_max = STEPS_MAX;
        for (uint32_t r = 0; r < 3; r++) {      /* chunks of prompts: no place samples */
            scene.rows[r].decode_steps = 0;
            scene.places[r].slot = GPU_NONE;
        }
        twin.gathers_count = 0;
        twin_advance();
        RIG_LAUNCH(advance, &scene.args);
        check_places();
        assert_int_equal(twin.gathers_count, standbys);
    }
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_advance_random_steps_as_the_cpu_engine),
    RIG_TEST(test_advance_more_places_than_threads),
    RIG_TEST(test_advance_prompts_give_their_places_away),
};

rig_main(tests)
