/* SPDX-License-Identifier: MIT */
/* What: POST /v1/completions: prompts as they are, without a chat format. */
#include <stdio.h>
#include <string.h>

#include "tools/door/api/chunk.h"
#include "tools/door/endpoint.h"
#include "tools/door/api/logprobs.h"
#include "tools/door/api/openai.h"
#include "tools/door/parse.h"
#include "tools/door/program.h"
#include "tools/door/request.h"

/* ---- prompts --------------------------------------------------------------------------------- */

#define NAME_BYTES 32                   /* of a prompt: "prompt[3]" */

static bool refuse_prompt(const struct fields *fields, const char *name, const char *wanted)
{
    char text[200];
    snprintf(text, sizeof text, "'%s' must be %s", name, wanted);
    return request_refuse(fields->request, 400, name, text);
}

static bool refuse_id(const struct fields *fields, const char *name, size_t index)
{
    char id[2 * NAME_BYTES], wanted[80];
    snprintf(id, sizeof id, "%s[%zu]", name, index);
    snprintf(wanted, sizeof wanted, "a token id: an integer from 0 to %u",
             fields->request->door->model.vocab.info.tokens - 1);
    return refuse_prompt(fields, id, wanted);
}

/* Token ids are taken as they are, those of control tokens too: nothing is put before them. */
static bool read_ids(const struct fields *fields, const json_t *list, const char *name,
                     struct prompt_source *source)
{
    uint32_t vocab = fields->request->door->model.vocab.info.tokens;
    size_t count = json_array_size(list);
    source->ids = memory_take(count * sizeof *source->ids);
    if (source->ids == NULL) {
        return request_refuse_memory(fields->request);
    }
    for (; source->ids_count < count; source->ids_count++) {
        const json_t *json = json_array_get(list, source->ids_count);
        json_int_t id = json_integer_value(json);
        if (!json_is_integer(json) || id < 0 || id >= vocab) {
            return refuse_id(fields, name, source->ids_count);
        }
        source->ids[source->ids_count] = (uint32_t)id;
    }
    return true;
}

static bool read_prompt(const struct fields *fields, const json_t *prompt, const char *name,
                        struct prompt_source *source)
{
    if (json_is_string(prompt)) {
        return buffer_add(&source->text, json_string_value(prompt), json_string_length(prompt)) ||
               request_refuse_memory(fields->request);
    }
    if (json_array_size(prompt) == 0) {
        return refuse_prompt(fields, name, "a text, or a list of token ids that is not empty");
    }
    return read_ids(fields, prompt, name, source);
}

/* Its choices are those of the request that come next. */
static bool add_prompt(const struct fields *fields, const json_t *prompt, const char *name,
                       struct wish *wish)
{
    struct prompt_source source = {0};
    wish->prompt_name = name;
    bool is_valid = read_prompt(fields, prompt, name, &source) &&
                    choices_add(wish, fields->request, &source);
    prompt_source_free(&source);
    return is_valid;
}

/* A text, token ids, or a list of these. */
static bool read_prompts(const struct fields *fields, struct wish *wish, uint64_t max_tokens)
{
    json_t *prompts = json_object_get(fields->body, "prompt"), *prompt;
    char name[NAME_BYTES] = "prompt";
    size_t index;
    wish->prompt_name = name;
    if (json_is_string(prompts) || json_is_number(json_array_get(prompts, 0))) {
        return choices_begin(wish, fields->request, 1, max_tokens) &&
               add_prompt(fields, prompts, name, wish);
    }
    if (json_array_size(prompts) == 0) {
        return refuse_prompt(fields, name, "a text, a list of token ids, or a list of these that "
                             "is not empty");
    }
    if (!choices_begin(wish, fields->request, json_array_size(prompts), max_tokens)) {
        return false;
    }
    wish->is_listed = true;
    json_array_foreach(prompts, index, prompt) {
        snprintf(name, sizeof name, "prompt[%zu]", index);
        if (!add_prompt(fields, prompt, name, wish)) {
            return false;
        }
    }
    return true;
}

/* ---- in -------------------------------------------------------------------------------------- */

static bool read(struct request *request, const json_t *body)
{
    static const char *const refused[] = {"echo", NULL};
    const struct fields fields = {request, body};
    struct wish wish;
    uint64_t max_tokens = 16, best_of = 1;      /* the API's default */
    return openai_read(request, &fields, &wish) && fields_refuse(&fields, refused) &&
           logprobs_read_completion(&wish, &fields) &&
           field_count(&fields, "max_tokens", 1, INT32_MAX, &max_tokens) &&
           field_count(&fields, "best_of", 1, choices_max(request->door), &best_of) &&
           (best_of <= wish.choices ||
            request_refuse(request, 400, "best_of", "'best_of' of more than 'n' is not supported "
                           "by this server")) &&
           program_find(request, NULL) && read_prompts(&fields, &wish, max_tokens);
}

/* ---- out ------------------------------------------------------------------------------------- */

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
