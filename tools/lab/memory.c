/* SPDX-License-Identifier: MIT */
/*
 * What: what the lab reports of kvmem. There is one tier and no sharing: a preempted call is
 * recomputed, so nothing is swapped and the figures of swapping are zero.
 */
#include "tools/lab/lab.h"

void lab_memory_sample(struct lab *lab)
{
    const struct kvmem *kv = &lab->loop.kv;
    uint32_t used = kv->blocks_count - kvmem_free_blocks(kv);
    struct lab_result *result = &lab->result;
    result->device_blocks_peak = used > result->device_blocks_peak ? used
                                                                   : result->device_blocks_peak;
}

void lab_memory_report(struct lab *lab)
{
    lab->result.device_blocks = lab->loop.kv.blocks_count;
}
