/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the dumb model of the scheduler. Calls lie in a plain array, which is sorted for every
 * plan; nothing is kept that can be worked out. It follows the words of docs/scheduling.md, not
 * the code of sched/. What is cached where is kvmem's business, so of a plan it takes over which
 * positions a call found and which calls lost their blocks, and asks whether both were right; the
 * same for tokens that decide when a call ends. All the rest it works out by itself.
 */
#include "selftest/unit/sched/bench.h"

#include "sched/plan.h"

enum { MODEL_PROGRAMS = 6 };

enum fault { FAULT_NONE, FAULT_NAN, FAULT_TOKEN, FAULT_COUNT, FAULT_SILENT };

struct model_call {
    bool open, running, standby, paused, cancel, expired, stop_text, resident, started, lost;
    bool has_run;
    uint32_t program, prompt, max, generated, kv, computed, cached, queue, from, preemptions;
    uint32_t promotions, faults;
    uint32_t stop_text_tokens;
    int64_t order;
    uint64_t key;                                   /* srpt's; else 0 */
    enum call_finish finish;
    uint64_t quantum, wait, service, all_wait, all_service, since, deadline, priority;
};

struct model {
    struct sched_settings set;
    struct kvmem_settings kv;
    uint64_t now, submitted;
    int64_t first_order, last_order;
    struct model_call calls[BENCH_CALLS];
    uint64_t service[MODEL_PROGRAMS], wait[MODEL_PROGRAMS], halved[MODEL_PROGRAMS];
    bool known[MODEL_PROGRAMS];
    uint32_t rows[BENCH_ROWS_MAX], chunk[BENCH_ROWS_MAX], decode[BENCH_ROWS_MAX];
    uint32_t produced[BENCH_ROWS_MAX];
    enum fault fault[BENCH_ROWS_MAX];
    uint32_t rows_count, rows_active;
    uint32_t rounds;                                /* that the engine says it had */
    bool busy, hasty;
    enum { ROOM_NONE, ROOM_LEFT, ROOM_UNKNOWN } room;   /* in the batch, for one more call */
};

static struct model m;

static uint64_t model_quantum(uint32_t queue)
{
    uint64_t quantum = m.set.quantum_us;
    while (queue-- > 0) {
        quantum *= m.set.quantum_growth;
    }
    return quantum;
}

static void model_enter(struct model_call *call, uint32_t queue, bool head)
{
    call->queue = queue;
    call->from = 0;
    call->quantum = model_quantum(queue);
    call->order = head ? --m.first_order : ++m.last_order;
}

static void model_accrue(struct model_call *call)
{
    call->wait += m.now - call->since;
    call->all_wait += m.now - call->since;
    call->since = m.now;
}

static void model_decay(uint32_t program)
{
    uint64_t half_life = m.set.half_life_us;
    if (!m.known[program]) {
        m.known[program] = true;
        m.halved[program] = m.now;
    }
    while (half_life > 0 && m.now - m.halved[program] >= half_life) {
        m.service[program] /= 2;
        m.halved[program] += half_life;
    }
}

static void model_arrive(uint32_t index, uint32_t program, uint32_t prompt, uint32_t max,
                         uint64_t deadline)
{
    struct model_call *call = &m.calls[index];
    model_decay(program);
    *call = (struct model_call){.open = true, .program = program, .prompt = prompt, .max = max,
                                .deadline = deadline, .since = m.now, .started = prompt == 1,
                                .priority = m.service[program]};
    uint32_t queue = 0;
    uint64_t high = 0;
    if (m.set.policy == SCHED_PLAS || m.set.policy == SCHED_ATLAS) {
        while (queue + 1 < m.set.queues && call->priority >= (high += model_quantum(queue))) {
            queue++;
        }
    }
    model_enter(call, queue, false);
}

static void model_drop(struct model_call *call)
{
    call->resident = false;
    call->kv = 0;
}

static void model_end(struct model_call *call, enum call_finish finish)
{
    uint64_t path = call->priority + call->all_service;
    if (!call->running) {
        model_accrue(call);
    }
    model_decay(call->program);
    if (m.set.policy != SCHED_ATLAS) {
        m.service[call->program] += call->all_service;
    } else if (path > m.service[call->program]) {
        m.service[call->program] = path;
    }
    m.wait[call->program] += call->all_wait;
    model_drop(call);
    if (call->cancel) {
        finish = call->stop_text ? CALL_FINISH_STOP_TEXT : CALL_FINISH_CANCELLED;
    }
    if (call->cancel && call->stop_text) {
        call->generated = call->stop_text_tokens;
    }
    call->finish = finish;
    call->open = call->running = call->standby = false;
}

