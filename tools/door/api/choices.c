/* SPDX-License-Identifier: MIT */
/*
 * What: the choices that a request asks for (tools/door/api/choices.h).
 *
 * Invariant: what the appliance would refuse of a prompt is refused here, by the prompt's name,
 * before any call is sent: its length, and that it has none.
 * Bounds: door.choices calls for a request; the prompts are in door.memory.
 */
#include "tools/door/api/choices.h"

#include <stdio.h>
#include <string.h>

#include "config/base/fnv.h"
#include "tools/door/answer.h"
#include "tools/door/http.h"
#include "tools/door/program.h"
#include "tools/door/request.h"
#include "tools/door/uplink/choice.h"
#include "tools/door/uplink/domain.h"

#define CALL_REST_BYTES 4096u           /* of a CALL beside its prompt, at most */

/* ---- prompts --------------------------------------------------------------------------------- */

void prompt_source_free(struct prompt_source *source)
{
    buffer_free(&source->text);
    memory_give(source->ids);
    memory_give(source->parts);
    *source = (struct prompt_source){0};
}

bool prompt_source_encode(struct model *model, const struct prompt_source *source,
                          const uint32_t **ids, uint32_t *count)
{
    const struct vocab_input input = {
        .text = source->text.at != NULL ? source->text.at : "",
        .bytes = (uint32_t)source->text.count, .parse_special = source->is_chat,
        .parts = (const uint8_t *)source->parts, .parts_count = source->parts_count};
    return model_encode(model, &input, ids, count);
}

/* True when a CALL has room for it. It has for the ids of what fits the context, which are shorter
 * than a text of long words. */
static bool fits_frame(const struct request *request, const struct prompt_source *source)
{
    uint64_t bytes = source->text.count + source->parts_count * sizeof *source->parts;
    return bytes + CALL_REST_BYTES <=
           domain_welcome(request->door, request->domain)->frame_bytes_max;
}

/* In place of its text. False: out of memory. */
static bool take_ids(struct prompt_source *source, const uint32_t *ids, uint32_t count,
                     uint32_t bos_id)
{
    uint32_t first = bos_id != GGUF_NO_TOKEN;
    uint32_t *own = memory_take((first + count) * sizeof *ids);
    if (own != NULL) {
        own[0] = bos_id;
        memcpy(own + first, ids, count * sizeof *ids);
        prompt_source_free(source);
        source->ids = own;
        source->ids_count = first + count;
    }
    return own != NULL;
}

/* How many tokens it has; a text that is too long to be sent becomes ids. */
static bool read_source(struct request *request, struct prompt_source *source, uint32_t *tokens)
{
    struct model *model = &request->door->model;
    uint32_t bos_id = source->is_chat ? GGUF_NO_TOKEN : model->vocab.info.bos_id, count;
    uint32_t context = domain_welcome(request->door, request->domain)->context_tokens_max;
    const uint32_t *ids;
    *tokens = source->ids_count;
    if (source->ids != NULL) {
        return true;
    }
    if (!prompt_source_encode(model, source, &ids, &count)) {
        return request_refuse(request, 413, NULL, "the prompt is longer than door.body_bytes");
    }
    *tokens = count + (bos_id != GGUF_NO_TOKEN);
    return *tokens >= context || fits_frame(request, source) ||
           take_ids(source, ids, count, bos_id) || request_refuse_memory(request);
}

static struct prompt *make_prompt(struct request *request, struct prompt_source *source)
{
    uint32_t tokens;
    if (!read_source(request, source, &tokens)) {
        return NULL;
    }
    struct prompt *prompt = memory_take(sizeof *prompt);
    if (prompt == NULL) {
        (void)request_refuse_memory(request);
        return NULL;
    }
    *prompt = (struct prompt){.holders = 1, .text = source->text, .ids = source->ids,
                              .parts = source->parts, .parts_count = source->parts_count,
                              .tokens = tokens};
    *source = (struct prompt_source){0};
    return prompt;
}

/* In the words of OpenAI's code and of Anthropic's texts: clients that shorten their conversation
 * look for these. */
static bool refuse_length(const struct wish *wish, struct request *request,
                          const struct prompt *prompt)
{
    uint32_t context = domain_welcome(request->door, request->domain)->context_tokens_max;
    bool is_prompt = prompt->tokens >= context;
    char text[200], which[48] = "";
    if (wish->is_listed) {
        snprintf(which, sizeof which, " (%s)", wish->prompt_name);
    }
    if (is_prompt) {
        snprintf(text, sizeof text, "prompt is too long: %u tokens > %u maximum%s", prompt->tokens,
                 context - 1, which);
    } else {
        snprintf(text, sizeof text, "input length and `max_tokens` exceed context limit: %u + %llu "
                 "> %u, decrease input length or `max_tokens` and try again%s", prompt->tokens,
                 (unsigned long long)wish->max_tokens, context, which);
    }
    (void)request_refuse(request, 400, is_prompt ? wish->prompt_name : wish->max_name, text);
    request->refusal.code = "context_length_exceeded";
    return false;
}

