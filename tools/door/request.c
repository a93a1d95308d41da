/* SPDX-License-Identifier: MIT */
/*
 * What: the life of a request (tools/door/request.h).
 *
 *   FREE --head--> RECEIVING --whole--> WAITING --a call is accepted, it streams--> STREAMING
 *                      |                  |                                            |
 *                      |                  +--all calls have ended--> ANSWERED          |
 *                      +--refused, or no call is needed--> ANSWERED                    |
 *   FREE <--the client has all of it, or is gone---------------------------------------+
 *
 * Invariants: what is said of a request goes through its dialect; a refusal is an answer while
 * nothing was sent, and an event of the stream afterwards. Choices outlive a client that leaves,
 * until the appliance has said its last word on them. What was built while memory was refused is
 * not sent: it may lack parts (keep_whole()).
 */
#include "tools/door/request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "config/base/status.h"
#include "tools/agx/chat/conversation.h"
#include "tools/door/answer.h"
#include "tools/door/api/logprobs.h"
#include "tools/door/api/messages.h"
#include "tools/door/api/responses.h"
#include "tools/door/endpoint.h"
#include "tools/door/http.h"
#include "tools/door/program.h"
#include "tools/door/uplink/call.h"
#include "tools/door/uplink/choice.h"
#include "tools/door/uplink/domain.h"

#define JSON        "application/json"
#define EVENTS      "text/event-stream; charset=utf-8"

/* ---- answers --------------------------------------------------------------------------------- */

/* Of those that were sent the appliance has a last word to say yet. */
static void cancel_all(struct request *request)
{
    for (uint32_t i = 0; i < request->choices_count; i++) {
        request->choices_open -= call_cancel(request->choices[i]);
    }
}

/* There is no memory for what is to be said. A stream ends in its middle; a client that has got
 * nothing yet gets an answer that needs no memory. */
static void run_out(struct request *request)
{
    if (request->state == REQUEST_STREAMING) {
        request->has_left = true;
    } else {
        request->status = 503;
        request->retry_s = 1;
        request->content_type = JSON;
        request->constant = "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
                            "\"message\":\"" DOOR_MEMORY_TEXT "\","
                            "\"param\":null,\"code\":null}}";
        request->state = REQUEST_ANSWERED;
    }
    request->door->stats.refused++;
    cancel_all(request);
    http_wake(request);
}

/* After whatever builds something: `before` is what memory_refusals() said then. */
static void keep_whole(struct request *request, uint64_t before)
{
    if (memory_refusals() != before && request->constant == NULL && !request->has_left) {
        run_out(request);
    }
}

/* True when the client has got its answer, or the end of it: nothing can be added. */
static bool is_over(const struct request *request)
{
    return request->state == REQUEST_ANSWERED || request->has_left;
}

bool request_needs_calls(const struct request *request)
{
    bool streams = request->state == REQUEST_STREAMING;
    return !is_over(request) && (streams || request->refusal.status == 0);
}

static void add_json(struct request *request, json_t *json)
{
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    (void)buffer_add_text(&request->out, text != NULL ? text : "");
    memory_give(text);
    json_decref(json);
}

static void answer_refusal(struct request *request)
{
    const struct dialect *dialect = request->dialect != NULL ? request->dialect : &openai_chat;
    request->status = request->refusal.status;
    request->retry_s = request->refusal.retry_s;
    request->content_type = JSON;
    add_json(request, dialect->refuse(&request->refusal));
    request->state = REQUEST_ANSWERED;
}

void request_answer(struct request *request, json_t *json)
{
    request->status = 200;
    request->content_type = JSON;
    add_json(request, json);
    (void)buffer_add_text(&request->out, "\n");        /* for people with curl */
    request->state = REQUEST_ANSWERED;
}

void request_answer_text(struct request *request, const char *content_type, const char *text)
{
    request->status = 200;
    request->content_type = content_type;
    (void)buffer_add_text(&request->out, text);
    request->state = REQUEST_ANSWERED;
}

void request_send_bytes(struct request *request, const char *bytes, size_t count)
{
    (void)buffer_add(&request->out, bytes, count);
}

void request_send_text(struct request *request, const char *text)
{
    (void)buffer_add_text(&request->out, text != NULL ? text : "");
}

void request_send(struct request *request, const char *name, json_t *json)
{
    if (name != NULL) {
        request_send_text(request, "event: ");
        request_send_text(request, name);
        request_send_text(request, "\n");
    }
    request_send_text(request, "data: ");
    add_json(request, json);
    request_send_text(request, "\n\n");
}

/* ---- life ------------------------------------------------------------------------------------ */

void request_write_hex(const uint8_t *bytes, uint32_t count, char *text)
{
    for (uint32_t i = 0; i < count; i++) {
        snprintf(text + (size_t)2 * i, 3, "%02x", bytes[i]);
    }
}

static void name_request(struct request *request)
{
    uint8_t id[AGX_ID_BYTES] = {0};
    (void)agx_unique_id(id);
    request_write_hex(id, 12, request->id);
}

