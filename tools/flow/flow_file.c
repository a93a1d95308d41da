/* SPDX-License-Identifier: MIT */
/*
 * What: a flow file from bytes to a workflow of the SDK: read, expanded, ordered, built.
 *
 * Order: that of the file, as far as a node's operands come before it; of those that are ready the
 * first in the file is next. So rounds may name each other in any order of statements.
 */
#include "tools/flow/flow_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/flow/expand.h"

#define NODE_BYTES_MAX 1024                 /* of a node in the builder, without its operands */
#define PIECE_BYTES    16                   /* of an operand there, and of a text without words */

/* ---- order ----------------------------------------------------------------------------------- */

struct ordering {
    const struct flow_graph *graph;
    uint32_t nodes[AGX_FLOW_NODES_MAX];     /* of the graph, in the order in which they are built */
    uint32_t places[AGX_FLOW_NODES_MAX];    /* the reverse; AGX_FLOW_NONE: not yet */
    uint32_t count;
};

static bool is_ready(const struct ordering *o, uint32_t node)
{
    const struct flow_span pieces = o->graph->nodes[node].pieces;
    for (uint32_t p = pieces.first; p < pieces.first + pieces.count; p++) {
        uint32_t operand = o->graph->pieces[p].node;
        if (operand != AGX_FLOW_NONE && o->places[operand] == AGX_FLOW_NONE) {
            return false;
        }
    }
    return true;
}

static bool order_nodes(struct ordering *o)
{
    memset(o->places, 0xff, sizeof o->places);
    while (o->count < o->graph->nodes_count) {
        uint32_t next = 0;
        while (next < o->graph->nodes_count &&
               (o->places[next] != AGX_FLOW_NONE || !is_ready(o, next))) {
            next++;
        }
        if (next == o->graph->nodes_count) {
            break;
        }
        o->places[next] = o->count;
        o->nodes[o->count++] = next;
    }
    for (uint32_t i = 0; i < o->graph->nodes_count; i++) {
        if (o->places[i] == AGX_FLOW_NONE) {
            return flow_refuse(&o->graph->syntax->lexer, &o->graph->nodes[i].family->name,
                               "a node that does not need its own value");
        }
    }
    return true;
}

/* ---- building -------------------------------------------------------------------------------- */

struct building {
    const struct flow_graph *graph;
    const struct ordering *ordering;
    const struct flow_file_settings *settings;
    struct flow_file *file;
    struct agx_piece *pieces;               /* of one node */
};

static void read_pieces(const struct building *b, const struct flow_node *node)
{
    for (uint32_t p = 0; p < node->pieces.count; p++) {
        const struct flow_piece *piece = &b->graph->pieces[node->pieces.first + p];
        bool is_text = piece->node == AGX_FLOW_NONE;
        b->pieces[p] = (struct agx_piece){
            .node = is_text ? AGX_FLOW_NONE : b->ordering->places[piece->node],
            .text = is_text ? b->graph->said.bytes + piece->text : NULL,
            .text_bytes = piece->text_bytes, .parse_special = piece->is_marker};
    }
}

static uint32_t build_node(const struct building *b, const struct flow_node *node)
{
    const struct flow_family *family = node->family;
    struct agx_flow *flow = &b->file->flow;
    struct agx_operator how = family->how;
    const struct flow_node_name *name = &b->file->names[flow->nodes_count];
    uint32_t est = b->settings->est != NULL ? b->settings->est(b->settings->self, name->name) : 0;
    how.est_tokens = est != 0 ? est : how.est_tokens;
    how.stop_ids = family->stop_ids;
    for (uint32_t i = 0; i < how.stop_texts_count; i++) {
        how.stop_texts[i] = family->stop_texts[i];
    }
    read_pieces(b, node);
    switch (family->kind) {
    case AGX_NODE_INPUT:
        return agx_flow_input(flow, how.est_tokens);
    case AGX_NODE_TEXT:
        return agx_flow_text(flow, b->pieces, node->pieces.count);
    case AGX_NODE_LLM:
        return agx_flow_llm(flow, b->pieces, node->pieces.count, &how);
    default:
        return agx_flow_lambda(flow, name->base, b->pieces, node->pieces.count, &how);
    }
}

