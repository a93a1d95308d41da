/* SPDX-License-Identifier: MIT */
/*
 * What: what became of the workflows: for people, and as JSON. All figures are of virtual time.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tools/lab/lab.h"

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double makespan_s(const struct lab_flow_batch *batch)
{
    return (double)(batch->end_us - batch->begin_us) / 1e6;
}

static void print_batch(const struct lab_flow *flow, uint32_t index)
{
    const struct lab_flow_batch *b = &flow->batches[index];
    const struct lab_flow_open *open = &flow->opens[index];
    printf("%s: %" PRIu32 " rows, %" PRIu32 " clients; %" PRIu32 " operators given, %" PRIu32
           " pruned, %" PRIu32 " merged, %" PRIu32 " left\n", flow->settings->rows_paths[index],
           flow->rows[index].count, b->clients_done, open->given, open->pruned, open->merged,
           open->left);
    printf("  makespan    %.3f s; a client %.3f s in the mean\n", makespan_s(b),
           ratio(b->clients_s, b->clients_done));
    printf("  operators   %" PRIu64 " called, %" PRIu64 " shared, %" PRIu64 " fetched\n", b->calls,
           b->shared, b->fetched);
    printf("  tokens      %" PRIu64 " of prompts, %.1f %% of them cached; %" PRIu64 " answered\n",
           b->prompt_tokens, 100 * ratio((double)b->cached_tokens, (double)b->prompt_tokens),
           b->generated_tokens);
    printf("  a round     %.1f rows, %.0f tokens of KV\n",
           ratio((double)b->row_rounds, (double)b->rounds), ratio(b->positions, (double)b->rounds));
    if (b->failed_rows > 0) {
        printf("  FAILED      %" PRIu64 " rows\n", b->failed_rows);
    }
}

static json_t *json_of(const struct lab_flow *flow, uint32_t index)
{
    const struct lab_flow_batch *b = &flow->batches[index];
    const struct { const char *name; double value; } parts[] = {
        {"makespan_s", makespan_s(b)}, {"client_s_mean", ratio(b->clients_s, b->clients_done)},
        {"hit_ratio", ratio((double)b->cached_tokens, (double)b->prompt_tokens)},
        {"round_rows", ratio((double)b->row_rounds, (double)b->rounds)},
        {"round_tokens", ratio(b->positions, (double)b->rounds)}};
    const struct { const char *name; uint64_t value; } counts[] = {
        {"rows", flow->rows[index].count}, {"clients", b->clients_done}, {"calls", b->calls},
        {"shared", b->shared}, {"fetched", b->fetched}, {"failed_rows", b->failed_rows},
        {"prompt_tokens", b->prompt_tokens}, {"generated_tokens", b->generated_tokens}};
    json_t *object = json_object();
    char digest[17];
    for (uint32_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        json_object_set_new(object, parts[i].name, json_real(parts[i].value));
    }
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        json_object_set_new(object, counts[i].name, json_integer((json_int_t)counts[i].value));
    }
    snprintf(digest, sizeof digest, "%016" PRIx64, b->digest);
    json_object_set_new(object, "digest", json_string(digest));
    return object;
}

static uint64_t in_blocks(const struct lab *lab)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < lab->limits.engines; i++) {
        blocks += lab->engines[i].kv->counters.in_blocks;
    }
    return blocks;
}

static int write_json(const struct lab *lab, const char *path)
{
    json_t *root = json_object(), *batches = json_array();
    json_object_set_new(root, "order", json_string(lab->settings->order));
    json_object_set_new(root, "policy", json_string(lab_policy_name(
                                            option_sched_policy(&lab->options))));
    json_object_set_new(root, "preemptions",
                        json_integer((json_int_t)lab->loop.stats.preemptions));
    json_object_set_new(root, "recomputed_tokens",
                        json_integer((json_int_t)lab->loop.stats.recomputed_tokens));
    json_object_set_new(root, "swap_in_blocks", json_integer((json_int_t)in_blocks(lab)));
    for (uint32_t i = 0; i < lab->settings->flow.batches; i++) {
        json_array_append_new(batches, json_of(&lab->flow, i));
    }
    json_object_set_new(root, "batches", batches);
    int failed = json_dump_file(root, path, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(root);
    if (failed != 0) {
        fprintf(stderr, "agentix-lab: %s: cannot be written: %s\n", path, strerror(errno));
    }
    return failed != 0 ? LAB_EXIT_SYSTEM : LAB_EXIT_OK;
}

int lab_flow_report(const struct lab *lab, const char *json_path)
{
    const struct stats *stats = &lab->loop.stats;
    printf("order %s on %s\n", lab->settings->order, lab->settings->cost->name);
    for (uint32_t i = 0; i < lab->settings->flow.batches; i++) {
        print_batch(&lab->flow, i);
    }
    printf("preemptions   %" PRIu64 ", %" PRIu64 " tokens fed again\n", stats->preemptions,
           stats->recomputed_tokens);
    return json_path != NULL ? write_json(lab, json_path) : LAB_EXIT_OK;
}
