/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how long a step would take on another machine: a roofline, no more.
 *
 *     step  = host + max( rounds may begin + sum of its rounds, copies are done )
 *     round = launch + max(read, compute) + (1 - overlap) * min(read, compute)
 *
 * A round is one forward pass: the first feeds every row's tokens, each later one feeds one token
 * of every row that still decodes, and each the drafts of its rows. It reads the weights once, and
 * the KV of its rows: whole blocks that several rows share once, or once for each row
 * (COST_READS_EACH). It computes weights * 2 operations for each token fed, and attention over the
 * positions before it. The host's time is the system's (system.c), and copies.h says when the
 * copies of a step let its rounds begin.
 *
 * What it leaves out: communication between devices, the shape of kernels, sampling. Compare
 * policies with it; do not quote its seconds.
 */
#include <stdbool.h>
#include <stdint.h>

#define COST_SETTINGS_MAX 12
#define COST_ROUNDS_MAX   64        /* sched.steps_per_plan at most */

/* What rows have in common is read so often in a round. */
enum cost_reads { COST_READS_ONCE, COST_READS_EACH };
/* Which copies of a step run beside which (copies.h). */
enum cost_copies { COST_COPIES_SERIAL, COST_COPIES_STREAMS, COST_COPIES_NEEDED };

struct cost_model {
    const char *name;
    double unit_s;                  /* > 0: every decoding round takes this long, prefill nothing */
    double host_s;                  /* ours, between two steps: settle, intake, plan */
    double launch_s;                /* of one round */
    double weights_bytes;
    double kv_token_bytes;          /* of one position, all layers */
    double bandwidth;               /* bytes a second that arrive */
    double token_flops;             /* operations for one token, without attention */
    double attention_flops;         /* operations for one token and one position before it */
    double flops;                   /* operations a second that it performs */
    double overlap;                 /* 1: reads and operations run beside each other; 0: in turns */
    enum cost_reads prefix_reads;
    enum cost_copies copies;
    double copy_bandwidth;          /* between the tiers, bytes a second */
    double transfer_s;              /* overhead of one bulk transfer */
    double block_transfer_s;        /* overhead of one block that travels by itself */
    uint32_t context_tokens;        /* of the model */
    uint32_t vocab_tokens;
    const char *settings[COST_SETTINGS_MAX];    /* section.key=value, before all others */
};

/* NULL: there is no such preset. */
const struct cost_model *cost_find(const char *name);
/* "unit, a100-..." for messages. */
const char *cost_names(void);

/* A row's draft in one round: tokens that are fed with it, and those after which it goes on. */
struct cost_draft {
    uint8_t fed, agreed;
};
/* A row as the machine sees it. */
struct cost_row {
    uint32_t first_position, tokens_count;  /* what it feeds in its first round */
    uint32_t start_round;           /* above 0 for a row that takes the place of one that ended */
    uint32_t rounds;                /* >= 1: rounds with the row; one token in each but the first,
                                       and its draft */
    const struct cost_draft *drafts;    /* [rounds]; NULL: it has none */
    bool decodes;                   /* false: a piece of a prompt that gives no token yet */
    const uint32_t *blocks;         /* its KV blocks */
};
struct cost_batch {
    const struct cost_row *rows;
    uint32_t rows_count, block_tokens;
    uint64_t *seen;                 /* [KV blocks]: zero, before and after */
};
struct cost_round {
    double tokens, positions;       /* fed; KV positions that are read */
    double pairs;                   /* sum over fed tokens of the positions that they look at */
    double read_s, compute_s;
    uint64_t end_us;                /* from the start of the first round */
};
/* Seconds of moves between the tiers in one direction: bulk transfers, and blocks that move
 * alone. */
double cost_moves_s(const struct cost_model *model, uint64_t tokens_moved, uint32_t transfers,
                    uint32_t blocks_alone);
/* Seconds of the copies within the device that belong to one step: read once, written once. */
double cost_copies_s(const struct cost_model *model, uint64_t tokens_copied);
/* Seconds of a round that reads so many positions of KV and computes nothing to speak of. */
double cost_round_s(const struct cost_model *model, uint64_t positions);
/* Returns how many rounds a step has, and fills so many. O(sum of rounds and blocks). */
uint32_t cost_rounds(const struct cost_model *model, const struct cost_batch *batch,
                     struct cost_round rounds[COST_ROUNDS_MAX]);
