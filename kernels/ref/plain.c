/* SPDX-License-Identifier: MIT
 *
 * What: the table of the plain kernels, and those that work on one vector of numbers.
 */
#include "kernels/ref/plain.h"

#include <math.h>
#include <string.h>

#include "kernels/exp.h"
#include "kernels/half.h"

const struct kernels_ops kernels_ops_plain = {
    .product = kernels_product_plain,
    .quantize = kernels_quantize_plain,
    .shorten = kernels_shorten_plain,
    .scores = kernels_scores_plain,
    .weigh = kernels_weigh_plain,
    .halve = kernels_halve_plain,
    .level = kernels_level_plain,
    .level_key = kernels_level_key_plain,
    .level_query = kernels_level_query_plain,
    .exponentiate = kernels_exponentiate_plain,
    .norm = kernels_norm_plain,
    .swiglu = kernels_swiglu_plain,
    .is_finite = kernels_is_finite_plain,
    .largest = kernels_largest_plain,
    .copy = kernels_copy_plain,
};

/* Adds the upper half of the lanes to the lower half until one lane is left. */
static float lanes_sum(float *lanes, uint32_t count)
{
    for (uint32_t half = count / 2; half > 0; half /= 2) {
        for (uint32_t j = 0; j < half; j++) {
            lanes[j] += lanes[j + half];
        }
    }
    return lanes[0];
}

void kernels_halve_plain(uint16_t *to, const float *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        to[i] = kernels_half_of(from[i]);
    }
}

float kernels_level_plain(int8_t *to, const float *from, uint32_t count)
{
    float max = 0;
    bool finite = true;
    for (uint32_t i = 0; i < count; i++) {
        finite = finite && isfinite(from[i]);
        max = fabsf(from[i]) > max ? fabsf(from[i]) : max;
    }
    bool is_zero = !finite || max < KERNELS_LEVEL_TINY;
    float inverse = is_zero ? 0.0f : KERNELS_LEVEL_MAX / max;
    for (uint32_t i = 0; i < count; i++) {
        to[i] = is_zero ? 0 : (int8_t)lrintf(from[i] * inverse);
    }
    return !finite ? NAN : is_zero ? 0.0f : max / KERNELS_LEVEL_MAX;
}

struct kernels_key_frame kernels_level_key_plain(int16_t *to, const float *from, uint32_t count)
{
    ASSERT(count > 0);
    float low = from[0], high = from[0];
    for (uint32_t i = 1; i < count; i++) {
        low = from[i] < low ? from[i] : low;
        high = from[i] > high ? from[i] : high;
    }
    if (!kernels_is_finite_plain(from, count)) {
        low = high = NAN;
    }
    struct kernels_key_frame frame = kernels_key_frame_of(low, high);
    float middle = kernels_half_to_float(frame.middle), inverse = kernels_key_inverse(frame);
    for (uint32_t i = 0; i < count; i++) {
        float level = inverse > 0 ? (from[i] - middle) * inverse : 0;
        level = fminf(level, KERNELS_KEY_LEVEL_MAX);
        to[i] = (int16_t)lrintf(fmaxf(level, -KERNELS_KEY_LEVEL_MAX));
    }
    return frame;
}

struct kernels_query_frame kernels_level_query_plain(int16_t *to, const float *from, uint32_t count)
{
    float max = 0, sums[KERNELS_OCTET] = {0};
    bool finite = kernels_is_finite_plain(from, count);
    for (uint32_t i = 0; i < count; i++) {
        max = fabsf(from[i]) > max ? fabsf(from[i]) : max;
        sums[i % KERNELS_OCTET] += from[i];
    }
    bool is_zero = !finite || max < KERNELS_LEVEL_TINY;
    float inverse = is_zero ? 0.0f : KERNELS_QUERY_LEVEL_MAX / max;
    for (uint32_t i = 0; i < count; i++) {
        to[i] = is_zero ? 0 : (int16_t)lrintf(from[i] * inverse);
    }
    float scale = !finite ? NAN : is_zero ? 0.0f : max / KERNELS_QUERY_LEVEL_MAX;
    return (struct kernels_query_frame){scale, lanes_sum(sums, KERNELS_OCTET)};
}

float kernels_exponentiate_plain(float *values, uint32_t count, float scale)
{
    ASSERT(count > 0);
    float max = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        max = max > values[i] ? max : values[i];
    }
    float sums[KERNELS_OCTET] = {0};
    for (uint32_t i = 0; i < count; i++) {
        values[i] = kernels_exp((values[i] - max) * scale);
        sums[i % KERNELS_OCTET] += values[i];
    }
    return lanes_sum(sums, KERNELS_OCTET);
}

void kernels_norm_plain(float *y, const float *x, const float *weight, uint32_t dim, float epsilon)
{
    ASSERT(dim > 0);
    float sums[KERNELS_PANEL_LANES] = {0};
    for (uint32_t i = 0; i < dim; i++) {
        uint32_t lane = i % KERNELS_PANEL_LANES;
        sums[lane] = fmaf(x[i], x[i], sums[lane]);
    }
    float inverse = 1.0f / sqrtf(lanes_sum(sums, KERNELS_PANEL_LANES) / (float)dim + epsilon);
    for (uint32_t i = 0; i < dim; i++) {
        y[i] = x[i] * inverse * weight[i];
    }
}

void kernels_swiglu_plain(float *gate, const float *up, uint32_t count)
{
    ASSERT(count % KERNELS_PANEL_LANES == 0);
    for (uint32_t i = 0; i < count; i++) {
        gate[i] = gate[i] / (1.0f + kernels_exp(-gate[i])) * up[i];
    }
}

bool kernels_is_finite_plain(const float *values, uint32_t count)
{
    uint32_t worst = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= 0x7fffffffu;
        worst = bits > worst ? bits : worst;
    }
    return worst < 0x7f800000u;
}

uint32_t kernels_largest_plain(const float *values, uint32_t count)
{
    ASSERT(count > 0);
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (values[i] > values[best]) {
            best = i;
        }
    }
    return best;
}

void kernels_copy_plain(float *to, const float *from, uint64_t count)
{
    ASSERT(count % KERNELS_COPY_FLOATS == 0);
    memcpy(to, from, count * sizeof *to);
}
