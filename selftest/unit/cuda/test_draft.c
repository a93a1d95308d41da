/* SPDX-License-Identifier: MIT
 *
 * Goal: the device finds the draft that draft_find() finds in the same text, whatever its length,
 * and gives it places and slots; a row that has ended, or has no room, gets none, even if a standby
 * row has its place.
 * Method: random texts of few tokens, long ones and short ones, and such that have more matches
 * than count; the CPU's search as the twin.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "config/base/step.h"
#include "kernels/round/draft.h"

enum { ROWS = 5, PAST_MAX = 1500, STEPS = 20, OWN_PLACES = ROWS,
       PLACES = OWN_PLACES + ROWS * STEP_DRAFTS_MAX };

struct scene {
    struct gpu_draft args;
    struct gpu_row *rows;
    struct gpu_out *outs;
    uint32_t *tokens, *past;
    struct gpu_place *places;
    struct gpu_slot *slots;
};
static struct scene scene;

static void scene_make(void)
{
    scene.rows = memset(rig_take(ROWS * sizeof *scene.rows), 0, ROWS * sizeof *scene.rows);
    scene.outs = memset(rig_take(ROWS * sizeof *scene.outs), 0, ROWS * sizeof *scene.outs);
    scene.tokens = rig_take(ROWS * STEPS * sizeof *scene.tokens);
    scene.past = rig_take(ROWS * PAST_MAX * sizeof *scene.past);
    scene.places = rig_take(PLACES * sizeof *scene.places);
    scene.slots = rig_take(PLACES * sizeof *scene.slots);
    scene.args = (struct gpu_draft){
        .rows = rig_address(scene.rows),
        .outs = rig_address(scene.outs),
        .out_tokens = rig_address(scene.tokens),
        .past = rig_address(scene.past),
        .places = rig_address(scene.places),
        .slots = rig_address(scene.slots),
        .past_max = PAST_MAX,
        .own_count = OWN_PLACES,
        .steps_max = STEPS,
    };
}

/* A row that goes on, or has ended: then another one may have its place. */
static void row_random(uint32_t r, uint32_t past, uint32_t different)
{
    struct gpu_row *row = &scene.rows[r];
    bool has_ended = rig_random(5) == 0;
    row->past_count = past;
    row->decode_steps = 2 + rig_random(STEPS - 1);
    row->drafts = rig_random(gpu_smaller(row->decode_steps, STEP_DRAFTS_MAX + 1));
    row->draft_place = OWN_PLACES + r * STEP_DRAFTS_MAX;
    scene.outs[r].produced = rig_random(row->decode_steps);
    for (uint32_t i = 0; i < past; i++) {
        scene.past[r * PAST_MAX + i] = rig_random(different);
    }
    for (uint32_t i = 0; i < scene.outs[r].produced; i++) {
        scene.tokens[r * STEPS + i] = rig_random(different);
    }
    uint32_t standby = rig_random(2) * ROWS;        /* or none */
    bool is_empty = has_ended && standby == 0;
    uint32_t has_it = is_empty ? GPU_NONE : has_ended ? standby : r;
    scene.places[r] = (struct gpu_place){.row = has_it, .slot = is_empty ? GPU_NONE : r};
    scene.slots[r] = (struct gpu_slot){0, 1000 + 50 * r, has_it};
}

/* Returns how many tokens the draft has. */
static uint32_t check_row(uint32_t r, const uint32_t *before)
{
    const struct gpu_row *row = &scene.rows[r];
    const struct draft_text text = {scene.past + r * PAST_MAX, row->past_count, before,
                                    scene.outs[r].produced};
    uint32_t draft[STEP_DRAFTS_MAX];
    uint32_t left = row->decode_steps - scene.outs[r].produced - 1;
    uint32_t most = scene.places[r].row != r ? 0 : gpu_smaller(row->drafts, left);
    uint32_t count = draft_find(&text, draft, most);
    const uint32_t *tokens = scene.tokens + r * STEPS + scene.outs[r].produced;
    assert_memory_equal(scene.tokens + r * STEPS, before, scene.outs[r].produced * sizeof *before);
    for (uint32_t i = 0; i < STEP_DRAFTS_MAX; i++) {
        uint32_t index = OWN_PLACES + r * STEP_DRAFTS_MAX + i;
        const struct gpu_place *place = &scene.places[index];
        const struct gpu_slot *slot = &scene.slots[index];
        bool is_fed = i < count, is_there = i < row->drafts;
        assert_int_equal(place->row, is_fed ? r : GPU_NONE);
        assert_int_equal(place->slot, is_fed ? index : GPU_NONE);
        assert_int_equal(place->ahead, is_there ? i + 1 : UINT32_MAX);
        assert_int_equal(slot->row, is_fed ? r : GPU_NONE);
        assert_true(!is_fed || (slot->token == draft[i] && tokens[i] == draft[i]));
        assert_true(!is_fed || slot->position == 1000 + 50 * r + 1 + i);
    }
    return count;
}

