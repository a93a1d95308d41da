/* SPDX-License-Identifier: MIT */
/* What: fields that all APIs have (tools/door/api/fields.h). */
#include "tools/door/api/fields.h"

#include <stdio.h>
#include <string.h>

#include "tools/door/endpoint.h"
#include "tools/door/request.h"

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

static bool refuse_known(const struct fields *fields, const char *name)
{
    char text[160];
    snprintf(text, sizeof text, "'%s' is not supported by this server", name);
    return request_refuse(fields->request, 400, name, text);
}

bool fields_refuse(const struct fields *fields, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (!says_nothing(get(fields, *names))) {
            return refuse_known(fields, *names);
        }
    }
    return true;
}

bool field_refuse_given(const struct fields *fields, const char *name)
{
    return get(fields, name) == NULL || refuse_known(fields, name);
}

bool field_format(const struct fields *fields, const json_t *format, const char *name)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    bool has_tools = fields->request->dialect != &openai_completion;
    char text[256];
    if (says_nothing(format) || (type != NULL && strcmp(type, "text") == 0)) {
        return true;
    }
    snprintf(text, sizeof text, "'%s' of another type than 'text' is not supported by this "
             "server%s", name, has_tools ? "; demand a tool by 'tool_choice' instead, and check "
             "its arguments: decoding is not constrained to a schema" : "");
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
