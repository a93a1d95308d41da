/* SPDX-License-Identifier: MIT */
/*
 * What: connections to the appliance (tools/door/uplink.h).
 *
 *   DOWN --open--> UP --breaks, calls are open--> BROKEN --resume--> UP
 *                  |                                |
 *                  +--breaks, none is open--> DOWN <+-- door.patience is over, or a final error:
 *                                                       its calls end with a refusal
 *
 * Invariants: a choice is open from uplink_call() until the appliance's last word on it, also when
 * the client has left: the library may have to send the call again.
 * Bounds: a try to connect blocks the loop, for OPEN_MS or RESUME_MS at most, where an appliance
 * stands still. So after a try in vain no other is made until SHARE times what it took has passed.
 * An event finds its choice among AGX_CALLS_MAX.
 */
#include "tools/door/uplink.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "tools/door/answer.h"
#include "tools/door/clock.h"
#include "tools/door/request.h"
#include "tools/door/stop.h"

#define OPEN_MS    500              /* an appliance on this machine answers in far less */
#define RESUME_MS  100
#define PAUSE_US   500000           /* between two tries of an uplink */
#define SHARE      20               /* of the time may be spent with tries: one part of so many */
#define EVENTS_MAX 256              /* of one uplink in one pass */

/* The library's: a third for each direction, and one for a frame that has come. */
static size_t buffer_bytes(const struct door *door)
{
    return 3 * ((size_t)door->options.door_body_bytes.number + AGX_BUFFER_BYTES_MIN);
}

enum status uplinks_begin(struct door *door, struct domain *domain)
{
    domain->uplinks = calloc(door->uplinks_count, sizeof *domain->uplinks);
    for (uint32_t i = 0; domain->uplinks != NULL && i < door->uplinks_count; i++) {
        struct uplink *uplink = &domain->uplinks[i];
        *uplink = (struct uplink){.domain = domain, .buffer = malloc(buffer_bytes(door)),
                                   .watched = -1};
        if (uplink->buffer == NULL) {
            return STATUS_CONFIG_MEMORY;
        }
    }
    return domain->uplinks != NULL ? STATUS_OK : STATUS_CONFIG_MEMORY;
}

/* ---- the connection -------------------------------------------------------------------------- */

/* A descriptor that is closed leaves the epoll by itself; `watched` is -1 from then on. */
static void watch(struct door *door, struct uplink *uplink)
{
    if (uplink->state != UPLINK_UP) {
        uplink->watched = -1;
        return;
    }
    int descriptor = agx_descriptor(&uplink->agx);
    uint32_t events = EPOLLIN | (agx_wants_write(&uplink->agx) ? (uint32_t)EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.ptr = NULL};
    if (uplink->watched != descriptor) {
        (void)epoll_ctl(door->epoll, EPOLL_CTL_ADD, descriptor, &event);
    } else if (uplink->watched_events != events) {
        (void)epoll_ctl(door->epoll, EPOLL_CTL_MOD, descriptor, &event);
    }
    uplink->watched = descriptor;
    uplink->watched_events = events;
}

static void open_uplink(struct door *door, struct uplink *uplink)
{
    struct agx *agx = &uplink->agx;
    enum agx_result result = agx_open(agx, door->appliance, uplink->buffer, buffer_bytes(door),
                                      OPEN_MS);
    if (result == AGX_OK && agx->welcome.needs_key) {
        struct agx_key key;
        result = AGX_ERROR_KEY;
        if (uplink->domain->key != NULL) {
            memcpy(key.id, uplink->domain->key->id, sizeof key.id);
            memcpy(key.secret, uplink->domain->key->secret, sizeof key.secret);
            result = agx_authenticate(agx, &key, OPEN_MS);
        }
        if (result != AGX_OK) {
            agx_close(agx);
        }
    }
    uplink->state = result == AGX_OK ? UPLINK_UP : UPLINK_DOWN;
    uplink->again_us = door->now_us + PAUSE_US;
}

/* Those of a domain: [door.calls]. */
static struct choice *choices_of(struct door *door, const struct domain *domain)
{
    return &door->choices[domain->index * door->options.door_calls.number];
}

/* Ends what is open with a refusal, and the session. */
static void give_up(struct door *door, struct uplink *uplink)
{
    uplink->state = UPLINK_DOWN;            /* nothing is cancelled there */
    while (uplink->calls_open > 0) {
        struct choice *choice = uplink->calls[--uplink->calls_open];
        choice->is_open = false;
        request_lost(choice);
    }
    agx_close(&uplink->agx);
    uplink->again_us = door->now_us + PAUSE_US;
}

static void broke(struct door *door, struct uplink *uplink, enum agx_result result)
{
    uplink->broken_us = uplink->again_us = door->now_us;
    uplink->watched = -1;
    if (result != AGX_ERROR_CLOSED || uplink->calls_open == 0) {
        give_up(door, uplink);
    } else {
        uplink->state = UPLINK_BROKEN;
    }
}

