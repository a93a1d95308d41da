/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the machine that is measured: a driver, its GPU, and an engine on it with a random model;
 * what its memory was measured to give; and the step that it runs next.
 */
#include "kernels/cuda/engine_state.h"
#include "tools/bench/gpu/random_model.h"

#define MACHINE_ROWS_MAX 1024u
#define MACHINE_PAST     7u         /* tokens of a row's text, where it has drafts */

/* What is wanted of a machine. */
struct machine_wishes {
    const char *cuda_library, *cublas_library;
    uint32_t shape;                     /* of RANDOM_SHAPES */
    enum gguf_type type;
    uint32_t rows_max;
    bool is_quick;                      /* fewer runs, fewer bytes */
    double until_us;                    /* no row is begun after this; 0: for ever */
};

struct machine {
    struct machine_wishes wishes;
    struct driver driver;
    struct device device;
    struct blas blas;                   /* .library NULL: there is none */
    struct gpu_queue queue;
    struct gpu_engine *engine;
    struct arena arena;
    struct random_model model;
    struct kernels_settings settings;
    struct step step;
    uint64_t heartbeat;
    uint64_t folds;                     /* on the device: where reads leave their folds */
    struct CUevent_st *begin, *end;     /* timed */
    uint32_t short_tokens, long_tokens; /* contexts */
    uint32_t swap_blocks;               /* that go each way */
    double load_us;                     /* of the weights */
    /* Ceilings, by the microsecond; 0: not measured. */
    double read_bytes, out_bytes, in_bytes, both_bytes, operations;
};

/* Ends the program after a message if anything is lacking. */
void machine_start(struct machine *machine, const struct machine_wishes *wishes);
void machine_stop(struct machine *machine);
/* Ends the program if the device has failed. */
void machine_check(struct machine *machine);
/* Queues a read, or a write, of the first bytes of KV on the device. What is written is one word
 * everywhere, of numbers that are finite, for where no row has been. */
void machine_queue_read(struct machine *machine, uint64_t bytes);
void machine_queue_write(struct machine *machine, uint64_t bytes);

/* Products from now on by the library, or by the engine's own kernel. */
void machine_use_library(struct machine *machine, bool is_wanted);
/* Of all matrices that a round reads whole: all but the embeddings, unless they are the output. */
uint64_t machine_weights_bytes(const struct machine *machine);
uint64_t machine_matrix_bytes(const struct machine *machine, const struct gpu_matrix *matrix);
/* KV of so many tokens, in all layers. */
uint64_t machine_kv_bytes(const struct machine *machine, uint64_t tokens);

/* A step of equal rows. */
struct batch {
    uint32_t rows, tokens;              /* fed by each row */
    uint32_t position;                  /* of the first of them */
    uint32_t decode_steps;
    uint32_t block_first;               /* rows have none of the blocks before it */
    bool is_sampled;                    /* temperature 1, top_p 0.9; else greedy */
    const uint32_t *stop_ids;           /* [rows]; NULL: a row does not stop */
    uint32_t drafts;                    /* of each row, up to MACHINE_PAST; all of them are right */
};
/* The next step. Where KV has fewer blocks than the rows need, rows share some. */
void machine_fill_step(struct machine *machine, const struct batch *batch);
/* Runs it. Ends the program if the device has failed, or a number was not finite. */
void machine_run_step(struct machine *machine);
