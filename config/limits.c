/* SPDX-License-Identifier: MIT */
#include "config/config.h"

#include <string.h>

#include "config/base/assert.h"
#include "config/base/bounds.h"
#include "config/devices.h"
#include "config/error.h"
#include "config/model/gguf.h"
#include "config/keys.h"
#include "config/options.h"
#include "config/prefixes.h"
#include "config/workflow/workflow.h"

/*
 * What: the count of everything. Each count is a sum with one commented term for each user. A pool
 * that is too small is enlarged here and nowhere else.
 * Invariants: one maximal call always fits (context_tokens in blocks, in a frame); batch_calls and
 * standby_calls together <= calls; calls_per_connection <= calls; every count fits 32 bits.
 * Why refuse here: a call that can never fit must be found at boot, or it would wait for ever.
 */

#define FRAME_BYTES_MIN        65536
#define FRAME_FIXED_BYTES      4096     /* fields, stop ids, stop strings, biases of a CALL */
#define TOKEN_BYTES            4        /* of a token id on the wire */
#define CONTEXT_TOKENS_DEFAULT 8192
#define TEXT_SLOTS             8
#define TEXT_LINE_BYTES        224      /* longest line of a table */
#define TEXT_FIXED_BYTES       16384    /* headings, `stats`, `config`, `help` */
#define CANARY_PROMPT_TOKENS   16
#define RESERVE_PART           8        /* of available memory, that chosen KV leaves */
#define RESERVE_BYTES_MAX      (UINT64_C(8) << 30)
#define FREE_PART              32       /* of the device */
#define SPARE_PART             4        /* of it, that a plan with KV of ended calls may take */

static uint32_t smaller(uint64_t a, uint64_t b)
{
    uint64_t low = lesser(a, b);
    ASSERT(low <= UINT32_MAX);
    return (uint32_t)low;
}

static uint32_t blocks_from_tokens_ceil(uint64_t tokens, uint32_t block_tokens)
{
    ASSERT(block_tokens > 0);
    return smaller((tokens + block_tokens - 1) / block_tokens, UINT32_MAX);
}

static void begin(struct config_error *error, const struct options *options, const char *section,
                  const char *key)
{
    const struct option_row *row = config_options_find(section, key);
    ASSERT(row != NULL);
    config_error_begin(error, options, row);
}

static enum status derive_context(struct limits *limits, const struct options *options,
                                  const struct model_shape *shape, struct config_error *error)
{
    uint64_t asked = options->limits_context_tokens.number;
    if (asked > shape->context_tokens) {
        begin(error, options, "limits", "context_tokens");
        return config_error_add(error, "the model knows %u positions, allowed 0 .. %u",
                                shape->context_tokens, shape->context_tokens);
    }
    limits->context_tokens = asked != 0 ? smaller(asked, UINT32_MAX)
                                        : smaller(shape->context_tokens, CONTEXT_TOKENS_DEFAULT);
    if (limits->context_tokens < 2) {
        begin(error, options, "limits", "context_tokens");
        return config_error_add(error, "a call needs one prompt token and one output token, "
                                       "allowed 2 .. %u", shape->context_tokens);
    }
    limits->vocab_tokens = shape->vocab_tokens;
    return STATUS_OK;
}

static void derive_calls(struct limits *limits, const struct options *options)
{
    limits->programs = smaller(options->limits_programs.number, UINT32_MAX);
    limits->classes = smaller(options->limits_classes.number, UINT32_MAX);
    bool has_keys = option_auth_tcp(options) == OPTION_AUTH_TCP_PSK;
    limits->tenants = smaller(options->limits_tenants.number, UINT32_MAX)   /* users */
                    + (has_keys ? CONFIG_KEYS_MAX : 1)  /* domains of keys, or TCP without */
                    + 1;                            /* the account of those that find no place */
    limits->calls = smaller(options->limits_calls.number, UINT32_MAX);
    limits->connections = smaller(options->limits_connections.number, UINT32_MAX);
    limits->calls_per_connection =
        smaller(options->limits_calls_per_connection.number, limits->calls);
    limits->calls_per_program = options->limits_calls_per_program.number == 0
                                    ? limits->calls
                                    : smaller(options->limits_calls_per_program.number,
                                              limits->calls);
    limits->calls_per_key = smaller(options->limits_calls_per_key.number, limits->calls);
    /* A batch that is larger than the number of calls would have empty rows. */
    limits->batch_calls = smaller(options->sched_batch.number, limits->calls);
    /* Where the batch takes all calls, none is left to stand by. */
    limits->standby_calls =
        smaller(options->sched_standby.number, limits->calls - limits->batch_calls);
    limits->steps_per_plan = smaller(options->sched_steps_per_plan.number, UINT32_MAX);
    limits->prefill_tokens = smaller(options->sched_prefill_tokens.number, UINT32_MAX);
    limits->step_tokens = limits->prefill_tokens    /* prompt chunks of all rows */
                        + limits->batch_calls       /* the last token of each row that decodes */
                        + limits->standby_calls;    /* and of each that waits for a place */
}