static bool model_goes_first(const struct model_call *a, const struct model_call *b)
{
    if (a->queue != b->queue) {
        return a->queue < b->queue;
    }
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

/* Open calls in order, by insertion sort. */
static uint32_t model_sort(uint32_t *sorted)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        const struct model_call *call = &m.calls[i];
        if (!call->open) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0; at--) {
            const struct model_call *other = &m.calls[sorted[at - 1]];
            if (model_goes_first(other, call)) {
                break;
            }
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = i;
    }
    return count;
}

static bool model_starved(const struct model_call *call)
{
    uint64_t wait = call->wait + m.now - call->since;
    uint64_t service = call->service;
    if (call->queue == 0 || call->paused || call->cancel) {
        return false;
    }
    if (m.set.wait_max_us > 0 && wait >= m.set.wait_max_us) {
        return true;
    }
    if (m.set.policy != SCHED_MLFQ && call->promotions == 0) {
        wait += m.wait[call->program];
        service += m.service[call->program];
    }
    return m.set.beta_milli > 0 && service > 0 && wait * 1000 >= service * m.set.beta_milli;
}

static void model_promote_all(void)
{
    uint32_t sorted[BENCH_CALLS];
    uint32_t count = model_sort(sorted);
    for (uint32_t i = 0; i < count; i++) {
        struct model_call *call = &m.calls[sorted[i]];
        if (model_starved(call)) {
            model_accrue(call);
            call->wait = call->service = 0;
            call->promotions++;
            uint32_t from = call->queue;
            model_enter(call, 0, false);
            call->from = from;
            call->quantum = model_quantum(from);
        }
    }
}

/* ---- a plan: what it may have been ----------------------------------------------------------- */

static bool model_skips(const struct model_call *call)
{
    return call->paused || call->cancel;
}

static bool model_was_preempted(const struct bench *bench, uint32_t index)
{
    uint32_t preemptions = bench->calls.calls[index].preemptions;
    assert_true(preemptions - m.calls[index].preemptions <= 1);
    return preemptions > m.calls[index].preemptions;
}

/* Victims were resident, and those behind them went first. */
static void model_take_victims(const struct bench *bench, const uint32_t *sorted, uint32_t count)
{
    bool must_go = false;
    for (uint32_t i = 0; i < count; i++) {
        struct model_call *call = &m.calls[sorted[i]];
        bool was_preempted = call->lost = model_was_preempted(bench, sorted[i]);
        assert_true(call->resident || !was_preempted);
        assert_true(!must_go || was_preempted || !call->resident);
        must_go = must_go || (was_preempted && !model_skips(call));
        if (was_preempted) {
            call->preemptions++;
            model_drop(call);
        }
    }
}

/* The call has a row, or would have one: what it feeds and samples. */
static uint32_t model_chunk(const struct model_call *call, uint32_t budget)
{
    uint32_t remaining = call->prompt + call->generated - call->kv;
    return remaining == 1 || remaining < budget ? remaining : budget;
}

static void model_found(const struct bench *bench, struct model_call *call, uint32_t index,
                        uint32_t found)
{
    assert_true(found < call->prompt + call->generated);
    bool is_alone = m.set.sharing == SCHED_SHARING_OFF || call->faults > 0;
    assert_true(!is_alone || found <= call->computed);
    assert_true(kvmem_call_blocks(&bench->kv, index) > 0);
    call->resident = call->started = true;
    call->kv = found;
    call->computed = found > call->computed ? found : call->computed;
}

static void model_row(const struct bench *bench, uint32_t index, uint32_t *budget)
{
    struct model_call *call = &m.calls[index];
    uint32_t row = m.rows_count++;
    const struct step_row *got = step_row(&bench->step, row);
    if (!call->resident) {
        model_found(bench, call, index, got->first_position);
    }
    uint32_t remaining = call->prompt + call->generated - call->kv;
    uint32_t decode = call->max - call->generated;
    m.rows[row] = index;
    m.chunk[row] = model_chunk(call, *budget);
    m.decode[row] = m.chunk[row] < remaining ? 0
                    : decode < m.set.steps_per_plan ? decode : m.set.steps_per_plan;
    *budget -= remaining == 1 ? 0 : m.chunk[row];
    assert_int_equal(got->first_position, call->kv);
    assert_int_equal(got->tokens_count, m.chunk[row]);
    assert_int_equal(got->decode_steps, m.decode[row]);
}

