/* SPDX-License-Identifier: MIT */
/*
 * What: the dumb scheduler; see naive_sched.h.
 */
#include "selftest/fake/naive_sched.h"

#include <string.h>

#include "sched/engine/plan.h"
#include "selftest/fake/fake_engine.h"

static uint64_t naive_quantum(struct naive *m, uint32_t queue)
{
    uint64_t quantum = m->set.quantum_us;
    while (queue-- > 0) {
        quantum *= m->set.quantum_growth;
    }
    return quantum;
}

static void naive_enter(struct naive *m, struct naive_call *call, uint32_t queue, bool head)
{
    call->queue = queue;
    call->from = 0;
    call->quantum = naive_quantum(m, queue);
    call->order = head ? --m->first_order : ++m->last_order;
}

static void naive_accrue(struct naive *m, struct naive_call *call)
{
    call->wait += m->now - call->since;
    call->all_wait += m->now - call->since;
    call->since = m->now;
}

void naive_decay(struct naive *m, uint32_t program)
{
    uint64_t half_life = m->set.half_life_us;
    if (!m->known[program]) {
        m->known[program] = true;
        m->halved[program] = m->now;
    }
    while (half_life > 0 && m->now - m->halved[program] >= half_life) {
        uint64_t elapsed = m->now - m->halved[program];
        m->halved[program] += m->service[program] > 0 ? half_life : elapsed - elapsed % half_life;
        m->service[program] /= 2;
    }
}

void naive_arrive(struct naive *m, uint32_t index, const struct naive_call *asked)
{
    struct naive_call *call = &m->calls[index];
    naive_decay(m, asked->program);
    *call = *asked;
    call->open = true;
    call->since = m->now;
    call->started = asked->prompt == 1;
    call->priority = m->service[asked->program];
    uint32_t queue = 0;
    uint64_t high = 0;
    if (m->set.policy == SCHED_PLAS || m->set.policy == SCHED_ATLAS) {
        while (queue + 1 < m->set.queues && call->priority >= (high += naive_quantum(m, queue))) {
            queue++;
        }
    }
    naive_enter(m, call, queue, false);
    call->key = m->set.policy == SCHED_SRPT ? call->key : 0;
}

static void naive_drop(struct naive_call *call)
{
    call->resident = false;
    call->kv = 0;
}

void naive_end(struct naive *m, struct naive_call *call, enum call_finish finish)
{
    uint64_t path = call->priority + call->all_service;
    if (!call->running) {
        naive_accrue(m, call);
    }
    naive_decay(m, call->program);
    if (m->set.policy != SCHED_ATLAS) {
        m->service[call->program] += call->all_service;
    } else if (path > m->service[call->program]) {
        m->service[call->program] = path;
    }
    m->wait[call->program] += call->all_wait;
    naive_drop(call);
    if (call->cancel) {
        finish = call->stop_text ? CALL_FINISH_STOP_TEXT : CALL_FINISH_CANCELLED;
    }
    if (call->cancel && call->stop_text) {
        call->generated = call->stop_text_tokens;
    }
    call->finish = finish;
    call->open = call->running = call->standby = false;
}

static bool naive_goes_first(const struct naive_call *a, const struct naive_call *b)
{
    if (a->queue != b->queue) {
        return a->queue < b->queue;
    }
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

/* Open calls in order, by insertion sort. */
static uint32_t naive_sort(const struct naive *m, uint32_t *sorted)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        const struct naive_call *call = &m->calls[i];
        if (!call->open) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0; at--) {
            const struct naive_call *other = &m->calls[sorted[at - 1]];
            if (naive_goes_first(other, call)) {
                break;
            }
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = i;
    }
    return count;
}

static bool naive_starved(struct naive *m, const struct naive_call *call)
{
    uint64_t wait = call->wait + m->now - call->since;
    uint64_t service = call->service;
    if (call->queue == 0 || call->paused || call->cancel) {
        return false;
    }
    if (m->set.wait_max_us > 0 && wait >= m->set.wait_max_us) {
        return true;
    }
    if (m->set.policy != SCHED_MLFQ && call->promotions == 0) {
        wait += m->wait[call->program];
        service += m->service[call->program];
    }
    return m->set.beta_milli > 0 && service > 0 && wait * 1000 >= service * m->set.beta_milli;
}