static void derive_drafts(struct limits *limits, const struct options *options,
                          const struct config_machine *machine)
{
    const struct option_value *most = &options->sched_speculate;
    enum sched_sharing sharing = option_kv_sharing(options);
    /* With a device only if asked for: no chip has shown what a slot of a draft costs. */
    limits->speculate = most->line != 0 || !machine->has_device ? smaller(most->number, UINT32_MAX)
                                                                : 0;
    limits->recall_tokens = limits->speculate > 0 && sharing != SCHED_SHARING_OFF
                                ? smaller(options->sched_recall.number, UINT32_MAX) : 0;
    limits->recalled_tokens =
        limits->recall_tokens * (sharing == SCHED_SHARING_DOMAIN ? 2 : 1);  /* class and program */
    limits->past_tokens = limits->recalled_tokens + limits->context_tokens;
}

static void derive_logprobs(struct limits *limits, const struct options *options)
{
    limits->top_logprobs = smaller(options->limits_logprobs.number, limits->vocab_tokens);
    limits->logprob_tokens =
        limits->steps_per_plan          /* unsent, above which the call is paused, */
        + limits->steps_per_plan        /* of the step that it is in meanwhile, */
        + limits->steps_per_plan;       /* and of one that was planned before it was paused */
}

static void derive_workflows(struct limits *limits, const struct options *options)
{
    limits->workflow = (struct workflow_limits){
        .workflows = smaller(options->workflow_workflows.number, UINT32_MAX),
        .nodes = smaller(options->workflow_nodes.number, WORKFLOW_NODES_MAX),
        .pieces = smaller(options->workflow_pieces.number, UINT32_MAX),
        .tokens = smaller(options->workflow_tokens.number, UINT32_MAX),
        .rows = smaller(options->workflow_rows.number, WORKFLOW_ROWS_MAX),
        .value_tokens = smaller(options->workflow_values.number, UINT32_MAX),
    };
}

/* How many device blocks calls could use. Boot chooses between least and most by what memory has;
 * where kv.device_blocks says a number, all three are this number. */
static void derive_wishes(struct limits *limits, const struct options *options)
{
    uint64_t asked = options->kv_device_blocks.number;
    uint32_t quarter = (limits->context_tokens + 3) / 4;
    uint64_t busy = (uint64_t)limits->batch_calls   /* a full batch of calls that use */
                    * blocks_from_tokens_ceil(quarter, limits->kv_block_tokens);  /* a quarter of
                                                                     their context each */
    busy = busy < limits->blocks_per_call ? limits->blocks_per_call : busy;
    uint64_t most = busy                                        /* calls in a batch */
                    + (limits->kv_host_ratio == 0 ? busy : 0);  /* as many that wait or have ended:
                                                                   a host tier would have them */
    limits->kv_blocks_least = smaller(asked != 0 ? asked : limits->blocks_per_call,
                                      BOUND_KV_BLOCKS);
    limits->kv_blocks_busy = smaller(asked != 0 ? asked : busy, BOUND_KV_BLOCKS);
    limits->kv_blocks_most = smaller(asked != 0 ? asked : most, BOUND_KV_BLOCKS);
}

