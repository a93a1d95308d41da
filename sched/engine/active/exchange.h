/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what it costs when one program takes the place of another. Private to sched/. */
#include "sched/call.h"

/* A step has ended. `prompt_tokens`: those that it fed beyond one for each row. */
void sched_exchange_learn(struct sched_engine *engine, uint64_t duration_us, uint32_t rounds,
                          uint32_t prompt_tokens);
/* Between two steps: the credit grows with time. */
void sched_exchange_accrue(struct sched_engine *engine, uint64_t now_us);
/* True when the host tier has room for the KV that a call loses. */
bool sched_exchange_is_held(const struct sched_engine *engine);
/* True when there is credit for an exchange. */
bool sched_exchange_may(const struct sched_engine *engine);
/* The engine's time that it costs to move so many blocks to the host and back or, unless `is_held`,
 * to compute them again. */
uint64_t sched_exchange_cost_us(const struct sched_engine *engine, uint64_t blocks, bool is_held);
/* Pays for the moves of so many blocks, out and back. */
void sched_exchange_pay(struct sched_engine *engine, uint32_t blocks);
/* Pays for tokens that are computed again, or that a waiting call no longer finds. */
void sched_exchange_pay_lost(struct sched_engine *engine, uint64_t tokens);
/* A step has fed so many tokens; those that it computed again are paid for. */
void sched_exchange_note(struct sched_engine *engine, uint64_t fed_tokens);
/* The time after which unused blocks have cost more, by the place that they take, than their
 * exchange would. */
uint64_t sched_exchange_break_even_us(const struct sched_engine *engine, uint64_t blocks);