/* Calls whose clients have left are open at the appliance again. */
static void cancel_left(struct uplink *uplink)
{
    for (uint32_t i = 0; i < uplink->calls_open; i++) {
        if (uplink->calls[i]->request == NULL) {
            uplink_cancel(uplink->calls[i]);
        }
    }
}

static void resume(struct door *door, struct uplink *uplink)
{
    struct agx_key key;
    const struct config_key *own = uplink->domain->key;
    if (own != NULL) {
        memcpy(key.id, own->id, sizeof key.id);
        memcpy(key.secret, own->secret, sizeof key.secret);
    }
    enum agx_result result = agx_resume(&uplink->agx, door->appliance, own != NULL ? &key : NULL,
                                        RESUME_MS);
    bool may_come = result == AGX_ERROR_CONNECT || result == AGX_ERROR_CLOSED ||
                    result == AGX_ERROR_BUSY || result == AGX_ERROR_TIMEOUT;
    bool is_patient = door->now_us - uplink->broken_us < door->options.door_patience.number;
    uplink->again_us = door->now_us + PAUSE_US;
    if (result == AGX_OK) {
        uplink->state = UPLINK_UP;
        cancel_left(uplink);
    } else if (!may_come || !is_patient) {
        give_up(door, uplink);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static struct choice *find(const struct uplink *uplink, uint64_t call_id)
{
    for (uint32_t i = 0; i < uplink->calls_open; i++) {
        if (uplink->calls[i]->call.call_id == call_id) {
            return uplink->calls[i];
        }
    }
    return NULL;
}

static void close_choice(struct uplink *uplink, struct choice *choice)
{
    uint32_t at = 0;
    while (uplink->calls[at] != choice) {
        at++;
    }
    uplink->calls[at] = uplink->calls[--uplink->calls_open];
    choice->is_open = false;
    if (choice->request == NULL) {
        uplink_free_choice(choice);
    }
}

static void take_done(struct door *door, struct choice *choice, const struct agx_event *event)
{
    struct request *request = choice->request;
    choice->finish = event->finish;
    choice->code = event->code;
    choice->prompt_tokens = event->prompt_tokens;
    choice->cached_tokens = event->cached_tokens;
    choice->generated_tokens = event->generated_tokens;
    door->stats.prompt_tokens += event->prompt_tokens;
    door->stats.cached_tokens += event->cached_tokens;
    door->stats.generated_tokens += event->generated_tokens;
    close_choice(choice->uplink, choice);
    if (request != NULL) {
        request_ended(choice);
    }
}

static void take_event(struct door *door, struct uplink *uplink, const struct agx_event *event)
{
    struct choice *choice = find(uplink, event->call_id);
    if (choice == NULL) {
        return;                         /* of a program */
    }
    struct request *request = choice->request;
    switch (event->kind) {
    case AGX_ACCEPTED:
        choice->prompt_tokens = event->prompt_tokens;
        if (request != NULL) {
            request_accepted(choice);
        }
        break;
    case AGX_TOKENS:
        if (request != NULL) {
            stop_hear(choice, event->tokens, event->tokens_count);
            request_scored(choice, event);
            request_heard(choice, event->text, event->text_bytes);
        }
        break;
    case AGX_DONE:
        take_done(door, choice, event);
        break;
    case AGX_REFUSED:
        close_choice(uplink, choice);
        if (request != NULL) {
            request_refused(choice, agx_fault(&uplink->agx));
        }
        break;
    default:
        break;
    }
}

static void run(struct door *door, struct uplink *uplink)
{
    struct agx_event event;
    enum agx_result result = AGX_OK;
    for (uint32_t i = 0; i < EVENTS_MAX && uplink->state == UPLINK_UP && result == AGX_OK; i++) {
        result = agx_next(&uplink->agx, &event, 0);
        if (result == AGX_OK) {
            take_event(door, uplink, &event);
        } else if (result != AGX_AGAIN) {
            broke(door, uplink, result);
        }
    }
}

/* When another try to connect is due. */
static uint64_t due_us(const struct door *door, const struct uplink *uplink)
{
    return uplink->state == UPLINK_UP             ? UINT64_MAX
           : uplink->again_us > door->connects_us ? uplink->again_us : door->connects_us;
}

static void connect_uplink(struct door *door, struct uplink *uplink)
{
    uint64_t began_us = clock_us();
    if (uplink->state == UPLINK_DOWN) {
        open_uplink(door, uplink);
    } else {
        resume(door, uplink);
    }
    if (uplink->state != UPLINK_UP) {
        door->connects_us = door->now_us + 1 + SHARE * (clock_us() - began_us);
    }
}

void uplinks_run(struct door *door)
{
    for (uint32_t i = 0; i < door->domains_count * door->uplinks_count; i++) {
        struct uplink *uplink = &door->domains[i / door->uplinks_count]
                                     .uplinks[i % door->uplinks_count];
        if (door->now_us >= due_us(door, uplink)) {
            connect_uplink(door, uplink);
        }
        run(door, uplink);
        watch(door, uplink);
    }
}

int uplinks_wait_ms(const struct door *door)
{
    int wait_ms = 1000;
    for (uint32_t i = 0; i < door->domains_count * door->uplinks_count; i++) {
        const struct uplink *uplink = &door->domains[i / door->uplinks_count]
                                           .uplinks[i % door->uplinks_count];
        uint64_t due = due_us(door, uplink), now_us = door->now_us;
        int own_ms = uplink->state == UPLINK_UP ? agx_wait_ms(&uplink->agx)
                     : due > now_us + 1000000   ? -1
                     : due > now_us             ? (int)((due - now_us) / 1000 + 1) : 0;
        wait_ms = own_ms >= 0 && own_ms < wait_ms ? own_ms : wait_ms;
    }
    return wait_ms;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct uplink *least_used(const struct door *door, const struct domain *domain)
{
    struct uplink *least = NULL;
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        struct uplink *uplink = &domain->uplinks[i];
        bool is_free = uplink->state == UPLINK_UP && uplink->calls_open < AGX_CALLS_MAX;
        if (is_free && (least == NULL || uplink->calls_open < least->calls_open)) {
            least = uplink;
        }
    }
    return least;
}

const struct agx_welcome *domain_welcome(const struct door *door, const struct domain *domain)
{
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        if (domain->uplinks[i].state == UPLINK_UP) {
            return &domain->uplinks[i].agx.welcome;
        }
    }
    return NULL;
}

struct choice *uplink_choice(struct door *door, struct request *request)
{
    struct choice *choices = choices_of(door, request->domain);
    for (uint32_t i = 0; i < door->options.door_calls.number; i++) {
        struct choice *choice = &choices[i];
        if (!choice->is_used) {
            *choice = (struct choice){.is_used = true, .request = request,
                                      .index = request->choices_count};
            return choice;
        }
    }
    return NULL;
}

void uplink_release_prompt(struct prompt *prompt)
{
    if (prompt != NULL && --prompt->holders == 0) {
        buffer_free(&prompt->text);
        memory_give(prompt->parts);
        memory_give(prompt);
    }
}

void uplink_free_choice(struct choice *choice)
{
    uplink_release_prompt(choice->prompt);
    answer_free(choice);
    json_decref(choice->logprobs);
    buffer_free(&choice->content);
    buffer_free(&choice->reasoning);
    for (uint32_t i = 0; i < choice->tool_calls_count; i++) {
        buffer_free(&choice->tool_calls[i].name);
        buffer_free(&choice->tool_calls[i].arguments);
    }
    choice->is_used = false;
}

/* True when a call of the same id and program is open: the same request again, too early. */
static bool is_repeated(struct door *door, const struct choice *choice)
{
    const struct domain *domain = choice->request->domain;
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        if (find(&domain->uplinks[i], choice->call.call_id) != NULL) {
            return true;
        }
    }
    return false;
}

