/* SPDX-License-Identifier: MIT */
/*
 * Goal: a workflow gives the tokens that a client gets who sends every operator of every row as a
 * call of its own; equal greedy calls are executed once; whatever happens on the way.
 * Method: random graphs and rows, with and without the prompt cache; the twin of flow_rig.h.
 * Engines are lost on the way.
 */
#include "selftest/unit/workflow/flow_rig.h"

/* ---- random graphs --------------------------------------------------------------------------- */

static uint64_t lot;
static uint32_t draw(uint32_t below)
{
    lot = lot * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(lot >> 33) % below;
}

static void random_flow(void)
{
    open_flow();
    uint32_t inputs = draw(3), count = 2 + draw(10);
    for (uint32_t i = 0; i < inputs; i++) {
        add(WORKFLOW_INPUT);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before = flow->nodes_count, parts = 1 + draw(3);
        uint32_t node = add(draw(6) == 0 ? WORKFLOW_LAMBDA : WORKFLOW_LLM);
        flow->nodes[node].max_tokens = 2 + draw(VALUE_MAX - 2);
        for (uint32_t p = 0; p < parts; p++) {
            uint32_t first = draw(2) == 0 || before == 0;
            if (first) {
                say(1 + draw(5), draw(3));
            } else {
                read_value(draw(before));
            }
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        output(inputs + draw(count));
    }
    begin();
}

/* Calls of the rows that differ from each other in their prompts or in max_tokens. */
static uint32_t distinct_calls(const uint32_t *rows, uint32_t rows_count)
{
    static struct { uint32_t max_tokens; struct value prompt; } calls[ROWS * NODES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < rows_count * flow->nodes_count; i++) {
        uint32_t at = rows[i / flow->nodes_count], node = i % flow->nodes_count, same = 0;
        if (!workflow_is_op(flow, node) || flow->nodes[node].kind != WORKFLOW_LLM) {
            continue;
        }
        struct value prompt = compose_twin(at, node, true);
        calls[count].max_tokens = flow->nodes[node].max_tokens;
        calls[count].prompt = prompt;
        while (memcmp(&calls[same], &calls[count], sizeof calls[same]) != 0) {
            same++;
        }
        count += !prompt.failed && same == count;
    }
    return count;
}

static void test_random_graphs(void **state)
{
    static const enum sched_policy policies[] = {SCHED_PLAS, SCHED_FCFS, SCHED_JUSTITIA,
                                                 SCHED_ATLAS, SCHED_JUSTITIA_C, SCHED_FORESIGHT};
    (void)state;
    for (uint32_t seed = 0; seed < 400; seed++) {
        lot = seed * 77 + 1;
        uint32_t cached = seed % 5 == 0 ? 0 : 256, called = 0;
        struct sched_settings settings = bench_settings(policies[seed % 6]);
        settings.retag = true;
        settings.active_programs = seed % 4 == 0 ? 0 : SCHED_ACTIVE_ALL;
        start_with(settings, cached);
        random_flow();
        uint32_t rows[ROWS], count = 1 + draw(ROWS);
        for (uint32_t i = 0; i < count; i++) {
            rows[i] = row(i, (uint32_t[]){draw(3), draw(3), draw(3)});
            pass();
        }
        for (uint32_t passes = 0; flow->rows_open > 0; passes++) {
            assert_true(passes < 10000);
            if (draw(8) == 0 && bench_launch(bench)) {
                bench_lose(bench);
            }
            pass();
        }
        for (uint32_t i = 0; i < count; i++) {
            check_row(rows[i]);
            called += flow->rows[rows[i]].calls;
        }
        assert_true(cached == 0 || called == distinct_calls(rows, count));
        end_flow();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
