/* SPDX-License-Identifier: MIT */
/*
 * Goal: no bytes of a flow file make the parser read or write out of bounds, or ask for more than
 * its bounds. A refusal is one line of printable ASCII that names a place. What is accepted is a
 * FLOW_OPEN that the appliance's decoder accepts, composes within its limits, and gives a plan in
 * which every operator that is left has one place.
 * Method: the input is the file. libFuzzer passes a copy of the exact size.
 */
#include <stdlib.h>
#include <string.h>

#include "net/wire.h"
#include "sched/workflow/optimise.h"
#include "selftest/fuzz/dictionary.h"
#include "tools/flow/flow_file.h"
#include "tools/flow/record.h"

#define FRAME_BYTES (20u << 20)
#define OPS_MAX     40                      /* of a plan that is worth its time */

static void check_fault(const char *fault)
{
    size_t length = strnlen(fault, FLOW_FAULT_BYTES);
    ASSERT(length > 0 && length < FLOW_FAULT_BYTES && strncmp(fault, "fuzz.flow:", 10) == 0);
    for (size_t i = 0; i < length; i++) {
        ASSERT(fault[i] >= ' ' && fault[i] <= '~');
    }
}

static void check_frame(const struct agx_flow *flow)
{
    static uint8_t frame[FRAME_BYTES];
    struct wire_flow_open open;
    struct wire_fault fault;
    size_t bytes = agx_flow_write(&(struct agx_flow_run){.flow = flow, .flow_id = 1}, frame,
                                  sizeof frame);
    ASSERT(bytes > WIRE_HEADER_BYTES);
    enum status status = wire_flow_open_decode(
        frame + WIRE_HEADER_BYTES, (uint32_t)bytes - WIRE_HEADER_BYTES, &open, &fault);
    /* The file does not say where a range has a hole: 0, or 0.01 and more. */
    ASSERT(status == STATUS_OK || fault.field == WIRE_FIELD_TEMPERATURE ||
           fault.field == WIRE_FIELD_REPEAT_PENALTY);
}

static uint32_t count_ops(const struct workflow *flow)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < flow->nodes_count; i++) {
        count += flow->nodes[i].kind == WORKFLOW_LLM && workflow_is_op(flow, i);
    }
    return count;
}

static void check_plan(struct workflow *flow)
{
    static struct workflow_optimiser optimiser;
    const struct workflow_optimise_params params = {.kv_tokens = 100, .share_min = 4,
                                                    .order = WORKFLOW_ORDER_AUTO};
    bool placed[WORKFLOW_NODES_MAX] = {false};
    if (workflow_optimise_begin(&optimiser, flow, &params) != STATUS_OK ||
        count_ops(flow) > OPS_MAX) {
        return;
    }
    while (!workflow_optimise_step(&optimiser, WORKFLOW_OPTIMISE_WORK)) {
    }
    ASSERT(flow->order.ops_count == count_ops(flow));
    for (uint32_t i = 0; i < flow->order.ops_count; i++) {
        uint32_t node = flow->order.ops[i].node;
        ASSERT(workflow_is_op(flow, node) && !placed[node]);
        placed[node] = true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct flow_symbols symbols;
    static struct flow_file file;
    const struct flow_file_settings settings = {.synthetic = (count & 1) != 0
                                                                 ? FLOW_SYNTHETIC_WORDS
                                                                 : FLOW_SYNTHETIC_MARKER};
    const struct flow_file_text text = {"fuzz.flow", (const char *)bytes, count};
    const struct workflow_encoder encoder = {flow_encode_symbols, &symbols};
    char fault[FLOW_FAULT_BYTES] = "";
    struct flow_record record;
    uint32_t node;
    if (!flow_file_parse(&file, &text, &settings, fault)) {
        check_fault(fault);
        return 0;
    }
    check_frame(&file.flow);
    symbols.names_count = 0;
    if (flow_record_fill(&record, &file.flow, &encoder, &node) == NULL) {
        check_plan(record.workflow);
        flow_record_free(&record);
    }
    flow_file_free(&file);
    return 0;
}

void dictionary_write(void)
{
    static const char *const words[] = {
        "agentix-flow 1\n", "\neach ", "\ninput ", "\ntext ", "\nllm ", "\nlambda ", "\noutput ",
        " max=1 = ", " est=2", " temp=1", " seed=3", " stop=\"", "[*]", "[!a]", "[a-1]", "{",
        "}", "s:a:9", " = 1..3\n", "[a,b]"};
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++) {
        dictionary_text(words[i]);
    }
}
