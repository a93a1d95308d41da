/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: how long a step would take on a machine that is not here: a roofline, no more.
 *
 *     time = sum over rounds of ( launch + max( bytes read / bandwidth, operations / rate ) )
 *            + bytes moved / copy bandwidth + transfer overhead * bulk transfers
 *
 * A round is one forward pass: the first feeds every row's tokens, each later one feeds one token
 * of every row that still decodes. Bytes read are the weights once and the KV of every row once;
 * operations are weights * 2 for each token fed, and attention over the positions behind it.
 *
 * What it leaves out: communication between devices, the shape of kernels, sampling, and the
 * host's own time between steps. Compare policies with it; do not quote its seconds.
 */
#include <stdint.h>

#include "appliance/base/step.h"

#define COST_SETTINGS_MAX 12

struct cost_model {
    const char *name;
    double unit_s;                  /* > 0: every decoding round takes this long, prefill nothing */
    double launch_s;                /* of one round */
    double weights_bytes;
    double kv_token_bytes;          /* of one position, all layers */
    double bandwidth;               /* bytes a second that really come */
    double token_flops;             /* operations for one token, attention apart */
    double attention_flops;         /* operations for one token and one position behind it */
    double flops;                   /* operations a second that really happen */
    double copy_bandwidth;          /* between the tiers, bytes a second */
    double transfer_s;              /* overhead of one bulk transfer */
    double host_bytes;              /* of the host tier */
    uint32_t context_tokens;        /* of the model */
    uint32_t vocab_tokens;
    const char *settings[COST_SETTINGS_MAX];    /* section.key=value, before every other one */
};

/* NULL: there is no such preset. */
const struct cost_model *cost_find(const char *name);
/* "unit, a100-..." for messages. */
const char *cost_names(void);

/* What a step asks of the machine, besides the moves; one entry for each round. */
struct cost_work {
    double tokens, positions;       /* fed in this round; KV positions that are read */
    double pairs;                   /* sum over fed tokens of the positions that they look at */
};
/* Seconds of one round, of the moves of one step. */
double cost_round_s(const struct cost_model *model, const struct cost_work *work);
double cost_moves_s(const struct cost_model *model, uint64_t tokens_moved, uint32_t transfers);
/* Microseconds of the whole step as it was submitted; every row is taken to decode all its steps.
 * O(rows * rounds). */
uint64_t cost_step_us(const struct cost_model *model, const struct step *step);