void naive_promote_all(struct naive *m)
{
    uint32_t sorted[NAIVE_CALLS_MAX];
    uint32_t count = naive_sort(m, sorted);
    for (uint32_t i = 0; i < count; i++) {
        struct naive_call *call = &m->calls[sorted[i]];
        if (naive_starved(m, call)) {
            naive_accrue(m, call);
            call->wait = call->service = 0;
            call->promotions++;
            uint32_t from = call->queue;
            naive_enter(m, call, 0, false);
            call->from = from;
            call->quantum = naive_quantum(m, from);
        }
    }
}

/* ---- a plan: what it may have been ----------------------------------------------------------- */

static bool naive_skips(const struct naive_call *call)
{
    return call->paused || call->cancel;
}

static bool naive_was_preempted(struct naive *m, uint32_t index)
{
    uint32_t preemptions = m->sched->calls->calls[index].preemptions;
    ASSERT(preemptions - m->calls[index].preemptions <= 1);
    return preemptions > m->calls[index].preemptions;
}

/* Victims were resident, and those behind them went first. */
static void naive_take_victims(struct naive *m, const uint32_t *sorted, uint32_t count)
{
    bool must_go = false;
    for (uint32_t i = 0; i < count; i++) {
        struct naive_call *call = &m->calls[sorted[i]];
        bool was_preempted = call->lost = naive_was_preempted(m, sorted[i]);
        ASSERT(call->resident || !was_preempted);
        ASSERT(!must_go || was_preempted || !call->resident);
        must_go = must_go || (was_preempted && !naive_skips(call));
        if (was_preempted) {
            call->preemptions++;
            naive_drop(call);
        }
    }
}

/* The call has a row, or would have one: what it feeds and samples. */
static uint32_t naive_chunk(const struct naive_call *call, uint32_t budget)
{
    uint32_t remaining = call->prompt + call->generated - call->kv;
    return remaining == 1 || remaining < budget ? remaining : budget;
}

static void naive_found(struct naive *m, struct naive_call *call, uint32_t index, uint32_t found)
{
    ASSERT(found < call->prompt + call->generated);
    uint32_t block_tokens = m->sched->engines[0].kv->settings.block_tokens;
    uint32_t declared = kvmem_call_declared(m->sched->engines[0].kv, index) * block_tokens;
    bool is_alone = m->set.sharing == SCHED_SHARING_OFF || call->faults > 0;
    ASSERT(call->faults == 0 || declared == 0);
    ASSERT(!is_alone || found <= call->computed || found == declared);
    ASSERT(kvmem_call_blocks(m->sched->engines[0].kv, index) > 0);
    call->resident = call->started = true;
    call->kv = found;
    call->computed = found > call->computed ? found : call->computed;
}

static void naive_row(struct naive *m, uint32_t index, uint32_t *budget)
{
    struct naive_call *call = &m->calls[index];
    uint32_t row = m->rows_count++;
    const struct step_row *got = step_row(&m->sched->engines[0].step, row);
    if (!call->resident) {
        naive_found(m, call, index, got->first_position);
    }
    uint32_t remaining = call->prompt + call->generated - call->kv;
    uint32_t decode = call->max - call->generated;
    m->rows[row] = index;
    m->chunk[row] = naive_chunk(call, *budget);
    m->decode[row] = m->chunk[row] < remaining ? 0
                    : decode < m->set.steps_per_plan ? decode : m->set.steps_per_plan;
    *budget -= remaining == 1 ? 0 : m->chunk[row];
    ASSERT(got->first_position == call->kv);
    ASSERT(got->tokens_count == m->chunk[row]);
    ASSERT(got->decode_steps == m->decode[row]);
}

/* A call that could run has no row though the batch is not full: then nobody behind it has blocks,
 * and no call that cannot run. */
static void naive_did_not_fit(struct naive *m, const uint32_t *sorted, uint32_t count, uint32_t at)
{
    ASSERT(m->rows_count > 0);
    for (uint32_t i = 0; i < count; i++) {
        const struct naive_call *call = &m->calls[sorted[i]];
        ASSERT(!((i > at || naive_skips(call)) && call->resident));
    }
}

