/* SPDX-License-Identifier: MIT */
/*
 * What: what an exchange costs: a program's blocks leave for the host, and come back when it has
 * its turn. What the host had to drop is computed again.
 *
 *   token        of a prompt: a moving mean of the steps that read half a budget or more; a step
 *                that read less can only lower it
 *   block        that moves: a MOVE_PARTS-th of what it takes to compute it; on machines that we
 *                know it is a tenth to a seventieth. What the host cannot hold, beside the working
 *                sets of all programs that were displaced, is computed again
 *   credit       sched.exchange_share of the time in which the engine works, and all time in which
 *                it does not, up to an eighth of the break-even time. While the host has room
 *                beside all that were displaced, nothing will be computed again: then it is twice
 *                the share (docs/decisions/0099). An exchange may begin while the credit is not
 *                negative. Its moves are paid at once. What was lost is paid when it is computed
 *                again: how much the host will hold until then is not known. So the share holds in
 *                the long run, whatever the order of programs asks for. A debt beyond the
 *                break-even time is forgotten: what a lost worker held, say, is computed again, and
 *                a starved program does not wait for hours for that
 *   break-even   blocks that lie unused keep others from the engine: in proportion to their part of
 *                all KV. After the time that an exchange of all KV would take, the place has cost
 *                as much as the exchange (as Gray's five-minute rule has it)
 *
 * Bounds: O(1); integers only. The core measures the times; a wrong price costs time, never tokens.
 */
#include "sched/engine/active/exchange.h"

#define MEAN_PARTS   16u            /* a new value counts for one of so many */
#define MOVE_PARTS   16u
#define TOKEN_NS_MAX UINT64_C(1000000000)       /* a second: no product exceeds 64 bits */
#define CREDIT_PARTS 8u
#define ROOMY_SHARES 2u             /* of time, while the host has room */
#define LATELY_TOKENS 131072u        /* after which what was fed counts half */

void sched_exchange_learn(struct sched_engine *engine, uint64_t duration_us, uint32_t rounds,
                          uint32_t prompt_tokens)
{
    uint64_t *mean = &engine->active.token_ns;
    bool is_full = prompt_tokens >= (engine->sched->settings.prefill_tokens + 1) / 2;
    engine->active.busy_us += duration_us;
    if (rounds == 0 || prompt_tokens == 0) {
        return;
    }
    uint64_t token_ns = 1000 * duration_us / rounds / prompt_tokens;
    token_ns = token_ns < TOKEN_NS_MAX ? token_ns : TOKEN_NS_MAX;
    if (*mean == 0 || token_ns < *mean || is_full) {
        *mean = *mean == 0 || !is_full ? token_ns
                                       : (*mean * (MEAN_PARTS - 1) + token_ns) / MEAN_PARTS;
    }
}

/* True when the host has room for so many blocks beside those of all displaced programs. */
static bool host_holds(const struct sched_engine *engine, uint64_t blocks)
{
    return engine->active.away_blocks + blocks <= engine->kv->settings.host_blocks;
}

uint64_t sched_exchange_cost_us(const struct sched_engine *engine, uint64_t blocks, bool is_held)
{
    uint64_t block_ns = engine->active.token_ns * engine->kv->settings.block_tokens;
    return blocks * (is_held ? 2 * block_ns / MOVE_PARTS : block_ns) / 1000;
}

uint64_t sched_exchange_break_even_us(const struct sched_engine *engine, uint64_t blocks)
{
    return sched_exchange_cost_us(engine, engine->kv->settings.device_blocks,
                                  host_holds(engine, blocks));
}

static uint64_t share_permille(const struct sched_engine *engine)
{
    uint64_t shares = host_holds(engine, 1) ? ROOMY_SHARES : 1;
    uint64_t permille = shares * engine->sched->settings.exchange_permille;
    return permille < 1000 ? permille : 1000;
}

void sched_exchange_accrue(struct sched_engine *engine, uint64_t now_us)
{
    struct sched_active *active = &engine->active;
    uint64_t passed_us = sched_elapsed_us(active->credited_us, now_us);
    uint64_t busy_us = active->busy_us < passed_us ? active->busy_us : passed_us;
    uint64_t share_us = busy_us * share_permille(engine) / 1000;
    uint64_t all_us = sched_exchange_cost_us(engine, engine->kv->settings.device_blocks, true);
    int64_t most_us = (int64_t)(all_us / CREDIT_PARTS);
    active->credit_us += (int64_t)(share_us + (passed_us - busy_us));
    active->credit_us = active->credit_us < most_us ? active->credit_us : most_us;
    active->credited_us = now_us;
    active->busy_us = 0;
}

bool sched_exchange_is_held(const struct sched_engine *engine)
{
    return host_holds(engine, 1);
}

bool sched_exchange_may(const struct sched_engine *engine)
{
    return engine->active.credit_us >= 0;
}

/* The most that may be owed: the break-even time, and no more than sched.wait_max earns. So a
 * program that starves waits for credit as long as it has waited, and no longer. */
static uint64_t debt_max_us(const struct sched_engine *engine)
{
    const struct sched_settings *settings = &engine->sched->settings;
    uint64_t earned_us = settings->wait_max_us / 1000 * settings->exchange_permille;
    uint64_t even_us = sched_exchange_break_even_us(engine, 0);
    return settings->wait_max_us > 0 && earned_us < even_us ? earned_us : even_us;
}

static void pay(struct sched_engine *engine, uint64_t us)
{
    int64_t *credit_us = &engine->active.credit_us;
    int64_t least_us = -(int64_t)debt_max_us(engine);
    *credit_us -= (int64_t)us;
    *credit_us = *credit_us > least_us ? *credit_us : least_us;
    engine->sched->stats->exchange_us += us;
}

void sched_exchange_pay(struct sched_engine *engine, uint32_t blocks)
{
    if (engine->kv->settings.host_blocks > 0) {
        pay(engine, sched_exchange_cost_us(engine, blocks, true));
    }
}

void sched_exchange_pay_lost(struct sched_engine *engine, uint64_t tokens)
{
    engine->active.again_tokens += tokens;
    pay(engine, tokens * engine->active.token_ns / 1000);
}

/* Of what all engines were fed. */
static uint64_t again_permille(const struct sched *sched)
{
    uint64_t fed = 0, again = 0;
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        const struct sched_active *active = &sched->engines[i].active;
        fed += active->fed_tokens;
        again += active->again_tokens;
    }
    again = again < fed ? again : fed;
    return fed > 0 ? 1000 * again / fed : 0;
}

void sched_exchange_note(struct sched_engine *engine, uint64_t fed_tokens)
{
    struct sched_active *active = &engine->active;
    active->fed_tokens += fed_tokens;
    if (active->fed_tokens >= LATELY_TOKENS) {
        active->fed_tokens /= 2;
        active->again_tokens /= 2;
    }
    engine->sched->stats->recomputed_permille = again_permille(engine->sched);
}
