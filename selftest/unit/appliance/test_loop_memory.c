/* SPDX-License-Identifier: MIT */
/*
 * Goal: the loop takes exactly the memory that its plan states, with one engine or several.
 * Method: plan and loop of the same limits, with counts that no alignment divides.
 */
#include "selftest/unit/appliance/loop_rig.h"

static void assert_agrees(uint32_t engines, uint32_t odd)
{
    static struct memory_plan plan;
    static struct gguf_vocab_info no_vocab;
    struct arena *arena = test_arena(), own;
    memset(&rig, 0, sizeof rig);
    memset(&plan, 0, sizeof plan);
    fake_world_init(&rig.fake);
    config_defaults(&rig.options);
    fill_limits(&rig.limits);
    rig.limits.engines = engines;
    rig.limits.tenants = rig.limits.programs = odd;
    rig.limits.kv_blocks = rig.limits.kv_host_blocks = BLOCKS + odd;
    rig.vocab.info.unk_id = rig.vocab.info.eot_id = GGUF_NO_TOKEN;
    struct step step = {.layout = loop_step_layout(&rig.limits)};
    step.base = arena_take(arena, engines, step.layout.total_bytes);
    loop_plan_memory(&plan, &rig.options, &rig.limits, &no_vocab);
    uint64_t bytes = loop_memory_bytes(&plan);
    arena_init(&own, arena_take(arena, 1, bytes), bytes);
    const struct loop_settings settings = {
        .options = &rig.options, .limits = &rig.limits, .vocab = &rig.vocab, .model_name = "fake",
        .step = step, .drain_us = 1000000, .prefixes = &declared,
    };
    loop_init(&rig.loop, &settings, &rig.fake.world, &own);
    assert_int_equal(own.used_bytes, bytes);
    loop_check(&rig.loop);
}

static void test_the_loop_takes_what_its_plan_states(void **state)
{
    (void)state;
    for (uint32_t engines = 1; engines <= WORLD_ENGINES_MAX; engines++) {
        for (uint32_t odd = 1; odd <= 7; odd += 2) {
            assert_agrees(engines, odd);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_loop_takes_what_its_plan_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
