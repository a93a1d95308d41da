/* SPDX-License-Identifier: MIT */
/*
 * What: the side of an upgrade that takes over (upgrade/taker.h).
 *
 * Invariants: what comes from the other keeper is input: numbers of handles, what each of them is,
 * and its size are checked before use. Nothing of the other one is changed before its core has
 * ended. Until this one's core serves and its launcher has been told so, any refusal ends it; after
 * that, none does. One that is not alike has nothing of the other one but its listeners.
 * Owner: the keeper, before and after its fork.
 */
#include "appliance/keeper/upgrade/taker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "appliance/boot/inherited.h"
#include "appliance/boot/listen.h"
#include "appliance/keeper/upgrade/likeness.h"
#include "appliance/keeper/upgrade/place.h"
#include "appliance/log.h"
#include "config/base/assert.h"

#define ANSWER_MAX_MS 10000         /* a quiet keeper wakes up every two seconds */
#define DETACH_MAX_US UINT64_C(10000000)    /* for a command that does not end */

static struct {
    int socket;                     /* to the other keeper; -1: none, or gone */
    enum { BOOTS, ASKED, BEGINS, WAITS, DETACHES, DONE } state;
    uint64_t detaches_us;           /* since when */
    pid_t peer;
    struct upgrade_likeness own;
    struct upgrade_message offer;   /* with what the others have changed of it */
    bool is_apart;                  /* nothing but listeners is of use: the two are not alike */
} taker = {.socket = -1};

static enum boot_exit fail(const char *what, const char *why)
{
    log_event(LOG_ERROR, "upgrade failed: %s%s: the running appliance goes on", what, why);
    return BOOT_EXIT_UPGRADE;
}

/* ---- what is offered ------------------------------------------------------------------------- */

static enum boot_exit meet(const struct boot *boot)
{
    struct sockaddr_un place;
    uint32_t bytes = upgrade_place(&place, &boot->options, -1);
    /* One that stands still has a backlog of one: the next try would wait for ever. */
    taker.socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is_met = bytes > 0 && taker.socket >= 0 &&
                  connect(taker.socket, (const struct sockaddr *)&place, bytes) == 0;
    if (!is_met && errno == EAGAIN) {
        return fail("the running appliance does not answer", "");
    }
    if (!is_met) {
        log_event(LOG_ERROR, "upgrade failed: no appliance serves at \"%s\": %s",
                  bytes > 0 ? place.sun_path + 1 : "", strerror(errno));
        return BOOT_EXIT_UPGRADE;
    }
    if (!upgrade_knows_peer(taker.socket, &boot->user, &taker.peer)) {
        return fail("the appliance that answers is of another user", "");
    }
    return BOOT_EXIT_OK;
}

/* Waits for a message of this kind, with so many handles. */
static enum boot_exit await(enum upgrade_kind kind, struct upgrade_message *message,
                            struct upgrade_handles *handles)
{
    const char *why = "";
    struct pollfd answer = {.fd = taker.socket, .events = POLLIN};
    if (poll(&answer, 1, ANSWER_MAX_MS) != 1) {
        return fail("the running appliance does not answer", "");
    }
    switch (upgrade_receive(taker.socket, message, handles, &why)) {
    case UPGRADE_NOTHING:
    case UPGRADE_GONE:
        return fail("the running appliance has closed the connection", "");
    case UPGRADE_BAD:
        return fail("", why);
    case UPGRADE_MESSAGE:
        break;
    }
    if (message->kind == UPGRADE_REFUSED) {
        return fail("refused: ", message->text);
    }
    return message->kind == kind ? BOOT_EXIT_OK : fail("a message out of turn", "");
}

/* A size that no process can change: a shorter one would end who reads it. */
static bool is_kept_memory(int handle, uint64_t bytes)
{
    struct stat stat;
    int seals = fcntl(handle, F_GET_SEALS);
    return fstat(handle, &stat) == 0 && S_ISREG(stat.st_mode) && (uint64_t)stat.st_size == bytes &&
           seals >= 0 && (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW);
}

static bool is_socket_of(int handle, int domain, int type)
{
    int has_domain = 0, has_type = 0;
    socklen_t bytes = sizeof has_domain;
    return getsockopt(handle, SOL_SOCKET, SO_DOMAIN, &has_domain, &bytes) == 0 &&
           getsockopt(handle, SOL_SOCKET, SO_TYPE, &has_type, &bytes) == 0 &&
           has_domain == domain && has_type == type;
}

