/* SPDX-License-Identifier: MIT */
/*
 * What: one run: memory, the appliance's core over the lab's world, passes until the last program
 * has ended, and what came of it.
 * Memory: taken at the start, given back at the end; mapped and not populated, because most call
 * slots are never used.
 * Bounds: a run that makes no progress (a bug) is given up after STILL_PASSES_MAX passes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "config/base/assert.h"
#include "tools/lab/lab.h"

#define STILL_PASSES_MAX 100000000u     /* at 200 ms each: half a year of calls that wait */
#define QUIET_US         UINT64_C(86400000000)  /* without a step: then passes are so long, */
#define QUIET_PASS_US    UINT64_C(3600000000)   /* if no call is open */
#define TIMED_EVERY      16             /* one pass of so many is measured */

static int map_memory(struct lab *lab)
{
    struct memory_plan plan = {0};
    loop_plan_memory(&plan, &lab->options, &lab->limits, &lab->vocab.info);
    memory_plan_add(&plan, MEMORY_CORE, "step records", lab->limits.engines,
                    lab->step.layout.total_bytes);
    uint64_t bytes = loop_memory_bytes(&plan);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "agentix-lab: %.1f MiB cannot be mapped: lower limits.calls or "
                        "limits.context_tokens\n", (double)bytes / (1 << 20));
        return LAB_EXIT_SYSTEM;
    }
    lab->arena = (struct arena){.base = memory, .size_bytes = bytes};
    lab->step.base =
        arena_take(&lab->arena, lab->limits.engines, lab->step.layout.total_bytes);
    return LAB_EXIT_OK;
}

static bool take_engine(struct lab *lab, uint32_t index)
{
    struct lab_engine *engine = &lab->engines[index];
    engine->index = index;
    engine->rows = calloc(lab->step.layout.rows_max, sizeof *engine->rows);
    engine->drafts = calloc(lab->step.layout.rows_max,
                            lab->step.layout.steps_max * sizeof *engine->drafts);
    engine->blocks = calloc(lab->limits.kv_blocks, sizeof *engine->blocks);
    return engine->rows != NULL && engine->drafts != NULL && engine->blocks != NULL;
}

static int take_rows(struct lab *lab)
{
    bool took = true;
    for (uint32_t i = 0; i < lab->limits.engines; i++) {
        took = take_engine(lab, i) && took;
    }
    lab->seen = calloc(lab->limits.kv_blocks, sizeof *lab->seen);
    lab->sockets.count = lab->settings->tenants ? lab->trace->classes_count : 1;
    lab->sockets.sockets = calloc(lab->sockets.count, sizeof *lab->sockets.sockets);
    if (!took || lab->seen == NULL || lab->sockets.sockets == NULL) {
        fprintf(stderr, "agentix-lab: out of memory\n");
        return LAB_EXIT_SYSTEM;
    }
    return LAB_EXIT_OK;
}

static int keep_predictor(struct lab *lab, const struct gguf_source *source)
{
    struct memory_plan plan = {0};
    struct arena arena;
    struct config_error error = {.text = "out of memory"};
    predictor_plan_memory(&plan, &lab->predictor);
    uint64_t bytes = memory_plan_bytes(&plan, MEMORY_MODEL);
    lab->predictor_memory = aligned_alloc(ARENA_ALIGN_BYTES, bytes);
    if (lab->predictor_memory != NULL) {
        memset(lab->predictor_memory, 0, bytes);
        arena_init(&arena, lab->predictor_memory, bytes);
    }
    if (lab->predictor_memory == NULL ||
        predictor_load(&lab->predictor, source, &arena, &error) != STATUS_OK) {
        fprintf(stderr, "agentix-lab: %s\n", error.text);
        return LAB_EXIT_SYSTEM;
    }
    return LAB_EXIT_OK;
}

static int without_predictor(const struct lab *lab)
{
    if (lab->settings->predict == LAB_PREDICT_FILE) {
        fprintf(stderr, "agentix-lab: --predict file goes with --set sched.predictor=FILE\n");
        return LAB_EXIT_USAGE;
    }
    return LAB_EXIT_OK;
}

/* As boot does. */
static int load_predictor(struct lab *lab)
{
    static struct gguf scratch;
    struct gguf_source source = {.fd = -1};
    struct config_error error = {.text = ""};
    int code = LAB_EXIT_USAGE;
    if (lab->options.sched_predictor.text[0] == '\0') {
        return without_predictor(lab);
    }
    if (gguf_source_open(&source, lab->options.sched_predictor.text, &error) == STATUS_OK &&
        predictor_measure(&lab->predictor, &source, &scratch, &error) == STATUS_OK) {
        code = keep_predictor(lab, &source);
    } else {
        fprintf(stderr, "agentix-lab: %s\n", error.text);
    }
    gguf_source_close(&source);
    return code;
}

