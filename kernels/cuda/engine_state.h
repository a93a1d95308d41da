/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the GPU engine's state. Private to kernels/cuda: engine.c places it and runs a step,
 * plan.c says where its parts lie, record.c is what host and device tell each other, move.c, pass.c
 * and product.c what is queued between.
 */
#include "kernels/cuda/engine.h"

#define GPU_STAGING_BYTES (UINT64_C(8) << 20)   /* for copies in bulk, on either side */

/* Rows of every product that the library is asked for. It chooses how to sum by the shape, so the
 * shape is one whatever a step holds; rows behind the last are nobody's. 128 rows of halves need
 * 128 operations for each byte of weights, by the data sheets fewer than a chip of sm_80 and later
 * has time for while it reads one: a round of few rows waits for weights all the same. */
#define GPU_PRODUCT_ROWS 128u

/* The record of a step, on the host and on the device alike: where its parts begin, in bytes. What
 * comes back begins at `round`. */
struct gpu_record {
    uint64_t rows, tables, slots, tiles, places;
    uint64_t round, outs, out_tokens;
    uint64_t end;
};

/* Activations, of as many slots as a step can have, in whole GPU_PRODUCT_ROWS:
 * type (slots, width), in room for floats. */
struct gpu_buffer {
    uint64_t at;
    uint32_t width;
    uint32_t type;              /* enum gpu_type: F32, but of what a product of halves reads */
};

/* One way between the tiers. A block's number of the host is in the high half of a swap, the
 * device's in the low one, so sorted they lie as on the host. */
struct gpu_swap_stream {
    struct gpu_queue queue;
    uint64_t *swaps;            /* [kv_host_blocks]: of the step */
    uint32_t *list;             /* [kv_host_blocks], pinned: their blocks of the device */
    uint32_t count;
    uint64_t device_list;       /* the same on the device, as far as a kernel reads it */
    uint64_t staging;           /* on the device (GPU_STAGING_BYTES) */
};

struct gpu_engine {
    struct kernels_settings settings;
    struct gpu_weights weights;
    struct gpu_queue *queue;
    struct blas *blas;                  /* NULL: there is no library */
    struct gpu_swap_stream out, in;
    uint8_t *left;                      /* [kv_blocks] of the device: bits of the passes that read
                                           one; zeros between two steps */
    volatile uint64_t *heartbeat;
    struct CUevent_st **events;         /* [steps_per_plan]: behind each round */
    struct gpu_kv kv;                   /* of layer 0, with the tables of the record */
    uint8_t *kv_host;
    struct gpu_record record;
    uint8_t *host;                      /* the record, pinned */
    uint64_t at;                        /* the record on the device */
    uint32_t *early_stop;                    /* pinned; the device reads it between two rounds */
    uint8_t *staging;                   /* pinned (GPU_STAGING_BYTES), for boot */
    uint64_t rope, partials, sample_weights;
    uint64_t blas_workspace;
    struct gpu_buffer x, normed, q, k, v, attended, gate, up, inner, delta, gathered, logits;
    /* The step. */
    const struct step *step;
    uint32_t slots_count, tiles_count, places_count;
    uint32_t slots_single;              /* of rows of one token: the first slots */
};

static inline uint32_t gpu_splits(const struct kernels_settings *settings)
{
    return gpu_ceil(settings->context_tokens, GPU_SPLIT_TOKENS);
}

/* plan.c: where everything lies that is the engine's on the device, if it begins at `base`; how
 * many bytes that are. */
uint64_t gpu_engine_place(struct gpu_engine *engine, const struct model_shape *shape,
                          uint64_t base);
uint64_t gpu_engine_bytes(const struct kernels_settings *settings,
                          const struct model_shape *shape);
struct gpu_record gpu_record_of(const struct kernels_settings *settings);
uint64_t gpu_kv_block_bytes(const struct kernels_settings *settings,
                            const struct model_shape *shape);

/* record.c: it is uploaded, it comes back (queued); outs and tokens of what came back: a device
 * that counts more than there can be has failed. */
void gpu_record_send(struct gpu_engine *engine);
void gpu_record_receive(struct gpu_engine *engine);
MUST_CHECK enum status gpu_record_settle(const struct gpu_engine *engine);

/* move.c: queues the moves of a step, all passes; what is queued next runs behind those that it
 * could see. */
void gpu_moves_queue(struct gpu_engine *engine);

/* product.c: what a product by `matrix` reads (as the buffer whose rows it is), and the product. */
struct gpu_buffer gpu_input_of(const struct gpu_engine *engine, const struct gpu_matrix *matrix,
                               struct gpu_buffer buffer);
void gpu_product_queue(struct gpu_engine *engine, const struct gpu_matrix *matrix,
                       struct gpu_buffer from, struct gpu_buffer to, uint32_t rows);
/* BOOT_ONLY. Starts the library, if there is one, and refuses it if a row's numbers depend on which
 * row of a product it is. Every product has been asked for once then. */
MUST_CHECK enum status gpu_products_start(struct gpu_engine *engine, struct config_error *error);

/* pass.c: how many rounds a step can have; queues one of them, and its event. */
uint32_t gpu_rounds_of(const struct gpu_engine *engine);
void gpu_round_queue(struct gpu_engine *engine, uint32_t round);