static enum boot_exit take_offer(struct boot *boot, const struct upgrade_handles *handles)
{
    const struct upgrade_message *offer = &taker.offer;
    uint32_t listeners = (uint32_t)__builtin_popcount(offer->listeners);
    if (offer->listeners >= 1u << BOOT_LISTENERS || handles->count != 2 + listeners ||
        !is_kept_memory(handles->of[0], offer->likeness.kept_bytes) ||
        !is_socket_of(handles->of[1], AF_UNIX, SOCK_SEQPACKET)) {
        return fail("what the running appliance offers makes no sense", "");
    }
    boot->kept_handle = handles->of[0];
    boot->upgrade_listener = handles->of[1];
    for (uint32_t i = 0; i < listeners; i++) {
        inherited_give(handles->of[2 + i]);
    }
    if (offer->owns_path) {
        listen_borrow(boot);
    }
    return BOOT_EXIT_OK;
}

/* The service manager started the other one, and is to hear of this one by the same way. */
static void take_manager(void)
{
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)taker.offer.watchdog_us);
    if (taker.offer.manager[0] != '\0') {
        setenv("NOTIFY_SOCKET", taker.offer.manager, 1);
        unsetenv("WATCHDOG_PID");
    }
    if (taker.offer.watchdog_us > 0) {
        setenv("WATCHDOG_USEC", number, 1);
    }
}

enum boot_exit taker_ask(struct boot *boot)
{
    struct upgrade_message ask;
    struct upgrade_handles handles;
    enum boot_exit exit_status = meet(boot);
    if (exit_status != BOOT_EXIT_OK) {
        return exit_status;
    }
    upgrade_message_init(&ask, UPGRADE_ASK);
    snprintf(ask.text, sizeof ask.text, "%s", boot->version);
    (void)upgrade_send(taker.socket, &ask, NULL);   /* else it has refused already, and said why */
    exit_status = await(UPGRADE_OFFER, &taker.offer, &handles);
    if (exit_status != BOOT_EXIT_OK) {
        return exit_status;
    }
    if (boot->needs_another_program && taker.offer.program == boot->program) {
        log_event(LOG_INFO, "no upgrade: this very program serves: version=%s", boot->version);
        exit(BOOT_EXIT_OK);
    }
    log_event(LOG_INFO, "upgrade of version=%s pid=%d to version=%s", taker.offer.text,
              (int)taker.peer, boot->version);
    take_manager();
    return take_offer(boot, &handles);
}

/* Onto the places of those that this process has made. */
static bool place(const struct boot *boot, const struct upgrade_message *message,
                  const struct upgrade_handles *handles)
{
    bool is_placed = handles->count == 2 * message->count && message->count > 0 &&
                     message->first + message->count <= boot->pockets.count;
    for (uint32_t i = 0; i < handles->count; i++) {
        int wanted = boot->pockets.first + (int)(2 * message->first + i);
        is_placed = is_placed && is_socket_of(handles->of[i], AF_UNIX, SOCK_DGRAM) &&
                    dup3(handles->of[i], wanted, O_CLOEXEC) == wanted;
        close(handles->of[i]);
    }
    return is_placed;
}

enum boot_exit taker_take_pockets(struct boot *boot)
{
    struct upgrade_message message;
    struct upgrade_handles handles;
    const uint32_t offered = taker.offer.likeness.pockets;
    bool are_as_many = boot->pockets.count == offered;     /* else this is not alike */
    for (uint32_t have = 0; have < offered; have += message.count) {
        enum boot_exit exit_status = await(UPGRADE_POCKETS, &message, &handles);
        if (exit_status != BOOT_EXIT_OK) {
            return exit_status;
        }
        if (!are_as_many) {
            upgrade_handles_close(&handles);
        }
        if (message.first != have || message.count == 0 ||
            (are_as_many && !place(boot, &message, &handles))) {
            return fail("what the running appliance offers makes no sense", "");
        }
    }
    return BOOT_EXIT_OK;
}

/* Two that serve at once would need a file of replies each. */
static enum boot_exit go_apart(struct boot *boot, const char *why)
{
    if (boot->replies_handle > 0) {
        return fail("limits.replies_file goes on with one that is alike, or by a restart: ", why);
    }
    log_event(LOG_WARN, "upgrade: connections and calls stay with the running appliance, which "
              "drains when this one serves: %s", why);
    taker.is_apart = true;
    close(boot->kept_handle);
    boot->kept_handle = 0;
    return boot->pockets.count == taker.offer.likeness.pockets && !pockets_renew(&boot->pockets)
               ? fail("no sockets for connections of its own: ", strerror(errno))
               : BOOT_EXIT_OK;
}

enum boot_exit taker_compare(struct boot *boot)
{
    upgrade_likeness_fill(&taker.own, boot);
    const char *why = upgrade_unlike(&taker.offer.likeness, &taker.own);
    return why == NULL ? BOOT_EXIT_OK : go_apart(boot, why);
}

/* ---- the keeper ------------------------------------------------------------------------------ */

static bool tell(enum upgrade_kind kind)
{
    struct upgrade_message message;
    upgrade_message_init(&message, kind);
    message.likeness = taker.own;
    return upgrade_send(taker.socket, &message, NULL);
}

