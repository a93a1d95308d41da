/* SPDX-License-Identifier: MIT */
/*
 * What: the side of an upgrade that takes over (upgrade/taker.h).
 *
 * Invariants: what comes from the other keeper is input: numbers of handles, what each of them is,
 * and its size are checked before use. Nothing of the other one is changed before its core has
 * ended. Until the command is told that this one serves, any refusal ends it; after that, none
 * does. The command is told once the other one has agreed, has gone, or stands still: then that
 * finds, when it goes on, what this one has said before. What cannot be sent is no sign that it has
 * gone: it may have refused, and closed its end; hear() finds out which.
 * One that is not alike has nothing of the other one but its listeners.
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
#include "appliance/keeper/upgrade/leash.h"
#include "appliance/keeper/upgrade/likeness.h"
#include "appliance/keeper/upgrade/place.h"
#include "appliance/log.h"
#include "config/base/assert.h"

#define OWN_HANDLES 4u              /* of an offer: kept memory, listener, leash */
#define MUTE "the running appliance does not answer"
#define ANSWER_MAX_MS 10000         /* a quiet keeper wakes up every two seconds */
#define GIVEN_MAX_US  UINT64_C(10000000)    /* for one that answers within its tick, if at all */
#define HOLDS_MAX_US  UINT64_C(60000000)    /* for its core to end; it takes back before that */
#define AGREE_MAX_US  GIVEN_MAX_US
#define DETACH_MAX_US UINT64_C(10000000)    /* for a command that does not end; once it has agreed,
                                               the other one waits longer */

enum taker_state {
    BOOTS, ASKED,                   /* for GIVEN */
    BEGINS, WAITS, HOLDS,           /* its core serves; for AGREED */
    DETACHES, DONE
};

