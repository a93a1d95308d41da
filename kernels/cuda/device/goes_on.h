/* SPDX-License-Identifier: MIT */
#pragma once
/* What: whether a row needs another token, by the rule of config/base/step.h. */
#include "kernels/cuda/device/gpu.h"
#include "kernels/cuda/device/kernels.h"

GPU_INLINE bool is_stop_id(const struct gpu_row *row, uint32_t token)
{
    for (uint32_t i = 0; i < row->stop_ids_count; i++) {
        if (row->stop_ids[i] == token) {
            return true;
        }
    }
    return false;
}

/* `tokens`: of the row, in this step; the last one that counts is at produced - 1. */
GPU_INLINE bool gpu_row_goes_on(const struct gpu_row *row, const struct gpu_out *out,
                                const uint32_t *tokens)
{
    return out->result == GPU_ROW_OK && out->produced < row->decode_steps &&
           !is_stop_id(row, tokens[out->produced - 1]);
}
