/* SPDX-License-Identifier: MIT */
/* What: POST /v1/completions: a prompt as it is, without a chat format. */
#include <stdio.h>
#include <string.h>

#include "tools/door/api/chunk.h"
#include "tools/door/endpoint.h"
#include "tools/door/api/logprobs.h"
#include "tools/door/api/openai.h"
#include "tools/door/parse.h"
#include "tools/door/program.h"
#include "tools/door/request.h"

/* A text, or a list of one. */
static bool read_prompt(const struct fields *fields, struct wish *wish,
                        struct prompt_source *source)
{
    const json_t *prompt = json_object_get(fields->body, "prompt");
    wish->prompt_name = "prompt";
    if (json_array_size(prompt) == 1) {
        prompt = json_array_get(prompt, 0);
    }
    if (!json_is_string(prompt)) {
        return request_refuse(fields->request, 400, "prompt",
                              "'prompt' must be a text: lists of several, and token ids, are not "
                              "supported by this server");
    }
    return buffer_add(&source->text, json_string_value(prompt), json_string_length(prompt)) ||
           request_refuse_memory(fields->request);
}

static bool read(struct request *request, const json_t *body)
{
    static const char *const refused[] = {"echo", NULL};
    const struct fields fields = {request, body};
    struct prompt_source source = {0};
    struct wish wish;
    uint64_t max_tokens = 16, best_of = 1;      /* the API's default */
    bool is_valid = openai_read(request, &fields, &wish) && fields_refuse(&fields, refused) &&
                    logprobs_read_completion(&wish, &fields) &&
                    field_count(&fields, "max_tokens", 1, INT32_MAX, &max_tokens) &&
                    field_count(&fields, "best_of", 1, DOOR_CHOICES_MAX, &best_of) &&
                    (best_of <= wish.choices ||
                     request_refuse(request, 400, "best_of", "'best_of' of more than 'n' is not "
                                    "supported by this server")) &&
                    read_prompt(&fields, &wish, &source) && program_find(request, NULL) &&
                    wish_make_choices(&wish, request, &source, max_tokens);
    buffer_free(&source.text);
    return is_valid;
}

/* The text is given away. */
static json_t *choice_of(struct choice *choice, json_t *text, bool has_ended)
{
    json_t *reason = has_ended ? json_string(openai_finish(choice)) : json_null();
    return json_pack("{sisososo}", "index", (int)choice->index, "text", text, "logprobs",
                     logprobs_take_completion(choice), "finish_reason", reason);
}

static json_t *frame(const struct request *request, json_t *choices)
{
    char id[DOOR_ID_BYTES + 16];
    snprintf(id, sizeof id, "cmpl-%s", request->id);
    return json_pack("{sssssIssso}", "id", id, "object", "text_completion", "created",
                     (json_int_t)request->created_s, "model", request->model, "choices", choices);
}

static json_t *answer(struct request *request)
{
    json_t *choices = json_array();
    for (uint32_t i = 0; i < request->choices_count; i++) {
        struct choice *choice = request->choices[i];
        json_array_append_new(choices, choice_of(choice, json_of(&choice->content), true));
    }
    json_t *whole = frame(request, choices);
    json_object_set_new(whole, "usage", openai_usage(request));
    return whole;
}

static json_t *example(struct request *request, uint32_t index)
{
    return frame(request, json_pack("[o]", choice_of(request->choices[index],
                                                     json_string(CHUNK_TEXT), false)));
}

static void begin(struct request *request)
{
    if (chunks_make(request, example) == NULL) {
        request_send_text(request, NULL);
    }
}

static void send(struct request *request, json_t *choice)
{
    request_send(request, NULL, frame(request, json_pack("[o]", choice)));
}

static void say(struct request *request, struct choice *choice, const struct piece *piece)
{
    const struct chunk *chunks = request->own;
    if (choice->logprobs == NULL) {
        chunk_send(request, &chunks[choice->index], piece);
    } else {
        send(request, choice_of(choice, json_stringn(piece->text, piece->bytes), false));
    }
}

static void end(struct request *request, struct choice *choice)
{
    if (choice->finish != AGX_FINISH_FAILED) {
        send(request, choice_of(choice, json_string(""), true));
    }
}

static void finish(struct request *request)
{
    openai_send_refusal(request);
    if (request->wants_usage && request->refusal.status == 0) {
        json_t *chunk = frame(request, json_array());
        json_object_set_new(chunk, "usage", openai_usage(request));
        request_send(request, NULL, chunk);
    }
    request_send_text(request, "data: [DONE]\n\n");
}

const struct dialect openai_completion = {
    .read = read, .answer = answer, .begin = begin, .say = say, .end = end, .finish = finish,
    .drop = chunks_drop, .refuse = openai_refuse};