static enum status derive_blocks(struct limits *limits, const struct options *options,
                                 const struct config_machine *machine, struct config_error *error)
{
    const struct option_value *ratio = &options->kv_host_ratio;
    limits->kv_block_tokens = smaller(options->kv_block_tokens.number, UINT32_MAX);
    limits->blocks_per_call =
        blocks_from_tokens_ceil(limits->context_tokens, limits->kv_block_tokens);
    /* By itself a host tier is beside a device only: else both would lie in the same memory. */
    limits->kv_host_ratio =
        ratio->line != 0 || machine->has_device ? smaller(ratio->number, UINT32_MAX) : 0;
    limits->kv_in_streams = !machine->has_device;
    derive_wishes(limits, options);
    config_limits_choose_kv(limits, limits->kv_blocks_most);
    if (limits->kv_blocks >= limits->blocks_per_call) {
        return STATUS_OK;
    }
    begin(error, options, "kv", "device_blocks");
    return config_error_add(error, "one call of limits.context_tokens = %u needs "
                                   "ceil(%u / kv.block_tokens = %u) = %u blocks, and %u x %u = "
                                   "%llu tokens are fewer: it could never run, "
                                   "allowed %u .. %u, or a smaller limits.context_tokens",
                            limits->context_tokens, limits->context_tokens, limits->kv_block_tokens,
                            limits->blocks_per_call, limits->kv_blocks, limits->kv_block_tokens,
                            (unsigned long long)limits->kv_blocks * limits->kv_block_tokens,
                            limits->blocks_per_call, BOUND_KV_DEVICE_BLOCKS);
}

void config_limits_choose_kv(struct limits *limits, uint32_t blocks)
{
    ASSERT(blocks >= limits->kv_blocks_least && blocks <= limits->kv_blocks_most);
    limits->kv_blocks = blocks                      /* of calls */
                        + limits->prefix_blocks;    /* and of declared prefixes */
    limits->kv_host_blocks =
        smaller((uint64_t)blocks * limits->kv_host_ratio / 1000, BOUND_KV_BLOCKS);
    /* With a host tier contents would have to move for it. */
    bool may_go_early = limits->kv_in_streams && limits->kv_host_blocks == 0;
    limits->kv_free_blocks = may_go_early ? blocks / FREE_PART : 0;
}

static uint64_t reserve_bytes(uint64_t available)
{
    uint64_t part = available / RESERVE_PART;
    return part < RESERVE_BYTES_MAX ? part : RESERVE_BYTES_MAX;
}

struct config_budget config_budget(uint64_t available_bytes)
{
    return (struct config_budget){
        .busy_bytes = available_bytes
                      - reserve_bytes(available_bytes), /* for programs that start later, page
                                                           tables, the system's file cache */
        .spare_bytes = available_bytes / SPARE_PART,
    };
}

/* The canary is one step: a prompt that is fed at once, and as many tokens as a step samples. */
static void derive_canary(struct limits *limits, const struct options *options)
{
    if (options->engine_canary.number == 0) {
        return;
    }
    uint32_t prompt = smaller(CANARY_PROMPT_TOKENS, limits->prefill_tokens);
    limits->canary_prompt_tokens = smaller(prompt, limits->context_tokens - 1);
    limits->canary_decode_steps =
        smaller(limits->steps_per_plan, limits->context_tokens - limits->canary_prompt_tokens);
    limits->canary_blocks = blocks_from_tokens_ceil(
        limits->canary_prompt_tokens            /* fed at once */
        + limits->canary_decode_steps - 1,      /* fed back; the last one is not */
        limits->kv_block_tokens);
}

/* Values that were written are in order (check.c); the defaults yield to them. */
static void derive_retention(struct limits *limits, const struct options *options)
{
    const struct option_value *device = &options->kv_retain_device;
    const struct option_value *host = &options->kv_retain_host;
    const struct option_value *drop = &options->kv_retain_drop;
    uint64_t host_us = host->number;
    if (host->line == 0) {
        host_us = device->line != 0 ? greater(host_us, device->number) : host_us;
        host_us = drop->line != 0 && host_us > drop->number ? drop->number : host_us;
    }
    limits->retain_host_us = host_us;
    limits->retain_device_us = device->number < host_us ? device->number : host_us;
    limits->retain_drop_us = greater(drop->number, host_us);
}

