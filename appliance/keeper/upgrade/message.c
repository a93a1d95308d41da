/* SPDX-License-Identifier: MIT */
/*
 * What: messages between two keepers (upgrade/message.h).
 *
 * Invariant: what comes from the other side is input. A message counts when it has the one size,
 * the mark, a known kind, its digest, texts that end within their fields, and numbers in their
 * ranges; what brings another number of handles than it says is refused where it is used.
 */
#include "appliance/keeper/upgrade/message.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/pockets.h"
#include "config/base/assert.h"
#include "config/base/fnv.h"

#define UPGRADE_MARK "agxupgr"

STATIC_ASSERT(sizeof(struct upgrade_message) % 8 == 0, "no padding at its end");
STATIC_ASSERT(sizeof(UPGRADE_MARK) == sizeof((struct upgrade_message *)0)->mark, "it fits");

union handles_room {
    struct cmsghdr head;
    uint8_t bytes[CMSG_SPACE(UPGRADE_HANDLES_MAX * sizeof(int))];
};

void upgrade_message_init(struct upgrade_message *message, enum upgrade_kind kind)
{
    memset(message, 0, sizeof *message);        /* padding is digested, too */
    memcpy(message->mark, UPGRADE_MARK, sizeof message->mark);
    message->form = UPGRADE_FORM;
    message->kind = kind;
}

static uint64_t check_of(const struct upgrade_message *message)
{
    return fnv_add(FNV_START, message, offsetof(struct upgrade_message, check));
}

static bool ends(const char *text, size_t bytes)
{
    return memchr(text, '\0', bytes) != NULL;
}

/* Names as auth.keys has them, none of them twice: a number stands for one domain. */
static bool are_domains(const struct upgrade_message *message)
{
    if (message->domains_count > CONFIG_KEYS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < message->domains_count; i++) {
        const char *name = message->domains[i];
        if (name[0] == '\0' || !ends(name, CONFIG_KEY_NAME_BYTES)) {
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(name, message->domains[k]) == 0) {
                return false;
            }
        }
    }
    return true;
}

const char *upgrade_message_fault(const struct upgrade_message *message, uint64_t bytes)
{
    const size_t head = offsetof(struct upgrade_message, kind);
    if (bytes < head || memcmp(message->mark, UPGRADE_MARK, sizeof message->mark) != 0) {
        return "it is no message of an appliance";
    }
    if (message->form != UPGRADE_FORM) {
        return "its version hands over in another way";
    }
    if (bytes != sizeof *message || message->check != check_of(message)) {
        return "a message is not whole";
    }
    if (message->kind == 0 || message->kind >= UPGRADE_KINDS || !are_domains(message) ||
        !ends(message->manager, sizeof message->manager) ||
        !ends(message->text, sizeof message->text) ||
        message->likeness.pockets > POCKETS_MAX ||
        message->first > message->likeness.pockets ||
        message->count > message->likeness.pockets - message->first ||
        message->count > UPGRADE_HANDLES_MAX / 2) {
        return "a message makes no sense";
    }
    return NULL;
}

bool upgrade_send(int socket, struct upgrade_message *message,
                  const struct upgrade_handles *handles)
{
    union handles_room room = {.bytes = {0}};
    struct iovec whole = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr header = {.msg_iov = &whole, .msg_iovlen = 1};
    message->check = check_of(message);
    if (handles != NULL && handles->count > 0) {
        size_t bytes = handles->count * sizeof(int);
        ASSERT(handles->count <= UPGRADE_HANDLES_MAX);
        header.msg_control = room.bytes;
        header.msg_controllen = CMSG_SPACE(bytes);
        room.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(bytes), .cmsg_level = SOL_SOCKET,
                                     .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&room.head), handles->of, bytes);
    }
    return sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *message;
}

/* A record with handles; as recv() otherwise. */
static ssize_t receive_handles(int socket, struct iovec *parts, struct upgrade_handles *handles)
{
    union handles_room room = {.bytes = {0}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = room.bytes,
                            .msg_controllen = sizeof room.bytes};
    ssize_t count = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    handles->count = 0;
    if (count > 0 && header.msg_controllen >= CMSG_LEN(sizeof(int)) &&
        room.head.cmsg_level == SOL_SOCKET && room.head.cmsg_type == SCM_RIGHTS) {
        handles->count = (uint32_t)((room.head.cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(handles->of, CMSG_DATA(&room.head), handles->count * sizeof(int));
    }
    return count;
}

void upgrade_handles_close(struct upgrade_handles *handles)
{
    for (uint32_t i = 0; i < handles->count; i++) {
        close(handles->of[i]);
    }
    handles->count = 0;
}

struct record {
    struct upgrade_message message;
    uint8_t beyond;                     /* room that only a record that is too long fills */
};

/* Who closes with messages unread has the kernel tell the other end so, before what it had sent. */
static ssize_t receive_record(int socket, struct record *record, struct upgrade_handles *handles)
{
    struct iovec parts[2] = {{&record->message, sizeof record->message}, {&record->beyond, 1}};
    ssize_t count = -1;
    errno = ECONNRESET;
    for (int i = 0; i < 2 && count < 0 && errno == ECONNRESET; i++) {
        count = handles != NULL
                    ? receive_handles(socket, parts, handles)
                    : recv(socket, record, offsetof(struct record, beyond) + 1, MSG_DONTWAIT);
    }
    return count;
}

enum upgrade_receipt upgrade_receive(int socket, struct upgrade_message *message,
                                     struct upgrade_handles *handles, const char **why)
{
    struct record record;
    ssize_t count = receive_record(socket, &record, handles);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return UPGRADE_NOTHING;
    }
    if (count <= 0) {
        return UPGRADE_GONE;
    }
    *why = upgrade_message_fault(&record.message, (uint64_t)count);
    if (*why != NULL && handles != NULL) {
        upgrade_handles_close(handles);
    }
    if (*why != NULL) {
        return UPGRADE_BAD;
    }
    *message = record.message;
    return UPGRADE_MESSAGE;
}