bool uplink_call(struct door *door, struct choice *choice)
{
    struct request *request = choice->request;
    struct uplink *uplink = least_used(door, request->domain);
    if (uplink == NULL) {
        bool is_up = domain_welcome(door, request->domain) != NULL;
        return request_refuse(request, is_up ? 429 : 503, NULL, is_up
                              ? "as many calls as this server has room for are open"
                              : "the appliance cannot be reached now");
    }
    if (is_repeated(door, choice)) {
        return request_refuse(request, 409, NULL, "a request with this Idempotency-Key is open");
    }
    if (request->class_name[0] != '\0') {
        (void)agx_program_start_class(&uplink->agx, choice->call.program_id, request->class_name);
        request->class_name[0] = '\0';
    }
    enum agx_result result = agx_call_start(&uplink->agx, &choice->call);
    if (result == AGX_ERROR_ARGUMENT) {
        return request_refuse_fault(request, agx_fault(&uplink->agx));
    }
    if (result == AGX_ERROR_SPACE) {
        return request_refuse(request, 413, NULL, "the prompt is longer than the appliance takes");
    }
    if (result != AGX_OK) {
        return request_refuse(request, 503, NULL, "the appliance cannot be reached now");
    }
    choice->uplink = uplink;
    choice->is_open = true;
    uplink->calls[uplink->calls_open++] = choice;
    door->stats.calls++;
    return true;
}

void uplink_cancel(struct choice *choice)
{
    if (choice->is_open && choice->uplink->state == UPLINK_UP) {
        (void)agx_cancel(&choice->uplink->agx, choice->call.program_id, choice->call.call_id);
    }
}

void uplink_end_program(struct door *door, struct domain *domain, const uint8_t id[AGX_ID_BYTES])
{
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        if (domain->uplinks[i].state == UPLINK_UP) {
            (void)agx_program_end(&domain->uplinks[i].agx, id);
            return;
        }
    }
}
