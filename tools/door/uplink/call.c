/* SPDX-License-Identifier: MIT */
/*
 * What: on which connection a call is sent (call.h): the one that has the fewest. Where that is
 * still sending others and has no room, the call waits. One whose appliance drains gets none; what
 * that has sent away goes to the appliance that is found at the same address, and is refused if
 * there is none.
 *
 * A call that is one too many of its program waits for the end of another: clients send a hundred
 * at once and do not expect that they count. It waits in the order of refusals, as long as its
 * client does, in the room that it has in the door in any case.
 * Invariant: a choice waits only while its request needs it (call_cancel()).
 * Bounds: O(calls that wait * calls that are open) after a call's end.
 */
#include "tools/door/uplink/call.h"

#include <string.h>

#include "tools/door/uplink/choice.h"
#include "tools/door/program.h"
#include "tools/door/request.h"
#include "tools/door/uplink/domain.h"
#include "tools/door/uplink/uplink.h"

static struct uplink *least_used(const struct door *door, const struct domain *domain)
{
    struct uplink *least = NULL;
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        struct uplink *uplink = &domain->uplinks[i];
        bool is_free = uplink->state == UPLINK_UP && !uplink->drains &&
                       uplink->calls_open < AGX_CALLS_MAX;
        if (is_free && (least == NULL || uplink->calls_open < least->calls_open)) {
            least = uplink;
        }
    }
    return least;
}

/* There is no connection that takes a call. */
static bool refuse_for_room(struct request *request)
{
    const struct uplink *uplink = domain_uplink(request->door, request->domain);
    return uplink == NULL    ? domain_refuse(request)
           : uplink->drains ? request_refuse(request, 503, NULL, "the appliance is draining")
                            : request_refuse(request, 429, NULL, "as many calls as this server "
                                             "has room for are open");
}

/* True when a call of the same id and program is open: the same request again, too early. */
static bool is_repeated(struct door *door, const struct choice *choice)
{
    const struct domain *domain = choice->request->domain;
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        if (uplink_find(&domain->uplinks[i], choice->call.call_id) != NULL) {
            return true;
        }
    }
    return false;
}

bool call_start(struct door *door, struct choice *choice)
{
    struct request *request = choice->request;
    struct uplink *uplink = least_used(door, request->domain);
    if (uplink == NULL) {
        return refuse_for_room(request);
    }
    if (is_repeated(door, choice)) {
        return request_refuse(request, 409, NULL, "a request with this Idempotency-Key is open");
    }
    if (request->class_name[0] != '\0') {
        (void)agx_program_start_class(&uplink->agx, choice->call.program_id, request->class_name);
        request->program->is_told = true;
    }
    enum agx_result result = agx_call_start(&uplink->agx, &choice->call);
    choice->waits = result == AGX_AGAIN;
    if (choice->waits) {
        return door->calls_wait = true;
    }
    if (result == AGX_ERROR_ARGUMENT) {
        return request_refuse_fault(request, agx_fault(&uplink->agx));
    }
    if (result == AGX_ERROR_SPACE) {
        return request_refuse(request, 413, NULL, "the prompt is longer than the appliance takes");
    }
    if (result != AGX_OK) {
        return domain_refuse(request);
    }
    request->program->has_called = request->program->is_told = true;
    choice->uplink = uplink;
    choice->is_open = true;
    choice->is_cancelled = choice->cancel_due = false;
    uplink->calls[uplink->calls_open++] = choice;
    door->stats.calls++;
    return true;
}

/* A call that has begun for its request, but not on any connection. */
static void start_again(struct door *door, struct choice *choice)
{
    if (!request_needs_calls(choice->request) || !call_start(door, choice)) {
        request_lost(choice);
    }
}

static void send_waiting(struct door *door)
{
    uint64_t count = door->calls_wait ? door->domains_count * door->options.door_calls.number : 0;
    door->calls_wait = false;           /* those that wait again say so */
    for (uint64_t i = 0; i < count; i++) {
        struct choice *choice = &door->choices[i];
        if (choice->is_used && choice->waits) {
            choice->waits = false;
            start_again(door, choice);
        }
    }
}

/* Calls of the choice's program that are open at the appliance. */
static uint32_t count_open(const struct door *door, const struct choice *choice)
{
    const struct domain *domain = choice->request->domain;
    uint32_t open = 0;
    for (uint32_t i = 0; i < door->uplinks_count; i++) {
        const struct uplink *uplink = &domain->uplinks[i];
        for (uint32_t c = 0; c < uplink->calls_open; c++) {
            open += memcmp(uplink->calls[c]->call.program_id, choice->call.program_id,
                           AGX_ID_BYTES) == 0;
        }
    }
    return open;
}

/* Where others have calls of the program, too, the limit is reached by fewer from here. What is
 * open may be refused yet: then there is one fewer, and this call is tried again. */
bool call_waits_for_program(struct door *door, struct choice *choice, uint64_t most)
{
    if (!request_needs_calls(choice->request)) {
        return false;
    }
    uint32_t open = count_open(door, choice);
    choice->program_max = open < most ? open : (uint32_t)most;
    choice->turn = door->turns++;
    return choice->program_max > 0;
}

/* Of those that wait for their program and may be sent, the first; NULL: there is none. */
static struct choice *first_due(const struct door *door, const struct domain *domain)
{
    struct choice *first = NULL, *choices = choices_of(door, domain);
    for (uint64_t i = 0; i < door->options.door_calls.number; i++) {
        struct choice *choice = &choices[i];
        bool waits = choice->is_used && choice->program_max > 0;
        if (waits && (first == NULL || choice->turn < first->turn) &&
            count_open(door, choice) < choice->program_max) {
            first = choice;
        }
    }
    return first;
}

/* After the end of calls. One that is refused again waits again. */
static void let_in(struct door *door, struct domain *domain)
{
    struct choice *choice;
    while (domain->call_ended && (choice = first_due(door, domain)) != NULL) {
        choice->program_max = 0;
        start_again(door, choice);
    }
    domain->call_ended = false;
}

/* Those that came too late for it. */
static void move_from(struct door *door, struct uplink *uplink)
{
    for (uint32_t i = uplink->calls_open; i-- > 0;) {
        struct choice *choice = uplink->calls[i];
        struct request *request = choice->request;
        if (!choice->is_sent_away) {
            continue;
        }
        choice->is_sent_away = false;
        uplink_close(uplink, choice);
        if (request != NULL && least_used(door, uplink->domain) == NULL) {
            uplinks_open_spare(door, uplink->domain);
        }
        if (request != NULL) {
            start_again(door, choice);
        }
    }
}

bool call_cancel(struct choice *choice)
{
    bool waits = choice->waits || choice->program_max > 0;
    choice->waits = false;
    choice->program_max = 0;
    uplink_cancel(choice);
    return waits;
}

void calls_run(struct door *door)
{
    send_waiting(door);
    for (uint32_t i = 0; i < door->domains_count; i++) {
        let_in(door, &door->domains[i]);
    }
    for (uint32_t i = 0; i < door->domains_count * door->uplinks_count; i++) {
        struct uplink *uplink = &door->domains[i / door->uplinks_count]
                                     .uplinks[i % door->uplinks_count];
        if (uplink->drains) {
            move_from(door, uplink);
        }
    }
}
