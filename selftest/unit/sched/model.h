/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the dumb model of the scheduler. Calls lie in a plain array, which is sorted for every
 * plan; blocks are numbers, recounted for every victim; nothing is kept that can be worked out.
 * It follows the words of docs/scheduling.md, not the code of sched/. Only where the tokens
 * themselves decide when a call ends does it look at the product's records.
 */
#include "selftest/unit/sched/bench.h"

enum { MODEL_PROGRAMS = 6 };

enum fault { FAULT_NONE, FAULT_NAN, FAULT_TOKEN, FAULT_COUNT, FAULT_SILENT };

struct model_call {
    bool open, running, paused, cancel, expired, stop_text;
    uint32_t program, prompt, max, generated, kv, computed, blocks, queue, preemptions, promotions;
    uint32_t stop_text_tokens;
    int64_t order;
    enum call_finish finish;
    uint64_t quantum, wait, service, all_wait, all_service, since, deadline, priority;
};

struct model {
    struct sched_settings set;
    uint32_t blocks, used;
    uint64_t now, submitted;
    int64_t first_order, last_order;
    struct model_call calls[BENCH_CALLS];
    uint64_t service[MODEL_PROGRAMS], wait[MODEL_PROGRAMS];
    uint32_t rows[BENCH_BATCH_MAX], chunk[BENCH_BATCH_MAX], decode[BENCH_BATCH_MAX];
    enum fault fault[BENCH_BATCH_MAX];
    uint32_t rows_count;
    bool busy;
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
    call->quantum = model_quantum(queue);
    call->order = head ? --m.first_order : ++m.last_order;
}

static void model_accrue(struct model_call *call)
{
    call->wait += m.now - call->since;
    call->all_wait += m.now - call->since;
    call->since = m.now;
}

static void model_arrive(uint32_t index, uint32_t program, uint32_t prompt, uint32_t max,
                         uint64_t deadline)
{
    struct model_call *call = &m.calls[index];
    *call = (struct model_call){.open = true, .program = program, .prompt = prompt, .max = max,
                                .deadline = deadline, .since = m.now,
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
    m.used -= call->blocks;
    call->blocks = call->kv = 0;
}

static void model_end(struct model_call *call, enum call_finish finish)
{
    uint64_t path = call->priority + call->all_service;
    if (!call->running) {
        model_accrue(call);
    }
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
    call->open = call->running = false;
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
            if (other->queue < call->queue ||
                (other->queue == call->queue && other->order < call->order)) {
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
            model_enter(call, 0, false);
        }
    }
}

/* Frees blocks until `missing` are there; false, with nothing changed, when that cannot be. */
static bool model_make_room(uint32_t self, const bool *visited, uint32_t missing)
{
    for (bool trial = true;; trial = false) {
        uint32_t gain = 0;
        uint32_t victim = CALL_NONE;
        for (uint32_t i = 0; i < BENCH_CALLS; i++) {
            const struct model_call *call = &m.calls[i];
            if (!call->open || i == self || call->blocks == 0 ||
                (visited[i] && !call->paused && !call->cancel)) {
                continue;
            }
            gain += call->blocks;
            if (victim == CALL_NONE || call->queue > m.calls[victim].queue ||
                (call->queue == m.calls[victim].queue && call->order > m.calls[victim].order)) {
                victim = i;
            }
        }
        uint32_t free_blocks = m.blocks - m.used;
        if (missing > free_blocks + gain) {
            assert_true(trial);
            return false;
        }
        if (missing <= free_blocks) {
            return true;
        }
        m.calls[victim].preemptions++;
        model_drop(&m.calls[victim]);
    }
}

static void model_plan(void)
{
    uint32_t sorted[BENCH_CALLS];
    bool visited[BENCH_CALLS] = {false};
    uint32_t budget = m.set.prefill_tokens;
    model_promote_all();
    uint32_t count = model_sort(sorted);
    m.rows_count = 0;
    for (uint32_t i = 0; i < count && m.rows_count < m.set.batch_calls; i++) {
        struct model_call *call = &m.calls[sorted[i]];
        uint32_t remaining = call->prompt + call->generated - call->kv;
        uint32_t chunk = remaining < budget ? remaining : budget;
        uint32_t decode = call->max - call->generated;
        visited[sorted[i]] = true;
        if (call->paused || call->cancel) {
            call->since = m.now;
            continue;
        }
        chunk = remaining == 1 ? 1 : chunk;
        if (chunk == 0) {
            continue;
        }
        decode = decode < m.set.steps_per_plan ? decode : m.set.steps_per_plan;
        decode = chunk < remaining ? 0 : decode;
        uint32_t positions = call->kv + chunk + (decode > 0 ? decode - 1 : 0);
        uint32_t needed = (positions + BENCH_BLOCK_TOKENS - 1) / BENCH_BLOCK_TOKENS;
        uint32_t missing = needed > call->blocks ? needed - call->blocks : 0;
        if (!model_make_room(sorted[i], visited, missing)) {
            break;
        }
        call->blocks += missing;
        m.used += missing;
        budget -= remaining == 1 ? 0 : chunk;
        m.rows[m.rows_count] = sorted[i];
        m.chunk[m.rows_count] = chunk;
        m.decode[m.rows_count++] = decode;
    }
}

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

/* Returns whether the row's call goes on. */
static bool model_settle_row(uint32_t row, uint64_t duration, const struct call *real)
{
    struct model_call *call = &m.calls[m.rows[row]];
    enum call_finish finish = m.fault[row] != FAULT_NONE ? CALL_FINISH_FAILED : CALL_FINISH_NONE;
    call->service += duration;
    call->all_service += duration;
    if (finish == CALL_FINISH_NONE) {
        call->kv += m.chunk[row];
        finish = model_take(call, real, m.decode[row]);
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
    bool goes_on[BENCH_BATCH_MAX];
    m.busy = false;
    for (uint32_t i = 0; i < m.rows_count; i++) {
        goes_on[i] = model_settle_row(i, duration, &real[m.rows[i]]);
    }
    for (uint32_t i = 0; i < m.rows_count; i++) {
        uint32_t row = m.set.demoted_to_head ? m.rows_count - 1 - i : i;
        struct model_call *call = &m.calls[m.rows[row]];
        if (goes_on[row] && call->quantum == 0 && call->queue + 1 < m.set.queues) {
            model_enter(call, call->queue + 1, m.set.demoted_to_head);
        }
    }
}

static void model_lost(void)
{
    for (uint32_t i = 0; i < m.rows_count && m.busy; i++) {
        struct model_call *call = &m.calls[m.rows[i]];
        call->running = false;
        call->since = m.submitted;
        if (call->cancel || call->expired) {
            model_end(call, CALL_FINISH_DEADLINE);
        }
    }
    m.busy = false;
    for (uint32_t i = 0; i < BENCH_CALLS; i++) {
        if (m.calls[i].open && m.calls[i].blocks > 0) {
            m.calls[i].preemptions++;
            model_drop(&m.calls[i]);
        }
    }
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