/* The names, in the order of nodes, in memory that the file keeps. */
static void name_nodes(struct building *b)
{
    for (uint32_t i = 0; i < b->graph->nodes_count; i++) {
        const struct flow_node *node = &b->graph->nodes[b->ordering->nodes[i]];
        const char *name = b->file->words + node->name;
        b->file->names[i] = (struct flow_node_name){name, name + strlen(name) + 1,
                                                    node->family->name.line,
                                                    node->family->name.column};
    }
}

static bool build(struct building *b)
{
    const struct flow_graph *g = b->graph;
    size_t bytes = g->said.count + (size_t)g->pieces_count * PIECE_BYTES +
                   (size_t)g->nodes_count * NODE_BYTES_MAX;
    b->file->memory = malloc(bytes);
    b->pieces = malloc((g->pieces_count + 1) * sizeof *b->pieces);
    b->file->words = g->words.bytes;
    bool good = b->file->memory != NULL && b->pieces != NULL;
    if (good) {
        name_nodes(b);
        agx_flow_init(&b->file->flow, b->file->memory, bytes);
        for (uint32_t i = 0; i < g->nodes_count; i++) {
            build_node(b, &g->nodes[b->ordering->nodes[i]]);
        }
        for (uint32_t i = 0; i < g->outputs_count; i++) {
            agx_flow_output(&b->file->flow, b->ordering->places[g->outputs[i]]);
        }
        good = b->file->flow.result == AGX_OK;
    }
    free(b->pieces);
    return good;
}

/* ---- the whole ------------------------------------------------------------------------------- */

struct parser {                             /* large: from the heap */
    struct flow_syntax syntax;
    struct flow_graph graph;
    struct ordering ordering;
};

static bool parse(struct parser *parser, struct flow_file *file,
                  const struct flow_file_settings *settings)
{
    struct building building = {.graph = &parser->graph, .ordering = &parser->ordering,
                                .settings = settings, .file = file};
    parser->graph.synthetic = settings->synthetic;
    parser->ordering.graph = &parser->graph;
    if (!flow_syntax_read(&parser->syntax) || !flow_expand(&parser->graph, &parser->syntax) ||
        !order_nodes(&parser->ordering)) {
        return false;
    }
    if (build(&building)) {
        return true;
    }
    struct flow_token end = {.kind = FLOW_FILE_END, .line = parser->syntax.lexer.line, .column = 1};
    return flow_refuse(&parser->syntax.lexer, &end,
                       "less, or a lambda whose name has at most 31 bytes");
}

bool flow_file_parse(struct flow_file *file, const struct flow_file_text *text,
                     const struct flow_file_settings *settings, char fault[FLOW_FAULT_BYTES])
{
    struct parser *parser = calloc(1, sizeof *parser);
    memset(file, 0, sizeof *file);
    file->path = text->path;
    if (parser == NULL || text->bytes > FLOW_FILE_BYTES_MAX) {
        snprintf(fault, FLOW_FAULT_BYTES, "%.60s: larger than 1 MiB, or there is no memory",
                 text->path);
        free(parser);
        return false;
    }
    flow_lexer_init(&parser->syntax.lexer, text->path, text->text, text->bytes, fault);
    bool good = parse(parser, file, settings);
    free(parser->graph.said.bytes);
    if (!good) {
        free(file->memory);
        free(parser->graph.words.bytes);
        memset(file, 0, sizeof *file);
    }
    free(parser);
    return good;
}

bool flow_file_read(struct flow_file *file, const char *path,
                    const struct flow_file_settings *settings, char fault[FLOW_FAULT_BYTES])
{
    char *text = malloc(FLOW_FILE_BYTES_MAX + 1);
    FILE *from = fopen(path, "rb");
    size_t bytes = text != NULL && from != NULL ? fread(text, 1, FLOW_FILE_BYTES_MAX + 1, from) : 0;
    bool good = text != NULL && from != NULL && !ferror(from);
    if (from != NULL) {
        fclose(from);
    }
    if (good) {
        good = flow_file_parse(file, &(struct flow_file_text){path, text, bytes}, settings, fault);
    } else {
        snprintf(fault, FLOW_FAULT_BYTES, "%.150s: cannot be read: %.40s", path,
                 strerror(errno));
    }
    free(text);
    return good;
}

void flow_file_free(struct flow_file *file)
{
    free(file->memory);
    free(file->words);
    memset(file, 0, sizeof *file);
}
