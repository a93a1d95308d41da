/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what it costs that a program takes the place of another one. Private to sched/. */
#include "sched/call.h"

/* A step has ended. `prompt_tokens`: that it fed besides one for each row. */
void sched_exchange_learn(struct sched_engine *engine, uint64_t duration_us, uint32_t rounds,
                          uint32_t prompt_tokens);
/* Between two steps: the credit grows with time. */
void sched_exchange_accrue(struct sched_engine *engine, uint64_t now_us);
/* True when the host holds what a call loses. */
bool sched_exchange_is_held(const struct sched_engine *engine);
/* True when there is credit for an exchange. */
bool sched_exchange_may(const struct sched_engine *engine);
/* The engine's time that it costs to bring so many blocks out and back; or, where the host does not
 * hold them until then, to compute them again. */
uint64_t sched_exchange_cost_us(const struct sched_engine *engine, uint64_t blocks, bool is_held);
/* The moves of so many blocks, out and back, are paid for. */
void sched_exchange_pay(struct sched_engine *engine, uint32_t blocks);
/* So many tokens are computed again, or a waiting call finds so many less than were there. */
void sched_exchange_pay_lost(struct sched_engine *engine, uint64_t tokens);
/* A step has fed so many tokens, and what of them was computed again is paid. */
void sched_exchange_note(struct sched_engine *engine, uint64_t fed_tokens);
/* How long a program's blocks, so many, may lie unused before their exchange costs less than their
 * place. */
uint64_t sched_exchange_break_even_us(const struct sched_engine *engine, uint64_t blocks);
