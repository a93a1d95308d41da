/* SPDX-License-Identifier: MIT
 *
 * What: the twins of the warp's instructions of kernels/cuda/device/mma.h: fragments as the PTX
 * manual lays them out. They run once for a warp (gpu_host_together).
 *
 * The order of an instruction's sum is ours: the sum before, then the products in ascending
 * columns, all in double, where a product of halves is exact; rounded to float once.
 */
#include "kernels/cuda/device/number.h"

#define ROWS_A  16u
#define ROWS_B  8u
#define COLUMNS 16u

/* ---- matrices from shared memory ---- */

struct matrices {
    uint32_t *to;
    const uint8_t *row;
};

static void load_matrices(void *const operands[])
{
    for (uint32_t lane = 0; lane < GPU_WARP; lane++) {
        const struct matrices *own = operands[lane];
        for (uint32_t m = 0; m < 4; m++) {
            const struct matrices *gives = operands[8 * m + lane / 4];
            memcpy(&own->to[m], gives->row + lane % 4 * sizeof(uint32_t), sizeof(uint32_t));
        }
    }
}

void gpu_host_load_matrices(uint32_t *to, const void *row, int line)
{
    struct matrices operand = {to, row};
    gpu_host_together(load_matrices, &operand, line);
}

/* ---- multiply-accumulate ---- */

static double skew = 1;                 /* a factor of the sums of some rows */

void gpu_host_skew(bool is_skewed)
{
    skew = is_skewed ? 1 + 0x1p-22 : 1;
}

struct mma {
    float *d;
    const uint32_t *a, *b;
};

struct factors {
    uint16_t a[ROWS_A][COLUMNS], b[COLUMNS][ROWS_B];
};

static void factors_gather(struct factors *f, void *const operands[])
{
    for (uint32_t lane = 0; lane < GPU_WARP; lane++) {
        const struct mma *own = operands[lane];
        uint32_t group = lane / 4, pair = lane % 4 * 2;
        for (uint32_t i = 0; i < 4; i++) {
            memcpy(&f->a[group + i % 2 * 8][pair + i / 2 * 8], &own->a[i], sizeof own->a[i]);
        }
        for (uint32_t i = 0; i < 2; i++) {
            f->b[pair + i * 8][group] = (uint16_t)own->b[i];
            f->b[pair + i * 8 + 1][group] = (uint16_t)(own->b[i] >> 16);
        }
    }
}

/* Rows `group` and `group + 8`, numbers `pair` and `pair + 1`. */
static float *sum_of(void *const operands[], uint32_t row_a, uint32_t row_b)
{
    const struct mma *own = operands[row_a % 8 * 4 + row_b / 2];
    return &own->d[row_a / 8 * 2 + row_b % 2];
}

static void multiply_row(void *const operands[], uint32_t row, const float a[COLUMNS],
                         double b[COLUMNS][ROWS_B])
{
    double sums[ROWS_B];
    for (uint32_t n = 0; n < ROWS_B; n++) {
        sums[n] = (double)*sum_of(operands, row, n);
    }
    for (uint32_t c = 0; c < COLUMNS; c++) {
        for (uint32_t n = 0; n < ROWS_B; n++) {
            sums[n] += (double)a[c] * b[c][n];
        }
    }
    for (uint32_t n = 0; n < ROWS_B; n++) {
        *sum_of(operands, row, n) = (float)(n < ROWS_B / 2 ? sums[n] : sums[n] * skew);
    }
}

static void multiply(void *const operands[], uint32_t type)
{
    struct factors factors;
    double b[COLUMNS][ROWS_B];
    factors_gather(&factors, operands);
    for (uint32_t i = 0; i < COLUMNS * ROWS_B; i++) {
        b[i / ROWS_B][i % ROWS_B] = (double)gpu_load(factors.b, type, i);
    }
    for (uint32_t row = 0; row < ROWS_A; row++) {
        float a[COLUMNS];
        for (uint32_t c = 0; c < COLUMNS; c++) {
            a[c] = gpu_load(factors.a[row], type, c);
        }
        multiply_row(operands, row, a, b);
    }
}

static void multiply_f16(void *const operands[])
{
    multiply(operands, GPU_F16);
}

static void multiply_bf16(void *const operands[])
{
    multiply(operands, GPU_BF16);
}

void gpu_host_mma_f16(float *d, const uint32_t *a, const uint32_t *b, int line)
{
    struct mma operand = {d, a, b};
    gpu_host_together(multiply_f16, &operand, line);
}

void gpu_host_mma_bf16(float *d, const uint32_t *a, const uint32_t *b, int line)
{
    struct mma operand = {d, a, b};
    gpu_host_together(multiply_bf16, &operand, line);
}
