/* SPDX-License-Identifier: MIT */
/*
 * What: a plan as a picture. Each operator is a box with its place in the order and its inner
 * sequence; what is pruned or merged is grey. Values flow from left to right.
 *
 * Method of the SVG: a box stands one column to the right of the last operand that it reads, and in
 * its column at the mean height of its operands, as far as there is room. Bounds: nodes squared.
 */
#include "tools/agx/flow/plan.h"

#include <inttypes.h>
#include <string.h>

#define BOX_WIDTH    172
#define BOX_HEIGHT   38
#define COLUMN_WIDTH 236
#define ROW_HEIGHT   50
#define MARGIN       16
#define TITLE_HEIGHT 30
#define LABEL_BYTES  23                     /* of a name, in a box */

/* Of inner sequences with several operators, in turn. */
static const char *const colours[] = {"#cfe3f7", "#d5efd0", "#fbe2c4", "#e6d9f2", "#f7d3d6",
                                      "#d2eeee", "#f0ecc4", "#e3dccf"};
#define COLOURS_COUNT (sizeof colours / sizeof colours[0])

static const struct workflow_node *node_at(const struct plan *plan, uint32_t node)
{
    return &plan->workflow->nodes[node];
}

/* True when the node has a box: texts live inside those that read them. */
static bool is_drawn(const struct plan *plan, uint32_t node)
{
    return node_at(plan, node)->kind != WORKFLOW_TEXT || node_at(plan, node)->is_output;
}

/* True when the node is not executed: no output needs it, or an equal one is there. */
static bool is_grey(const struct plan *plan, uint32_t node)
{
    return !node_at(plan, node)->is_needed || node_at(plan, node)->same_as != node;
}

static const struct workflow_op *op_of(const struct plan *plan, uint32_t node)
{
    uint32_t place = plan_place(plan, node);
    return place > 0 ? &plan->workflow->order.ops[place - 1] : NULL;
}

static const char *colour_of(const struct plan *plan, uint32_t node)
{
    const struct workflow_order *order = &plan->workflow->order;
    const struct workflow_op *op = op_of(plan, node);
    if (is_grey(plan, node)) {
        return "#eeeeee";
    }
    if (op == NULL) {
        return node_at(plan, node)->kind == WORKFLOW_LAMBDA ? "#fff7cc" : "#ffffff";
    }
    bool is_alone = order->sequences[op->sequence].ops_count == 1;
    return is_alone ? "#ffffff" : colours[op->sequence % COLOURS_COUNT];
}

/* What stands below the name. */
static void describe(const struct plan *plan, uint32_t node, char *text, size_t max)
{
    static const char *const kinds[] = {"input", "text", "llm", "lambda"};
    const struct workflow_node *of = node_at(plan, node);
    const struct workflow_op *op = op_of(plan, node);
    if (!of->is_needed) {
        snprintf(text, max, "%s, pruned", kinds[of->kind]);
    } else if (of->same_as != node) {
        snprintf(text, max, "= %s", plan->file->names[of->same_as].name);
    } else if (op != NULL) {
        snprintf(text, max, "%" PRIu32 ". sequence %" PRIu32 ", new %" PRIu32,
                 plan_place(plan, node), op->sequence, op->new_tokens);
    } else {
        snprintf(text, max, "%s, about %" PRIu32, kinds[of->kind], of->est_tokens);
    }
}

/* ---- DOT ------------------------------------------------------------------------------------- */

/* A text for the quotes of DOT. */
static void print_quoted(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    }
}

static void print_dot_node(const struct plan *plan, uint32_t node, FILE *out)
{
    char below[128];
    describe(plan, node, below, sizeof below);
    fprintf(out, "  n%" PRIu32 " [label=\"", node);
    print_quoted(plan->file->names[node].name, out);
    fputs("\\n", out);
    print_quoted(below, out);
    fprintf(out, "\", fillcolor=\"%s\"%s%s];\n", colour_of(plan, node),
            is_grey(plan, node) ? ", color=\"#aaaaaa\", fontcolor=\"#888888\"" : "",
            node_at(plan, node)->is_output ? ", penwidth=2.5" : "");
}