/* A call that could run has no row though the batch is not full: then nobody behind it has blocks,
 * and no call that cannot run. */
static void model_did_not_fit(const uint32_t *sorted, uint32_t count, uint32_t at)
{
    assert_true(m.rows_count > 0);
    for (uint32_t i = 0; i < count; i++) {
        const struct model_call *call = &m.calls[sorted[i]];
        assert_false((i > at || model_skips(call)) && call->resident);
    }
}

static bool model_was_seen(const struct bench *bench, uint32_t index)
{
    return bench->calls.calls[index].walk_sequence == bench->sched.sequence;
}

/* Without budget, the walk comes past such calls only as may need none. Whether a call that cannot
 * run lost its blocks before the walk came to it, or behind its back, is not known. */
static bool model_is_on_the_way(const struct bench *bench, uint32_t index, uint32_t budget,
                                uint32_t vain)
{
    const struct model_call *call = &m.calls[index];
    bool was_resident = call->lost && model_skips(call) && model_was_seen(bench, index);
    return budget > 0 || (vain > 0 ? call->started : call->resident || was_resident);
}

/* Without budget, a call that has run before may need none: what it found is not known, only
 * whether the walk went on behind it. */
static bool model_ended_unseen(const struct bench *bench, const uint32_t *sorted, uint32_t count,
                               uint32_t at, uint32_t vain)
{
    for (uint32_t next = at + 1; next < count; next++) {
        if (model_is_on_the_way(bench, sorted[next], 0, vain)) {
            return !model_was_seen(bench, sorted[next]);
        }
    }
    return false;
}

/* Returns the place in the order of the first call behind the walk. Where it is not known whether
 * it went on, there was nobody left to come past. */
static uint32_t model_walk(const struct bench *bench, const uint32_t *sorted, uint32_t count)
{
    const struct step_header *header = step_header(&bench->step);
    uint32_t budget = m.set.prefill_tokens;
    uint32_t vain = m.set.batch_calls;
    uint32_t end = count;
    m.room = ROOM_LEFT;
    for (uint32_t i = 0; i < count; i++) {
        struct model_call *call = &m.calls[sorted[i]];
        if (m.rows_count == m.set.batch_calls) {
            m.room = ROOM_NONE;
            return i;
        }
        if (!model_is_on_the_way(bench, sorted[i], budget, vain)) {
            assert_false(model_was_seen(bench, sorted[i]));
            continue;
        }
        bool is_claim = !call->resident && !model_skips(call) && budget == 0 &&
                        call->computed > 0 && call->prompt + call->generated > 1;
        uint32_t rows = m.rows_count;
        vain -= is_claim;
        assert_true(model_was_seen(bench, sorted[i]));
        if (model_skips(call)) {
            call->since = m.now;
        } else if (m.rows_count < header->rows_active &&
                   step_row(&bench->step, m.rows_count)->call == sorted[i]) {
            model_row(bench, sorted[i], &budget);
        } else if (model_chunk(call, budget) > 0 ||
                   (is_claim && model_ended_unseen(bench, sorted, count, i, vain))) {
            model_did_not_fit(sorted, count, i);
            m.room = model_chunk(call, budget) > 0 ? ROOM_NONE : ROOM_UNKNOWN;
            return i + 1;
        }
        bool in_vain = is_claim && m.rows_count == rows;
        end = in_vain ? i + 1 : count;
        m.room = in_vain ? ROOM_UNKNOWN : ROOM_LEFT;
    }
    m.room = m.rows_count == m.set.batch_calls ? ROOM_NONE : m.room;
    return end;
}