static void derive_buffers(struct limits *limits, const struct options *options)
{
    uint64_t call_frame = (uint64_t)TOKEN_BYTES * limits->context_tokens  /* the longest prompt */
                        + FRAME_FIXED_BYTES;                        /* all the rest of a CALL */
    limits->frame_bytes = call_frame > FRAME_BYTES_MIN ? smaller(call_frame, UINT32_MAX)
                                                       : FRAME_BYTES_MIN;
    limits->send_bytes = smaller(options->net_send_bytes.number, UINT32_MAX);
    limits->frames_per_pass = smaller(options->net_frames_per_pass.number, UINT32_MAX);
    limits->bytes_per_pass = smaller(options->net_bytes_per_pass.number, UINT32_MAX);
    uint64_t open = (uint64_t)limits->calls + limits->workflow.workflows;
    uint64_t commands = (uint64_t)limits->connections * limits->frames_per_pass /* one pass */
                      + open    /* a cancel for each whose connection closes */
                      + open;   /* a core that takes over begins and cancels each */
    limits->commands = smaller(commands, UINT32_MAX);
    limits->events = smaller(options->limits_events.number, UINT32_MAX);
    limits->ended = smaller(options->limits_ended.number, UINT32_MAX);
    limits->replies = smaller(options->limits_replies.number, UINT32_MAX);
    uint64_t reply_tokens = greater(options->limits_reply_tokens.number, limits->context_tokens);
    limits->reply_tokens = limits->replies > 0 ? smaller(reply_tokens, UINT32_MAX) : 0;
    limits->text_slots = TEXT_SLOTS;
    uint64_t lines = greater(greater(greater(limits->programs, limits->calls),
                                     greater(limits->classes, limits->tenants)),
                             limits->connections);
    uint64_t tables = lines * TEXT_LINE_BYTES   /* the longest table */
                      + TEXT_FIXED_BYTES;       /* and what is around it */
    limits->text_page_bytes = smaller(greater(tables, BOUND_METRICS_BYTES), UINT32_MAX);
}

static void derive_access(struct limits *limits, const struct options *options)
{
    limits->preauth = smaller(options->net_preauth.number, limits->connections);
    limits->preauth_per_address =
        smaller(options->net_preauth_per_address.number, limits->preauth);
    limits->keys = option_auth_tcp(options) == OPTION_AUTH_TCP_PSK ? CONFIG_KEYS_MAX : 0;
    limits->reserve_permille = smaller(options->limits_reserve.number, 1000);
    limits->has_users = options->net_unix.text[0] != '\0';
}

static enum status derive_engines(struct limits *limits, const struct options *options,
                                  const struct config_machine *machine, struct config_error *error)
{
    struct config_devices devices;
    TRY(config_devices_fill(&devices, options, error));
    uint32_t workers = smaller(options->engine_workers.number, BOUND_ENGINES);
    uint64_t asked = options->engine_threads.number;
    uint32_t part = machine->cpus / (machine->has_device ? 1 : workers);
    limits->engines = machine->has_device ? devices.count : workers;
    limits->engine_threads = part == 0 ? 1 : smaller(part, BOUND_THREADS);
    limits->engine_threads = asked != 0 ? smaller(asked, BOUND_THREADS) : limits->engine_threads;
    return STATUS_OK;
}

enum status config_limits(struct limits *limits, const struct options *options,
                          const struct model_shape *shape,
                          const struct config_machine *machine, struct config_error *error)
{
    *limits = (struct limits){0};
    TRY(derive_context(limits, options, shape, error));
    derive_calls(limits, options);
    derive_drafts(limits, options, machine);
    derive_logprobs(limits, options);
    derive_workflows(limits, options);
    TRY(derive_blocks(limits, options, machine, error));
    derive_canary(limits, options);
    derive_retention(limits, options);
    derive_access(limits, options);
    derive_buffers(limits, options);
    TRY(derive_engines(limits, options, machine, error));
    ASSERT(limits->batch_calls <= limits->calls && limits->batch_calls > 0);
    ASSERT(limits->kv_blocks >= limits->blocks_per_call);
    ASSERT(limits->frame_bytes >= FRAME_BYTES_MIN && limits->engine_threads > 0);
    return STATUS_OK;
}

void config_limits_add_prefixes(struct limits *limits, const struct config_prefixes *prefixes)
{
    limits->prefixes = prefixes->count;
    for (uint32_t i = 0; i < prefixes->count; i++) {
        limits->prefix_blocks +=    /* all of each, though what is equal is kept once */
            prefixes->each[i].tokens_count / limits->kv_block_tokens;
    }
    limits->kv_blocks += limits->prefix_blocks;     /* they never take a call's */
}
