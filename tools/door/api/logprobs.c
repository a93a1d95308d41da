/* SPDX-License-Identifier: MIT */
/* What: log probabilities, penalties and biases (tools/door/api/logprobs.h). */
#include "tools/door/api/logprobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/door/request.h"

/* ---- in -------------------------------------------------------------------------------------- */

static bool add_bias(struct wish *wish, const struct fields *fields, const char *id,
                     const json_t *bias)
{
    char *end;
    unsigned long token = strtoul(id, &end, 10);
    double value = json_number_value(bias);
    uint32_t vocab = fields->request->door->model.vocab.info.tokens;
    if (id[0] < '0' || id[0] > '9' || *end != '\0' || token >= vocab || !json_is_number(bias) ||
        !(value >= -100 && value <= 100) || wish->biases_count == AGX_BIASES_MAX) {
        return request_refuse(fields->request, 400, "logit_bias",
                              "'logit_bias' must be an object of up to 64 token ids, and numbers "
                              "from -100 to 100");
    }
    wish->biases[wish->biases_count++] = (struct agx_bias){(uint32_t)token, (float)value};
    return true;
}

static bool read_biases(struct wish *wish, const struct fields *fields)
{
    json_t *biases = json_object_get(fields->body, "logit_bias"), *bias;
    const char *id;
    if (biases != NULL && !json_is_null(biases) && !json_is_object(biases)) {
        return add_bias(wish, fields, "", NULL);
    }
    json_object_foreach(biases, id, bias) {
        if (!add_bias(wish, fields, id, bias)) {
            return false;
        }
    }
    return true;
}

bool logits_read(struct wish *wish, const struct fields *fields)
{
    double presence = 0, frequency = 0;
    bool is_valid = field_number(fields, "presence_penalty", -2, 2, &presence) &&
                    field_number(fields, "frequency_penalty", -2, 2, &frequency) &&
                    read_biases(wish, fields);
    wish->call.presence_penalty = (float)presence;
    wish->call.frequency_penalty = (float)frequency;
    return is_valid;
}

bool logprobs_read_chat(struct wish *wish, const struct fields *fields)
{
    bool wants = false;
    uint64_t top = 0;
    bool is_valid = field_flag(fields, "logprobs", &wants) &&
                    field_count(fields, "top_logprobs", 0, AGX_TOP_LOGPROBS_MAX, &top);
    if (is_valid && top > 0 && !wants) {
        return request_refuse(fields->request, 400, "top_logprobs",
                              "'top_logprobs' needs 'logprobs': true");
    }
    wish->call.want_logprobs = wants;
    wish->call.top_logprobs = (uint32_t)top;
    return is_valid;
}

bool logprobs_read_completion(struct wish *wish, const struct fields *fields)
{
    const json_t *json = json_object_get(fields->body, "logprobs");
    uint64_t top = 0;
    bool is_valid = json_is_boolean(json) ||
                    field_count(fields, "logprobs", 0, AGX_TOP_LOGPROBS_MAX, &top);
    wish->call.want_logprobs = json_is_integer(json) || json_is_true(json);
    wish->call.top_logprobs = (uint32_t)top;
    return is_valid;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* {"token", "logprob", "bytes"}; a token that is a part of a character has no text of its own. */
static json_t *describe(const struct door *door, const struct agx_logprob *entry)
{
    char text[GGUF_TOKEN_BYTES_MAX];
    uint32_t count = vocab_decode(&door->model.vocab, entry->token, false, text, sizeof text);
    json_t *bytes = json_array(), *token = json_stringn(text, count);
    for (uint32_t i = 0; i < count; i++) {
        json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    }
    return json_pack("{sosfso}", "token", token != NULL ? token : json_string("\xef\xbf\xbd"),
                     "logprob", (double)entry->logprob, "bytes", bytes);
}

void logprobs_add(struct choice *choice, const struct agx_event *event)
{
    const struct door *door = choice->request->door;
    choice->logprobs = choice->logprobs != NULL ? choice->logprobs : json_array();
    for (uint32_t i = 0; i < event->tokens_count; i++) {
        const struct agx_logprob *entries = event->logprobs + (size_t)i * event->logprobs_each;
        json_t *entry = describe(door, &entries[0]), *top = json_array();
        for (uint32_t k = 1; k < event->logprobs_each; k++) {
            json_array_append_new(top, describe(door, &entries[k]));
        }
        json_object_set_new(entry, "top_logprobs", top);
        json_array_append_new(choice->logprobs, entry);
    }
}

json_t *logprobs_take_chat(struct choice *choice)
{
    json_t *entries = choice->logprobs;
    choice->logprobs = NULL;
    return entries != NULL ? json_pack("{so}", "content", entries) : json_null();
}

static json_t *top_of(const json_t *entry)
{
    json_t *tops = json_object_get(entry, "top_logprobs"), *top, *numbers = json_object();
    size_t index;
    json_array_foreach(tops, index, top) {
        json_object_set(numbers, json_string_value(json_object_get(top, "token")),
                        json_object_get(top, "logprob"));
    }
    return numbers;
}

json_t *logprobs_take_completion(struct choice *choice)
{
    json_t *entries = choice->logprobs, *entry;
    json_t *tokens = json_array(), *numbers = json_array(), *tops = json_array();
    size_t index;
    choice->logprobs = NULL;
    json_array_foreach(entries, index, entry) {
        json_array_append(tokens, json_object_get(entry, "token"));
        json_array_append(numbers, json_object_get(entry, "logprob"));
        json_array_append_new(tops, top_of(entry));
    }
    json_t *whole = json_pack("{sososo}", "tokens", tokens, "token_logprobs", numbers,
                              "top_logprobs", tops);
    if (entries == NULL) {
        json_decref(whole);
        whole = json_null();
    }
    json_decref(entries);
    return whole;
}
