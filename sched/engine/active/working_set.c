/* SPDX-License-Identifier: MIT */
/*
 * What: the working set of a program (Denning, 1968): the KV blocks that its next calls will find
 * useful.
 *
 * It is that of its member at one engine.
 *
 *   common     what the first of its open calls found that other programs have, too (group.c)
 *   history    what that call found besides, or when none is open, what the last one has left: the
 *              next call is expected to go on there
 *   new        what each open call needs besides: its prompt, and as much output as calls have on
 *              average; one that has had more is expected to have as much again. What calls that
 *              are open at once have in common at their beginning counts once, for the one that
 *              came first; when that ends, for the next
 *
 * A program of several open calls counts a quarter of the KV at most, or its history and one call:
 * the others run after each other.
 * Why no growth beyond the open calls: room that is kept for later stands empty until then. That
 * cost a fifth of the throughput of chats; an overflow now and then costs a hundredth.
 *
 * Invariants: integers; the open calls' shares sum up to member.new_blocks, and none is larger
 * than what its call needs.
 * Bounds: O(1), but for the comparison with a sibling's prompt.
 */
#include "sched/engine/active/working_set.h"

#include <string.h>

#include "sched/engine/member.h"

#define PARTS      4u               /* a program of several open calls takes one of so many */
#define MEAN_PARTS 32u              /* a new value counts for one of so many */

static uint32_t block_tokens_of(const struct sched *sched)
{
    return sched->engines[0].kv->settings.block_tokens;
}

/* Whole blocks at the beginning that both prompts have. */
static uint32_t common_blocks(const struct sched *sched, const struct call *a,
                              const struct call *b)
{
    uint32_t block_tokens = block_tokens_of(sched), blocks = 0;
    uint32_t tokens = a->prompt_tokens < b->prompt_tokens ? a->prompt_tokens : b->prompt_tokens;
    uint64_t bytes = (uint64_t)block_tokens * sizeof *a->tokens;
    while ((blocks + 1) * block_tokens <= tokens &&
           memcmp(a->tokens + (uint64_t)blocks * block_tokens,
                  b->tokens + (uint64_t)blocks * block_tokens, bytes) == 0) {
        blocks++;
    }
    return blocks;
}

/* Tokens that the call may generate, as far as is known. */
static uint32_t expected_output(const struct sched *sched, const struct call *call)
{
    uint64_t expected = sched->output_tokens;
    return expected > 0 && expected < call->max_tokens ? (uint32_t)expected : call->max_tokens;
}

void sched_working_set_grow(struct sched *sched, struct call *call,
                            const struct kvmem_answer *answer)
{
    struct sched_member *member = sched_member_of(sched, call);
    const struct call *sibling = sched_call_or_null(sched, call->program_next);
    call->expected_tokens = call->prompt_tokens + expected_output(sched, call);
    call->found_tokens = answer->positions;
    uint32_t needed = kvmem_blocks_ceil(call->expected_tokens, block_tokens_of(sched));
    uint32_t found = answer->blocks;
    ASSERT(member->first_call == call->slot && member->calls_count > 0);
    if (sibling == NULL) {
        member->history_blocks = found - answer->declared_blocks - answer->common_blocks;
        member->common_blocks = answer->common_blocks;
        member->common_identity = answer->common_identity;
    } else if (sched->settings.sharing != SCHED_SHARING_OFF) {
        uint32_t common = common_blocks(sched, call, sibling);
        found = common > found ? common : found;
    }
    call->new_blocks = needed > found ? needed - found : 0;
    member->new_blocks += call->new_blocks;
}

void sched_working_set_follow(struct sched *sched, struct call *call)
{
    uint32_t block_tokens = block_tokens_of(sched);
    uint32_t before = kvmem_blocks_ceil(call->expected_tokens, block_tokens);
    uint32_t most = call->prompt_tokens + call->max_tokens;
    uint32_t tokens = sched_call_known(call) + expected_output(sched, call);
    call->expected_tokens = tokens < most ? tokens : most;
    uint32_t more = kvmem_blocks_ceil(call->expected_tokens, block_tokens) - before;
    call->new_blocks += more;
    sched_member_of(sched, call)->new_blocks += more;
}

/* What the last open call leaves for the next one. */
static uint32_t left_blocks(const struct sched *sched, const struct call *call)
{
    const struct sched_engine *engine = sched_engine_of(sched, call);
    bool is_kept = sched->settings.sharing != SCHED_SHARING_OFF && call->faults == 0 &&
                   engine->kv->settings.retain_drop_us > 0;
    uint32_t blocks = kvmem_blocks_ceil(call->computed_tokens, block_tokens_of(sched));
    uint32_t others = kvmem_call_declared(engine->kv, call->slot) +
                      kvmem_call_common(engine->kv, call->slot);
    return is_kept && blocks > others ? blocks - others : 0;
}

/* Blocks at the beginning of the call that count elsewhere. */
static uint32_t blocks_before(const struct sched *sched, const struct call *call)
{
    return kvmem_blocks_ceil(call->expected_tokens, block_tokens_of(sched)) - call->new_blocks;
}

/* What the sibling that came next has in common with the call, which ends, is the sibling's now. */
static void hand_over(const struct sched *sched, const struct call *call)
{
    struct sched_member *member = sched_member_of(sched, call);
    struct call *next = sched_call_or_null(sched, call->program_prev);
    uint32_t before = blocks_before(sched, call);
    uint32_t history = member->history_blocks + member->common_blocks;
    before = before > history ? before : history;
    if (next != NULL && blocks_before(sched, next) > before) {
        uint32_t more = blocks_before(sched, next) - before;
        next->new_blocks += more;
        member->new_blocks += more;
    }
}

void sched_working_set_shrink(struct sched *sched, const struct call *call)
{
    struct sched_member *member = sched_member_of(sched, call);
    ASSERT(member->new_blocks >= call->new_blocks);
    hand_over(sched, call);
    member->new_blocks -= call->new_blocks;
    if (member->calls_count == 1) {
        member->history_blocks = left_blocks(sched, call);
    }
}

void sched_working_set_learn(struct sched *sched, const struct call *call)
{
    uint64_t *mean = &sched->output_tokens;
    *mean = (*mean * (MEAN_PARTS - 1) + call->generated_tokens + MEAN_PARTS - 1) / MEAN_PARTS;
}

uint32_t sched_working_set(const struct sched_member *member, uint32_t most)
{
    uint32_t blocks = member->history_blocks + member->new_blocks;
    if (member->calls_count > 1) {
        uint32_t widest = most / PARTS;
        uint32_t one = member->history_blocks + member->new_blocks / member->calls_count;
        widest = widest > one ? widest : one;
        blocks = blocks < widest ? blocks : widest;
    }
    return blocks < most ? blocks : most;
}