static bool naive_was_seen(struct naive *m, uint32_t index)
{
    return m->sched->calls->calls[index].walk_sequence == m->sched->engines[0].sequence;
}

/* Without budget, the walk comes past such calls only as may need none. Whether a call that cannot
 * run lost its blocks before the walk came to it, or behind its back, is not known. */
static bool naive_is_on_the_way(struct naive *m, uint32_t index, uint32_t budget, uint32_t vain)
{
    const struct naive_call *call = &m->calls[index];
    bool was_resident = call->lost && naive_skips(call) && naive_was_seen(m, index);
    return budget > 0 || (vain > 0 ? call->started : call->resident || was_resident);
}

/* Without budget, a call that has run before may need none: what it found is not known, only
 * whether the walk went on behind it. */
static bool naive_ended_unseen(struct naive *m, const uint32_t *sorted, uint32_t count,
                               uint32_t at, uint32_t vain)
{
    for (uint32_t next = at + 1; next < count; next++) {
        if (naive_is_on_the_way(m, sorted[next], 0, vain)) {
            return !naive_was_seen(m, sorted[next]);
        }
    }
    return false;
}

/* Returns the place in the order of the first call behind the walk. Where it is not known whether
 * it went on, there was nobody left to come past. */
static uint32_t naive_walk(struct naive *m, const uint32_t *sorted, uint32_t count)
{
    const struct step_header *header = step_header(&m->sched->engines[0].step);
    uint32_t budget = m->set.prefill_tokens;
    uint32_t vain = m->set.batch_calls;
    uint32_t end = count;
    m->room = NAIVE_ROOM_LEFT;
    for (uint32_t i = 0; i < count; i++) {
        struct naive_call *call = &m->calls[sorted[i]];
        if (m->rows_count == m->set.batch_calls) {
            m->room = NAIVE_ROOM_NONE;
            return i;
        }
        if (!naive_is_on_the_way(m, sorted[i], budget, vain)) {
            ASSERT(!(naive_was_seen(m, sorted[i])));
            continue;
        }
        bool is_claim = !call->resident && !naive_skips(call) && budget == 0 &&
                        call->computed > 0 && call->prompt + call->generated > 1;
        uint32_t rows = m->rows_count;
        vain -= is_claim;
        ASSERT(naive_was_seen(m, sorted[i]));
        if (naive_skips(call)) {
            call->since = m->now;
        } else if (m->rows_count < header->rows_active &&
                   step_row(&m->sched->engines[0].step, m->rows_count)->call == sorted[i]) {
            naive_row(m, sorted[i], &budget);
        } else if (naive_chunk(call, budget) > 0 ||
                   (is_claim && naive_ended_unseen(m, sorted, count, i, vain))) {
            naive_did_not_fit(m, sorted, count, i);
            m->room = naive_chunk(call, budget) > 0 ? NAIVE_ROOM_NONE : NAIVE_ROOM_UNKNOWN;
            return i + 1;
        }
        bool in_vain = is_claim && m->rows_count == rows;
        end = in_vain ? i + 1 : count;
        m->room = in_vain ? NAIVE_ROOM_UNKNOWN : NAIVE_ROOM_LEFT;
    }
    m->room = m->rows_count == m->set.batch_calls ? NAIVE_ROOM_NONE : m->room;
    return end;
}