void plan_print_dot(const struct plan *plan, FILE *out)
{
    fputs("digraph workflow {\n  rankdir=LR;\n"
          "  node [shape=box, style=filled, fontname=\"monospace\", fontsize=11];\n", out);
    for (uint32_t i = 0; i < plan->workflow->nodes_count; i++) {
        if (!is_drawn(plan, i)) {
            continue;
        }
        print_dot_node(plan, i, out);
        uint32_t from = plan_operand_next(plan, i, WORKFLOW_NONE);
        for (; from != WORKFLOW_NONE; from = plan_operand_next(plan, i, from)) {
            fprintf(out, "  n%" PRIu32 " -> n%" PRIu32 "%s;\n",
                    is_grey(plan, i) ? from : node_at(plan, from)->same_as, i,
                    is_grey(plan, i) ? " [color=\"#cccccc\"]" : "");
        }
    }
    fputs("}\n", out);
}

/* ---- SVG: where boxes stand ------------------------------------------------------------------ */

struct layout {
    uint32_t column[WORKFLOW_NODES_MAX];
    uint32_t y[WORKFLOW_NODES_MAX];         /* of the middle, below the title */
    uint32_t columns, height;
};

/* A column, and the height that a box would like: the mean of its operands'. */
static uint32_t place_column(const struct plan *plan, struct layout *layout, uint32_t node)
{
    uint64_t sum = 0;
    uint32_t count = 0, from = plan_operand_next(plan, node, WORKFLOW_NONE);
    layout->column[node] = 0;
    for (; from != WORKFLOW_NONE; from = plan_operand_next(plan, node, from)) {
        sum += layout->y[from];
        count++;
        if (layout->column[node] <= layout->column[from]) {
            layout->column[node] = layout->column[from] + 1;
        }
    }
    return count > 0 ? (uint32_t)(sum / count) : 0;
}

/* In the order of nodes: an operand has its place before those that read it. A box that finds its
 * height taken goes to the next free one of its column. */
static void place_boxes(const struct plan *plan, struct layout *layout)
{
    uint32_t filled[WORKFLOW_NODES_MAX + 1] = {0};      /* height of each column so far */
    memset(layout, 0, sizeof *layout);
    for (uint32_t i = 0; i < plan->workflow->nodes_count; i++) {
        if (!is_drawn(plan, i)) {
            continue;
        }
        uint32_t wish = place_column(plan, layout, i), column = layout->column[i];
        uint32_t top = wish > ROW_HEIGHT / 2 ? wish - ROW_HEIGHT / 2 : 0;
        top = top > filled[column] && node_at(plan, i)->kind != WORKFLOW_INPUT ? top
                                                                             : filled[column];
        layout->y[i] = top + ROW_HEIGHT / 2;
        filled[column] = top + ROW_HEIGHT;
        layout->height = filled[column] > layout->height ? filled[column] : layout->height;
        layout->columns = column >= layout->columns ? column + 1 : layout->columns;
    }
}

/* ---- SVG: what is drawn ---------------------------------------------------------------------- */

/* A text for XML; longer ones end in three points, between characters. */
static void print_text(const char *text, size_t max, FILE *out)
{
    size_t bytes = strlen(text), end = bytes > max ? max - 3 : bytes;
    while (end < bytes && end > 0 && ((uint8_t)text[end] & 0xc0) == 0x80) {
        end--;
    }
    for (size_t i = 0; i < end; i++) {
        switch (text[i]) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        default:
            fputc(text[i], out);
        }
    }
    fputs(end < bytes ? "..." : "", out);
}

static uint32_t left_of(const struct layout *layout, uint32_t node)
{
    return MARGIN + layout->column[node] * COLUMN_WIDTH;
}

static uint32_t middle_of(const struct layout *layout, uint32_t node)
{
    return MARGIN + TITLE_HEIGHT + layout->y[node];
}

