/* SPDX-License-Identifier: MIT */
/* What: what OpenAI's APIs have in common (tools/door/api/openai.h). */
#include "tools/door/api/openai.h"

#include <stdio.h>
#include <string.h>

#include "tools/door/api/logprobs.h"
#include "tools/door/request.h"

json_t *openai_refuse(const struct refusal *refusal)
{
    json_t *param = refusal->param[0] != '\0' ? json_string(refusal->param) : json_null();
    return json_pack("{s{sssssoss?}}", "error", "message", refusal->text, "type", refusal->type,
                     "param", param, "code", refusal->code);
}

static bool read_stream(struct request *request, const struct fields *fields)
{
    const json_t *options = json_object_get(fields->body, "stream_options");
    struct fields inner = {request, options};
    if (options != NULL && !json_is_null(options) && !json_is_object(options)) {
        return request_refuse(request, 400, "stream_options", "'stream_options' must be an object");
    }
    return field_flag(fields, "stream", &request->streams) &&
           field_flag(&inner, "include_usage", &request->wants_usage);
}

bool openai_read(struct request *request, const struct fields *fields, struct wish *wish)
{
    static const char *const refused[] = {
        "functions", "function_call", "audio", "prediction", "suffix", "guided_json",
        "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "grammar",
        "json_schema", "continue_final_message", "min_tokens", "stop_token_ids", NULL};
    const char *model = "";
    wish_begin(wish, request->door);
    if (!read_stream(request, fields) || !field_text(fields, "model", &model) ||
        !field_count(fields, "n", 1, choices_max(request->door), &wish->choices) ||
        !fields_refuse(fields, refused) || !field_refuse_given(fields, "web_search_options") ||
        !field_format(fields, json_object_get(fields->body, "response_format"),
                      "response_format")) {
        return false;
    }
    request_name_model(request, model[0] != '\0' ? model : request->door->model.name);
    return wish_read_sampling(wish, fields, 2) && logits_read(wish, fields) &&
           wish_read_stops(wish, fields, "stop");
}

bool openai_read_tool_choice(const struct fields *fields, struct talk *talk)
{
    const json_t *choice = json_object_get(fields->body, "tool_choice");
    const char *word = json_string_value(choice);
    const char *type = json_string_value(json_object_get(choice, "type"));
    if (choice == NULL || json_is_null(choice) || (word != NULL && strcmp(word, "auto") == 0)) {
        return true;
    }
    if (word != NULL && strcmp(word, "none") == 0) {
        talk->calls = TALK_CALLS_NONE;
        return true;
    }
    const json_t *inner = json_object_get(choice, "function");      /* of the chat API */
    talk->calls = TALK_MUST_CALL;
    talk->called = json_string_value(json_object_get(inner != NULL ? inner : choice, "name"));
    if ((word != NULL && strcmp(word, "required") == 0) ||
        (type != NULL && strcmp(type, "function") == 0 && talk->called != NULL)) {
        return true;
    }
    return request_refuse(fields->request, 400, "tool_choice",
                          "'tool_choice' must be 'auto', 'none', 'required', or a function by its "
                          "name");
}

json_t *openai_usage(const struct request *request)
{
    uint64_t prompt = 0, cached = 0, generated = 0;
    for (uint32_t i = 0; i < request->choices_count;) {
        const struct prompt *of = request->choices[i]->prompt;
        uint32_t tokens = 0, found = 0;
        for (; i < request->choices_count && request->choices[i]->prompt == of; i++) {
            const struct choice *choice = request->choices[i];
            tokens = choice->prompt_tokens > tokens ? choice->prompt_tokens : tokens;
            found = choice->cached_tokens > found ? choice->cached_tokens : found;
            generated += choice->generated_tokens;
        }
        prompt += tokens;
        cached += found;
    }
    return json_pack("{sIsIsIs{sI}}", "prompt_tokens", (json_int_t)prompt, "completion_tokens",
                     (json_int_t)generated, "total_tokens", (json_int_t)(prompt + generated),
                     "prompt_tokens_details", "cached_tokens", (json_int_t)cached);
}

const char *openai_finish(const struct choice *choice)
{
    return choice->tool_calls_count > 0           ? "tool_calls"
           : choice->finish == AGX_FINISH_LENGTH  ? "length"
           : choice->finish == AGX_FINISH_DEADLINE ? "length"
                                                  : "stop";
}

void openai_send_refusal(struct request *request)
{
    if (request->refusal.status != 0) {
        request_send(request, NULL, openai_refuse(&request->refusal));
    }
}
