/* SPDX-License-Identifier: MIT */
/*
 * What: what every node of a workflow must give for a row: the twin of the appliance's workflows.
 * It composes each prompt by walking through the operands, text nodes included, and asks the oracle
 * of the fake engine. Nothing is pruned, merged, shared or kept.
 */
#include <string.h>

#include "selftest/sim/sim.h"

struct composer {
    const struct sim_flow *flow;
    const struct sim_flow_row *row;
    struct sim_flow_value *into;
    bool is_prompt;
    uint32_t pieces;                /* so far; a text that none precedes begins the prompt */
    uint32_t text_bytes;
    char text[SIM_JOINED_BYTES];
};

static struct sim_flow_value values[SIM_FLOW_NODES];    /* of the row that is looked at */

static void append(struct composer *composer, const uint32_t *tokens, uint32_t count)
{
    struct sim_flow_value *into = composer->into;
    ASSERT(into->count + count <= SIM_VALUE_TOKENS);
    memcpy(into->tokens + into->count, tokens, count * sizeof *tokens);
    into->count += count;
}

/* One text, however many literals it is made of. */
static void append_text(struct composer *composer, const char *text, uint32_t bytes)
{
    uint32_t tokens[2 * SIM_JOINED_BYTES];
    bool begins = composer->is_prompt && composer->pieces == 0;
    append(composer, tokens,
           bytes > 0 ? sim_words_encode(text, bytes, begins, tokens, 2 * SIM_JOINED_BYTES) : 0);
    composer->pieces++;
}

static void end_text(struct composer *composer)
{
    if (composer->text_bytes > 0) {
        append_text(composer, composer->text, composer->text_bytes);
        composer->text_bytes = 0;
    }
}

static void append_value(struct composer *composer, uint32_t node)
{
    const struct sim_flow_value *value = &values[node];
    append(composer, value->tokens, value->status == STATUS_OK ? value->count : 0);
    composer->pieces++;
    if (composer->into->status == STATUS_OK) {
        composer->into->status = value->status;
    }
}

static uint32_t column_of(const struct sim_flow *flow, uint32_t node)
{
    uint32_t column = 0;
    for (uint32_t i = 0; i < node; i++) {
        column += flow->graph.nodes[i].wire.kind == WIRE_NODE_INPUT;
    }
    return column;
}

static void walk(struct composer *composer, uint32_t index)
{
    const struct sim_graph *graph = &composer->flow->graph;
    const struct sim_flow_node *node = &graph->nodes[index];
    for (uint32_t i = 0; i < node->wire.operands_count; i++) {
        uint32_t operand = node->operands[i];
        const struct sim_flow_text *text = &graph->texts[operand & ~WIRE_IS_TEXT];
        if ((operand & WIRE_IS_TEXT) != 0) {
            ASSERT(composer->text_bytes + text->count <= SIM_JOINED_BYTES);
            memcpy(composer->text + composer->text_bytes, text->bytes, text->count);
            composer->text_bytes += text->count;
        } else if (graph->nodes[operand].wire.kind == WIRE_NODE_TEXT) {
            walk(composer, operand);
        } else if (graph->nodes[operand].wire.kind == WIRE_NODE_INPUT) {
            text = &composer->row->columns[column_of(composer->flow, operand)];
            end_text(composer);
            append_text(composer, text->bytes, text->count);
        } else {
            end_text(composer);
            append_value(composer, operand);
        }
    }
}

