/* SPDX-License-Identifier: MIT */
/* What: suspects, calls in whose step a worker has died, in the naive scheduler (naive_sched.h). */
#include "selftest/fake/naive_call.h"

bool naive_is_left_out(const struct naive *m, const struct naive_call *call)
{
    return m->on->is_trial ? m->on->rows_count >= call->company : call->company > 0;
}

uint32_t naive_rows_max(const struct naive *m)
{
    uint32_t most = m->set.batch_calls;
    for (uint32_t i = 0; i < m->on->rows_count && m->on->is_trial; i++) {
        uint32_t company = m->calls[m->on->rows[i]].company;
        most = company < most ? company : most;
    }
    return most;
}

void naive_suspect(struct naive *m, uint32_t row)
{
    struct naive_call *call = &m->calls[m->on->rows[row]];
    uint32_t decode = m->on->decode[row] > 0 ? m->on->decode[row] - 1 : 0;
    uint32_t until = step_row(naive_step(m), row)->first_position + m->on->chunk[row] + decode;
    call->until = until > call->until ? until : call->until;
    call->company = (m->on->rows_count + 1) / 2;
    call->deaths += m->on->rows_count == 1;
    if (call->deaths == 2) {
        naive_end(m, call, CALL_FINISH_FAILED);
    }
}