static void start_loop(struct lab *lab)
{
    const struct loop_settings settings = {
        .options = &lab->options, .limits = &lab->limits, .vocab = &lab->vocab,
        .model_name = lab->settings->cost->name, .step = lab->step,
        .predictor = &lab->predictor,
        .drain_us = lab->options.limits_drain.number,
        .access = {.gids_count = 1, .gids = {LAB_GROUP}},
        .demoted_to_head = lab->settings->demoted_to_head,
        .encoder = lab->settings->flow.batches > 0 ? &lab->flow.encoder : NULL,
    };
    lab->vocab.info.tokens = lab->limits.vocab_tokens;
    lab->vocab.info.bos_id = lab->vocab.info.eos_id = GGUF_NO_TOKEN;
    lab->vocab.info.unk_id = lab->vocab.info.eot_id = GGUF_NO_TOKEN;
    if (lab->settings->flow.batches > 0) {
        lab->vocab.info.eos_id = lab->flow.eos_id;
    }
    lab_world_init(lab);
    loop_init(&lab->loop, &settings, &lab->world, &lab->arena);
    for (uint32_t i = 0; i < lab->limits.engines; i++) {
        lab->engines[i].kv = &lab->loop.engines[i].kv;
        lab->engines[i].step = step_at(&lab->step, i);
    }
    lab_frames_hello(lab);
}

static bool is_over(const struct lab *lab)
{
    return lab->clients.player.runs_left == 0 && sched_is_idle(&lab->loop.sched) &&
           ring_is_empty(&lab->loop.exchange.inbox_ring) &&
           lab->clients.done == lab->clients.generated && lab_flow_is_over(lab);
}

void lab_pass(struct lab *lab)
{
    static const int32_t listeners[NET_LISTENERS_MAX] = {0, -1};
    bool is_quiet = lab->now_us - lab->acted_us >= QUIET_US;
    const struct loop_orders orders = {.load_permille = 1000,
                                       .idle_us = is_quiet ? QUIET_PASS_US : 0};
    bool goes_on = loop_pass(&lab->loop, &orders, listeners);
    ASSERT(goes_on);
    lab_foretold_pass(lab);
}

/* Every so often the time of a pass is taken. */
static void pass(struct lab *lab, uint64_t number, uint64_t *timed_ns, uint64_t *timed_count)
{
    uint64_t begun_ns = 0;
    lab->timed = number % TIMED_EVERY == 0;
    lab->acted = false;
    if (lab->timed) {
        lab->aside_ns = 0;
        begun_ns = lab_wall_ns();
    }
    lab_pass(lab);
    lab->acted_us = lab->acted ? lab->now_us : lab->acted_us;
    if (lab->timed && lab->acted) {
        *timed_ns += lab_wall_ns() - begun_ns - lab->aside_ns;
        (*timed_count)++;
    }
}

static int halt(const struct lab *lab)
{
    fprintf(stderr, "agentix-lab: the run came to a halt at %.3f s: %s\n",
            (double)(lab->now_us - LAB_EPOCH_US) / 1e6, lab->sockets.closed
            ? "the appliance has closed a connection" : "calls wait, and no step begins or ends");
    return LAB_EXIT_SYSTEM;
}

static int turn(struct lab *lab)
{
    uint64_t begun_ns = lab_wall_ns(), timed_ns = 0, timed_count = 0, still = 0;
    for (uint64_t number = 0; !is_over(lab); number++) {
        pass(lab, number, &timed_ns, &timed_count);
        still = lab->acted ? 0 : still + 1;
        if (lab->sockets.closed || still > STILL_PASSES_MAX) {
            return halt(lab);
        }
    }
    lab->result.wall_s = (double)(lab_wall_ns() - begun_ns) / 1e9;
    lab->result.scheduler_ns = timed_count > 0 ? (double)timed_ns / (double)timed_count : 0;
    return LAB_EXIT_OK;
}

/* Of an engine. */
static uint64_t kv_tokens(const struct lab *lab)
{
    const struct kvmem_settings *kv = &lab->engines[0].kv->settings;
    return (uint64_t)kv->device_blocks * kv->block_tokens;
}

