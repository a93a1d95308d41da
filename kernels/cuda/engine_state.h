/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the GPU engine's state. Private to kernels/cuda: engine.c places it and runs a step, plan.c
 * says where its parts lie, record.c exchanges the step between host and device, and move.c,
 * forward.c and product.c queue the work in between.
 */
#include "kernels/cuda/engine.h"

#define GPU_STAGING_BYTES (UINT64_C(8) << 20)   /* for copies in bulk, on either side */

/* Rows of every product that the library computes. It chooses the order of a sum by the shape, so
 * there is one shape for all steps; rows after the last are padding. 128 rows of halves need 128
 * operations for each byte of weights. By the data sheets a GPU of sm_80 and later has time for
 * more while it reads a byte, so a round of few rows waits for the weights in any case. */
#define GPU_PRODUCT_ROWS 128u

/* The record of a step: where its parts begin, in bytes, on the host and on the device alike. All
 * up to `end` goes to the device in one piece; of that, what comes back begins at `round`. After it
 * is what few rows have, and only that of these rows travels. */
struct gpu_record {
    uint64_t rows, tables, slots, tiles, places;
    uint64_t round, outs, out_tokens;
    uint64_t end;
    uint64_t past, biases, entries;
    uint64_t bytes;
};

/* Activations of as many token slots as a step can have, rounded up to GPU_PRODUCT_ROWS:
 * type (slots, width), in room for floats. */
struct gpu_buffer {
    uint64_t at;
    uint32_t width;
    uint32_t type;              /* enum gpu_type: F32, but for inputs of products of halves */
};

/* The swaps of one direction between the tiers. A swap has the block's number on the host in its
 * high half, that on the device in its low half, so sorted swaps are in the host's order. */
struct gpu_swap_stream {
    struct gpu_queue queue;
    uint64_t *swaps;            /* [kv_host_blocks]: of the step */
    uint32_t *list;             /* [kv_host_blocks], pinned: their blocks on the device */
    uint32_t count;
    uint64_t device_list;       /* a copy on the device of what a kernel reads of the list */
    uint64_t staging;           /* on the device (GPU_STAGING_BYTES) */
};

struct gpu_engine {
    struct kernels_settings settings;
    struct gpu_weights weights;
    struct gpu_queue *queue;
    struct blas *blas;                  /* NULL: there is no library */
    struct gpu_swap_stream out, in;
    uint8_t *left;                      /* [kv_blocks] of the device: bits of the phases that read
                                           a block; zeros between two steps */
    volatile uint64_t *heartbeat;
    struct kernels_listener on_round;
    struct CUevent_st **events;         /* [steps_per_plan]: after each round */
    struct gpu_kv kv;                   /* layer 0, with the tables of the record */
    uint8_t *kv_host;
    struct gpu_record record;
    uint8_t *host;                      /* the record, pinned */
    uint64_t at;                        /* the record on the device */
    uint32_t *early_stop;               /* pinned; the device reads it between two rounds */
    uint8_t *staging;                   /* pinned (GPU_STAGING_BYTES), for boot */
    uint64_t rope, partials, sample_weights, sample_memory;
    uint64_t blas_workspace;
    uint64_t product_partials, product_tickets;     /* of struct gpu_product_tiled */
    struct gpu_buffer x, normed, attended, inner, delta, gathered, logits;
    struct gpu_buffer q, k, v, gate, up;    /* q, k, v lie one after the other; gate, up too */
    /* The step. */
    const struct step *step;
    uint64_t round;                     /* struct gpu_round of the step; 0 outside of one */
    uint32_t slots_count, tiles_count;
    uint32_t slots_single;              /* the first slots: of rows with one token, and of drafts */
    uint32_t places_count;              /* of rows, then of drafts */
    uint32_t splits_most;               /* of attention, that a row of the step comes to have */
    bool wants_logprobs;                /* a row does */
    bool draws, ranks;                  /* a row draws its tokens; from ranked candidates */
};

/* Where a product by joined matrices goes: into the buffers of them all, which lie one after the
 * other. Nothing has to be between two of its rows. */
static inline struct gpu_buffer gpu_joined(struct gpu_buffer first, const struct gpu_matrix *matrix)
{
    return (struct gpu_buffer){first.at, matrix->outputs, first.type};
}

static inline uint32_t gpu_splits(const struct kernels_settings *settings)
{
    return gpu_ceil(settings->context_tokens, GPU_SPLIT_TOKENS);
}

/* plan.c: places all of the engine's device memory from `base` on; returns its bytes. */
uint64_t gpu_engine_place(struct gpu_engine *engine, const struct model_shape *shape,
                          uint64_t base);
uint64_t gpu_engine_bytes(const struct kernels_settings *settings,
                          const struct model_shape *shape);
struct gpu_record gpu_record_of(const struct kernels_settings *settings);
uint64_t gpu_kv_block_bytes(const struct kernels_settings *settings,
                            const struct model_shape *shape);

/* record.c: uploads the record; downloads its end (queued); takes outs and tokens from what came
 * back, at any time after a round. A device whose counts are impossible has failed. */
void gpu_record_send(struct gpu_engine *engine);
void gpu_record_receive(struct gpu_engine *engine);
MUST_CHECK enum status gpu_record_take(const struct gpu_engine *engine);
/* True when the step has had its last round, by what came back. */
bool gpu_record_has_ended(const struct gpu_engine *engine);

/* move.c: queues the moves of a step, all phases. Work that is queued next runs after the moves
 * whose blocks it reads or writes. */
void gpu_moves_queue(struct gpu_engine *engine);

/* product.c: `buffer` with the type that a product by `matrix` reads; queues the product. */
struct gpu_buffer gpu_input_of(const struct gpu_matrix *matrix, struct gpu_buffer buffer);
void gpu_product_queue(struct gpu_engine *engine, const struct gpu_matrix *matrix,
                       struct gpu_buffer from, struct gpu_buffer to, uint32_t rows);
/* BOOT_ONLY. Starts the library, if there is one, and runs every product. Refuses a GPU where a
 * row's numbers depend on the row's index in a product, or, by our own kernels, on how many rows
 * it has. */
MUST_CHECK enum status gpu_products_start(struct gpu_engine *engine, struct config_error *error);

/* forward.c: the most rounds that the step can have; queues one of them, and its event. */
uint32_t gpu_rounds_of(const struct gpu_engine *engine);
void gpu_round_queue(struct gpu_engine *engine, uint32_t round);
