/* SPDX-License-Identifier: MIT */
/*
 * What: the running keeper's side of an upgrade (upgrade/giver.h).
 *
 * Invariants: nothing is changed by what is offered: handles are copies, and the core goes on with
 * all of it. What is given counts once this one has agreed that the other one's core has it; if
 * that goes before it serves, or says nothing for SERVES_MAX_US, a core of this keeper goes on, as
 * after a death. In between no reload numbers domains.
 * What was agreed stays so, whatever the other one says afterwards: it heeds no refusal any more,
 * and two would serve. One that was taken back from has RECALL_MAX_US to end; after that it is
 * killed, for kept memory may be its core's. So each state but the offered one has a bound.
 * Kept memory is locked by the core that has it (core.c): a core that this keeper begins waits
 * while the other keeper's lives.
 * Owner: the keeper. It calls accept, recv, send, sendmsg, getsockopt and close, which its filter
 * allows for a core's sake.
 */
#include "appliance/keeper/upgrade/giver.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "appliance/boot/listen.h"
#include "appliance/keeper/upgrade/leash.h"
#include "appliance/keeper/upgrade/likeness.h"
#include "appliance/keeper/upgrade/place.h"
#include "appliance/log.h"

#define ASK_MAX_US    UINT64_C(5000000)
#define WAITS_MAX_US  UINT64_C(60000000)    /* for its core to have its memory */
#define YIELD_MAX_US  UINT64_C(5000000)     /* for the own core to end a pass */
#define SERVES_MAX_US UINT64_C(15000000)    /* more than taker.c waits for its command */
#define RECALL_MAX_US UINT64_C(5000000)     /* to hear that, and to end */

void giver_listen(struct boot *boot)
{
    struct sockaddr_un place;
    const struct options *options = &boot->options;
    uint32_t bytes = upgrade_place(&place, options, boot->listeners[BOOT_LISTENER_TCP]);
    if (option_appliance_upgrade(options) != OPTION_APPLIANCE_UPGRADE_ON || bytes == 0 ||
        boot->upgrade_listener > 0) {
        return;
    }
    int handle = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (handle < 0 || bind(handle, (const struct sockaddr *)&place, bytes) != 0 ||
        listen(handle, 1) != 0 || !leash_make(boot->upgrade_leash)) {
        log_event(LOG_WARN, "no upgrade of this process is possible: the name \"%s\": %s",
                  place.sun_path + 1, strerror(errno));
        close(handle);
        return;
    }
    boot->upgrade_listener = handle;
}

void giver_init(struct giver *giver, const struct boot *boot)
{
    *giver = (struct giver){.boot = boot, .socket = -1};
    upgrade_likeness_fill(&giver->likeness, boot);
}

void giver_forget(struct boot *boot)
{
    if (boot->upgrade_listener > 0) {
        close(boot->upgrade_listener);
        leash_close(boot->upgrade_leash);
        boot->upgrade_listener = 0;
    }
}

void giver_close(const struct giver *giver)
{
    if (giver->boot->upgrade_listener > 0) {
        close(giver->boot->upgrade_listener);
        leash_close(giver->boot->upgrade_leash);
    }
    if (giver->socket >= 0) {
        close(giver->socket);
    }
}

static void enter(struct giver *giver, enum giver_state state, uint64_t now_us)
{
    giver->state = state;
    giver->since_us = now_us;
}

static void leave(struct giver *giver)
{
    if (giver->socket >= 0) {
        close(giver->socket);
        giver->socket = -1;
    }
    giver->has_agreed = false;
}

static void say_no(struct giver *giver, enum upgrade_kind kind, const char *why)
{
    struct upgrade_message message;
    upgrade_message_init(&message, kind);
    snprintf(message.text, sizeof message.text, "%s", why);
    log_event(LOG_WARN, "upgrade: %s pid=%d: %s",
              kind == UPGRADE_REFUSED ? "refused" : "taken back from", (int)giver->peer, why);
    (void)upgrade_send(giver->socket, &message, NULL);
}

/* Tells the other one, and forgets it. */
static void send_away(struct giver *giver, const char *why)
{
    say_no(giver, UPGRADE_REFUSED, why);
    leave(giver);
}

static void give_up(struct giver *giver, const char *why, uint64_t now_us)
{
    send_away(giver, why);
    enter(giver, GIVER_IDLE, now_us);
}

/* ---- what is offered ------------------------------------------------------------------------- */

