/* SPDX-License-Identifier: MIT */
/* What: fields that all APIs have (tools/door/api/fields.h). */
#include "tools/door/api/fields.h"

#include <stdio.h>
#include <string.h>

#include "config/base/fnv.h"
#include "tools/door/answer.h"
#include "tools/door/http.h"
#include "tools/door/program.h"
#include "tools/door/request.h"
#include "tools/door/uplink/choice.h"
#include "tools/door/uplink/uplink.h"

/* ---- one field ------------------------------------------------------------------------------- */

static const json_t *get(const struct fields *fields, const char *name)
{
    const json_t *value = json_object_get(fields->body, name);
    return json_is_null(value) ? NULL : value;
}

static bool refuse(const struct fields *fields, const char *name, const char *wanted)
{
    char text[160];
    snprintf(text, sizeof text, "'%s' must be %s", name, wanted);
    return request_refuse(fields->request, 400, name, text);
}

bool field_number(const struct fields *fields, const char *name, double min, double max,
                  double *value)
{
    const json_t *json = get(fields, name);
    double found = json_number_value(json);
    char wanted[80];
    if (json == NULL) {
        return true;
    }
    if (!json_is_number(json) || !(found >= min && found <= max)) {
        snprintf(wanted, sizeof wanted, "a number from %.10g to %.10g", min, max);
        return refuse(fields, name, wanted);
    }
    *value = found;
    return true;
}

bool field_count(const struct fields *fields, const char *name, uint64_t min, uint64_t max,
                 uint64_t *value)
{
    const json_t *json = get(fields, name);
    json_int_t found = json_integer_value(json);
    char wanted[80];
    if (json == NULL) {
        return true;
    }
    if (!json_is_integer(json) || found < (json_int_t)min || (uint64_t)found > max) {
        snprintf(wanted, sizeof wanted, "an integer from %llu to %llu", (unsigned long long)min,
                 (unsigned long long)max);
        return refuse(fields, name, wanted);
    }
    *value = (uint64_t)found;
    return true;
}

bool field_flag(const struct fields *fields, const char *name, bool *value)
{
    const json_t *json = get(fields, name);
    if (json != NULL && !json_is_boolean(json)) {
        return refuse(fields, name, "true or false");
    }
    *value = json != NULL ? json_is_true(json) : *value;
    return true;
}

bool field_text(const struct fields *fields, const char *name, const char **value)
{
    const json_t *json = get(fields, name);
    if (json != NULL && !json_is_string(json)) {
        return refuse(fields, name, "a text");
    }
    *value = json != NULL ? json_string_value(json) : *value;
    return true;
}

static bool says_nothing(const json_t *json)
{
    return json == NULL || json_is_null(json) || json_is_false(json) ||
           (json_is_number(json) && json_number_value(json) == 0) ||
           (json_is_string(json) && json_string_length(json) == 0) ||
           (json_is_array(json) && json_array_size(json) == 0) ||
           (json_is_object(json) && json_object_size(json) == 0);
}

bool fields_refuse(const struct fields *fields, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (!says_nothing(get(fields, *names))) {
            char text[160];
            snprintf(text, sizeof text, "'%s' is not supported by this server", *names);
            return request_refuse(fields->request, 400, *names, text);
        }
    }
    return true;
}

bool field_format(const struct fields *fields, const json_t *format, const char *name)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    char text[160];
    if (says_nothing(format) || (type != NULL && strcmp(type, "text") == 0)) {
        return true;
    }
    snprintf(text, sizeof text, "'%s' of another type than 'text' is not supported by this server: "
             "a tool with 'tool_choice' has a schema, too", name);
    return request_refuse(fields->request, 400, name, text);
}

/* ---- sampling and ends ----------------------------------------------------------------------- */

void wish_begin(struct wish *wish, const struct door *door)
{
    bool has_format = door->model.format.id != CHAT_PLAIN;
    *wish = (struct wish){.choices = 1, .prompt_name = "messages", .max_name = "max_tokens"};
    wish->call.temperature =
        has_format ? (float)door->options.door_temperature.number / 1000 : 0;
    wish->call.want_text = 1;
}

bool wish_read_sampling(struct wish *wish, const struct fields *fields, double temperature_max)
{
    struct agx_call *call = &wish->call;
    double temperature = (double)call->temperature, top_p = 1, min_p = 0, penalty = 1;
    uint64_t top_k = 0, seed = 0;
    bool ignore_eos = false;
    const json_t *seed_json = get(fields, "seed");
    bool is_valid = field_number(fields, "temperature", 0, temperature_max, &temperature) &&
                    field_number(fields, "top_p", 0, 1, &top_p) &&
                    field_number(fields, "min_p", 0, 0.999, &min_p) &&
                    field_number(fields, "repetition_penalty", 0.1, 10, &penalty) &&
                    field_number(fields, "repeat_penalty", 0.1, 10, &penalty) &&
                    field_flag(fields, "ignore_eos", &ignore_eos) &&
                    field_count(fields, "top_k", 0, INT32_MAX, &top_k);
    if (!is_valid) {
        return false;
    }
    if (seed_json != NULL && !json_is_integer(seed_json)) {
        return refuse(fields, "seed", "an integer");
    }
    wish->has_seed = seed_json != NULL;
    seed = wish->has_seed ? (uint64_t)json_integer_value(seed_json) : 0;
    call->temperature = temperature < 0.01 ? 0 : (float)temperature;
    call->top_p = top_p <= 0 ? 1e-6f : (float)top_p;
    call->top_k = (uint32_t)top_k;
    call->min_p = (float)min_p;
    call->repeat_penalty = (float)penalty;
    call->seed = seed;
    call->ignore_eos = ignore_eos;
    return true;
}

