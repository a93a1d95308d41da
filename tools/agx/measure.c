/* SPDX-License-Identifier: MIT */
#include "tools/agx/measure.h"

#include <inttypes.h>
#include <stdlib.h>

#include "config/base/assert.h"
#include "tools/agx/command.h"

/*
 * What: sums, means, percentiles, and two ways of printing them.
 * Bounds: sorting is O(n log n), n the programs; nothing is printed while the replay runs.
 * Why the mean of ratios and not the ratio of sums: a long program must not hide the latency of the
 * short ones, which people notice. A comparison with others states which of the two it uses.
 */

int measure_init(struct measure *measure, uint32_t programs, uint32_t calls)
{
    *measure = (struct measure){.programs = programs};
    measure->latency_us = calloc(programs, sizeof *measure->latency_us);
    measure->latency_gaps_us = calloc(programs, sizeof *measure->latency_gaps_us);
    bool taken = serving_init(&measure->serving, calls, programs);
    if (!taken || measure->latency_us == NULL || measure->latency_gaps_us == NULL) {
        fprintf(stderr, "agx: out of memory\n");
        return EXIT_SYSTEM;
    }
    return EXIT_COMPLETE;
}

void measure_free(struct measure *measure)
{
    free(measure->latency_us);
    free(measure->latency_gaps_us);
    serving_free(&measure->serving);
}

void measure_program(struct measure *measure, uint64_t path_us, uint64_t whole_us, uint64_t tokens)
{
    ASSERT(measure->completed < measure->programs);
    ASSERT(tokens > 0);
    measure->latency_us[measure->completed] = (double)path_us / (double)tokens;
    measure->latency_gaps_us[measure->completed] = (double)whole_us / (double)tokens;
    measure->completed++;
    serving_job(&measure->serving, whole_us);
}

void measure_close(struct measure *measure)
{
    const struct serving_totals totals = {
        .duration_us = measure->duration_us, .prompt_tokens = measure->prompt_tokens,
        .cached_tokens = measure->cached_tokens};
    measure->latency = distribution_of(measure->latency_us, measure->completed);
    measure->latency_gaps = distribution_of(measure->latency_gaps_us, measure->completed);
    measure->serving_figures = serving_figures(&measure->serving, &totals);
}

static double per_second(uint64_t count, uint64_t duration_us)
{
    return duration_us > 0 ? (double)count * 1e6 / (double)duration_us : 0;
}

static void print_latency(FILE *out, const char *name, const struct distribution *us)
{
    fprintf(out, "%-26s %10.3f %10.3f %10.3f\n", name, us->mean / 1e3, us->p95 / 1e3,
            us->p99 / 1e3);
}

static void print_middle(FILE *out, const struct sessions *sessions)
{
    struct sessions_figures middle = sessions_figures(sessions);
    if (sessions->count == 0) {
        return;
    }
    fprintf(out, "sessions     %" PRIu32 "; in the middle, %.1f s: %" PRIu32 " programs, %.3f/s; "
            "%.1f tokens/s, %.3f ms for each; %.3f of prompts cached\n", sessions->count,
            middle.seconds, middle.programs, middle.programs_per_s, middle.tokens_per_s,
            middle.token_latency_s * 1e3, middle.hit_ratio);
}

void measure_print(const struct measure *measure, FILE *out)
{
    const struct measure *m = measure;
    uint64_t calls = m->calls > 0 ? m->calls : 1;
    fprintf(out, "%-26s %10s %10s %10s\n", "ms for each token", "mean", "p95", "p99");
    print_latency(out, "program-level latency", &m->latency);
    print_latency(out, "  with tool gaps", &m->latency_gaps);
    fprintf(out, "\nprograms     %" PRIu32 " of %" PRIu32 " completed, %" PRIu32
            " failed, %.3f/s in %.1f s\n", m->completed, m->programs, m->failed,
            per_second(m->completed, m->duration_us), (double)m->duration_us / 1e6);
    print_middle(out, &m->sessions);
    fprintf(out, "calls        %" PRIu64 ", %.1f/s; %" PRIu64 " times busy, %" PRIu64
            " reconnects\n", m->calls, per_second(m->calls, m->duration_us), m->busy,
            m->reconnects);
    fprintf(out, "tokens       %" PRIu64 " generated, %.1f/s; %" PRIu64 " in prompts, %" PRIu64
            " of them cached\n", m->generated_tokens,
            per_second(m->generated_tokens, m->duration_us), m->prompt_tokens, m->cached_tokens);
    fprintf(out, "prompts cut  %" PRIu64 " (longer than the context)\n", m->cut_prompts);
    fprintf(out, "outputs cut  %" PRIu64 " (longer than half the context)\n", m->cut_outputs);
    fprintf(out, "waiting      %.3f s, %.3f ms for each call\n", (double)m->wait_us / 1e6,
            (double)m->wait_us / 1e3 / (double)calls);
    fprintf(out, "service      %.3f s, %.3f ms for each call\n", (double)m->service_us / 1e6,
            (double)m->service_us / 1e3 / (double)calls);
    fprintf(out, "preemptions  %" PRIu64 "\n\n", m->preemptions);
    serving_print(&m->serving_figures, out);
}