void requests_begin(struct door *door)
{
    for (uint64_t i = 0; door->requests != NULL && i < door->options.door_requests.number; i++) {
        door->requests[i].next = door->first_free;
        door->first_free = &door->requests[i];
    }
}

void request_name_model(struct request *request, const char *name)
{
    size_t count = strlen(name);
    if (count >= sizeof request->model) {
        count = sizeof request->model - 1;
        while (count > 0 && (name[count] & 0xc0) == 0x80) {     /* not within a character */
            count--;
        }
    }
    memcpy(request->model, name, count);
    request->model[count] = '\0';
}

/* A path that a wrong base URL makes, or one of what there is not, such as embeddings. */
static void refuse_path(struct request *request, const char *method, const char *path)
{
    bool has_base = strncmp(path, "/v1/", 4) == 0 && strncmp(path, "/v1/v1/", 7) != 0;
    char text[240];
    snprintf(text, sizeof text, "this server has no endpoint %.16s %.80s%s", method, path,
             has_base ? "" : "; the base URL of OpenAI's clients ends in /v1, that of Anthropic's "
                             "does not");
    (void)request_refuse(request, 404, NULL, text);
}

/* The API of a path, whether there is an endpoint or not: its clients read its shape alone. */
static const struct dialect *dialect_of(const struct endpoint *endpoint, const char *path)
{
    static const char messages[] = "/v1/messages";
    char next = strncmp(path, messages, sizeof messages - 1) == 0 ? path[sizeof messages - 1] : 'x';
    return endpoint != NULL && endpoint->dialect != NULL ? endpoint->dialect
           : next == '\0' || next == '/'                 ? &anthropic_message
                                                         : NULL;
}

struct request *request_take(struct door *door, const char *method, const char *path)
{
    struct request *request = door->first_free;
    char text[64];
    if (request == NULL) {
        return NULL;
    }
    door->first_free = request->next;
    responses_yield(door);
    *request = (struct request){
        .state = REQUEST_RECEIVING, .door = door, .descriptor = -1, .content_type = JSON,
        .created_s = (int64_t)time(NULL)};
    request->endpoint = endpoint_find(method, path, request->methods);
    request->dialect = dialect_of(request->endpoint, path);
    name_request(request);
    door->stats.requests++;
    if (request->endpoint == NULL && request->methods[0] == '\0') {
        refuse_path(request, method, path);
        return request;
    }
    if (request->endpoint == NULL) {
        snprintf(text, sizeof text, "this endpoint takes %s", request->methods);
        (void)request_refuse(request, 405, NULL, text);
        return request;
    }
    if (request->endpoint->has_rest) {
        snprintf(request->rest, sizeof request->rest, "%s", path + strlen(request->endpoint->path));
    }
    return request;
}

bool request_receive(struct request *request, const void *bytes, size_t count)
{
    if (request->refusal.status != 0) {
        return false;
    }
    if (request->body.count + count > request->door->options.door_body_bytes.number) {
        buffer_free(&request->body);
        return request_refuse(request, 413, NULL, "the body is longer than door.body_bytes");
    }
    if (!buffer_add(&request->body, bytes, count)) {
        buffer_free(&request->body);
        return request_refuse_memory(request);
    }
    return true;
}

static bool start_calls(struct request *request)
{
    for (uint32_t i = 0; i < request->choices_count; i++) {
        if (!call_start(request->door, request->choices[i])) {
            return false;
        }
        request->choices_open++;
    }
    return true;
}

static void serve(struct request *request, const json_t *body)
{
    uint64_t before = memory_refusals();
    if (request->endpoint->dialect == NULL) {
        request->endpoint->answer(request, body);
    } else if (request->dialect->read(request, body) && memory_refusals() == before &&
               start_calls(request)) {
        request->state = REQUEST_WAITING;
    }
}

/* A body that is packed or in cipher is no JSON that is wrong. */
static bool is_plain(struct request *request)
{
    const char *coding = http_header(request, "Content-Encoding");
    char text[160];
    if (coding == NULL || coding[0] == '\0' || strcasecmp(coding, "identity") == 0) {
        return true;
    }
    snprintf(text, sizeof text, "the body has 'Content-Encoding: %.40s': this server takes bodies "
             "as they are, without one", coding);
    return request_refuse(request, 415, "Content-Encoding", text);
}

static json_t *parse(struct request *request)
{
    json_error_t error;
    json_t *json = NULL;
    if (is_plain(request)) {
        enum parse_result result = parse_json(request->body.at != NULL ? request->body.at : "",
                                              request->body.count, &json, &error);
        if (result != PARSE_OK) {
            (void)request_refuse_body(request, result, &error);
        } else if (!json_is_object(json)) {
            (void)request_refuse(request, 400, NULL, "the body is not a JSON object");
        }
    }
    return json;
}

void request_judge(struct request *request)
{
    bool has_body = request->endpoint != NULL && strcmp(request->endpoint->method, "POST") == 0;
    json_t *body = has_body && request->refusal.status == 0 ? parse(request) : NULL;
    uint64_t before = memory_refusals();
    if (request->refusal.status == 0) {
        serve(request, body);
    }
    json_decref(body);
    buffer_free(&request->body);
    if (request->refusal.status != 0) {
        cancel_all(request);
        answer_refusal(request);
    }
    keep_whole(request, before);
}