static void model_standbys(const struct bench *bench, const uint32_t *sorted, uint32_t count,
                           uint32_t at)
{
    uint32_t rows = step_header(&bench->step)->rows_count;
    uint32_t looks = SCHED_STANDBY_LOOKS * (m.set.batch_calls + m.set.standby_calls);
    for (; at < count && m.set.steps_per_plan > 1 && m.rows_active > 0; at++) {
        struct model_call *call = &m.calls[sorted[at]];
        if (!call->resident || looks == 0) {
            continue;
        }
        looks--;
        uint32_t known = call->prompt + call->generated;
        uint32_t decode = call->max - call->generated;
        decode = decode < m.set.steps_per_plan - 1 ? decode : m.set.steps_per_plan - 1;
        bool can = call->resident && !model_skips(call) && call->kv + 1 == known;
        const struct step_row *got = step_row(&bench->step, m.rows_count);
        if (m.rows_count < rows && got->call == sorted[at]) {
            assert_true(can);
            assert_int_equal(got->first_position, call->kv);
            assert_int_equal(got->tokens_count, 1);
            assert_int_equal(got->decode_steps, decode);
            m.rows[m.rows_count] = sorted[at];
            m.chunk[m.rows_count] = 1;
            m.decode[m.rows_count++] = decode;
        } else if (m.rows_count - m.rows_active < m.set.standby_calls && can) {
            /* There must have been no room. */
            assert_true(kvmem_missing(&bench->kv, sorted[at], known + decode - 1) > 0);
        }
    }
    assert_true(m.rows_count - m.rows_active <= m.set.standby_calls);
}

static void model_prefetched(const struct bench *bench, const uint32_t *sorted, uint32_t count,
                             uint32_t at)
{
    uint32_t prefetched = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct model_call *call = &m.calls[sorted[i]];
        if (!call->resident && kvmem_call_blocks(&bench->kv, sorted[i]) > 0) {
            assert_true(m.set.prefetch && i >= at && !model_skips(call));
            model_found(bench, call, sorted[i], bench->calls.calls[sorted[i]].kv_tokens);
            prefetched++;
        }
    }
    assert_true(prefetched <= m.set.batch_calls);
}

/* The step may last as long as nobody has a use for its end. */
static void model_haste(const struct bench *bench)
{
    uint32_t budget = m.set.prefill_tokens;
    for (uint32_t i = 0; i < m.rows_active; i++) {
        const struct model_call *call = &m.calls[m.rows[i]];
        bool decodes_only = call->prompt + call->generated - call->kv == 1;
        budget -= decodes_only ? 0 : m.chunk[i];
    }
    bool has_room = m.room == ROOM_UNKNOWN ? bench->sched.has_room : m.room == ROOM_LEFT;
    m.hasty = m.set.cut_steps;
    assert_int_equal(bench->sched.has_room, has_room);
    assert_int_equal(step_haste(&bench->step),
                     !m.hasty ? STEP_WHOLE : has_room && budget == 0 ? STEP_ROUND_ENDS
                                                                     : STEP_ROW_ENDS);
}

/* Time has come to m.now and the queues are as they were when the plan began. */
static void model_follow_plan(const struct bench *bench, bool planned)
{
    uint32_t sorted[BENCH_CALLS];
    const struct step_header *header = step_header(&bench->step);
    uint32_t count = model_sort(sorted);
    m.rows_count = m.rows_active = 0;
    model_take_victims(bench, sorted, count);
    uint32_t at = model_walk(bench, sorted, count);
    m.rows_active = m.rows_count;
    assert_int_equal(header->rows_active, m.rows_active);
    assert_int_equal(planned, m.rows_active > 0);
    model_haste(bench);
    model_standbys(bench, sorted, count, at);
    assert_int_equal(header->rows_count, m.rows_count);
    model_prefetched(bench, sorted, count, at);
    for (uint32_t i = 0; i < m.rows_count; i++) {
        m.calls[m.rows[i]].standby = i >= m.rows_active;
    }
}

static void model_begin_row(struct model_call *call)
{
    uint32_t found = call->kv < call->prompt ? call->kv : call->prompt;
    call->cached = !call->has_run || found < call->cached ? found : call->cached;
    call->has_run = true;
}

static void model_launch(void)
{
    for (uint32_t i = 0; i < m.rows_count; i++) {
        struct model_call *call = &m.calls[m.rows[i]];
        if (!call->standby) {
            model_accrue(call);
            model_begin_row(call);
        }
        call->running = true;
    }
    m.busy = m.rows_count > 0;
    m.submitted = m.now;
}

/* ---- a step that comes back ------------------------------------------------------------------ */

