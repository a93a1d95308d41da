/* SPDX-License-Identifier: MIT */
/*
 * What: the speed of the GPU engine beside what the GPU gives, with a random model:
 *
 *     build/bench-gpu [--shape 8b] [--rows 1,32,128,256] [--seconds N]
 *
 * A row for each of: what device and link give (ceilings.c), whole steps (steps.c), products by
 * shape (products.c), the other kernels (kernels.c). Each has its time, its bytes and operations by
 * the second, and its floor: the time that its bytes, or its operations, take at the ceilings that
 * this run has measured; and the floor as a share of the time. A row that could not be measured
 * says why.
 *
 * Method: times are the driver's, medians after a warm-up (timer.h). Weights are random and made
 * here, so no file is needed and little memory of the host.
 */
#include <stdio.h>

#include "tools/bench/gpu/parts.h"
#include "tools/command_line.h"

enum part { PART_ALL, PART_CEILINGS, PART_STEPS, PART_PRODUCTS, PART_KERNELS };

struct wanted {
    struct machine_wishes wishes;
    struct argument_choice shape, type, part;
    struct argument_ids rows;
    uint32_t seconds;
};

static const char *const type_words[] = {"bf16", "f16", "q8_0", "q4_0", "q4_k", "q6_k", NULL};
static const enum gguf_type types[] = {GGUF_BF16, GGUF_F16,  GGUF_Q8_0,
                                       GGUF_Q4_0, GGUF_Q4_K, GGUF_Q6_K};

static int parse(struct wanted *w, int argc, char **argv)
{
    static const char *const shapes[] = {
#define RANDOM_SHAPE(name, preset, long_tokens) name,
        RANDOM_SHAPES
#undef RANDOM_SHAPE
        NULL};
    w->shape.words = shapes;
    w->type.words = type_words;
    w->part.words = (const char *const[]){"all", "ceilings", "steps", "products", "kernels", NULL};
    const struct argument options[] = {
        {"--shape", "NAME", ARGUMENT_CHOICE, &w->shape, 0, 0,
         "8b (default), 14b, 70b, tiny or, for q4_k and q6_k, tiny-256"},
        {"--type", "TYPE", ARGUMENT_CHOICE, &w->type, 0, 0,
         "of weights: bf16 (default), f16, q8_0, q4_0, q4_k or q6_k"},
        {"--rows", "LIST", ARGUMENT_IDS, &w->rows, 0, 0,
         "of a step (1,32,128,256; 1,32 with --quick)"},
        {"--part", "NAME", ARGUMENT_CHOICE, &w->part, 0, 0,
         "this one behind the ceilings: all (default), ceilings, steps, products, kernels"},
        {"--quick", "", ARGUMENT_FLAG, &w->wishes.is_quick, 0, 0, "fewer runs, fewer bytes"},
        {"--seconds", "N", ARGUMENT_U32, &w->seconds, 0, 1u << 20,
         "no row is begun after them (0: for ever, the default)"},
        {"--library", "PATH", ARGUMENT_TEXT, &w->wishes.cublas_library, 0, 0,
         "of cuBLAS; none: our own products alone"},
        {"--cuda", "PATH", ARGUMENT_TEXT, &w->wishes.cuda_library, 0, 0,
         "the driver's library (libcuda.so.1)"},
    };
    const struct command_line line = {
        .program = "bench-gpu", .usage = "[OPTION]...",
        .purpose = "The speed of the GPU engine, each figure beside its floor.",
        .rows = options, .rows_count = sizeof options / sizeof options[0]};
    int code = command_line_parse(&line, argc, argv);
    for (uint32_t i = 0; i < w->rows.count && code == ARGUMENT_GO_ON; i++) {
        if (w->rows.ids[i] == 0 || w->rows.ids[i] > MACHINE_ROWS_MAX) {
            code = command_line_refuse(&line, "--rows", "a number", "1 to 1024 each");
        }
    }
    return code;
}

/* The rows that are asked for, or else the usual ones. */
static struct rows_list rows_of(const struct wanted *w)
{
    static const uint32_t usual[] = {1, 32, 128, 256};
    if (w->rows.count > 0) {
        return (struct rows_list){w->rows.ids, w->rows.count};
    }
    return (struct rows_list){usual, w->wishes.is_quick ? 2 : 4};
}

static void run(struct machine *machine, const struct rows_list *list, enum part part)
{
    table_begin(machine);
    ceilings_run(machine);
    if (part == PART_ALL || part == PART_STEPS) {
        steps_run(machine, list);
    }
    if (part == PART_ALL || part == PART_PRODUCTS) {
        products_run(machine, list);
    }
    if (part == PART_ALL || part == PART_KERNELS) {
        kernels_run_alone(machine, list);
    }
}

int main(int argc, char **argv)
{
    static struct machine machine;
    static struct wanted wanted = {.wishes = {.cuda_library = "libcuda.so.1",
                                              .cublas_library = ""}};
    int code = parse(&wanted, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    double begin_us = timer_now_us();
    const struct rows_list list = rows_of(&wanted);
    for (uint32_t i = 0; i < list.count; i++) {
        uint32_t rows = list.rows[i];
        wanted.wishes.rows_max = rows > wanted.wishes.rows_max ? rows : wanted.wishes.rows_max;
    }
    wanted.wishes.shape = wanted.shape.chosen;
    wanted.wishes.type = types[wanted.type.chosen];
    wanted.wishes.until_us = wanted.seconds > 0 ? begin_us + wanted.seconds * 1e6 : 0;
    machine_start(&machine, &wanted.wishes);
    run(&machine, &list, (enum part)wanted.part.chosen);
    machine_stop(&machine);
    return EXIT_COMPLETE;
}