/* Returns how many rows have a draft. */
static uint32_t check_scene(void)
{
    uint32_t before[ROWS * STEPS], found = 0;
    memcpy(before, scene.tokens, sizeof before);
    RIG_LAUNCH(draft, &scene.args);
    for (uint32_t r = 0; r < ROWS; r++) {
        found += check_row(r, before + r * STEPS) > 0;
    }
    return found;
}

static void test_drafts_are_the_cpus(void **state)
{
    (void)state;
    static const uint32_t differents[] = {1, 2, 3, 6, 40, 1000};
    uint32_t found = 0;
    for (uint32_t i = 0; i < 300; i++) {
        scene_make();
        for (uint32_t r = 0; r < ROWS; r++) {
            uint32_t most = i % 3 == 0 ? 8 : i % 3 == 1 ? 300 : PAST_MAX;
            row_random(r, rig_random(most + 1), differents[i % 6]);
        }
        found += check_scene();
        rig_teardown(NULL);
    }
    assert_true(found > 300);
}

/* A scene whose one row has `count` tokens of past; its draft has three. */
static void check_one_row(uint32_t count)
{
    const uint32_t before[STEPS] = {0};
    for (uint32_t r = 0; r < ROWS; r++) {
        scene.places[r] = (struct gpu_place){.row = GPU_NONE, .slot = GPU_NONE};
    }
    scene.rows[0] = (struct gpu_row){.past_count = count, .decode_steps = 9, .drafts = 3,
                                     .draft_place = OWN_PLACES};
    scene.outs[0].produced = 0;
    scene.places[0] = (struct gpu_place){.row = 0, .slot = 0};
    scene.slots[0] = (struct gpu_slot){2, 1000, 0};
    RIG_LAUNCH(draft, &scene.args);
    assert_int_equal(check_row(0, before), 3);
}

/* The last tokens stand everywhere, and once with more before them: too far away, or not. */
static void test_only_the_last_matches_count(void **state)
{
    (void)state;
    for (uint32_t shorter = 0; shorter < 2; shorter++) {
        uint32_t matches = DRAFT_LOOKS_MAX - shorter, count = 0;
        scene_make();
        uint32_t *past = scene.past;
        const uint32_t begin[] = {9, 8, 1, 2, 77};
        memcpy(past, begin, sizeof begin);
        count = 5;
        for (uint32_t i = 0; i < matches; i++) {
            past[count++] = 100 + i;
            past[count++] = 1;
            past[count++] = 2;
        }
        memcpy(past + count, begin, 4 * sizeof *begin);
        check_one_row(count + 4);
        assert_int_equal(scene.tokens[0] == 77, shorter);
        rig_teardown(NULL);
    }
}

/* Writes a token that is nowhere else, the last `match` of the tokens 1 .. `all`, and `next`. */
static uint32_t *text_add(uint32_t *text, uint32_t match, uint32_t all, uint32_t next)
{
    *text++ = 1000 + next;
    for (uint32_t i = all - match; i < all; i++) {
        *text++ = 1 + i;
    }
    *text++ = next;
    return text;
}

/* Two places match: the earlier one counts if its match is longer, up to DRAFT_MATCH_MAX tokens. */
static void test_a_longer_match_counts_up_to_a_length(void **state)
{
    (void)state;
    enum { ALL = DRAFT_MATCH_MAX + 4, EARLIER = 77, LATER = 88 };
    for (uint32_t later = DRAFT_MATCH_MIN; later < ALL; later++) {
        for (uint32_t more = 0; more < 2; more++) {
            scene_make();
            uint32_t *end = text_add(scene.past, later + more, ALL, EARLIER);
            end = text_add(end, later, ALL, LATER);
            end = text_add(end, ALL, ALL, 0) - 1;
            check_one_row((uint32_t)(end - scene.past));
            bool is_earlier = more > 0 && later < DRAFT_MATCH_MAX;
            assert_int_equal(scene.tokens[0], is_earlier ? EARLIER : LATER);
            rig_teardown(NULL);
        }
    }
}

/* Its last token comes next, and no text is there to be read. */
static void test_a_row_without_room_is_not_searched_for(void **state)
{
    (void)state;
    scene_make();
    scene.args.own_count = 1;
    scene.args.past = 0;
    scene.rows[0] = (struct gpu_row){.past_count = PAST_MAX, .decode_steps = 4, .drafts = 3,
                                     .draft_place = OWN_PLACES};
    scene.outs[0].produced = 3;
    scene.places[0] = (struct gpu_place){.row = 0, .slot = 0};
    scene.slots[0] = (struct gpu_slot){2, 1000, 0};
    RIG_LAUNCH(draft, &scene.args);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(scene.places[OWN_PLACES + i].slot, GPU_NONE);
        assert_int_equal(scene.slots[OWN_PLACES + i].row, GPU_NONE);
    }
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_drafts_are_the_cpus),
    RIG_TEST(test_only_the_last_matches_count),
    RIG_TEST(test_a_longer_match_counts_up_to_a_length),
    RIG_TEST(test_a_row_without_room_is_not_searched_for),
};

rig_main(tests)