/* The other keeper is gone, and its core with it. */
static void be_alone(void)
{
    if (taker.socket >= 0) {
        log_event(LOG_WARN, "upgrade: the appliance before this one is gone");
        close(taker.socket);
        taker.socket = -1;
    }
}

static void take_domains(const struct upgrade_message *message)
{
    taker.offer.domains_count = message->domains_count;
    memcpy(taker.offer.domains, message->domains, sizeof taker.offer.domains);
}

static enum taker_order obey(const struct upgrade_message *message)
{
    bool is_given = message->kind == UPGRADE_GIVEN && taker.state == ASKED;
    bool is_news = message->kind == UPGRADE_DOMAINS && (taker.state <= ASKED || taker.is_apart);
    if (taker.state >= DETACHES) {
        return TAKER_NOTHING;           /* its core has all, and the launcher knows: that counts */
    }
    if (message->kind == UPGRADE_REFUSED || message->kind == UPGRADE_TAKEN_BACK) {
        (void)fail("refused: ", message->text);
        return TAKER_END;
    }
    if (!is_given && !is_news) {
        (void)fail("a message out of turn", "");
        return TAKER_END;
    }
    take_domains(message);
    taker.state = is_given ? BEGINS : taker.state;
    return is_given ? TAKER_BEGIN_CORE : TAKER_NOTHING;
}

static enum taker_order hear(void)
{
    struct upgrade_message message;
    const char *why = "";
    if (taker.socket < 0) {
        return TAKER_NOTHING;
    }
    switch (upgrade_receive(taker.socket, &message, NULL, &why)) {
    case UPGRADE_NOTHING:
        break;
    case UPGRADE_GONE:
        be_alone();
        break;
    case UPGRADE_BAD:
        (void)fail("", why);
        return TAKER_END;
    case UPGRADE_MESSAGE:
        return obey(&message);
    }
    return TAKER_NOTHING;
}

/* Its core serves. What the command that began it says from now on is true. */
static enum taker_order detach(const struct taker_facts *facts)
{
    taker.state = DETACHES;
    taker.detaches_us = facts->now_us;
    if (taker.is_apart && taker.socket >= 0 && !tell(UPGRADE_BESIDE)) {
        be_alone();
    }
    return TAKER_TELL_LAUNCHER;
}

/* Says so, unless it is alone; then it need not wait for an answer. */
static enum taker_order go_on(const struct taker_facts *facts)
{
    switch (taker.state) {
    case BOOTS:
        taker.own.weights = facts->weights;
        if (!facts->is_ready) {
            return TAKER_NOTHING;
        }
        taker.state = taker.is_apart ? BEGINS : ASKED;
        if (!taker.is_apart && taker.socket >= 0 && !tell(UPGRADE_TAKE)) {
            be_alone();
        }
        return taker.is_apart ? TAKER_BEGIN_CORE : TAKER_NOTHING;
    case ASKED:
        taker.state = taker.socket < 0 ? BEGINS : ASKED;
        return taker.socket < 0 ? TAKER_BEGIN_CORE : TAKER_NOTHING;
    case BEGINS:
        taker.state = facts->core_waits ? WAITS : BEGINS;
        if (facts->core_waits && !taker.is_apart && taker.socket >= 0 && !tell(UPGRADE_WAITS)) {
            be_alone();
        }
        return TAKER_NOTHING;
    case WAITS:
        return facts->core_serves ? detach(facts) : TAKER_NOTHING;
    case DETACHES:
        /* The other one tells the service manager: that kills, rather than ends, what it finds to
         * be another's child. */
        if (facts->has_launcher && facts->now_us - taker.detaches_us < DETACH_MAX_US) {
            return TAKER_NOTHING;
        }
        taker.state = DONE;
        if (taker.socket >= 0) {
            (void)tell(taker.is_apart ? UPGRADE_RELIEVES : UPGRADE_SERVES);
            close(taker.socket);
            taker.socket = -1;
        }
        listen_own();
        return TAKER_DONE;
    case DONE:
        return TAKER_NOTHING;
    }
    return TAKER_NOTHING;
}

enum taker_order taker_tick(const struct taker_facts *facts)
{
    enum taker_order order = hear();
    return order != TAKER_NOTHING ? order : go_on(facts);
}

uint32_t taker_upgrades(void)
{
    return taker.offer.upgrades + 1;
}

void taker_domains(struct config_keys *domains)
{
    if (!taker.is_apart) {
        domains->domains_count = taker.offer.domains_count;
        memcpy(domains->domains, taker.offer.domains, sizeof domains->domains);
    }
}

bool taker_is_alone(void)
{
    return taker.socket < 0;
}

bool taker_has_told(void)
{
    return taker.state >= DETACHES;
}

void taker_close(void)
{
    if (taker.socket >= 0) {
        close(taker.socket);
    }
}
