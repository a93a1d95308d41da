/* SPDX-License-Identifier: MIT */
/*
 * What: connections to the appliance (tools/door/uplink/uplink.h).
 *
 *   DOWN --open--> ASKED --it serves our model--> UP --breaks, calls are open--> BROKEN
 *                  |   ^                          |                              |    |
 *                  |   +-----------------------resume----------------------------+    |
 *                  |                              |                                   |
 *                  +--it serves another, or breaks, and no call is open--> DOWN <-----+
 *
 * A BROKEN one gives up when door.patience is over, or after a final error. Calls of one that gives
 * up, or has found another model, end with a refusal. One whose appliance drains gets no more
 * calls, and another one is opened in its stead.
 *
 * Invariants: a choice is open from call_start() until the appliance's last word on it, also when
 * the client has left: the library may have to send the call again.
 * Bounds: a try to connect blocks the loop, for OPEN_MS or RESUME_MS at most, where an appliance
 * stands still. So after a try in vain no other is made until SHARE times what it took has passed.
 * After a refused key its domain makes one try at a time (absence.c).
 * An event finds its choice among AGX_CALLS_MAX.
 */
#include "tools/door/uplink/uplink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "appliance/log.h"
#include "tools/door/uplink/absence.h"
#include "tools/door/uplink/call.h"
#include "tools/door/uplink/choice.h"
#include "tools/door/uplink/domain.h"
#include "tools/door/clock.h"
#include "tools/door/program.h"
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

static bool is_connected(const struct uplink *uplink)
{
    return uplink->state == UPLINK_ASKED || uplink->state == UPLINK_UP;
}

