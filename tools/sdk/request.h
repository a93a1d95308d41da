/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what a call asks for. Part of the interface of libagx.a: agx.h includes it.
 */
#include <stddef.h>
#include <stdint.h>

#define AGX_ID_BYTES        16
#define AGX_STOP_IDS_MAX    15
#define AGX_STOP_TEXTS_MAX  4
#define AGX_BIASES_MAX      64
#define AGX_TOP_LOGPROBS_MAX 20
#define AGX_PARTS_MAX       65535

struct agx_bias {           /* what is added to the logit of a token */
    uint32_t token;
    float bias;             /* -100 .. 100 */
};

/* The log probability of a token, where it could have been generated: by the model's own
 * distribution, before penalties, biases, temperature and whatever else chooses. At most 0. */
struct agx_logprob {
    uint32_t token;
    float logprob;
};

struct agx_call {           /* zero is a good default, except for `max_tokens`, the prompt, and
                               want_text where text is what you want: else there are ids alone */
    uint64_t call_id;       /* unique among the open calls of the connection and new in the program:
                               count up. The appliance keeps the ids of calls that ended */
    uint8_t program_id[AGX_ID_BYTES];
    uint32_t thread;        /* any number: the program's thread, for statistics */
    uint32_t max_tokens;    /* 1 .. 2^31 - 1, with the prompt at most context_tokens_max */
    float temperature;      /* 0: greedy; else 0.01 .. 100 */
    uint32_t top_k;         /* 0: off; at most 2^31 - 1 */
    float top_p;            /* above 0, at most 1; 0 or 1: off */
    float min_p;            /* at least 0, below 1; 0: off */
    float repeat_penalty;   /* 0.1 .. 10, over the last 64 tokens; 0 or 1: off */
    float presence_penalty; /* -2 .. 2: a token that the call has generated loses it; 0: off */
    float frequency_penalty;    /* -2 .. 2: and this for each time that it was generated; 0: off */
    const struct agx_bias *biases;  /* [biases_count], in any order, each token once */
    uint32_t biases_count;  /* at most AGX_BIASES_MAX */
    int want_logprobs;      /* events carry the log probability of each token, too, */
    uint32_t top_logprobs;  /* and those of so many alternatives, at most AGX_TOP_LOGPROBS_MAX */
    uint64_t seed;          /* the same seed, sampling and prompt give the same tokens */
    uint64_t deadline_us;   /* microseconds from arrival, at most an hour; 0: none */
    int ignore_eos;         /* EOS and end-of-turn do not end the call */
    int want_text;          /* events carry text, too, */
    int want_control;       /* and that of control tokens, but for BOS, EOS and end-of-turn */
    int want_drafts;        /* AGX_DONE says what drafts brought; an older appliance refuses it */
    int no_bos;             /* BOS is not put before prompt_text */
    int parse_special;      /* special tokens in prompt_text are tokens, not text */
    const uint32_t *stop_ids;       /* [stop_ids_count], at most AGX_STOP_IDS_MAX */
    uint32_t stop_ids_count;
    const char *stop_texts[AGX_STOP_TEXTS_MAX];     /* UTF-8, 1 .. 64 bytes, zero-terminated */
    uint32_t stop_texts_count;
    const uint32_t *prompt_ids;     /* [prompt_ids_count] token ids; NULL: prompt_text instead */
    uint32_t prompt_ids_count;
    const char *prompt_text;        /* [prompt_text_bytes] UTF-8 */
    size_t prompt_text_bytes;
    /* With parse_special: bytes of each part of prompt_text. Special tokens are found in the first,
     * third, ...; the others are quoted, as what a user says should be. */
    const uint32_t *prompt_parts;
    uint32_t prompt_parts_count;    /* at most AGX_PARTS_MAX */
};