static void naive_standbys(struct naive *m, const uint32_t *sorted, uint32_t count, uint32_t at)
{
    uint32_t rows = step_header(&m->sched->engines[0].step)->rows_count;
    uint32_t looks = SCHED_STANDBY_LOOKS * (m->set.batch_calls + m->set.standby_calls);
    for (; at < count && m->set.steps_per_plan > 1 && m->rows_active > 0; at++) {
        struct naive_call *call = &m->calls[sorted[at]];
        if (!call->resident || looks == 0) {
            continue;
        }
        looks--;
        uint32_t known = call->prompt + call->generated;
        uint32_t decode = call->max - call->generated;
        decode = decode < m->set.steps_per_plan - 1 ? decode : m->set.steps_per_plan - 1;
        bool can = call->resident && !naive_skips(call) && call->kv + 1 == known;
        const struct step_row *got = step_row(&m->sched->engines[0].step, m->rows_count);
        if (m->rows_count < rows && got->call == sorted[at]) {
            ASSERT(can);
            ASSERT(got->first_position == call->kv);
            ASSERT(got->tokens_count == 1);
            ASSERT(got->decode_steps == decode);
            m->rows[m->rows_count] = sorted[at];
            m->chunk[m->rows_count] = 1;
            m->decode[m->rows_count++] = decode;
        } else if (m->rows_count - m->rows_active < m->set.standby_calls && can) {
            /* There must have been no room. */
            const struct kvmem *kv = m->sched->engines[0].kv;
            uint32_t needed = kvmem_blocks_ceil(known + decode - 1, kv->settings.block_tokens);
            ASSERT(needed > kvmem_call_blocks(kv, sorted[at]));
        }
    }
    ASSERT(m->rows_count - m->rows_active <= m->set.standby_calls);
}

static void naive_prefetched(struct naive *m, const uint32_t *sorted, uint32_t count, uint32_t at)
{
    uint32_t prefetched = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct naive_call *call = &m->calls[sorted[i]];
        if (!call->resident && kvmem_call_blocks(m->sched->engines[0].kv, sorted[i]) > 0) {
            ASSERT(m->set.prefetch && i >= at && !naive_skips(call));
            naive_found(m, call, sorted[i], m->sched->calls->calls[sorted[i]].kv_tokens);
            prefetched++;
        }
    }
    ASSERT(prefetched <= m->set.batch_calls);
}

/* The step may last as long as nobody has a use for its end. */
static void naive_stop(struct naive *m)
{
    uint32_t budget = m->set.prefill_tokens;
    for (uint32_t i = 0; i < m->rows_active; i++) {
        const struct naive_call *call = &m->calls[m->rows[i]];
        bool decodes_only = call->prompt + call->generated - call->kv == 1;
        budget -= decodes_only ? 0 : m->chunk[i];
    }
    bool has_room = m->room == NAIVE_ROOM_UNKNOWN ? m->sched->engines[0].has_room
                                                  : m->room == NAIVE_ROOM_LEFT;
    m->hasty = m->set.cut_steps;
    ASSERT(m->sched->engines[0].has_room == has_room);
    enum step_stop cut = has_room && budget == 0 ? STEP_STOP_ROUND : STEP_STOP_ROW;
    ASSERT(step_early_stop(&m->sched->engines[0].step) == (m->hasty ? cut : STEP_STOP_LAST));
}

/* Time has come to m->now and the queues are as they were when the plan began. */
void naive_follow_plan(struct naive *m, bool planned)
{
    uint32_t sorted[NAIVE_CALLS_MAX];
    const struct step_header *header = step_header(&m->sched->engines[0].step);
    uint32_t count = naive_sort(m, sorted);
    m->rows_count = m->rows_active = 0;
    naive_take_victims(m, sorted, count);
    uint32_t at = naive_walk(m, sorted, count);
    m->rows_active = m->rows_count;
    ASSERT(header->rows_active == m->rows_active);
    ASSERT(planned == (m->rows_active > 0));
    naive_stop(m);
    naive_standbys(m, sorted, count, at);
    ASSERT(header->rows_count == m->rows_count);
    naive_prefetched(m, sorted, count, at);
    for (uint32_t i = 0; i < m->rows_count; i++) {
        m->calls[m->rows[i]].standby = i >= m->rows_active;
    }
}

static void naive_begin_row(struct naive_call *call)
{
    uint32_t found = call->kv < call->prompt ? call->kv : call->prompt;
    call->cached = !call->has_run || found < call->cached ? found : call->cached;
    call->has_run = true;
}

void naive_launch(struct naive *m)
{
    for (uint32_t i = 0; i < m->rows_count; i++) {
        struct naive_call *call = &m->calls[m->rows[i]];
        if (!call->standby) {
            naive_accrue(m, call);
            naive_begin_row(call);
        }
        call->running = true;
    }
    m->busy = m->rows_count > 0;
    m->submitted = m->now;
}

