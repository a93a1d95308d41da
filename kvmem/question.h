/* SPDX-License-Identifier: MIT */
#pragma once
/* What: a call's question to kvmem, which KV there is for it, and the answer (kvmem.h). */
#include <stdbool.h>
#include <stdint.h>

struct kvmem_question {
    uint32_t call;                  /* 0 .. calls + prefixes - 1 */
    uint32_t holder;                /* the party that the call belongs to */
    bool whole;                     /* anything less than all but the last token is of no use:
                                       before the search, one look at the place where the positions
                                       end that the call gave up last; O(block_tokens) */
    uint64_t salt;                  /* < 2 * KVMEM_SALT_ALONE; KVMEM_SALT_DECLARED for a prefix */
    const uint32_t *tokens;         /* [count]: all that are known */
    uint32_t count;                 /* 1 .. blocks_per_call * block_tokens */
};

/* For a call that owns blocks: these, and nothing else is filled in. For a call without blocks: the
 * longest cached beginning of its tokens. */
struct kvmem_answer {
    uint32_t call;
    uint32_t blocks;                /* owned or found; 0 .. blocks_per_call */
    bool is_owned;                  /* the call owns them */
    uint32_t positions;             /* found, copied ones included; < question.count, so that the
                                       last token is computed and gives logits */
    uint32_t host_blocks;           /* of the found ones, those that lie on the host */
    uint32_t declared_blocks;       /* of the found ones, those of a declared prefix: the first */
    uint32_t common_blocks;         /* of the found ones after those: that calls of other holders
                                       have found or left */
    uint64_t common_identity;       /* of the content of the last of these, in this boot */
    bool is_under_way;              /* there is more, which moves to the host with this step */
    /* private: only kvmem/ */
    uint32_t copy_from;             /* the copy source */
    uint32_t copy_positions;        /* of its beginning that the call needs; 0: no copy */
    uint32_t holder;
    uint32_t asked;                 /* question.count; 0: the look at the end found nothing */
    bool is_lost;                   /* not even the first full block is anywhere */
    uint64_t salt;
    uint64_t version;               /* of kvmem's names when the question was asked */
};