/* The oracle's own tokens tell when the call ends, and why. */
static enum call_finish model_take(struct model_call *call, const struct call *real,
                                   uint32_t decode)
{
    uint32_t tokens[BENCH_CONTEXT + BENCH_STEPS_MAX];
    uint32_t known = call->prompt + call->generated;
    uint32_t room = call->max - call->generated;
    uint32_t count = bench_oracle(real, known, decode < room ? decode : room, tokens);
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
static bool model_standby_entered(uint32_t row, uint64_t *duration)
{
    struct model_call *call = &m.calls[m.rows[row]];
    uint32_t rounds = m.produced[row] < m.decode[row] ? m.produced[row] : m.decode[row];
    call->standby = false;
    if (m.fault[row] == FAULT_NONE && rounds == 0) {
        return false;
    }
    *duration = *duration * rounds / (m.rounds > rounds ? m.rounds : rounds + 1);
    uint64_t entered = m.now - *duration;
    call->wait += entered - call->since;
    call->all_wait += entered - call->since;
    m.decode[row] = rounds;
    model_begin_row(call);
    return true;
}

/* A step may have ended before the row; then it has had one token at least. */
static uint32_t model_decoded(uint32_t row)
{
    uint32_t decode = m.decode[row];
    assert_true(m.produced[row] > 0 || decode == 0);
    return m.hasty && m.produced[row] < decode ? m.produced[row] : decode;
}

/* Returns whether the row's call goes on. */
static bool model_settle_row(uint32_t row, uint64_t duration, const struct call *real)
{
    struct model_call *call = &m.calls[m.rows[row]];
    if (call->standby && !model_standby_entered(row, &duration)) {
        call->running = false;
        if (call->cancel || call->expired) {
            model_end(call, CALL_FINISH_DEADLINE);
        }
        return call->open;
    }
    enum call_finish finish = CALL_FINISH_NONE;
    call->service += duration;
    call->all_service += duration;
    if (m.fault[row] == FAULT_NAN) {
        model_drop(call);
        call->preemptions++;
        finish = ++call->faults == 2 ? CALL_FINISH_FAILED : CALL_FINISH_NONE;
    } else {
        call->kv += m.chunk[row];
        finish = model_take(call, real, model_decoded(row));
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
        model_end(call, finish);
        return false;
    }
    call->running = false;
    call->since = m.now;
    return true;
}

/* `real` is the call table as it was before the product settled. */
static void model_settle(const struct call *real, uint64_t duration)
{
    bool goes_on[BENCH_ROWS_MAX];
    m.busy = false;
    for (uint32_t i = 0; i < m.rows_count; i++) {
        goes_on[i] = model_settle_row(i, duration, &real[m.rows[i]]);
    }
    bool to_head = m.set.demoted_to_head && m.set.policy != SCHED_ROUND_ROBIN;
    for (uint32_t i = 0; i < m.rows_count; i++) {
        uint32_t row = to_head ? m.rows_count - 1 - i : i;
        struct model_call *call = &m.calls[m.rows[row]];
        bool is_last = call->queue + 1 == m.set.queues;
        bool leaves = call->quantum == 0 && (!is_last || m.set.policy == SCHED_ROUND_ROBIN);
        if (goes_on[row] && leaves) {
            uint32_t below = is_last ? call->queue : call->queue + 1;
            model_enter(call, call->from > 0 ? call->from : below, to_head);
        }
    }
}

static bool model_is_impossible(uint32_t row)
{
    return m.fault[row] != FAULT_NONE && m.fault[row] != FAULT_NAN;
}

/* Of such a step nothing counts but who is to blame. */
static bool model_refute(void)
{
    bool is_refuted = false;
    for (uint32_t i = 0; i < m.rows_count; i++) {
        struct model_call *call = &m.calls[m.rows[i]];
        if (model_is_impossible(i)) {
            is_refuted = true;
            call->faults++;
        }
        if (model_is_impossible(i) && call->faults == 2) {
            call->running = call->running && !call->standby;
            model_end(call, call->expired ? CALL_FINISH_DEADLINE : CALL_FINISH_FAILED);
        }
    }
    return is_refuted;
}

static void model_lost(void)
{
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        if (m.calls[i].open && m.calls[i].resident) {
            m.calls[i].preemptions++;
            model_drop(&m.calls[i]);
        }
    }
    for (uint32_t i = 0; i < m.rows_count && m.busy; i++) {
        struct model_call *call = &m.calls[m.rows[i]];
        if (!call->open) {
            continue;
        }
        call->since = call->standby ? call->since : m.submitted;
        call->running = call->standby = false;
        if (call->cancel || call->expired) {
            model_end(call, CALL_FINISH_DEADLINE);
        }
    }
    m.busy = false;
}

static void model_expire(void)
{
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        struct model_call *call = &m.calls[i];
        if (call->open && call->deadline <= m.now) {
            call->expired = true;
            if (!call->running) {
                model_end(call, CALL_FINISH_DEADLINE);
            }
        }
    }
}
