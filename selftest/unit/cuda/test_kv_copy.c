/* SPDX-License-Identifier: MIT
 *
 * Goal: KV blocks are gathered in the order of the list and scattered back to their places, every
 * byte of them and no byte beside them.
 * Method: sizes below, at and above what a thread block copies; lists with holes.
 */
#include "selftest/unit/cuda/gpu_rig.h"

enum { BLOCKS = 7, LISTED = 4 };
static const uint32_t list[LISTED] = {5, 0, 6, 2};

static void check_copy(uint64_t bytes)
{
    uint8_t *blocks = rig_take(BLOCKS * bytes), *staging = rig_take(LISTED * bytes);
    for (uint64_t i = 0; i < BLOCKS * bytes; i++) {
        blocks[i] = (uint8_t)rig_random(256);
    }
    uint8_t *before = rig_copy(blocks, BLOCKS * bytes);
    struct gpu_kv_gather gather = {
        .blocks = rig_address(blocks),
        .list = rig_address(rig_copy(list, sizeof list)),
        .staging = rig_address(staging),
        .block_bytes = bytes,
        .count = LISTED,
    };
    RIG_LAUNCH(kv_gather, &gather);
    for (uint32_t i = 0; i < LISTED; i++) {
        assert_memory_equal(staging + i * bytes, before + list[i] * bytes, bytes);
    }
    assert_memory_equal(blocks, before, BLOCKS * bytes);
    memset(blocks, 0, BLOCKS * bytes);
    struct gpu_kv_scatter scatter = {gather.blocks, gather.list, gather.staging, bytes, LISTED};
    RIG_LAUNCH(kv_scatter, &scatter);
    for (uint32_t block = 0; block < BLOCKS; block++) {
        bool is_listed = block == 5 || block == 0 || block == 6 || block == 2;
        for (uint64_t i = 0; i < bytes; i++) {
            assert_int_equal(blocks[block * bytes + i], is_listed ? before[block * bytes + i] : 0);
        }
    }
}

static void test_copy_sizes_every_byte(void **state)
{
    (void)state;
    check_copy(16);
    check_copy(16 * 255);
    check_copy(16 * GPU_COPY_LINES);
    check_copy(16 * (GPU_COPY_LINES + 1));
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_copy_sizes_every_byte),
};

rig_main(tests)