static bool add_stop(struct wish *wish, const struct fields *fields, const char *name,
                     const json_t *text)
{
    size_t bytes = json_string_length(text);
    if (!json_is_string(text) || bytes == 0 || bytes >= DOOR_STOP_BYTES ||
        strlen(json_string_value(text)) != bytes || wish->stops_count == AGX_STOP_TEXTS_MAX) {
        return refuse(fields, name, "a text, or up to 4, of 1 to 64 bytes each, without zeros");
    }
    memcpy(wish->stops[wish->stops_count++], json_string_value(text), bytes + 1);
    wish->own_stops_count++;
    return true;
}

bool wish_read_stops(struct wish *wish, const struct fields *fields, const char *name)
{
    const json_t *json = get(fields, name);
    const json_t *text;
    size_t index;
    if (json == NULL || json_is_string(json)) {
        return json == NULL || add_stop(wish, fields, name, json);
    }
    if (!json_is_array(json)) {
        return refuse(fields, name, "a text, or up to 4, of 1 to 64 bytes each");
    }
    json_array_foreach((json_t *)(uintptr_t)json, index, text) {
        if (!add_stop(wish, fields, name, text)) {
            return false;
        }
    }
    return true;
}

/* ---- choices --------------------------------------------------------------------------------- */

static struct prompt *make_prompt(struct request *request, struct prompt_source *source)
{
    struct model *model = &request->door->model;
    struct prompt *prompt = memory_take(sizeof *prompt);
    const uint32_t *ids;
    if (prompt == NULL) {
        (void)request_refuse_memory(request);
        return NULL;
    }
    *prompt = (struct prompt){.holders = 1, .text = source->text, .parts = source->parts,
                              .parts_count = source->parts_count};
    const struct vocab_input input = {
        .text = source->text.at != NULL ? source->text.at : "",
        .bytes = (uint32_t)source->text.count, .parse_special = source->is_chat,
        .parts = (const uint8_t *)source->parts, .parts_count = source->parts_count};
    if (!model_encode(model, &input, &ids, &prompt->tokens)) {
        (void)request_refuse(request, 413, NULL, "the prompt is longer than door.body_bytes");
        memory_give(prompt);
        return NULL;
    }
    prompt->tokens += !source->is_chat && model->vocab.info.bos_id != GGUF_NO_TOKEN;
    *source = (struct prompt_source){0};
    return prompt;
}

/* In the words of OpenAI's code and of Anthropic's texts: clients that shorten their conversation
 * look for these. */
static bool refuse_length(const struct wish *wish, struct request *request,
                          const struct prompt *prompt, uint64_t wanted)
{
    uint32_t context = domain_welcome(request->door, request->domain)->context_tokens_max;
    bool is_prompt = prompt->tokens >= context;
    char text[160];
    if (is_prompt) {
        snprintf(text, sizeof text, "prompt is too long: %u tokens > %u maximum", prompt->tokens,
                 context - 1);
    } else {
        snprintf(text, sizeof text, "input length and `max_tokens` exceed context limit: %u + %llu "
                 "> %u, decrease input length or `max_tokens` and try again", prompt->tokens,
                 (unsigned long long)wanted, context);
    }
    (void)request_refuse(request, 400, is_prompt ? wish->prompt_name : wish->max_name, text);
    request->refusal.code = "context_length_exceeded";
    return false;
}

/* Tokens that the answer may have. */
static bool fit_tokens(struct wish *wish, struct request *request, const struct prompt *prompt,
                       uint64_t wanted)
{
    uint32_t context = domain_welcome(request->door, request->domain)->context_tokens_max;
    uint64_t rest = context > prompt->tokens ? context - prompt->tokens : 0;
    if (rest == 0 || wanted > rest) {
        return refuse_length(wish, request, prompt, wanted);
    }
    wish->call.max_tokens = (uint32_t)(wanted == 0 ? rest : wanted);
    return true;
}

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

static void fill_call(struct choice *choice, const struct wish *wish, uint64_t call_id)
{
    const struct request *request = choice->request;
    struct agx_call *call = &choice->call;
    *call = wish->call;
    call->call_id = call_id + choice->index;
    call->thread = request->thread + choice->index;
    call->seed = (wish->has_seed ? call->seed : call_id) + choice->index;
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
    call->prompt_text = choice->prompt->text.at != NULL ? choice->prompt->text.at : "";
    call->prompt_text_bytes = choice->prompt->text.count;
    call->prompt_parts = choice->prompt->parts;
    call->prompt_parts_count = choice->prompt->parts_count;
}

bool wish_make_choices(struct wish *wish, struct request *request, struct prompt_source *source,
                       uint64_t max_tokens)
{
    bool is_chat = source->is_chat;
    if (domain_welcome(request->door, request->domain) == NULL) {
        return uplink_refuse(request);
    }
    struct prompt *prompt = make_prompt(request, source);
    if (prompt == NULL) {
        return false;
    }
    wish->call.no_bos = wish->call.parse_special = is_chat;
    uint64_t call_id = call_id_of(request);
    bool is_valid = fit_tokens(wish, request, prompt, max_tokens);
    for (uint32_t i = 0; is_valid && i < wish->choices; i++) {
        struct choice *choice = choice_take(request->door, request);
        if (choice == NULL) {
            is_valid = request_refuse(request, 429, NULL,
                                      "as many calls as this server has room for are open");
            break;
        }
        choice->prompt = prompt;
        prompt->holders++;
        fill_call(choice, wish, call_id);
        request->choices[request->choices_count++] = choice;
        is_valid = answer_begin(choice) ||
                   request_refuse_memory(request);
    }
    prompt_release(prompt);
    return is_valid;
}