/* A JSON string: control characters, quotes and backslashes by their numbers. */
static void print_json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f) {
            fprintf(out, "\\u%04x", byte);
        } else {
            fputc(byte, out);
        }
    }
    fputc('"', out);
}

static void print_json_latency(FILE *out, const char *name, const struct distribution *us)
{
    fprintf(out, ", \"%s\": {\"mean\": %.6f, \"p50\": %.6f, \"p95\": %.6f, \"p99\": %.6f}", name,
            us->mean / 1e3, us->p50 / 1e3, us->p95 / 1e3, us->p99 / 1e3);
}

static void print_json_middle(FILE *out, const struct sessions *sessions)
{
    struct sessions_figures middle = sessions_figures(sessions);
    if (sessions->count == 0) {
        fprintf(out, ", \"sessions\": 0, \"middle\": null");
        return;
    }
    fprintf(out, ", \"sessions\": %" PRIu32 ", \"middle\": {\"programs\": %" PRIu32
            ", \"duration_s\": %.6f, \"programs_per_s\": %.6f, \"tokens_per_s\": %.6f"
            ", \"prefix_hit_ratio\": %.6f, \"token_latency_ms_mean\": %.6f}", sessions->count,
            middle.programs, middle.seconds, middle.programs_per_s, middle.tokens_per_s,
            middle.hit_ratio, middle.token_latency_s * 1e3);
}

void measure_print_json(const struct measure *measure, FILE *out)
{
    const struct measure *m = measure;
    fprintf(out, "{\"trace\": ");
    print_json_text(out, m->trace);
    fprintf(out, ", \"rate\": %.6f, \"token_scale\": %.6f, \"gap_scale\": %.6f", m->rate,
            m->token_scale, m->gap_scale);
    fprintf(out, ", \"programs\": %" PRIu32 ", \"completed\": %" PRIu32 ", \"failed\": %" PRIu32,
            m->programs, m->completed, m->failed);
    print_json_latency(out, "token_latency_ms", &m->latency);
    print_json_latency(out, "token_latency_with_gaps_ms", &m->latency_gaps);
    fprintf(out, ", \"duration_s\": %.6f, \"programs_per_s\": %.6f, \"tokens_per_s\": %.6f",
            (double)m->duration_us / 1e6, per_second(m->completed, m->duration_us),
            per_second(m->generated_tokens, m->duration_us));
    print_json_middle(out, &m->sessions);
    fprintf(out, ", \"calls\": %" PRIu64 ", \"prompt_tokens\": %" PRIu64 ", \"cached_tokens\": %"
            PRIu64 ", \"generated_tokens\": %" PRIu64, m->calls, m->prompt_tokens,
            m->cached_tokens, m->generated_tokens);
    fprintf(out, ", \"wait_us\": %" PRIu64 ", \"service_us\": %" PRIu64 ", \"preemptions\": %"
            PRIu64, m->wait_us, m->service_us, m->preemptions);
    fprintf(out, ", \"busy\": %" PRIu64 ", \"reconnects\": %" PRIu64 ", \"cut_prompts\": %" PRIu64,
            m->busy, m->reconnects, m->cut_prompts);
    json_t *serving = serving_json(&m->serving_figures);
    fprintf(out, ", \"serving\": ");
    json_dumpf(serving, out, JSON_REAL_PRECISION(12));
    fprintf(out, "}\n");
    json_decref(serving);
}
