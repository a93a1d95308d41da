/* SPDX-License-Identifier: MIT */
/* What: the values of each call and program, their distributions, and two ways of printing them. */
#include "tools/trace/serving.h"

#include <stdlib.h>

#include "config/base/assert.h"

bool serving_init(struct serving *serving, uint32_t calls, uint32_t jobs)
{
    *serving = (struct serving){.calls_room = calls, .jobs_room = jobs};
    double **const of_calls[] = {&serving->first_ms, &serving->latency_ms, &serving->token_ms,
                                 &serving->speed};
    bool taken = true;
    for (uint32_t i = 0; i < sizeof of_calls / sizeof of_calls[0]; i++) {
        *of_calls[i] = calloc((size_t)calls + 1, sizeof **of_calls[i]);
        taken = taken && *of_calls[i] != NULL;
    }
    serving->job_s = calloc((size_t)jobs + 1, sizeof *serving->job_s);
    return taken && serving->job_s != NULL;
}

void serving_free(struct serving *serving)
{
    free(serving->first_ms);
    free(serving->latency_ms);
    free(serving->token_ms);
    free(serving->speed);
    free(serving->job_s);
}

void serving_call(struct serving *serving, const uint64_t times_us[3], uint32_t tokens)
{
    uint64_t due_us = times_us[0], first_us = times_us[1], last_us = times_us[2];
    double spaced_ms = (double)(last_us - first_us) / 1e3;
    ASSERT(due_us <= first_us && first_us <= last_us && serving->calls < serving->calls_room);
    serving->first_ms[serving->calls] = (double)(first_us - due_us) / 1e3;
    serving->latency_ms[serving->calls++] = (double)(last_us - due_us) / 1e3;
    serving->tokens += tokens;
    if (tokens > 1) {
        serving->token_ms[serving->spaced++] = spaced_ms / (tokens - 1);
    }
    if (tokens > 1 && spaced_ms > 0) {      /* all at once has no speed */
        serving->speed[serving->fast++] = (tokens - 1) * 1e3 / spaced_ms;
    }
}

void serving_job(struct serving *serving, uint64_t whole_us)
{
    ASSERT(serving->jobs < serving->jobs_room);
    serving->job_s[serving->jobs++] = (double)whole_us / 1e6;
}

struct serving_figures serving_figures(struct serving *serving,
                                       const struct serving_totals *totals)
{
    double seconds = (double)totals->duration_us / 1e6;
    struct serving_figures figures = {
        .job_s = distribution_of(serving->job_s, serving->jobs),
        .first_ms = distribution_of(serving->first_ms, serving->calls),
        .token_ms = distribution_of(serving->token_ms, serving->spaced),
        .latency_ms = distribution_of(serving->latency_ms, serving->calls),
        .speed = distribution_of(serving->speed, serving->fast), .engines = totals->engines};
    if (seconds > 0) {
        figures.tokens_per_s = (double)serving->tokens / seconds;
        figures.all_tokens_per_s = (double)(serving->tokens + totals->prompt_tokens) / seconds;
        figures.calls_per_s = serving->calls / seconds;
        figures.jobs_per_hour = serving->jobs * 3600 / seconds;
    }
    if (figures.job_s.mean > 0) {
        figures.jobs_per_hour_of_user = 3600 / figures.job_s.mean;
    }
    if (totals->prompt_tokens > 0) {
        figures.hit_ratio = (double)totals->cached_tokens / (double)totals->prompt_tokens;
    }
    return figures;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_row(FILE *out, const char *name, const struct distribution *row)
{
    fprintf(out, "%-32s %11.3f %11.3f %11.3f %11.3f %11.3f\n", name, row->mean, row->p50, row->p90,
            row->p95, row->p99);
}

void serving_print(const struct serving_figures *figures, FILE *out)
{
    const struct serving_figures *f = figures;
    fprintf(out, "%-32s %11s %11s %11s %11s %11s\n", "under the names of others", "mean", "p50",
            "p90", "p95", "p99");
    print_row(out, "job completion time, s", &f->job_s);
    print_row(out, "time to first token, ms", &f->first_ms);
    print_row(out, "inter-token latency (TPOT), ms", &f->token_ms);
    print_row(out, "request latency, ms", &f->latency_ms);
    print_row(out, "interactivity, tokens/s/user", &f->speed);
    fprintf(out, "throughput   %.1f output tokens/s, %.1f with prompts; %.3f requests/s\n",
            f->tokens_per_s, f->all_tokens_per_s, f->calls_per_s);
    fprintf(out, "jobs         %.2f an hour, %.2f an hour and user; cache hit ratio %.3f\n",
            f->jobs_per_hour, f->jobs_per_hour_of_user, f->hit_ratio);
    if (f->engines > 0) {
        fprintf(out, "per GPU      %.1f output tokens/s, %.1f with prompts; %.2f jobs an hour\n",
                f->tokens_per_s / f->engines, f->all_tokens_per_s / f->engines,
                f->jobs_per_hour / f->engines);
    }
}

static void set_distribution(json_t *object, const char *name, const struct distribution *row)
{
    json_object_set_new(object, name, json_pack("{s:f, s:f, s:f, s:f, s:f}", "mean", row->mean,
                                                "p50", row->p50, "p90", row->p90, "p95", row->p95,
                                                "p99", row->p99));
}

/* Null, where it is not known how many engines there are. */
static void set_per_engine(json_t *object, const char *name, double value, double engines)
{
    json_object_set_new(object, name, engines > 0 ? json_real(value / engines) : json_null());
}

json_t *serving_json(const struct serving_figures *figures)
{
    const struct serving_figures *f = figures;
    json_t *object = json_object();
    set_distribution(object, "job_completion_time_s", &f->job_s);
    set_distribution(object, "time_to_first_token_ms", &f->first_ms);
    set_distribution(object, "inter_token_latency_ms", &f->token_ms);
    set_distribution(object, "request_latency_ms", &f->latency_ms);
    set_distribution(object, "output_token_throughput_per_user", &f->speed);
    const struct { const char *name; double value; } rates[] = {
        {"output_token_throughput", f->tokens_per_s},
        {"total_token_throughput", f->all_tokens_per_s},
        {"request_throughput", f->calls_per_s},
        {"jobs_per_hour", f->jobs_per_hour},
        {"jobs_per_hour_per_user", f->jobs_per_hour_of_user},
        {"cache_hit_ratio", f->hit_ratio}};
    for (uint32_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        json_object_set_new(object, rates[i].name, json_real(rates[i].value));
    }
    set_per_engine(object, "output_token_throughput_per_gpu", f->tokens_per_s, f->engines);
    set_per_engine(object, "total_token_throughput_per_gpu", f->all_tokens_per_s, f->engines);
    set_per_engine(object, "jobs_per_hour_per_gpu", f->jobs_per_hour, f->engines);
    return object;
}