/* Tokens that the answer may have. */
static bool fit_tokens(struct wish *wish, struct request *request, const struct prompt *prompt)
{
    uint32_t context = domain_welcome(request->door, request->domain)->context_tokens_max;
    uint64_t rest = context > prompt->tokens ? context - prompt->tokens : 0;
    uint64_t wanted = wish->max_tokens;
    if (prompt->tokens == 0) {
        char text[128];
        snprintf(text, sizeof text, "'%.64s' is empty: this model needs one token at least",
                 wish->prompt_name);
        return request_refuse(request, 400, wish->prompt_name, text);
    }
    if (rest == 0 || wanted > rest) {
        return refuse_length(wish, request, prompt);
    }
    wish->call.max_tokens = (uint32_t)(wanted == 0 ? rest : wanted);
    return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The same request within a program has the same ids, so that it is not computed twice; any other
 * has ids of its own. Two programs may use the same key over one connection. */
static uint64_t call_id_of(const struct request *request)
{
    const char *key = http_header(request, "Idempotency-Key");
    uint64_t id;
    uint8_t unique[AGX_ID_BYTES] = {0};
    if (key != NULL) {
        id = fnv_add(FNV_START, request->program->id, AGX_ID_BYTES);
        return fnv_add(id, key, strlen(key));
    }
    (void)agx_unique_id(unique);
    memcpy(&id, unique, sizeof id);
    return id;
}

/* With a seed, an answer is that of a request with this prompt alone; without one, equal prompts
 * have different answers. */
static uint64_t seed_of(const struct choice *choice, const struct wish *wish)
{
    return wish->has_seed ? wish->call.seed + choice->index % wish->choices
                          : wish->call_id + choice->index;
}

static void fill_prompt(struct agx_call *call, const struct prompt *prompt)
{
    call->prompt_ids = prompt->ids;
    call->prompt_ids_count = prompt->ids != NULL ? prompt->tokens : 0;
    call->prompt_text = prompt->text.at != NULL ? prompt->text.at : "";
    call->prompt_text_bytes = prompt->text.count;
    call->prompt_parts = prompt->parts;
    call->prompt_parts_count = prompt->parts_count;
}

static void fill_call(struct choice *choice, const struct wish *wish)
{
    const struct request *request = choice->request;
    struct agx_call *call = &choice->call;
    *call = wish->call;
    call->call_id = wish->call_id + choice->index;
    call->thread = request->thread + choice->index;
    call->seed = seed_of(choice, wish);
    memcpy(call->program_id, request->program->id, AGX_ID_BYTES);
    memcpy(choice->stops, wish->stops, sizeof choice->stops);
    choice->own_stops_count = wish->own_stops_count;
    memcpy(choice->biases, wish->biases, wish->biases_count * sizeof wish->biases[0]);
    call->biases = choice->biases;
    call->biases_count = wish->biases_count;
    call->stop_texts_count = wish->stops_count;
    for (uint32_t i = 0; i < wish->stops_count; i++) {
        call->stop_texts[i] = choice->stops[i];
    }
    fill_prompt(call, choice->prompt);
}

static bool add_choice(const struct wish *wish, struct request *request, struct prompt *prompt)
{
    struct choice *choice = choice_take(request->door, request);
    if (choice == NULL) {
        return request_refuse(request, 429, NULL,
                              "as many calls as this server has room for are open");
    }
    choice->prompt = prompt;
    prompt->holders++;
    fill_call(choice, wish);
    request->choices[request->choices_count++] = choice;
    return answer_begin(choice) || request_refuse_memory(request);
}

/* ---- of a request ---------------------------------------------------------------------------- */

uint64_t choices_max(const struct door *door)
{
    uint64_t most = door->options.door_choices.number, calls = door->options.door_calls.number;
    return most < calls ? most : calls;
}

static bool refuse_count(const struct wish *wish, struct request *request, uint64_t prompts)
{
    const struct options *options = &request->door->options;
    uint64_t most = choices_max(request->door);
    bool is_choices = most == options->door_choices.number;
    char text[200];
    snprintf(text, sizeof text, "%llu prompts with 'n' = %llu ask for %llu choices: one request "
             "may ask for %llu (%s)", (unsigned long long)prompts,
             (unsigned long long)wish->choices, (unsigned long long)(prompts * wish->choices),
             (unsigned long long)most, is_choices ? "door.choices" : "door.calls");
    return request_refuse(request, 400, wish->prompt_name, text);
}

bool choices_begin(struct wish *wish, struct request *request, uint64_t prompts,
                   uint64_t max_tokens)
{
    uint64_t count = prompts * wish->choices;
    if (count > choices_max(request->door)) {
        return refuse_count(wish, request, prompts);
    }
    if (domain_welcome(request->door, request->domain) == NULL) {
        return domain_refuse(request);
    }
    request->choices = memory_take(count * sizeof *request->choices);
    wish->max_tokens = max_tokens;
    wish->call_id = call_id_of(request);
    return request->choices != NULL || request_refuse_memory(request);
}

bool choices_add(struct wish *wish, struct request *request, struct prompt_source *source)
{
    bool is_chat = source->is_chat;
    struct prompt *prompt = make_prompt(request, source);
    if (prompt == NULL) {
        return false;
    }
    wish->call.no_bos = wish->call.parse_special = is_chat && prompt->ids == NULL;
    bool is_valid = fit_tokens(wish, request, prompt);
    for (uint32_t i = 0; is_valid && i < wish->choices; i++) {
        is_valid = add_choice(wish, request, prompt);
    }
    prompt_release(prompt);
    return is_valid;
}

bool choices_make(struct wish *wish, struct request *request, struct prompt_source *source,
                  uint64_t max_tokens)
{
    return choices_begin(wish, request, 1, max_tokens) && choices_add(wish, request, source);
}