/* ---- a step that comes back ------------------------------------------------------------------ */

/* The oracle's own tokens tell when the call ends, and why. */
static enum call_finish naive_take(struct naive *m, struct naive_call *call,
                                   const struct call *real, uint32_t decode)
{
    uint32_t tokens[NAIVE_CONTEXT_MAX];
    uint32_t known = call->prompt + call->generated;
    uint32_t room = call->max - call->generated;
    uint32_t count = m->oracle(m->oracle_context, real, known, decode < room ? decode : room,
                               tokens);
    call->generated += count;
    call->kv += count > 0 ? count - 1 : 0;
    if (count > 0 && fake_engine_is_stop(&real->sampling, tokens[known + count - 1])) {
        return real->eos_id_index_plus_1 > 0 ? CALL_FINISH_EOS : CALL_FINISH_STOP_ID;
    }
    if (call->generated == call->max) {
        return CALL_FINISH_LENGTH;
    }
    return CALL_FINISH_NONE;
}

/* Was it served? Its waiting ends when it entered. */
static bool naive_standby_entered(struct naive *m, uint32_t row, uint64_t *duration)
{
    struct naive_call *call = &m->calls[m->rows[row]];
    uint32_t rounds = m->produced[row] < m->decode[row] ? m->produced[row] : m->decode[row];
    call->standby = false;
    if (m->fault[row] == NAIVE_FAULT_NONE && rounds == 0) {
        return false;
    }
    *duration = *duration * rounds / (m->rounds > rounds ? m->rounds : rounds + 1);
    uint64_t entered = m->now - *duration;
    call->wait += entered - call->since;
    call->all_wait += entered - call->since;
    m->decode[row] = rounds;
    naive_begin_row(call);
    return true;
}

/* A step may have ended before the row; then it has had one token at least. */
static uint32_t naive_decoded(struct naive *m, uint32_t row)
{
    uint32_t decode = m->decode[row];
    ASSERT(m->produced[row] > 0 || decode == 0);
    return m->hasty && m->produced[row] < decode ? m->produced[row] : decode;
}

/* Returns whether the row's call goes on. */
static bool naive_settle_row(struct naive *m, uint32_t row, uint64_t duration,
                             const struct call *real)
{
    struct naive_call *call = &m->calls[m->rows[row]];
    if (call->standby && !naive_standby_entered(m, row, &duration)) {
        call->running = false;
        if (call->cancel || call->expired) {
            naive_end(m, call, CALL_FINISH_DEADLINE);
        }
        return call->open;
    }
    enum call_finish finish = CALL_FINISH_NONE;
    call->service += duration;
    call->all_service += duration;
    if (m->fault[row] == NAIVE_FAULT_NAN) {
        naive_drop(call);
        call->preemptions++;
        finish = ++call->faults == 2 ? CALL_FINISH_FAILED : CALL_FINISH_NONE;
    } else {
        call->kv += m->chunk[row];
        finish = naive_take(m, call, real, naive_decoded(m, row));
        if (call->kv > call->computed) {
            call->computed = call->kv;
            call->quantum -= duration < call->quantum ? duration : call->quantum;
        } else {
            call->quantum += duration;
        }
    }
    if (finish == CALL_FINISH_NONE && call->expired) {
        finish = CALL_FINISH_DEADLINE;
    }
    if (finish != CALL_FINISH_NONE || call->cancel) {
        naive_end(m, call, finish);
        return false;
    }
    call->running = false;
    call->since = m->now;
    return true;
}

/* `real` is the call table as it was before the product settled. */
void naive_settle(struct naive *m, const struct call *real, uint64_t duration)
{
    bool goes_on[NAIVE_ROWS_MAX];
    m->busy = false;
    for (uint32_t i = 0; i < m->rows_count; i++) {
        goes_on[i] = naive_settle_row(m, i, duration, &real[m->rows[i]]);
    }
    bool to_head = m->set.demoted_to_head && m->set.policy != SCHED_ROUND_ROBIN;
    for (uint32_t i = 0; i < m->rows_count; i++) {
        uint32_t row = to_head ? m->rows_count - 1 - i : i;
        struct naive_call *call = &m->calls[m->rows[row]];
        bool is_last = call->queue + 1 == m->set.queues;
        bool leaves = call->quantum == 0 && (!is_last || m->set.policy == SCHED_ROUND_ROBIN);
        if (goes_on[row] && leaves) {
            uint32_t below = is_last ? call->queue : call->queue + 1;
            naive_enter(m, call, call->from > 0 ? call->from : below, to_head);
        }
    }
}