static void add_domains(struct giver *giver, struct upgrade_message *message,
                        const struct config_keys *domains)
{
    message->domains_count = domains->domains_count;
    memcpy(message->domains, domains->domains, sizeof message->domains);
    giver->domains_told = domains->domains_count;
}

static void fill_offer(struct giver *giver, struct upgrade_message *offer,
                       struct upgrade_handles *handles, const struct giver_facts *facts)
{
    const struct boot *boot = giver->boot;
    const char *manager = getenv("NOTIFY_SOCKET"), *watchdog = getenv("WATCHDOG_USEC");
    upgrade_message_init(offer, UPGRADE_OFFER);
    giver->likeness.weights = facts->weights;
    offer->likeness = giver->likeness;
    offer->owns_path = listen_path(boot)[0] != '\0';
    offer->upgrades = boot->shared.control->upgrades;
    offer->program = boot->program;
    offer->watchdog_us = watchdog != NULL ? strtoull(watchdog, NULL, 10) : 0;
    snprintf(offer->manager, sizeof offer->manager, "%s", manager != NULL ? manager : "");
    snprintf(offer->text, sizeof offer->text, "%s", boot->version);
    add_domains(giver, offer, facts->domains);
    *handles = (struct upgrade_handles){
        .count = 4, .of = {boot->kept_handle, boot->upgrade_listener, boot->upgrade_leash[0],
                           boot->upgrade_leash[1]}};
    for (uint32_t i = 0; i < BOOT_LISTENERS; i++) {
        if (boot->listeners[i] >= 0) {
            offer->listeners |= 1u << i;
            handles->of[handles->count++] = boot->listeners[i];
        }
    }
}

static bool send_pockets(const struct giver *giver, uint32_t first, uint32_t count)
{
    struct upgrade_message message;
    struct upgrade_handles handles = {.count = 2 * count};
    upgrade_message_init(&message, UPGRADE_POCKETS);
    message.likeness.pockets = giver->boot->pockets.count;
    message.first = first;
    message.count = count;
    for (uint32_t i = 0; i < handles.count; i++) {
        handles.of[i] = giver->boot->pockets.first + (int)(2 * first + i);
    }
    return upgrade_send(giver->socket, &message, &handles);
}

static bool send_offer(struct giver *giver, const struct giver_facts *facts)
{
    struct upgrade_message offer;
    struct upgrade_handles handles;
    const uint32_t pockets = giver->boot->pockets.count, most = UPGRADE_HANDLES_MAX / 2;
    fill_offer(giver, &offer, &handles, facts);
    bool is_sent = upgrade_send(giver->socket, &offer, &handles);
    for (uint32_t first = 0; is_sent && first < pockets; first += most) {
        is_sent = send_pockets(giver, first, pockets - first < most ? pockets - first : most);
    }
    return is_sent;
}

