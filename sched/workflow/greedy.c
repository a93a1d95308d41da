/* SPDX-License-Identifier: MIT */
/*
 * What: rules by which the next operator is taken.
 *
 * A weighed rule takes the least of
 *     idle * (time until the operator may start) + loss * (tokens that it could have shared, in
 *     token steps) - tail * (the longest chain from it to the end)
 * The rules of the table differ in the weights only. Each is good where another is not; which ones
 * are in the table was found by trying (docs/decisions/0065).
 */
#include "sched/workflow/greedy.h"
#include "config/base/splitmix.h"

const struct greedy_rule greedy_rules[GREEDY_RULES] = {
    {GREEDY_WEIGHED, 255, 255, 16}, {GREEDY_WEIGHED, 255, 64, 2}, {GREEDY_WEIGHED, 4, 4, 2},
    {GREEDY_WEIGHED, 255, 1, 0}, {GREEDY_WEIGHED, 64, 64, 1}, {GREEDY_WEIGHED, 8, 4, 1},
    {GREEDY_WEIGHED, 255, 255, 2}, {GREEDY_WEIGHED, 255, 16, 1}, {GREEDY_WEIGHED, 4, 8, 1},
    {GREEDY_WEIGHED, 1, 64, 2}, {GREEDY_WEIGHED, 255, 64, 1}, {GREEDY_WEIGHED, 64, 64, 2},
    {GREEDY_WEIGHED, 1, 0, 0}, {GREEDY_WEIGHED, 64, 1, 1}, {GREEDY_WEIGHED, 255, 255, 1},
    {GREEDY_WEIGHED, 4, 64, 2}, {GREEDY_WEIGHED, 0, 1, 0}, {GREEDY_WEIGHED, 1, 0, 1},
    {GREEDY_SHARED, 0, 0, 0}, {GREEDY_ARRIVAL, 0, 0, 0},
};

/* ---- measures -------------------------------------------------------------------------------- */

/* Ops that read an op come after it. */
static void measure_tails(struct greedy *greedy)
{
    const struct op_schedule *schedule = greedy->schedule;
    const struct op_graph *graph = schedule->graph;
    for (uint32_t op = graph->count; op-- > 0;) {
        uint64_t out = graph->ops[op].out, after = 0;
        OP_SET_EACH(reader, graph->ops[op].readers) {
            uint64_t wait = schedule->kv_tokens * out + greedy->tail[reader];
            after = wait > after ? wait : after;
        }
        uint32_t least = graph->ops[op].prompt_tokens - greedy->best_shared[op];
        greedy->tail[op] = out * least + out * (out + 1) / 2 + after;
    }
}

void greedy_measure(struct greedy *greedy, struct op_schedule *schedule)
{
    const struct template_tree *tree = schedule->tree;
    greedy->schedule = schedule;
    for (uint32_t op = 0; op < schedule->graph->count; op++) {
        uint16_t above = tree->nodes[tree->leaf[op]].parent;
        bool is_only = op_set_count(tree->nodes[above].leaves) == 1;
        greedy->best_shared[op] = is_only ? 0 : tree->nodes[above].tokens;
    }
    measure_tails(greedy);
}

void greedy_begin(struct greedy *greedy, struct greedy_rule rule, uint64_t seed)
{
    greedy->rule = rule;
    greedy->random = seed;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static unsigned __int128 times(uint64_t a, uint64_t b)
{
    return (unsigned __int128)a * b;
}

/* Of two values that count one after the other; the least goes first. */
struct rank { __int128 first; uint64_t second; };

static struct rank rank_of(struct greedy *greedy, uint32_t op)
{
    const struct op_schedule *schedule = greedy->schedule;
    const struct greedy_rule *rule = &greedy->rule;
    uint64_t earliest = schedule->earliest[op];
    uint64_t idle = earliest > schedule->now ? earliest - schedule->now : 0;
    uint64_t lost = greedy->best_shared[op] > schedule->shared[op]
                        ? greedy->best_shared[op] - schedule->shared[op] : 0;
    switch (rule->kind) {
    case GREEDY_NODES:
        return (struct rank){0, op};
    case GREEDY_ARRIVAL:
        return (struct rank){earliest, op};
    case GREEDY_SHARED:
        return (struct rank){idle, UINT64_MAX - schedule->shared[op]};
    case GREEDY_RANDOM:
        return (struct rank){0, splitmix_next(&greedy->random)};
    case GREEDY_WEIGHED:
        break;
    }
    return (struct rank){(__int128)(times(idle, rule->idle) +
                                    times(lost * schedule->graph->ops[op].out, rule->loss)) -
                             (__int128)times(greedy->tail[op], rule->tail),
                         op};
}

bool greedy_step(struct greedy *greedy, int64_t *work)
{
    struct op_schedule *schedule = greedy->schedule;
    while (!op_schedule_is_done(schedule) && *work > 0) {
        struct rank best = {0, 0};
        uint32_t chosen = OP_SET_NONE;
        OP_SET_EACH(op, schedule->ready) {
            const struct rank rank = rank_of(greedy, op);
            bool is_less = rank.first < best.first ||
                           (rank.first == best.first && rank.second < best.second);
            if (chosen == OP_SET_NONE || is_less) {
                best = rank;
                chosen = op;
            }
            *work -= 4;
        }
        *work -= 2 * WORKFLOW_LLMS_MAX;
        op_schedule_put(schedule, chosen);
    }
    return op_schedule_is_done(schedule);
}
