/* SPDX-License-Identifier: MIT
 *
 * Goal: the residual grows, and the norm of a row is what forward.h defines, to the bit, for every
 * type of result and with any other rows.
 * Method: odd sizes, strides that leave gaps, against a plain twin; places that skip and reorder.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#include "kernels/half.h"

#define ROWS     5
#define EPSILON  1e-5f
#define STRIDE_X 611
#define STRIDE_Y 617

struct scene {
    float *x, *add, *weight;
    float grown[ROWS][STRIDE_X], expected[ROWS][STRIDE_X];
};

static struct scene scene;

static void scene_make(uint32_t dim)
{
    scene.x = rig_floats((ROWS - 1) * STRIDE_X + dim);
    scene.add = rig_floats((ROWS - 1) * STRIDE_X + dim);
    scene.weight = rig_floats(dim);
}

static void twin(uint32_t dim, bool adds)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        float *x = scene.grown[r];
        memcpy(x, scene.x + r * STRIDE_X, dim * sizeof *x);
        for (uint32_t i = 0; i < dim && adds; i++) {
            x[i] += scene.add[r * STRIDE_X + i];
        }
        float inverse = 1.0f / sqrtf(rig_squares(x, dim, 256) / (float)dim + EPSILON);
        for (uint32_t i = 0; i < dim; i++) {
            scene.expected[r][i] = x[i] * inverse * scene.weight[i];
        }
    }
}

static struct gpu_rms_norm args_of(uint32_t dim, bool adds, void *y, uint32_t y_type)
{
    return (struct gpu_rms_norm){
        .x = rig_address(scene.x),
        .add = adds ? rig_address(scene.add) : 0,
        .weight = rig_address(scene.weight),
        .y = rig_address(y),
        .x_stride = STRIDE_X,
        .add_stride = STRIDE_X,
        .y_stride = STRIDE_Y,
        .rows = ROWS,
        .dim = dim,
        .y_type = y_type,
        .epsilon = EPSILON,
    };
}

static void check_norm(uint32_t dim, bool adds)
{
    twin(dim, adds);
    float *y = rig_take(((ROWS - 1) * STRIDE_Y + dim) * sizeof *y);
    struct gpu_rms_norm args = args_of(dim, adds, y, GPU_F32);
    RIG_LAUNCH(rms_norm, &args);
    for (uint32_t r = 0; r < ROWS; r++) {
        assert_memory_equal(y + r * STRIDE_Y, scene.expected[r], dim * sizeof *y);
        assert_memory_equal(scene.x + r * STRIDE_X, scene.grown[r], dim * sizeof *y);
    }
    assert_true(isnan(y[dim]));         /* between rows nothing is written */
}

static void test_norm_odd_sizes_equal_twin(void **state)
{
    (void)state;
    const uint32_t dims[] = {1, 31, 64, 255, 256, 257, 600};
    for (uint32_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        scene_make(dims[i]);
        check_norm(dims[i], false);
        check_norm(dims[i], true);
    }
}

/* A row that is zero except one CUDA thread's share: no other sum hides how that one is rounded. */
static void test_norm_squares_are_fused(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 10; i++) {
        scene_make(600);
        for (uint32_t c = 0; c < (ROWS - 1) * STRIDE_X + 600; c++) {
            scene.x[c] *= c % STRIDE_X % 256 == i;
        }
        check_norm(600, false);
    }
}

static void test_norm_halves_are_rounded(void **state)
{
    (void)state;
    const uint32_t dim = 100;
    scene_make(dim);
    twin(dim, false);
    uint16_t *y = rig_take(((ROWS - 1) * STRIDE_Y + dim) * sizeof *y);
    struct gpu_rms_norm args = args_of(dim, false, y, GPU_F16);
    RIG_LAUNCH(rms_norm, &args);
    for (uint32_t i = 0; i < ROWS * dim; i++) {
        assert_int_equal(y[i / dim * STRIDE_Y + i % dim],
                         kernels_half_of(scene.expected[i / dim][i % dim]));
    }
}

/* Of the places of a step only those that sample get a row, and only their slots grow. */
static void test_norm_places_pick_slots(void **state)
{
    (void)state;
    const struct gpu_place places[ROWS] = {
        {.row = 0, .slot = 3}, {.row = 1, .slot = GPU_NONE}, {.row = GPU_NONE, .slot = GPU_NONE},
        {.row = 3, .slot = 0}, {.row = 4, .slot = 4}};
    const uint32_t dim = 70;
    scene_make(dim);
    twin(dim, true);
    float before = scene.x[STRIDE_X];
    float *y = rig_take(((ROWS - 1) * STRIDE_Y + dim) * sizeof *y);
    struct gpu_rms_norm args = args_of(dim, true, y, GPU_F32);
    args.places = rig_address(rig_copy(places, sizeof places));
    RIG_LAUNCH(rms_norm, &args);
    for (uint32_t p = 0; p < ROWS; p++) {
        if (places[p].slot == GPU_NONE) {
            assert_true(isnan(y[p * STRIDE_Y]));
        } else {
            assert_memory_equal(y + p * STRIDE_Y, scene.expected[places[p].slot],
                                dim * sizeof *y);
        }
    }
    assert_float_equal(scene.x[STRIDE_X], before, 0);
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_norm_odd_sizes_equal_twin),
    RIG_TEST(test_norm_squares_are_fused),
    RIG_TEST(test_norm_halves_are_rounded),
    RIG_TEST(test_norm_places_pick_slots),
};

rig_main(tests)