static int report(struct lab *lab)
{
    struct lab_result *result = &lab->result;
    const struct stats *stats = &lab->loop.stats;
    const struct figures_program *outcomes = lab->clients.outcomes;
    uint32_t count = result->programs;
    double *scratch = calloc(count, sizeof *scratch);
    if (scratch == NULL) {
        fprintf(stderr, "agentix-lab: out of memory\n");
        return LAB_EXIT_SYSTEM;
    }
    figures_compute(&result->all, outcomes, 0, count, scratch);
    figures_compute(&result->steady, outcomes, figures_steady_first(count),
                    figures_steady_end(count), scratch);
    free(scratch);
    const struct serving_totals totals = {
        .duration_us = lab->now_us - LAB_EPOCH_US, .prompt_tokens = result->prompt_tokens,
        .cached_tokens = result->cached_tokens, .engines = lab->limits.engines};
    result->serving = serving_figures(&lab->clients.serving, &totals);
    int code = tables_programs(lab);
    result->round_s = cost_round_s(lab->settings->cost, kv_tokens(lab));
    result->load = result->rate * result->cost_mean * result->round_s /
                   (double)(kv_tokens(lab) * lab->limits.engines);
    result->middle = sessions_figures(&lab->clients.sessions);
    result->makespan_s = (double)(lab->now_us - LAB_EPOCH_US) / 1e6;
    result->busy_s = (double)stats->engine_busy_us / 1e6;
    result->steps = stats->steps;
    result->tokens_computed = stats->tokens_computed;
    result->tokens_generated = stats->tokens_generated;
    result->preemptions = stats->preemptions;
    result->draft_tokens = stats->draft_tokens;
    result->draft_tokens_agreed = stats->draft_tokens_agreed;
    result->recomputed_tokens = stats->recomputed_tokens;
    result->context_tokens = lab->limits.context_tokens;
    result->engines_count = lab->limits.engines;
    result->steps_per_plan = lab->limits.steps_per_plan;
    result->system = lab->settings->system;
    result->cost = lab->settings->cost->name;
    result->policy = lab_policy_name(option_sched_policy(&lab->options));
    lab_memory_report(lab);
    code = code == LAB_EXIT_OK && result->refused_calls > 0 ? LAB_EXIT_REFUSED : code;
    return code;
}

static int open_files(struct lab *lab)
{
    const struct lab_settings *settings = lab->settings;
    int code = tables_open(&lab->tables, settings);
    if (code != LAB_EXIT_OK || settings->timeline_path == NULL) {
        return code;
    }
    const struct timeline_counts counts = {
        .engines = lab->limits.engines, .slots = lab->step.layout.rows_max,
        .programs = lab->result.programs, .calls = lab->result.calls};
    return timeline_open(&lab->timeline, settings->timeline_path, &counts);
}

int lab_begin(struct lab *lab, const struct lab_settings *settings, const struct trace *trace)
{
    lab->settings = settings;
    lab->trace = trace;
    int code = lab_configure(lab);
    if (code != LAB_EXIT_OK) {
        return code;
    }
    lab->step.layout = loop_step_layout(&lab->limits);
    code = take_rows(lab);
    code = code != LAB_EXIT_OK ? code
                               : prompts_init(&lab->prompts, trace, lab->limits.context_tokens,
                                              lab->limits.vocab_tokens, settings->seed);
    code = code != LAB_EXIT_OK ? code : lab_clients_init(lab);
    code = code != LAB_EXIT_OK || settings->flow.batches == 0 ? code : lab_flow_init(lab);
    code = code != LAB_EXIT_OK ? code : map_memory(lab);
    code = code != LAB_EXIT_OK ? code : load_predictor(lab);
    code = code != LAB_EXIT_OK ? code : open_files(lab);
    if (code == LAB_EXIT_OK) {
        start_loop(lab);
    }
    return code;
}

int lab_end(struct lab *lab)
{
    int code = timeline_close(&lab->timeline), closed = tables_close(&lab->tables);
    code = code != LAB_EXIT_OK ? code : closed;
    if (lab->arena.base != NULL) {
        munmap(lab->arena.base, lab->arena.size_bytes);
    }
    lab_clients_free(lab);
    lab_flow_free(lab);
    prompts_free(&lab->prompts);
    free(lab->predictor_memory);
    for (uint32_t i = 0; i < lab->limits.engines; i++) {
        free(lab->engines[i].rows);
        free(lab->engines[i].drafts);
        free(lab->engines[i].blocks);
    }
    free(lab->seen);
    free(lab->sockets.sockets);
    return code;
}

int lab_run(const struct lab_settings *settings, const struct trace *trace,
            struct lab_result *result)
{
    struct lab *lab = calloc(1, sizeof *lab);
    if (lab == NULL) {
        fprintf(stderr, "agentix-lab: out of memory\n");
        return LAB_EXIT_SYSTEM;
    }
    int code = lab_begin(lab, settings, trace);
    code = code != LAB_EXIT_OK ? code : turn(lab);
    if (code == LAB_EXIT_OK) {
        loop_check(&lab->loop);
        code = settings->flow.batches == 0 ? report(lab)
                                            : lab_flow_report(lab, settings->flow_json_path);
    }
    *result = lab->result;
    int closed = lab_end(lab);
    free(lab);
    return closed != LAB_EXIT_OK ? closed : code;
}