/* The own one was told to end, and may have. */
static bool has_no_core(const struct giver *giver)
{
    return giver->state >= GIVER_YIELDS && giver->state <= GIVER_RECALLS;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int accept_one(const struct giver *giver)
{
    return giver->boot->upgrade_listener > 0
               ? accept4(giver->boot->upgrade_listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)
               : -1;
}

/* One at a time. */
static void refuse_others(const struct giver *giver)
{
    struct giver other = {.boot = giver->boot, .socket = accept_one(giver), .peer = -1};
    if (other.socket >= 0) {
        (void)upgrade_knows_peer(other.socket, &giver->boot->user, &other.peer);
        send_away(&other, "another upgrade is under way");
    }
}

static void meet(struct giver *giver, const struct giver_facts *facts)
{
    int handle = accept_one(giver);
    if (handle < 0) {
        return;
    }
    giver->socket = handle;
    if (!upgrade_knows_peer(handle, &giver->boot->user, &giver->peer)) {
        send_away(giver, "it is of another user");
        return;
    }
    enter(giver, GIVER_ASKED, facts->now_us);
}

static void offer(struct giver *giver, const struct upgrade_message *message,
                  const struct giver_facts *facts)
{
    const char *why = facts->may_give ? NULL : "the appliance does not serve, or is about to end";
    memcpy(giver->version, message->text, sizeof giver->version);
    if (why == NULL && !send_offer(giver, facts)) {
        why = strerror(errno);
    }
    if (why != NULL) {
        give_up(giver, why, facts->now_us);
        return;
    }
    log_event(LOG_INFO, "upgrade: version=%s pid=%d boots beside this one", giver->version,
              (int)giver->peer);
    enter(giver, GIVER_OFFERED, facts->now_us);
}

/* Why this one's connections and calls stay here. */
static void say_unlike(const struct giver *giver, const struct upgrade_message *message)
{
    char text[UPGRADE_TEXT_BYTES];
    const char *why = upgrade_unlike(&giver->likeness, &message->likeness, text);
    if (why != NULL) {
        log_event(LOG_WARN, "upgrade: pid=%d is not alike: %s", (int)giver->peer, why);
    }
}

static void give(struct giver *giver, const struct upgrade_message *message,
                 const struct giver_facts *facts)
{
    struct upgrade_message given;
    char text[UPGRADE_TEXT_BYTES];
    giver->likeness.weights = facts->weights;
    const char *why = facts->may_give ? upgrade_unlike(&giver->likeness, &message->likeness, text)
                                      : "the appliance is about to end";
    if (why == NULL) {
        upgrade_message_init(&given, UPGRADE_GIVEN);
        add_domains(giver, &given, facts->domains);
        why = upgrade_send(giver->socket, &given, NULL) ? NULL : strerror(errno);
    }
    if (why != NULL) {
        give_up(giver, why, facts->now_us);
        return;
    }
    log_event(LOG_INFO, "upgrade: pid=%d is ready", (int)giver->peer);
    enter(giver, GIVER_GIVEN, facts->now_us);
}

static enum giver_order be_relieved(struct giver *giver, const struct giver_facts *facts)
{
    log_event(LOG_INFO, "upgrade: version=%s pid=%d serves, and this process drains",
              giver->version, (int)giver->peer);
    leave(giver);
    enter(giver, GIVER_RELIEVED, facts->now_us);
    return GIVER_LEAVE;
}

static enum giver_order end(const struct giver *giver)
{
    log_event(LOG_INFO, "upgrade: version=%s pid=%d serves", giver->version, (int)giver->peer);
    return GIVER_END;
}

/* Its core serves. From now on nothing but its end changes that; it has that long to say the rest.
 * Where it was taken back from, that was the answer. */
static void agree(struct giver *giver, const struct giver_facts *facts)
{
    struct upgrade_message agreed;
    if (giver->state == GIVER_RECALLS) {
        return;
    }
    upgrade_message_init(&agreed, UPGRADE_AGREED);
    (void)upgrade_send(giver->socket, &agreed, NULL);   /* else it has gone, which is heard */
    giver->has_agreed = true;
    giver->since_us = facts->now_us;
}

/* True when it is said which of both serves: a refusal, too, would be too late. */
static bool has_decided(const struct giver *giver)
{
    return giver->has_agreed || giver->state == GIVER_RECALLS;
}

/* What it says fits the state, or the upgrade is over. */
static enum giver_order obey(struct giver *giver, const struct upgrade_message *message,
                             const struct giver_facts *facts)
{
    enum upgrade_kind kind = (enum upgrade_kind)message->kind;
    if (kind == UPGRADE_ASK && giver->state == GIVER_ASKED) {
        offer(giver, message, facts);
    } else if (kind == UPGRADE_TAKE && giver->state == GIVER_OFFERED) {
        give(giver, message, facts);
    } else if (kind == UPGRADE_WAITS && giver->state == GIVER_GIVEN) {
        log_event(LOG_INFO, "upgrade: the core of pid=%d waits: this one's ends",
                  (int)giver->peer);
        enter(giver, GIVER_YIELDS, facts->now_us);
        return GIVER_END_CORE;
    } else if (kind == UPGRADE_HOLDS && has_no_core(giver)) {
        agree(giver, facts);
    } else if (kind == UPGRADE_SERVES && has_no_core(giver)) {
        return end(giver);
    } else if (kind == UPGRADE_BESIDE && giver->state == GIVER_OFFERED) {
        enter(giver, GIVER_BESIDE, facts->now_us);
        say_unlike(giver, message);
        agree(giver, facts);
    } else if (kind == UPGRADE_RELIEVES && giver->state == GIVER_BESIDE) {
        return be_relieved(giver, facts);
    } else if (!has_decided(giver)) {
        send_away(giver, "a message out of turn");
        enter(giver, has_no_core(giver) ? giver->state : GIVER_IDLE, facts->now_us);
    }
    return GIVER_NOTHING;
}

static enum giver_order hear(struct giver *giver, const struct giver_facts *facts)
{
    struct upgrade_message message;
    const char *why = "it has gone";
    enum upgrade_receipt receipt =
        giver->socket >= 0 ? upgrade_receive(giver->socket, &message, NULL, &why)
                           : UPGRADE_NOTHING;
    if (receipt == UPGRADE_MESSAGE) {
        return obey(giver, &message, facts);
    }
    if (receipt == UPGRADE_GONE || (receipt == UPGRADE_BAD && !has_decided(giver))) {
        send_away(giver, why);
        if (!has_no_core(giver)) {
            enter(giver, GIVER_IDLE, facts->now_us);
        }
    }
    return GIVER_NOTHING;
}

/* ---- what lasts too long, and what comes of it ----------------------------------------------- */

static bool lasts(const struct giver *giver, uint64_t us, const struct giver_facts *facts)
{
    return facts->now_us - giver->since_us >= us;
}

/* There is no core. */
static enum giver_order await_serves(struct giver *giver, const struct giver_facts *facts)
{
    if (giver->socket < 0) {
        enter(giver, GIVER_IDLE, facts->now_us);
        return GIVER_BEGIN_CORE;
    }
    if (!lasts(giver, SERVES_MAX_US, facts)) {
        return GIVER_NOTHING;
    }
    if (giver->has_agreed) {
        return end(giver);
    }
    say_no(giver, UPGRADE_TAKEN_BACK, "it does not serve");
    enter(giver, GIVER_RECALLS, facts->now_us);
    return GIVER_BEGIN_CORE;
}

/* A core waits for kept memory, or has it, for the other one's has ended. */
static enum giver_order await_end(struct giver *giver, const struct giver_facts *facts)
{
    if (giver->socket >= 0 && !lasts(giver, RECALL_MAX_US, facts)) {
        return GIVER_NOTHING;
    }
    if (giver->socket >= 0) {
        log_event(LOG_WARN, "upgrade: pid=%d stands still: killed", (int)giver->peer);
        leash_pull(giver->boot->upgrade_leash);
        leave(giver);
    }
    enter(giver, GIVER_IDLE, facts->now_us);
    return GIVER_NOTHING;
}

static enum giver_order keep_time(struct giver *giver, const struct giver_facts *facts)
{
    switch (giver->state) {
    case GIVER_ASKED:
        if (lasts(giver, ASK_MAX_US, facts)) {
            give_up(giver, "it says nothing", facts->now_us);
        }
        return GIVER_NOTHING;
    case GIVER_GIVEN:
        if (lasts(giver, WAITS_MAX_US, facts)) {
            give_up(giver, "it has no core", facts->now_us);
        }
        return GIVER_NOTHING;
    case GIVER_YIELDS:
        if (!facts->has_core) {
            enter(giver, GIVER_GONE, facts->now_us);
            return GIVER_NOTHING;
        }
        return lasts(giver, YIELD_MAX_US, facts) ? GIVER_KILL_CORE : GIVER_NOTHING;
    case GIVER_GONE:
        return await_serves(giver, facts);
    case GIVER_RECALLS:
        return await_end(giver, facts);
    case GIVER_BESIDE:
        return lasts(giver, SERVES_MAX_US, facts) ? be_relieved(giver, facts) : GIVER_NOTHING;
    case GIVER_IDLE:
    case GIVER_OFFERED:
    case GIVER_RELIEVED:
        return GIVER_NOTHING;
    }
    return GIVER_NOTHING;
}

static void tell_domains(struct giver *giver, const struct config_keys *domains)
{
    struct upgrade_message message;
    if (giver->state != GIVER_OFFERED || giver->domains_told == domains->domains_count) {
        return;
    }
    upgrade_message_init(&message, UPGRADE_DOMAINS);
    add_domains(giver, &message, domains);
    (void)upgrade_send(giver->socket, &message, NULL);
}

enum giver_order giver_tick(struct giver *giver, const struct giver_facts *facts)
{
    if (giver->state == GIVER_IDLE) {
        meet(giver, facts);
        return GIVER_NOTHING;
    }
    tell_domains(giver, facts->domains);
    enum giver_order order = hear(giver, facts);
    if (giver->state != GIVER_IDLE) {
        refuse_others(giver);
    }
    return order != GIVER_NOTHING ? order : keep_time(giver, facts);
}

void giver_refuse(struct giver *giver, const char *why)
{
    if (giver->state == GIVER_ASKED || giver->state == GIVER_OFFERED) {
        send_away(giver, why);
        giver->state = GIVER_IDLE;
    }
}