static void compose(const struct sim_flow *flow, const struct sim_flow_row *row, uint32_t node,
                    struct sim_flow_value *into)
{
    struct composer composer = {.flow = flow, .row = row, .into = into,
                                .is_prompt = flow->graph.nodes[node].wire.kind == WIRE_NODE_LLM};
    walk(&composer, node);
    end_text(&composer);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The tokens that a call gives, without the one that ended it, or those of its stop text. */
static uint32_t call(struct sim *sim, const struct sim_flow *flow,
                     const struct sim_flow_node *node, uint32_t *tokens, uint32_t prompt)
{
    static struct fake_engine engine;
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    struct call_sampling sampling = node->wire.sampling;
    sim_flow_program_id(id);
    engine.vocab_tokens = sim->limits.vocab_tokens;
    engine.repeats = sim->loop.sched.settings.speculate > 0;
    engine.declared = &sim->declared;
    engine.salts[0] = sim_salt(sim, sim_client_domain(sim, flow->client), id);
    if (node->wire.flags == 0) {
        sampling.stop_ids[sampling.stop_ids_count++] = sim_words()->info.eos_id;
    }
    uint32_t made = fake_engine_oracle(&engine, tokens, prompt, node->wire.max_tokens, &sampling);
    const uint32_t *value = tokens + prompt;
    uint32_t before = UINT32_MAX;
    if (node->stop != NULL) {
        before = sim_words_before_stop(value, made, prompt == 1, node->stop);
    }
    return before != UINT32_MAX ? before : made - fake_engine_is_stop(&sampling, value[made - 1]);
}

static void value_of_llm(struct sim *sim, const struct sim_flow *flow,
                         const struct sim_flow_row *row, uint32_t index)
{
    static uint32_t tokens[SIM_VALUE_TOKENS + 1];
    const struct sim_flow_node *node = &flow->graph.nodes[index];
    struct sim_flow_value *value = &values[index];
    compose(flow, row, index, value);
    uint32_t prompt = 1 + value->count;
    if (value->status != STATUS_OK) {
        return;
    }
    if (prompt + node->wire.max_tokens > sim->limits.context_tokens) {
        value->status = STATUS_BAD_PROMPT_LENGTH;
        return;
    }
    tokens[0] = sim_words()->info.bos_id;
    memcpy(tokens + 1, value->tokens, value->count * sizeof *tokens);
    value->count = call(sim, flow, node, tokens, prompt);
    memcpy(value->tokens, tokens + prompt, value->count * sizeof *tokens);
}

bool sim_flow_lambda(const char *text, uint32_t bytes, uint32_t max, struct sim_flow_text *answer)
{
    uint64_t hash = fnv_add(FNV_START, text, bytes);
    hash ^= hash >> 29;
    max = max < SIM_FLOW_TEXT_BYTES ? max : SIM_FLOW_TEXT_BYTES;
    answer->count = (uint32_t)(hash >> 8) % (max + 1);
    for (uint32_t i = 0; i < answer->count; i++) {
        answer->bytes[i] = "abc"[(hash >> (16 + 4 * i)) % 3];
    }
    return hash % 16 != 15;
}

static void value_of_lambda(const struct sim_flow *flow, const struct sim_flow_row *row,
                            uint32_t index)
{
    static char text[SIM_VALUE_TEXT_BYTES];
    struct sim_flow_value *value = &values[index];
    struct sim_flow_text answer;
    compose(flow, row, index, value);
    if (value->status != STATUS_OK) {
        return;
    }
    uint32_t bytes = sim_words_spell(value->tokens, value->count, text);
    bool has_answer = sim_flow_lambda(text, bytes, flow->graph.nodes[index].wire.max_tokens,
                                      &answer);
    value->status = has_answer ? STATUS_OK : STATUS_BAD_LAMBDA;
    value->count = has_answer && answer.count > 0
                       ? sim_words_encode(answer.bytes, answer.count, false, value->tokens,
                                          SIM_VALUE_TOKENS) : 0;
}

static void value_of(struct sim *sim, const struct sim_flow *flow, const struct sim_flow_row *row,
                     uint32_t index)
{
    const struct sim_flow_text *column = &row->columns[column_of(flow, index)];
    values[index].status = STATUS_OK;
    values[index].count = 0;
    switch (flow->graph.nodes[index].wire.kind) {
    case WIRE_NODE_INPUT:
        values[index].count = column->count == 0 ? 0
            : sim_words_encode(column->bytes, column->count, false, values[index].tokens,
                               SIM_VALUE_TOKENS);
        break;
    case WIRE_NODE_TEXT:
        compose(flow, row, index, &values[index]);
        break;
    case WIRE_NODE_LLM:
        value_of_llm(sim, flow, row, index);
        break;
    default:
        value_of_lambda(flow, row, index);
    }
}

const struct sim_flow_value *sim_flow_value(struct sim *sim, const struct sim_flow *flow,
                                            const struct sim_flow_row *row, uint32_t node)
{
    for (uint32_t i = 0; i <= node; i++) {
        if (i == node || flow->graph.nodes[i].wire.kind != WIRE_NODE_TEXT) {
            value_of(sim, flow, row, i);    /* text nodes live in those that read them */
        }
    }
    return &values[node];
}

uint32_t sim_flow_argument(struct sim *sim, const struct sim_flow *flow,
                           const struct sim_flow_row *row, uint32_t node, char *text)
{
    static struct sim_flow_value argument;
    (void)sim_flow_value(sim, flow, row, node);
    argument = (struct sim_flow_value){.status = STATUS_OK};
    compose(flow, row, node, &argument);
    return argument.status == STATUS_OK ? sim_words_spell(argument.tokens, argument.count, text)
                                        : UINT32_MAX;
}