/* A descriptor that is closed leaves the epoll by itself; `watched` is -1 from then on. */
static void watch(struct door *door, struct uplink *uplink)
{
    if (!is_connected(uplink)) {
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

/* Once there is room for the question; calls that were sent again may take all. */
static void ask_model(struct uplink *uplink)
{
    uplink->state = UPLINK_ASKED;
    uplink->has_asked = agx_model_ask(&uplink->agx, 0) == AGX_OK;
}

/* Ends what is open with a refusal, and the session. */
static void give_up(struct door *door, struct uplink *uplink)
{
    uplink->state = UPLINK_DOWN;            /* nothing is cancelled there */
    uplink->domain->call_ended = true;
    while (uplink->calls_open > 0) {
        struct choice *choice = uplink->calls[--uplink->calls_open];
        choice->is_open = false;
        request_lost(choice);
    }
    agx_close(&uplink->agx);
    uplink->again_us = door->now_us + PAUSE_US;
}

/* A spare one that is refused is no absence. A key that is refused is that of the others, too. */
static void note_absence(struct door *door, struct domain *domain, enum agx_result result,
                         int cause)
{
    bool is_refused = result == AGX_ERROR_KEY;
    if (is_refused || domain_uplink(door, domain) == NULL) {
        absence_note(door, domain, result, cause);
    }
    for (uint32_t i = 0; is_refused && i < door->uplinks_count; i++) {
        if (domain->uplinks[i].state == UPLINK_BROKEN) {
            give_up(door, &domain->uplinks[i]);
        }
    }
}

/* `wait_ms`: at most, for the appliance's word. */
static void open_uplink(struct door *door, struct uplink *uplink, int wait_ms)
{
    struct agx *agx = &uplink->agx;
    enum agx_result result = agx_open(agx, door->appliance, uplink->buffer, buffer_bytes(door),
                                      wait_ms);
    if (result == AGX_OK && agx->welcome.needs_key) {
        struct agx_key key;
        result = AGX_ERROR_KEY;
        if (uplink->domain->key != NULL) {
            memcpy(key.id, uplink->domain->key->id, sizeof key.id);
            memcpy(key.secret, uplink->domain->key->secret, sizeof key.secret);
            result = agx_authenticate(agx, &key, wait_ms);
        }
        if (result != AGX_OK) {
            agx_close(agx);
        }
    }
    int cause = errno;
    uplink->again_us = door->now_us + PAUSE_US;
    uplink->drains = false;
    if (result == AGX_OK) {
        ask_model(uplink);
    } else {
        door->is_other = false;             /* it is not known any more */
        note_absence(door, uplink->domain, result, cause);
    }
}

/* The door can only write and count for its own model. False: calls are refused. */
static bool is_ours(struct door *door, struct uplink *uplink, const struct agx_event *told)
{
    const struct agx_welcome *welcome = &uplink->agx.welcome;
    const char *difference = model_difference(&door->model, welcome, told);
    if (difference == NULL) {
        return true;
    }
    if (!door->is_other) {
        log_event(LOG_ERROR, "the appliance serves another model: its %s is not that of model.path "
                  "here (it has \"%s\", here is \"%s\"); requests are refused", difference,
                  welcome->model, door->model.name);
    }
    door->is_other = true;
    give_up(door, uplink);
    return false;
}

static void take_model(struct door *door, struct uplink *uplink, const struct agx_event *told)
{
    if (is_ours(door, uplink, told)) {
        uplink->state = UPLINK_UP;
        door->is_other = false;
        absence_end(door, uplink->domain);
    }
}

/* One that was up is opened again at once: the next core waits for it. */
static void broke(struct door *door, struct uplink *uplink, enum agx_result result)
{
    bool may_be_back = uplink->state == UPLINK_UP && result == AGX_ERROR_CLOSED;
    uplink->broken_us = door->now_us;
    uplink->watched = -1;
    if (result == AGX_ERROR_KEY) {
        note_absence(door, uplink->domain, result, 0);
    }
    if (result != AGX_ERROR_CLOSED || uplink->calls_open == 0) {
        give_up(door, uplink);
    } else {
        uplink->state = UPLINK_BROKEN;
    }
    if (may_be_back || uplink->state == UPLINK_BROKEN) {
        uplink->again_us = door->now_us;
    }
}

/* CANCELs that are due; and `all` of them, where the calls are open at the appliance again. */
static void send_cancels(struct uplink *uplink, bool all)
{
    for (uint32_t i = 0; i < uplink->calls_open; i++) {
        if (uplink->calls[i]->cancel_due || (all && uplink->calls[i]->is_cancelled)) {
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
    int cause = errno;
    bool may_come = result == AGX_ERROR_CONNECT || result == AGX_ERROR_CLOSED ||
                    result == AGX_ERROR_BUSY || result == AGX_ERROR_TIMEOUT;
    bool is_patient = door->now_us - uplink->broken_us < door->options.door_patience.number;
    uplink->again_us = door->now_us + PAUSE_US;
    if (result == AGX_OK) {
        uplink->drains = false;
        if (is_ours(door, uplink, NULL)) {      /* before a token of the open calls comes */
            ask_model(uplink);
            send_cancels(uplink, true);
        }
    } else {
        note_absence(door, uplink->domain, result, cause);
        if (uplink->state == UPLINK_BROKEN && (!may_come || !is_patient)) {
            give_up(door, uplink);
        }
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

struct choice *uplink_find(const struct uplink *uplink, uint64_t call_id)
{
    for (uint32_t i = 0; i < uplink->calls_open; i++) {
        if (uplink->calls[i]->call.call_id == call_id) {
            return uplink->calls[i];
        }
    }
    return NULL;
}

void uplink_close(struct uplink *uplink, struct choice *choice)
{
    uint32_t at = 0;
    while (uplink->calls[at] != choice) {
        at++;
    }
    uplink->calls[at] = uplink->calls[--uplink->calls_open];
    uplink->domain->call_ended = true;
    choice->is_open = false;
    if (choice->request == NULL) {
        choice_free(choice);
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
    uplink_close(choice->uplink, choice);
    if (request != NULL) {
        request_ended(choice);
    }
}

static void take_refusal(struct door *door, struct choice *choice, const struct agx_fault *fault)
{
    struct request *request = choice->request;
    if (strcmp(fault->frame, "CALL") != 0) {
        return;         /* a CANCEL that came too late: the call is open still, or again */
    }
    if (fault->code == status_wire(STATUS_BUSY_DRAINING)) {
        choice->uplink->drains = choice->is_sent_away = true;
        return;
    }
    bool is_of_program = fault->code == status_wire(STATUS_BUSY_CALLS_OF_PROG);
    uplink_close(choice->uplink, choice);
    if (request != NULL &&
        !(is_of_program && call_waits_for_program(door, choice, fault->max))) {
        request_refused(choice, fault);
    }
}

static void take_event(struct door *door, struct uplink *uplink, const struct agx_event *event)
{
    struct choice *choice = uplink_find(uplink, event->call_id);
    if (event->kind == AGX_MODEL) {
        take_model(door, uplink, event);
        return;
    }
    if (choice == NULL) {
        return;                         /* of a program */
    }
    struct request *request = choice->request;
    switch (event->kind) {
    case AGX_ACCEPTED:
        choice->prompt_tokens = event->prompt_tokens;
        if (request != NULL) {
            request->class_name[0] = '\0';      /* the program has it */
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
        take_refusal(door, choice, agx_fault(&uplink->agx));
        break;
    default:
        break;
    }
}

/* False: nothing has come within the time, or the connection has broken. */
static bool take_next(struct door *door, struct uplink *uplink, int wait_ms)
{
    struct agx_event event;
    enum agx_result result = agx_next(&uplink->agx, &event, wait_ms);
    if (result == AGX_OK) {
        take_event(door, uplink, &event);
    } else if (result != AGX_AGAIN) {
        broke(door, uplink, result);
    }
    return result == AGX_OK;
}

static void run(struct door *door, struct uplink *uplink)
{
    uint32_t count = 0;
    if (uplink->state == UPLINK_ASKED && !uplink->has_asked) {
        ask_model(uplink);
    }
    while (is_connected(uplink) && count < EVENTS_MAX && take_next(door, uplink, 0)) {
        count++;
    }
    send_cancels(uplink, false);
}

/* One is spare while the others take calls. */
static bool is_wanted(const struct door *door, const struct uplink *uplink)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        const struct uplink *other = &uplink->domain->uplinks[i];
        others += other->state != UPLINK_DOWN && !other->drains;
    }
    return uplink->state == UPLINK_BROKEN || others + 1 < door->uplinks_count;
}

/* When another try to connect is due. */
static uint64_t due_us(const struct door *door, const struct uplink *uplink)
{
    uint64_t own_us = uplink->again_us > uplink->domain->again_us ? uplink->again_us
                                                                  : uplink->domain->again_us;
    return is_connected(uplink) || !is_wanted(door, uplink) ? UINT64_MAX
           : own_us > door->connects_us                     ? own_us
                                                            : door->connects_us;
}

static bool any_drains(const struct door *door, const struct domain *domain)
{
    bool drains = false;
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        drains = drains || (domain->uplinks[i].state == UPLINK_UP && domain->uplinks[i].drains);
    }
    return drains;
}

static void connect_uplink(struct door *door, struct uplink *uplink)
{
    uint64_t began_us = clock_us();
    if (uplink->state == UPLINK_DOWN) {
        /* One that drains may have no successor, and the address may still take a connection. */
        open_uplink(door, uplink, any_drains(door, uplink->domain) ? RESUME_MS : OPEN_MS);
        /* The answer comes at once: a door that has just been started serves its first client. */
        if (uplink->state == UPLINK_ASKED) {
            (void)take_next(door, uplink, OPEN_MS);
        }
    } else {
        resume(door, uplink);
    }
    if (!is_connected(uplink)) {
        door->connects_us = door->now_us + 1 + SHARE * (clock_us() - began_us);
    }
}

void uplinks_open_spare(struct door *door, const struct domain *domain)
{
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        struct uplink *uplink = &domain->uplinks[i];
        if (uplink->state == UPLINK_DOWN && door->now_us >= due_us(door, uplink)) {
            connect_uplink(door, uplink);
            watch(door, uplink);
            return;
        }
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
        int own_ms = is_connected(uplink)       ? agx_wait_ms(&uplink->agx)
                     : due > now_us + 1000000   ? -1
                     : due > now_us             ? (int)((due - now_us) / 1000 + 1) : 0;
        wait_ms = own_ms >= 0 && own_ms < wait_ms ? own_ms : wait_ms;
    }
    return wait_ms;
}

/* ---- what others ask ------------------------------------------------------------------------- */

void uplink_cancel(struct choice *choice)
{
    if (choice->is_open) {
        choice->is_cancelled = true;
        choice->cancel_due =
            !is_connected(choice->uplink) ||
            agx_cancel(&choice->uplink->agx, choice->call.program_id, choice->call.call_id) ==
                AGX_AGAIN;
    }
}

void uplink_end_program(struct door *door, struct domain *domain, const uint8_t id[AGX_ID_BYTES])
{
    struct uplink *uplink = domain_uplink(door, domain);
    if (uplink != NULL) {
        (void)agx_program_end(&uplink->agx, id);
    }
}
