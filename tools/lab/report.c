/* SPDX-License-Identifier: MIT */
/*
 * What: the two forms of a result. jansson makes the JSON.
 * Invariants: the same result gives the same bytes: keys have the order in which they were set,
 * numbers have 12 digits.
 */
#include "tools/lab/report.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN 20

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* Over all engines. */
static double busy_share_mean(const struct lab_result *r)
{
    return r->makespan_s > 0 ? r->busy_s / r->makespan_s / r->engines_count : 0;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void print_latency(FILE *out, const char *name, const struct distribution *latency)
{
    fprintf(out, "  %-28s %12.4f %12.4f %12.4f %12.4f %12.4f\n", name, latency->mean,
            latency->p50, latency->p90, latency->p95, latency->p99);
}

static void print_figures(FILE *out, const char *name, const struct figures *figures)
{
    fprintf(out, "%s: %" PRIu32 " of %" PRIu32 " programs%*s%12s %12s %12s %12s %12s\n", name,
            figures->completed, figures->programs, 6, "", "mean", "p50", "p90", "p95", "p99");
    print_latency(out, "token latency, s", &figures->token);
    print_latency(out, "  with tool gaps, s", &figures->token_with_gaps);
    print_latency(out, "job completion time, s", &figures->jct);
}

static void print_middle(FILE *out, const struct lab_result *result)
{
    const struct sessions_figures *middle = &result->middle;
    fprintf(out, "sessions      %" PRIu32 "; in the middle, %.1f s: %" PRIu32 " programs, %.4f a "
            "second\n", result->sessions, middle->seconds, middle->programs,
            middle->programs_per_s);
    fprintf(out, "              %.1f tokens a second, %.4f s for each, prefix hits %.3f\n",
            middle->tokens_per_s, middle->token_latency_s, middle->hit_ratio);
}

static double busy_share(const struct lab_result *r, uint32_t engine)
{
    return r->makespan_s > 0 ? (double)r->engines[engine].busy_us / 1e6 / r->makespan_s : 0;
}

static void print_engines(const struct lab_result *r, FILE *out)
{
    for (uint32_t i = 0; i < r->engines_count; i++) {
        const struct lab_engine_result *engine = &r->engines[i];
        fprintf(out, "engine %-6" PRIu32 " busy %.1f %%, %" PRIu64 " calls, prefix hits %.3f", i,
                100 * busy_share(r, i), engine->calls,
                ratio(engine->cached_tokens, engine->prompt_tokens));
        if (engine->deaths > 0) {
            fprintf(out, ", died %" PRIu32 " time%s", engine->deaths,
                    engine->deaths > 1 ? "s" : "");
        }
        fputc('\n', out);
    }
}

static void print_refused(const struct lab_result *r, FILE *out)
{
    if (r->refused_calls > 0) {
        fprintf(out, "REFUSED       %" PRIu64 " calls of %" PRIu64 " programs: the figures are not "
                "those of the trace\n", r->refused_calls, r->failed_programs);
    }
}

static void print_rounds(const struct lab_result *r, FILE *out)
{
    fprintf(out, "rounds        %" PRIu64 ", %.1f KV positions read in each; reading %.1f s, "
            "computing %.1f s\n", r->rounds, r->rounds > 0 ? r->kv_positions_read /
            (double)r->rounds : 0, r->read_s, r->compute_s);
    fprintf(out, "tokens        %" PRIu64 " fed, %" PRIu64 " generated, %" PRIu64 " fed again\n",
            r->tokens_computed, r->tokens_generated, r->recomputed_tokens);
    if (r->draft_tokens > 0) {
        fprintf(out, "drafts        %" PRIu64 " of %" PRIu64 " tokens agreed: so many rounds of a "
                "call less\n", r->draft_tokens_agreed, r->draft_tokens);
    }
}

void report_print(const struct lab_result *result, FILE *out)
{
    const struct lab_result *r = result;
    fprintf(out, "%s (%s) on %s: %" PRIu32 " programs, %" PRIu32 " calls, %.4f programs a second\n",
            r->system, r->policy, r->cost, r->programs, r->calls, r->rate);
    print_figures(out, "all", &r->all);
    print_figures(out, "steady state", &r->steady);
    if (r->sessions > 0) {
        print_middle(out, r);
    }
    fprintf(out, "load          %.3f of the KV: %.0f token-rounds a program, rounds of %.2f ms\n",
            r->load, r->cost_mean, 1e3 * r->round_s);
    fprintf(out, "makespan      %.1f s, engine busy %.1f %%\n", r->makespan_s,
            100 * busy_share_mean(r));
    fprintf(out, "waiting       %.1f s over all calls\n", r->wait_s_total);
    fprintf(out, "steps         %" PRIu64 ", each of at most %" PRIu32 " rounds\n", r->steps,
            r->steps_per_plan);
    print_rounds(r, out);
    fprintf(out, "prefix hits   %.3f of %" PRIu64 " prompt tokens\n",
            ratio(r->cached_tokens, r->prompt_tokens), r->prompt_tokens);
    fprintf(out, "blocks copied %" PRIu64 " on the device\n", r->copied_blocks);
    fprintf(out, "preemptions   %" PRIu64 "; blocks out %" PRIu64 ", in %" PRIu64 ", in %" PRIu64
            " transfers\n", r->preemptions, r->swap_out_blocks, r->swap_in_blocks,
            r->swap_transfers);
    fprintf(out, "swap-ins      %" PRIu64 " calls, %" PRIu64 " of them preempted before\n",
            r->swap_in_calls, r->swap_back_calls);
    fprintf(out, "copies        out %.1f s, in %.1f s, on the device %.1f s; steps took %.1f s "
            "longer\n", r->copy_out_s, r->copy_in_s, r->copy_within_s, r->copy_s);
    fprintf(out, "KV blocks     peak %" PRIu32 " of %" PRIu32 ", host %" PRIu32 "\n",
            r->device_blocks_peak, r->device_blocks, r->host_blocks_peak);
    if (r->cut_prompts > 0) {
        fprintf(out, "prompts cut   %" PRIu64 ": longer than the context of %" PRIu32 " tokens\n",
                r->cut_prompts, r->context_tokens);
    }
    print_refused(r, out);
    if (r->engines_count > 1 || r->engines[0].deaths > 0) {
        print_engines(r, out);
    }
    serving_print(&r->serving, out);
    fprintf(out, "this machine  %.2f s, %.0f calls a second; a pass with a step takes the "
            "appliance %.0f ns\n", r->wall_s, r->wall_s > 0 ? r->calls / r->wall_s : 0,
            r->scheduler_ns);
}

static void print_row(const struct lab_result *results, uint32_t count, FILE *out,
                      const char *name, double (*value)(const struct lab_result *))
{
    fprintf(out, "%-28s", name);
    for (uint32_t i = 0; i < count; i++) {
        fprintf(out, " %*.4f", COLUMN, value(&results[i]));
    }
    fprintf(out, "\n");
}

static double token_mean(const struct lab_result *r) { return r->all.token.mean; }
static double token_p95(const struct lab_result *r) { return r->all.token.p95; }
static double token_p99(const struct lab_result *r) { return r->all.token.p99; }
static double steady_mean(const struct lab_result *r) { return r->steady.token.mean; }
static double jct_mean(const struct lab_result *r) { return r->all.jct.mean; }
static double jct_p90(const struct lab_result *r) { return r->all.jct.p90; }
static double jct_p99(const struct lab_result *r) { return r->all.jct.p99; }
static double makespan(const struct lab_result *r) { return r->makespan_s; }
static double waiting(const struct lab_result *r) { return r->wait_s_total; }
static double preemptions(const struct lab_result *r) { return (double)r->preemptions; }
static double recomputed(const struct lab_result *r) { return (double)r->recomputed_tokens; }
static double transfers(const struct lab_result *r) { return (double)r->swap_transfers; }
static double hits(const struct lab_result *r)
{
    return ratio(r->cached_tokens, r->prompt_tokens);
}
static double refused(const struct lab_result *r) { return (double)r->refused_calls; }
static double middle_programs(const struct lab_result *r) { return r->middle.programs_per_s; }
static double middle_tokens(const struct lab_result *r) { return r->middle.tokens_per_s; }
static double middle_token(const struct lab_result *r) { return r->middle.token_latency_s; }
static double middle_hits(const struct lab_result *r) { return r->middle.hit_ratio; }

struct report_row { const char *name; double (*value)(const struct lab_result *); };
static const struct report_row rows[] = {
    {"token latency mean, s", token_mean}, {"token latency p95, s", token_p95},
    {"token latency p99, s", token_p99}, {"  steady state mean, s", steady_mean},
    {"job completion mean, s", jct_mean}, {"job completion p90, s", jct_p90},
    {"job completion p99, s", jct_p99},
    {"makespan, s", makespan}, {"waiting of all calls, s", waiting},
    {"preemptions", preemptions}, {"tokens fed again", recomputed},
    {"swap transfers", transfers}, {"prefix hit ratio", hits}, {"refused calls", refused},
};
static const struct report_row rows_of_sessions[] = {
    {"middle: programs a second", middle_programs}, {"middle: tokens a second", middle_tokens},
    {"middle: token latency, s", middle_token}, {"middle: prefix hit ratio", middle_hits},
};

void report_compare(const struct lab_result *results, uint32_t count, FILE *out)
{
    fprintf(out, "%-28s", "");
    for (uint32_t i = 0; i < count; i++) {
        fprintf(out, " %*s", COLUMN, results[i].system);
    }
    fprintf(out, "\n%-28s", "");
    for (uint32_t i = 0; i < count; i++) {
        fprintf(out, " %*s", COLUMN, results[i].policy);
    }
    fprintf(out, "\n");
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        print_row(results, count, out, rows[i].name, rows[i].value);
    }
    uint32_t more =
        results[0].sessions > 0 ? sizeof rows_of_sessions / sizeof rows_of_sessions[0] : 0;
    for (uint32_t i = 0; i < more; i++) {
        print_row(results, count, out, rows_of_sessions[i].name, rows_of_sessions[i].value);
    }
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void set_latency(json_t *object, const char *prefix, const char *suffix,
                        const struct distribution *latency)
{
    const struct { const char *name; double value; } parts[] = {
        {"mean", latency->mean}, {"p50", latency->p50}, {"p90", latency->p90},
        {"p95", latency->p95}, {"p99", latency->p99}};
    for (uint32_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s_%s%s", prefix, parts[i].name, suffix);
        json_object_set_new(object, key, json_real(parts[i].value));
    }
}

static void set_figures(json_t *object, const struct figures *figures)
{
    set_latency(object, "token_latency_s", "", &figures->token);
    set_latency(object, "token_latency_s", "_with_gaps", &figures->token_with_gaps);
    set_latency(object, "jct_s", "", &figures->jct);
}

static void set_count(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void set_seconds(json_t *object, const struct lab_result *r)
{
    const struct { const char *name; double value; } parts[] = {
        {"makespan_s", r->makespan_s}, {"engine_busy_s", r->busy_s},
        {"engine_busy_share", busy_share_mean(r)},
        {"host_s", r->host_s}, {"read_s", r->read_s}, {"compute_s", r->compute_s},
        {"copy_s", r->copy_s}, {"copy_out_s", r->copy_out_s}, {"copy_in_s", r->copy_in_s},
        {"copy_within_s", r->copy_within_s}, {"wait_s_total", r->wait_s_total}};
    for (uint32_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        json_object_set_new(object, parts[i].name, json_real(parts[i].value));
    }
}

static void set_counts(json_t *object, const struct lab_result *r)
{
    set_count(object, "steps", r->steps);
    set_count(object, "rounds", r->rounds);
    json_object_set_new(object, "kv_positions_read", json_real(r->kv_positions_read));
    set_count(object, "tokens_computed", r->tokens_computed);
    set_count(object, "tokens_generated", r->tokens_generated);
    set_count(object, "draft_tokens", r->draft_tokens);
    set_count(object, "draft_tokens_agreed", r->draft_tokens_agreed);
    set_count(object, "preemptions", r->preemptions);
    set_count(object, "copied_blocks", r->copied_blocks);
    set_count(object, "swap_out_blocks", r->swap_out_blocks);
    set_count(object, "swap_in_blocks", r->swap_in_blocks);
    set_count(object, "swap_transfers", r->swap_transfers);
    set_count(object, "swap_in_calls", r->swap_in_calls);
    set_count(object, "swap_back_calls", r->swap_back_calls);
    set_count(object, "recomputed_tokens", r->recomputed_tokens);
    json_object_set_new(object, "prefix_hit_ratio",
                        json_real(ratio(r->cached_tokens, r->prompt_tokens)));
    set_count(object, "device_blocks_peak", r->device_blocks_peak);
    set_count(object, "host_blocks_peak", r->host_blocks_peak);
    set_count(object, "cut_prompts", r->cut_prompts);
    set_count(object, "refused_calls", r->refused_calls);
}

static json_t *middle_of(const struct lab_result *r)
{
    const struct sessions_figures *middle = &r->middle;
    const struct { const char *name; double value; } parts[] = {
        {"duration_s", middle->seconds}, {"programs_per_s", middle->programs_per_s},
        {"tokens_per_s", middle->tokens_per_s}, {"prefix_hit_ratio", middle->hit_ratio},
        {"token_latency_s_mean", middle->token_latency_s}};
    json_t *object = json_object();
    set_count(object, "programs", middle->programs);
    for (uint32_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        json_object_set_new(object, parts[i].name, json_real(parts[i].value));
    }
    return object;
}

static json_t *engines_of(const struct lab_result *r)
{
    json_t *engines = json_array();
    for (uint32_t i = 0; i < r->engines_count; i++) {
        const struct lab_engine_result *engine = &r->engines[i];
        json_t *object = json_object();
        json_object_set_new(object, "busy_share", json_real(busy_share(r, i)));
        json_object_set_new(object, "hit_ratio",
                            json_real(ratio(engine->cached_tokens, engine->prompt_tokens)));
        set_count(object, "calls", engine->calls);
        set_count(object, "deaths", engine->deaths);
        json_array_append_new(engines, object);
    }
    return engines;
}

static json_t *build(const struct lab_result *r, bool timing)
{
    json_t *root = json_object(), *steady = json_object();
    json_object_set_new(root, "policy", json_string(r->policy));
    json_object_set_new(root, "system", json_string(r->system));
    json_object_set_new(root, "cost", json_string(r->cost));
    set_count(root, "programs", r->programs);
    set_count(root, "calls", r->calls);
    json_object_set_new(root, "rate", json_real(r->rate));
    json_object_set_new(root, "load", json_real(r->load));
    json_object_set_new(root, "cost_mean", json_real(r->cost_mean));
    json_object_set_new(root, "round_s", json_real(r->round_s));
    set_count(root, "sessions", r->sessions);
    json_object_set_new(root, "middle", r->sessions > 0 ? middle_of(r) : json_null());
    set_figures(root, &r->all);
    set_seconds(root, r);
    set_counts(root, r);
    set_count(steady, "programs", r->steady.programs);
    set_figures(steady, &r->steady);
    json_object_set_new(root, "steady", steady);
    json_object_set_new(root, "serving", serving_json(&r->serving));
    json_object_set_new(root, "engines", engines_of(r));
    json_object_set_new(root, "scheduler_ns_per_event_mean",
                        timing ? json_real(r->scheduler_ns) : json_null());
    return root;
}

int report_write_json(const struct lab_result *result, bool timing, const char *path)
{
    json_t *root = build(result, timing);
    int failed = json_dump_file(root, path, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(root);
    if (failed != 0) {
        fprintf(stderr, "agentix-lab: %s: cannot be written: %s\n", path, strerror(errno));
        return LAB_EXIT_SYSTEM;
    }
    return LAB_EXIT_OK;
}