static void print_edge(const struct plan *plan, const struct layout *layout, uint32_t from,
                       uint32_t to, FILE *out)
{
    uint32_t x1 = left_of(layout, from) + BOX_WIDTH, y1 = middle_of(layout, from);
    uint32_t x2 = left_of(layout, to), y2 = middle_of(layout, to);
    uint32_t bend = (COLUMN_WIDTH - BOX_WIDTH) * 3 / 4;
    fprintf(out, "<path d=\"M%u %u C%u %u %u %u %u %u\" stroke=\"%s\"/>\n", x1, y1, x1 + bend, y1,
            x2 - bend, y2, x2, y2, is_grey(plan, to) ? "#dddddd" : "#7a8794");
}

static void print_edges(const struct plan *plan, const struct layout *layout, FILE *out)
{
    fputs("<g fill=\"none\" stroke-width=\"1.1\">\n", out);
    for (uint32_t i = 0; i < plan->workflow->nodes_count; i++) {
        uint32_t from = is_drawn(plan, i) ? plan_operand_next(plan, i, WORKFLOW_NONE)
                                          : WORKFLOW_NONE;
        for (; from != WORKFLOW_NONE; from = plan_operand_next(plan, i, from)) {
            print_edge(plan, layout, is_grey(plan, i) ? from : node_at(plan, from)->same_as, i,
                       out);
        }
    }
    fputs("</g>\n", out);
}

static void print_box(const struct plan *plan, const struct layout *layout, uint32_t node,
                      FILE *out)
{
    char below[128];
    bool grey = is_grey(plan, node);
    uint32_t x = left_of(layout, node), y = middle_of(layout, node);
    describe(plan, node, below, sizeof below);
    fprintf(out, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" rx=\"%u\" fill=\"%s\" "
            "stroke=\"%s\" stroke-width=\"%s\"/>\n", x, y - BOX_HEIGHT / 2, BOX_WIDTH, BOX_HEIGHT,
            node_at(plan, node)->kind == WORKFLOW_INPUT ? 18u : 4u, colour_of(plan, node),
            grey ? "#cccccc" : "#44525f", node_at(plan, node)->is_output ? "2.4" : "1");
    fprintf(out, "<text x=\"%u\" y=\"%u\" fill=\"%s\">", x + 10, y - 3,
            grey ? "#999999" : "#1c2733");
    print_text(plan->file->names[node].name, LABEL_BYTES, out);
    fprintf(out, "</text><text x=\"%u\" y=\"%u\" font-size=\"9.5\" fill=\"%s\">", x + 10, y + 11,
            grey ? "#aaaaaa" : "#5a6875");
    print_text(below, LABEL_BYTES + 4, out);
    fputs("</text>\n", out);
}

void plan_print_svg(const struct plan *plan, FILE *out)
{
    const struct workflow_order *order = &plan->workflow->order;
    struct layout layout;
    place_boxes(plan, &layout);
    uint32_t width = 2 * MARGIN + (layout.columns - 1) * COLUMN_WIDTH + BOX_WIDTH;
    uint32_t height = 2 * MARGIN + TITLE_HEIGHT + layout.height;
    width = width < 420 ? 420 : width;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
            "viewBox=\"0 0 %u %u\" font-family=\"monospace\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", width, height, width,
            height);
    fprintf(out, "<text x=\"%u\" y=\"%u\" fill=\"#1c2733\">%" PRIu32 " of %" PRIu32 " operators run"
            " (%" PRIu32 " pruned, %" PRIu32 " merged), in the order of their numbers</text>\n",
            MARGIN, MARGIN + 10, order->left, order->given, order->pruned, order->merged);
    print_edges(plan, &layout, out);
    for (uint32_t i = 0; i < plan->workflow->nodes_count; i++) {
        if (is_drawn(plan, i)) {
            print_box(plan, &layout, i, out);
        }
    }
    fputs("</svg>\n", out);
}
