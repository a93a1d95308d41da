/* SPDX-License-Identifier: MIT */
/* What: endpoints that need no call: health, metrics, models, tokens, the end of a program. */
#include <stdio.h>
#include <string.h>

#include "tools/door/api/fields.h"
#include "tools/door/endpoint.h"
#include "tools/door/parse.h"
#include "tools/door/program.h"
#include "tools/door/request.h"
#include "tools/door/uplink/domain.h"

/* ---- health, metrics ------------------------------------------------------------------------- */

/* 200 when calls of any domain can be sent to the appliance now: who balances doors by it would
 * else take all clients away because one key is withdrawn. */
void plain_health(struct request *request, const json_t *body)
{
    (void)body;
    request->domain = domain_of_health(request->door);
    if (domain_welcome(request->door, request->domain) != NULL) {
        request_answer(request, json_pack("{ss}", "status", "ok"));
    } else {
        (void)domain_refuse(request);
    }
}

/* By the conventions of the appliance's own (appliance/text/page/metrics.c). */
struct metric {
    const char *name, *type, *help;
    uint64_t value;
};

static void add_metric(char *text, size_t bytes, const struct metric *metric)
{
    size_t used = strlen(text);
    const char *name = metric->name, *type = metric->type;
    snprintf(text + used, bytes - used, "# HELP agentix_door_%s %s\n# TYPE agentix_door_%s %s\n"
             "agentix_door_%s %llu\n", name, metric->help, name, type, name,
             (unsigned long long)metric->value);
}

static uint32_t count_requests(const struct door *door)
{
    uint32_t count = 0;
    for (uint64_t i = 0; i < door->options.door_requests.number; i++) {
        count += door->requests[i].state != REQUEST_FREE;
    }
    return count;
}

static uint32_t count_calls(const struct door *door)
{
    uint32_t count = 0;
    for (uint64_t i = 0; i < door->domains_count * door->options.door_calls.number; i++) {
        count += door->choices[i].is_open;
    }
    return count;
}

/* Prometheus's text format. */
void plain_metrics(struct request *request, const json_t *body)
{
    const struct door *door = request->door;
    const struct door_stats *stats = &door->stats;
    const struct metric rows[] = {
        {"requests_total", "counter", "requests", stats->requests},
        {"requests_refused_total", "counter", "of these, refused", stats->refused},
        {"clients_left_total", "counter", "requests whose client left", stats->left},
        {"calls_total", "counter", "calls of the appliance", stats->calls},
        {"prompt_tokens_total", "counter", "of ended calls", stats->prompt_tokens},
        {"cached_tokens_total", "counter", "of these, found cached", stats->cached_tokens},
        {"generated_tokens_total", "counter", "of ended calls", stats->generated_tokens},
        {"connections", "gauge", "open connections of clients", stats->connections_open},
        {"requests", "gauge", "open requests", count_requests(door)},
        {"calls", "gauge", "open calls of the appliance", count_calls(door)},
        {"programs", "gauge", "programs with a place", programs_count(door)},
        {"memory_bytes", "gauge", "what requests take of the heap", memory_taken_bytes()},
    };
    char text[4096] = "";
    (void)body;
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        add_metric(text, sizeof text, &rows[i]);
    }
    request_answer_text(request, "text/plain; version=0.0.4; charset=utf-8", text);
}

/* ---- models ---------------------------------------------------------------------------------- */

/* OpenAI's fields and Anthropic's in one: neither's clients mind those of the other. */
static json_t *describe(const struct request *request)
{
    const struct door *door = request->door;
    const struct agx_welcome *welcome = domain_welcome(door, request->domain);
    json_t *model = json_pack("{sssssIss}", "id", door->model.name, "object", "model", "created",
                              (json_int_t)0, "owned_by", "agentix");
    json_t *also = json_pack("{ssssssss}", "type", "model", "display_name", door->model.name,
                             "created_at", "1970-01-01T00:00:00Z", "lifecycle", "active");
    (void)json_object_update(model, also);
    json_decref(also);
    if (welcome != NULL) {
        json_int_t most = welcome->context_tokens_max;
        (void)json_object_set_new(model, "max_model_len", json_integer(most));
        (void)json_object_set_new(model, "max_input_tokens", json_integer(most));
    }
    return model;
}

void plain_models(struct request *request, const json_t *body)
{
    (void)body;
    const char *name = request->door->model.name;
    request_answer(request, json_pack("{sss[o]sbssss}", "object", "list", "data", describe(request),
                                      "has_more", 0, "first_id", name, "last_id", name));
}

void plain_model(struct request *request, const json_t *body)
{
    (void)body;
    if (strcmp(request->rest, request->door->model.name) != 0) {
        (void)request_refuse(request, 404, "model", "there is no model of this name");
        return;
    }
    request_answer(request, describe(request));
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* "content" or "prompt": a text; "add_special" puts BOS before it. */
void plain_tokenize(struct request *request, const json_t *body)
{
    const struct fields fields = {request, body};
    const json_t *content = json_object_get(body, "content");
    const char *text = NULL;
    const uint32_t *ids;
    uint32_t count;
    bool add_special = false;
    if (!field_text(&fields, "prompt", &text) || !field_text(&fields, "content", &text) ||
        !field_flag(&fields, "add_special", &add_special)) {
        return;
    }
    content = json_is_string(content) ? content : json_object_get(body, "prompt");
    if (text == NULL) {
        (void)request_refuse(request, 400, "content", "'content' must be a text");
        return;
    }
    struct model *model = &request->door->model;
    const struct vocab_input input = {.text = text, .bytes = (uint32_t)json_string_length(content)};
    json_t *tokens = json_array();
    if (add_special && model->vocab.info.bos_id != GGUF_NO_TOKEN) {
        json_array_append_new(tokens, json_integer(model->vocab.info.bos_id));
    }
    if (model_encode(model, &input, &ids, &count)) {
        for (uint32_t i = 0; i < count; i++) {
            json_array_append_new(tokens, json_integer(ids[i]));
        }
    }
    request_answer(request, json_pack("{sIso}", "count", (json_int_t)json_array_size(tokens),
                                      "tokens", tokens));
}

void plain_detokenize(struct request *request, const json_t *body)
{
    const struct vocab *vocab = &request->door->model.vocab;
    const json_t *tokens = json_object_get(body, "tokens"), *token;
    struct buffer text = {0};
    char piece[GGUF_TOKEN_BYTES_MAX];
    size_t index;
    bool is_valid = json_is_array(tokens);
    json_array_foreach((json_t *)(uintptr_t)tokens, index, token) {
        json_int_t id = json_integer_value(token);
        is_valid = is_valid && json_is_integer(token) && id >= 0 && id < vocab->info.tokens &&
                   buffer_add(&text, piece, vocab_decode(vocab, (uint32_t)id, index == 0, piece,
                                                        sizeof piece));
    }
    if (is_valid) {
        json_t *content = json_of(&text);
        request_answer(request, json_pack("{so}", "content",
                                          content != NULL ? content : json_string("")));
    } else {
        (void)request_refuse(request, 400, "tokens", "'tokens' must be a list of token ids");
    }
    buffer_free(&text);
}

/* ---- programs -------------------------------------------------------------------------------- */

void plain_end_program(struct request *request, const json_t *body)
{
    (void)body;
    if (program_end(request->door, request->domain, request->rest)) {
        json_t *id = json_string(request->rest);            /* NULL: bytes that are no text */
        request_answer(request, json_pack("{so?sb}", "id", id, "deleted", 1));
    } else {
        (void)request_refuse(request, 404, NULL, "no such program, or it has open requests");
    }
}
