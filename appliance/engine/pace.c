/* SPDX-License-Identifier: MIT */
/*
 * What: how long a step may take (appliance/engine/pace.h).
 * Invariant: of what the worker writes only the number of rounds counts, and no more of them than
 * were planned: a lie makes the next allowances longer by as much, and never endless. A plan that
 * is not what it was, in the memory shared with the worker, has at most the largest step's cost.
 * Bounds: O(rows).
 */
#include "appliance/engine/pace.h"

#include "config/base/assert.h"
#include "config/base/bounds.h"

void pace_init(struct pace *pace, uint64_t hang_us)
{
    ASSERT(hang_us > 0);
    *pace = (struct pace){.hang_us = hang_us};
}

/* Each word once, and no more than a plan can have. */
static void read_cost(struct pace *pace, const struct step *step)
{
    const volatile struct step_header *header = step_header(step);
    const struct step_layout *layout = &step->layout;
    uint32_t times = header->is_doubted ? 2 : 1;
    uint32_t rows = lesser(header->rows_count, layout->rows_max);
    pace->fed = times * (uint64_t)lesser(header->tokens_count, layout->tokens_max) +
                lesser(header->moves_count, layout->moves_max);
    pace->sampled = pace->rounds_max = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const volatile struct step_row *row = step_row(step, i);
        uint32_t rounds = lesser(row->decode_steps, layout->steps_max);
        pace->sampled += times * (uint64_t)rounds;
        pace->rounds_max = rounds > pace->rounds_max ? rounds : pace->rounds_max;
    }
}

/* Of a step that has ended after so many rounds. */
static uint64_t cost_after(const struct pace *pace, uint32_t rounds)
{
    if (rounds >= pace->rounds_max) {
        return pace->fed + pace->sampled;
    }
    return pace->fed + pace->sampled * rounds / pace->rounds_max;
}

/* 0: nothing has been measured. */
static uint64_t expected_us(const struct pace *pace, uint64_t tokens)
{
    return pace->tokens == 0 ? 0 : tokens * pace->us / pace->tokens + 1;
}

void pace_begin(struct pace *pace, const struct step *step, uint64_t now_us)
{
    read_cost(pace, step);
    uint64_t allowed_us = PACE_MARGIN * expected_us(pace, pace->fed + pace->sampled);
    uint64_t unknown_us = pace->tokens == 0 ? PACE_PATIENCE * pace->hang_us : 0;
    uint32_t doublings = pace->overdue < PACE_DOUBLINGS ? pace->overdue : PACE_DOUBLINGS;
    pace->submitted_us = now_us;
    pace->late_us = now_us + greater(greater(allowed_us, unknown_us), PACE_LATE_US);
    pace->overdue_us =
        now_us + (greater(greater(allowed_us, unknown_us), pace->hang_us) << doublings);
}

void pace_excuse(struct pace *pace, uint64_t us)
{
    pace->submitted_us += us;
    pace->late_us += us;
    pace->overdue_us += us;
}

void pace_end(struct pace *pace, const struct step *step, uint64_t now_us)
{
    uint32_t rounds = *(const volatile uint32_t *)step_rounds(step);
    if (pace->tokens > PACE_TOKENS) {
        pace->tokens /= 2;
        pace->us /= 2;
    }
    pace->tokens += greater(cost_after(pace, rounds), 1);
    pace->us += now_us - pace->submitted_us;
    pace->overdue = 0;
}

void pace_miss(struct pace *pace)
{
    pace->overdue++;
}
