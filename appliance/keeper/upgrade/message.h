/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: what two keepers say to each other when one takes over from the other: one record for each
 * message, of one size, on a socket of records (unix(7), SOCK_SEQPACKET).
 *
 *   new                                          old
 *   ASK              ------------------------->            is there one, of whom?
 *                    <-------------------------  OFFER     what it is; memory, listeners, leash
 *                    <-------------------------  POCKETS   as often as needed
 *   boots, reads the weights, starts workers
 *                    <-------------------------  DOMAINS   when a reload has brought new ones
 *   TAKE             ------------------------->            all is ready; what it is
 *                    <-------------------------  GIVEN     it is alike; no reload from now on
 *   its core waits for kept memory
 *   WAITS            ------------------------->            its core ends between two passes
 *   its core goes on
 *   HOLDS            ------------------------->            it waits no more for that
 *                    <-------------------------  AGREED    it takes nothing back from now on
 *   the command ends that has started it
 *   SERVES           ------------------------->            it ends
 *
 * Where the two are not alike, nothing but listeners is of use to the new one. It has connections,
 * calls and programs of its own then, and serves beside the old one before that is told:
 *
 *   its core serves
 *   BESIDE           ------------------------->
 *                    <-------------------------  AGREED    it refuses no more from now on
 *   the command ends that has started it
 *   RELIEVES         ------------------------->            it accepts no more, and drains
 *
 * REFUSED ends it at any time before AGREED: the old one was told to end, waits in vain, or hears
 * what makes no sense. TAKEN_BACK does when the old core has ended and HOLDS does not come. The new
 * one ends when it gets either before AGREED, and the command says so. So the old one alone decides
 * which of both serves, whatever crosses.
 * An old one that stands still answers nothing. After a while HOLDS or BESIDE counts without
 * AGREED, for it hears them before all else when it goes on. Once the command has been told that
 * the new one serves, that heeds no word. One that was taken back from and does not end is killed
 * (leash.h): it may stand still, and its core have kept memory.
 * A socket that closes says that the other process is gone. Who is left has all that there is, and
 * goes on; that two cores never have kept memory at once is a lock's doing, and not of these words.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/keys.h"

#define UPGRADE_FORM          4u        /* of these words; counted up when one changes */
#define UPGRADE_HANDLES_MAX   200u      /* of a message; the kernel takes 253 */
#define UPGRADE_TEXT_BYTES    192
#define UPGRADE_ADDRESS_BYTES 112
#define UPGRADE_COUNTS        12u

enum upgrade_kind {
    UPGRADE_ASK = 1, UPGRADE_OFFER, UPGRADE_POCKETS, UPGRADE_DOMAINS, UPGRADE_TAKE, UPGRADE_GIVEN,
    UPGRADE_WAITS, UPGRADE_HOLDS, UPGRADE_BESIDE, UPGRADE_AGREED, UPGRADE_SERVES, UPGRADE_RELIEVES,
    UPGRADE_REFUSED, UPGRADE_TAKEN_BACK, UPGRADE_KINDS
};

/* What must be alike for one core to go on with what another has left. */
struct upgrade_likeness {
    uint64_t layout;                /* of the records in kept memory: net_kept_layout() */
    uint64_t shape;                 /* digest of how many there are, and of limits of calls */
    uint64_t model;                 /* digest of the model file's header: vocabulary, tensors; and
                                       of samples of its weights */
    uint64_t weights;               /* of its weights; 0: not read yet, or a GPU has them */
    uint64_t kept_bytes;
    uint64_t replies_file;          /* which one it is; 0: none */
    uint32_t counts[UPGRADE_COUNTS];    /* of `shape`, those that an option sets: for messages */
    uint32_t pockets;               /* connections that can move */
    uint32_t unused;
};

struct upgrade_message {
    char mark[8];                   /* UPGRADE_MARK; this and `form` stay where they are for ever */
    uint32_t form;
    uint32_t kind;                  /* enum upgrade_kind */
    struct upgrade_likeness likeness;   /* OFFER, TAKE */
    uint32_t listeners;             /* OFFER: bit i: a handle of enum boot_listener i, after those
                                       of kept memory, of the listener for upgrades, and two of
                                       the leash */
    uint32_t owns_path;             /* OFFER: that of net.unix is its to remove */
    uint32_t first, count;          /* POCKETS: pockets, two handles each */
    uint32_t upgrades;              /* OFFER: before it */
    uint32_t domains_count;         /* OFFER, DOMAINS, GIVEN: trust domains, by number */
    char domains[CONFIG_KEYS_MAX][CONFIG_KEY_NAME_BYTES];
    uint64_t program;               /* OFFER: digest of its file */
    uint64_t watchdog_us;           /* OFFER: the service manager's; 0: none */
    char manager[UPGRADE_ADDRESS_BYTES];    /* OFFER: its address, as in $NOTIFY_SOCKET */
    char text[UPGRADE_TEXT_BYTES];  /* ASK, OFFER: version; REFUSED, TAKEN_BACK: why */
    uint64_t check;                 /* digest of all above */
};

enum upgrade_receipt { UPGRADE_NOTHING, UPGRADE_MESSAGE, UPGRADE_GONE, UPGRADE_BAD };

struct upgrade_handles {
    uint32_t count;
    int of[UPGRADE_HANDLES_MAX];
};

void upgrade_message_init(struct upgrade_message *message, enum upgrade_kind kind);
/* NULL: it is one that this program understands, with sane numbers and texts that end. Else a
 * sentence; `bytes` came. */
const char *upgrade_message_fault(const struct upgrade_message *message, uint64_t bytes);
/* Sets its digest, and sends it with `handles` (NULL: none), which stay the caller's. False: errno
 * says why; the socket is of no use any more. */
bool upgrade_send(int socket, struct upgrade_message *message,
                  const struct upgrade_handles *handles);
void upgrade_handles_close(struct upgrade_handles *handles);
/* What has come, without waiting. Handles that it brings are closed, if `handles` is NULL, which is
 * what a keeper's filter allows; else they are the caller's when a MESSAGE has come. BAD: *why. */
enum upgrade_receipt upgrade_receive(int socket, struct upgrade_message *message,
                                     struct upgrade_handles *handles, const char **why);