void request_leave(struct request *request)
{
    request->has_left = true;
    request->door->stats.left++;
    cancel_all(request);
    http_wake(request);
}

void request_free(struct request *request)
{
    cancel_all(request);
    program_leave(request);
    for (uint32_t i = 0; i < request->choices_count; i++) {
        request->choices[i]->request = NULL;
        if (!request->choices[i]->is_open) {
            choice_free(request->choices[i]);
        }
    }
    buffer_free(&request->body);
    buffer_free(&request->out);
    if (request->own != NULL && request->dialect->drop != NULL) {
        request->dialect->drop(request);
    }
    memory_give(request->own);
    memory_give(request->context);
    memory_give(request->choices);
    request->state = REQUEST_FREE;
    request->next = request->door->first_free;
    request->door->first_free = request;
}

/* ---- the appliance's words ------------------------------------------------------------------- */

void request_accepted(struct choice *choice)
{
    struct request *request = choice->request;
    if (request->streams && request->state == REQUEST_WAITING) {
        uint64_t before = memory_refusals();
        request->status = 200;
        request->content_type = EVENTS;
        request->dialect->begin(request);
        keep_whole(request, before);
        if (request->constant == NULL) {
            request->state = REQUEST_STREAMING;
        }
        http_wake(request);
    }
}

static void say(struct choice *choice, const struct piece *piece)
{
    struct request *request = choice->request;
    if (request->state == REQUEST_STREAMING) {
        request->dialect->say(request, choice, piece);
    }
}

void request_scored(struct choice *choice, const struct agx_event *event)
{
    uint64_t before = memory_refusals();
    if (event->logprobs != NULL && !is_over(choice->request)) {
        logprobs_add(choice, event);
        keep_whole(choice->request, before);
    }
}

void request_heard(struct choice *choice, const char *text, uint32_t bytes)
{
    struct request *request = choice->request;
    uint64_t before = memory_refusals();
    if (bytes > 0 && !is_over(request)) {
        (void)answer_hear(choice, text, bytes, say);
        keep_whole(request, before);
        http_wake(request);
    }
}

/* After the end of a choice: the last one ends the request. */
static void conclude(struct request *request)
{
    if (request->choices_open > 0) {
        return;
    }
    if (request->state == REQUEST_STREAMING) {
        request->dialect->finish(request);
        request->is_complete = true;
    } else if (request->refusal.status != 0) {
        answer_refusal(request);
    } else {
        request_answer(request, request->dialect->answer(request));
    }
    http_wake(request);
}

/* After a refusal: without one choice there is no whole answer. Those of a stream go on. */
static void end_whole(struct request *request)
{
    if (request->state == REQUEST_WAITING) {
        cancel_all(request);
    }
}

/* A request that goes on from this answer is of the same program. */
static void note_answer(const struct choice *choice)
{
    struct conversation *conversation = choice->request->door->conversation;
    json_t *json = choice->request->is_conversation ? talk_answer(choice) : NULL;
    if (json != NULL && conversation_read(conversation, json) == NULL) {
        program_note_answer(choice->request, &conversation->messages[0]);
        conversation_drop(conversation);
    }
    json_decref(json);
}

void request_ended(struct choice *choice)
{
    struct request *request = choice->request;
    uint64_t before = memory_refusals();
    request->choices_open--;
    if (is_over(request)) {
        return;
    }
    if (choice->finish == AGX_FINISH_FAILED) {
        enum status status = status_from_wire(choice->code);
        /* Clients send again what was answered by 503, and this would do as much harm again. */
        uint32_t code = status == STATUS_DEVICE_POISON ? 422 : 503;
        (void)request_refuse(request, code, NULL, status_text(status));
        end_whole(request);
    }
    (void)answer_end(choice, say);
    if (request->state == REQUEST_STREAMING) {
        request->dialect->end(request, choice);
    }
    note_answer(choice);
    conclude(request);
    keep_whole(request, before);
}

static void call_is_over(struct choice *choice)
{
    struct request *request = choice->request;
    uint64_t before = memory_refusals();
    request->choices_open--;
    choice->finish = AGX_FINISH_FAILED;
    if (is_over(request)) {
        return;
    }
    end_whole(request);
    if (request->state == REQUEST_STREAMING) {
        request->dialect->end(request, choice);
    }
    conclude(request);
    keep_whole(request, before);
}

void request_refused(struct choice *choice, const struct agx_fault *fault)
{
    (void)request_refuse_fault(choice->request, fault);
    call_is_over(choice);
}

void request_lost(struct choice *choice)
{
    struct request *request = choice->request;
    if (request == NULL) {
        choice_free(choice);
        return;
    }
    if (request->door->is_other || request->domain->is_refused) {
        (void)domain_refuse(request);
    } else {
        (void)request_refuse(request, 503, NULL, "the appliance did not come back in time");
    }
    call_is_over(choice);
}