static bool naive_is_impossible(const struct naive *m, uint32_t row)
{
    return m->fault[row] != NAIVE_FAULT_NONE && m->fault[row] != NAIVE_FAULT_NAN;
}

bool naive_refute(struct naive *m)
{
    bool is_refuted = false;
    for (uint32_t i = 0; i < m->rows_count; i++) {
        struct naive_call *call = &m->calls[m->rows[i]];
        if (naive_is_impossible(m, i)) {
            is_refuted = true;
            call->faults++;
        }
        if (naive_is_impossible(m, i) && call->faults == 2) {
            call->running = call->running && !call->standby;
            naive_end(m, call, call->expired ? CALL_FINISH_DEADLINE : CALL_FINISH_FAILED);
        }
    }
    return is_refuted;
}

void naive_lost(struct naive *m)
{
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        if (m->calls[i].open && m->calls[i].resident) {
            m->calls[i].preemptions++;
            naive_drop(&m->calls[i]);
        }
    }
    for (uint32_t i = 0; i < m->rows_count && m->busy; i++) {
        struct naive_call *call = &m->calls[m->rows[i]];
        if (!call->running) {
            continue;               /* it has ended, and its slot may be another's */
        }
        call->since = call->standby ? call->since : m->submitted;
        call->running = call->standby = false;
        if (call->cancel || call->expired) {
            naive_end(m, call, CALL_FINISH_DEADLINE);
        }
    }
    m->busy = false;
}

void naive_expire(struct naive *m)
{
    for (uint32_t i = 0; i < NAIVE_CALLS_MAX; i++) {
        struct naive_call *call = &m->calls[i];
        if (call->open && call->deadline <= m->now) {
            call->expired = true;
            if (!call->running) {
                naive_end(m, call, CALL_FINISH_DEADLINE);
            }
        }
    }
}

/* ---- do both agree? -------------------------------------------------------------------------- */

static void compare_call(const struct naive *m, uint32_t index)
{
    const struct naive_call *want = &m->calls[index];
    const struct call *got = &m->sched->calls->calls[index];
    ASSERT(got->state == (want->running ? CALL_RUNNING : CALL_QUEUED));
    ASSERT(got->generated_tokens == want->generated);
    ASSERT(got->kv_tokens == want->kv);
    ASSERT(got->standby == want->standby);
    ASSERT(got->cached_tokens == want->cached);
    ASSERT((kvmem_call_blocks(m->sched->engines[0].kv, index) > 0) == want->resident);
    ASSERT(got->quantum_left_us == want->quantum);
    ASSERT(got->wait_us == want->wait);
    ASSERT(got->service_us == want->service);
    ASSERT(got->lifetime_wait_us == want->all_wait);
    ASSERT(got->lifetime_service_us == want->all_service);
    ASSERT(got->priority_us == want->priority);
    ASSERT(got->preemptions == want->preemptions);
    ASSERT(got->promotions == want->promotions);
}

void naive_compare(const struct naive *m)
{
    uint32_t sorted[NAIVE_CALLS_MAX];
    uint32_t count = naive_sort(m, sorted);
    uint32_t at = 0;
    for (uint32_t queue = 0; queue < m->sched->settings.queues; queue++) {
        uint32_t index = m->sched->engines[0].queues[queue].lists[CALL_LIST_ALL].head;
        for (; index != CALL_NONE;
             index = m->sched->calls->calls[index].links[CALL_LIST_ALL].next) {
            ASSERT(at < count);
            ASSERT(sorted[at] == index);
            ASSERT(m->calls[index].queue == queue);
            compare_call(m, index);
            at++;
        }
    }
    ASSERT(at == count);
}