static struct {
    int socket;                     /* to the other keeper; -1: none, or gone */
    enum taker_state state;
    uint64_t since_us;              /* of the state */
    bool has_agreed;                /* the other one, that this one's core serves */
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
    taker.socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    errno = 0;
    if (bytes == 0 || taker.socket < 0 ||
        connect(taker.socket, (const struct sockaddr *)&place, bytes) != 0) {
        if (errno == EAGAIN) {          /* others wait before this one, or have given up */
            return fail(MUTE, "");
        }
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
        return fail(MUTE, "");
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
    if (offer->listeners >= 1u << BOOT_LISTENERS || handles->count != OWN_HANDLES + listeners ||
        !is_kept_memory(handles->of[0], offer->likeness.kept_bytes) ||
        !is_socket_of(handles->of[1], AF_UNIX, SOCK_SEQPACKET) ||
        !is_socket_of(handles->of[2], AF_UNIX, SOCK_DGRAM) ||
        !is_socket_of(handles->of[3], AF_UNIX, SOCK_DGRAM)) {
        return fail("what the running appliance offers makes no sense", "");
    }
    boot->kept_handle = handles->of[0];
    boot->upgrade_listener = handles->of[1];
    boot->upgrade_leash[0] = handles->of[2];
    boot->upgrade_leash[1] = handles->of[3];
    if (!leash_wear(boot->upgrade_leash)) {
        return fail("the kernel does not let it be killed: ", strerror(errno));
    }
    for (uint32_t i = 0; i < listeners; i++) {
        inherited_give(handles->of[OWN_HANDLES + i]);
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

/* Unless it is gone. */
static void tell(enum upgrade_kind kind)
{
    struct upgrade_message message;
    if (taker.socket >= 0) {
        upgrade_message_init(&message, kind);
        message.likeness = taker.own;
        (void)upgrade_send(taker.socket, &message, NULL);
    }
}

/* Two that serve at once would need a file of replies each. */
static enum boot_exit go_apart(struct boot *boot, const char *why)
{
    if (boot->replies_handle > 0) {
        tell(UPGRADE_TAKE);                 /* it refuses, and says in its log why */
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
    char text[UPGRADE_TEXT_BYTES];
    upgrade_likeness_fill(&taker.own, boot);
    const char *why = upgrade_unlike(&taker.offer.likeness, &taker.own, text);
    return why == NULL ? BOOT_EXIT_OK : go_apart(boot, why);
}

/* ---- the keeper ------------------------------------------------------------------------------ */

static void tell_alike(enum upgrade_kind kind)
{
    if (!taker.is_apart) {
        tell(kind);
    }
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
    bool is_agreed = message->kind == UPGRADE_AGREED && taker.state == HOLDS;
    if (message->kind == UPGRADE_REFUSED || message->kind == UPGRADE_TAKEN_BACK) {
        (void)fail("refused: ", message->text);
        return TAKER_END;
    }
    if (!is_given && !is_news && !is_agreed) {
        (void)fail("a message out of turn", "");
        return TAKER_END;
    }
    if (is_agreed) {
        taker.has_agreed = true;
        return TAKER_NOTHING;
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
    enum upgrade_receipt receipt = upgrade_receive(taker.socket, &message, NULL, &why);
    if (receipt == UPGRADE_GONE) {
        be_alone();
    }
    if (receipt == UPGRADE_GONE || receipt == UPGRADE_NOTHING || taker_has_told()) {
        return TAKER_NOTHING;
    }
    if (receipt == UPGRADE_MESSAGE) {
        return obey(&message);
    }
    (void)fail("", why);
    return TAKER_END;
}

static void enter(enum taker_state state, uint64_t now_us)
{
    taker.state = state;
    taker.since_us = now_us;
}

static bool lasts(uint64_t us, const struct taker_facts *facts)
{
    return facts->now_us - taker.since_us >= us;
}

/* The other one stands still: it has all that it had, should it go on. */
static enum taker_order bear(uint64_t us, const struct taker_facts *facts)
{
    if (!lasts(us, facts)) {
        return TAKER_NOTHING;
    }
    (void)fail(MUTE, "");
    return TAKER_END;
}

/* Its core serves, and the other one is to agree, so that nothing takes that back. */
static enum taker_order await_word(const struct taker_facts *facts)
{
    if (taker.socket >= 0 && !taker.has_agreed && !lasts(AGREE_MAX_US, facts)) {
        return TAKER_NOTHING;
    }
    enter(DETACHES, facts->now_us);
    return TAKER_TELL_LAUNCHER;
}

/* The command knows that it serves, and is to end first: the other one tells the service manager,
 * and that kills, rather than ends, what it finds to be another's child. */
static enum taker_order await_command(const struct taker_facts *facts)
{
    if (facts->has_launcher && !lasts(DETACH_MAX_US, facts)) {
        return TAKER_NOTHING;
    }
    taker.state = DONE;
    tell(taker.is_apart ? UPGRADE_RELIEVES : UPGRADE_SERVES);
    taker_close();
    taker.socket = -1;
    listen_own();
    return TAKER_DONE;
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
        enter(taker.is_apart ? BEGINS : ASKED, facts->now_us);
        tell_alike(UPGRADE_TAKE);
        return taker.is_apart ? TAKER_BEGIN_CORE : TAKER_NOTHING;
    case ASKED:
        if (taker.socket >= 0) {
            return bear(GIVEN_MAX_US, facts);
        }
        taker.state = BEGINS;
        return TAKER_BEGIN_CORE;
    case BEGINS:
        if (facts->core_waits) {
            enter(WAITS, facts->now_us);
            tell_alike(UPGRADE_WAITS);
        }
        return TAKER_NOTHING;
    case WAITS:
        if (facts->core_serves) {
            enter(HOLDS, facts->now_us);
            tell(taker.is_apart ? UPGRADE_BESIDE : UPGRADE_HOLDS);
            return TAKER_NOTHING;
        }
        return taker.is_apart || taker.socket < 0 ? TAKER_NOTHING : bear(HOLDS_MAX_US, facts);
    case HOLDS:
        return await_word(facts);
    case DETACHES:
        return await_command(facts);
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

bool taker_has_all(void)
{
    return taker.socket < 0 || taker.has_agreed || taker_has_told();
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
