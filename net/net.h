/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: intake and emission: listeners, the connection table, frames into call slots, tokens into
 * frames. net knows the wire and the vocabulary. It does not know the scheduler: the two speak
 * through the exchange.
 *
 * Bounded work: a pass visits the connections that have something to do, and all of them only when
 * a deadline may have passed. For each connection a pass makes at most one receive, of at most
 * frame_bytes, and acts on at most limits.frames_per_pass frames. Every connection has one receive
 * buffer (a frame) and one send buffer. Tokens of a call wait in its slot, so a reader that stops
 * costs others nothing: its calls pause above `unsent_tokens`; it is dropped at `write_deadline`.
 *
 * Life of a connection: accepted -> a header, if a load balancer connects -> HELLO, and AUTH if TCP
 * needs a key -> open -> closed, which cancels its calls in the same pass.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/exchange.h"
#include "config/base/event_log.h"
#include "config/base/quota.h"
#include "config/base/stats.h"
#include "config/base/world.h"
#include "config/access.h"
#include "config/chat/chat.h"
#include "config/config.h"
#include "config/keys.h"
#include "config/vocab/vocab.h"
#include "config/workflow/compose.h"
#include "net/auth/refusals.h"
#include "net/kept/pages.h"
#include "net/wire.h"

#define NET_CONNECTION_NONE UINT32_MAX
#define NET_KEY_NONE        UINT32_MAX
#define NET_REPLY_CHUNK     16u         /* tokens of a reply, which lie together */
#define NET_ACCEPTS_PER_PASS 16         /* of each listener: a flood on one starves no other */
/* Longest text of one token; a vocabulary with longer ones serves token ids only. */
#define NET_TOKEN_TEXT_BYTES_MAX 512
/* Payload of TOKENS for one token: every byte of its text and of what was held can be U+FFFD. */
#define NET_FRAME_OF_TOKEN_BYTES_MAX \
    (WIRE_TOKENS_BYTES_MIN + 4 + 3 * (CALL_HELD_BYTES + NET_TOKEN_TEXT_BYTES_MAX) + \
     WIRE_ENTRIES_MAX * (uint32_t)sizeof(struct call_logprob))

enum net_listener_index { NET_LISTENER_LOCAL, NET_LISTENER_TCP, NET_LISTENERS_MAX };

struct net_chat {                   /* the model's chat format, without the texts of tokens */
    enum chat_verdict verdict;
    uint32_t template_bytes;
    struct chat_format format;
};

struct net_settings {
    const struct limits *limits;
    uint64_t handshake_us, frame_deadline_us, write_deadline_us, idle_us;
    uint64_t call_deadline_us;      /* the latest that a call may ask for; 0: none */
    uint64_t linger_us;             /* how long a workflow with KEEP waits for its client */
    uint32_t frame_rate;            /* bytes for which a frame may take another second to come */
    uint32_t unsent_tokens;
    uint8_t boot_id[WIRE_BOOT_ID_BYTES];
    char model[WIRE_NAME_BYTES];
    struct net_chat chat;
    struct event_log *event_log;    /* where events are noted; NULL: nowhere */
    struct config_access access;    /* which users, and whether TCP needs a key */
    bool ends_wait;                 /* DONE is sent once the reply is on disk (net_replies.pages) */
};

struct net_wiring {                  /* what net shares with others; all of it outlives net */
    const struct world *world;
    const struct vocab *vocab;
    struct call_table *calls;
    struct exchange *exchange;
    struct stats *stats;
    struct workflow_table *workflows;   /* NULL: none, and FLOW_OPEN is refused */
    const struct workflow_encoder *encoder;     /* of workflows' texts; NULL: the vocabulary */
    struct arena *kept;             /* for connections, calls and replies, which outlive this core;
                                       NULL: they die with it */
    const struct pages *replies;    /* the part of it for replies; NULL: net takes that, too */
};

enum net_state {
    NET_CLOSED,
    NET_PROXIED,                    /* waits for the header of a load balancer */
    NET_GREETING,                   /* waits for HELLO */
    NET_CHALLENGED,                 /* waits for AUTH */
    NET_OPEN,
    NET_CLOSING,                    /* flushes an ERROR, then closes */
};

struct net_connection {
    enum net_state state;
    uint32_t generation;
    int32_t handle;
    enum world_peer_kind peer_kind;
    uint64_t address;               /* of a REMOTE peer */
    uint8_t ip[16];                 /* of a LOOPBACK or REMOTE peer */
    char name[WIRE_NAME_BYTES];     /* the affinity key of HELLO, whatever bytes it has */
    char key_id[WIRE_KEY_ID_BYTES]; /* that AUTH has named, whether it was proved or not */
    uint64_t domain;                /* trust domain, valid when OPEN */
    uint32_t account;               /* that it counts for; QUOTA_ACCOUNT_NONE: none yet */
    uint32_t key;                   /* which the client has proved to have; NET_KEY_NONE: none */
    uint32_t gid;                   /* of a LOCAL peer: the group that lets it in; UINT32_MAX */
    uint8_t nonce[WIRE_NONCE_BYTES];    /* the server's, while CHALLENGED */
    bool is_preauth;                /* it has not authenticated yet (preauth.c) */
    uint32_t preauth_next, preauth_prev;
    uint32_t position;              /* in net.order */
    uint32_t interest;              /* what the world watches for now */
    uint8_t *received;              /* [WIRE_HEADER_BYTES + limits.frame_bytes] */
    uint32_t received_first, received_bytes;    /* what has not been acted on */
    uint8_t *unsent;                /* [limits.send_bytes]: from unsent_first, unsent_bytes long */
    uint32_t unsent_first, unsent_bytes;
    uint32_t calls_count, calls_first;  /* open calls: circular, through call.emit.conn_next */
    uint32_t flows_count, flows_first;  /* open workflows: circular, through workflow.emit.next */
    bool flows_turn;                /* of a backlog: they go before the calls */
    uint32_t answers_due;           /* PROGRAM_* commands without an answer yet */
    uint64_t accepted_us, progress_us, active_us;
    uint64_t frame_started_us;      /* since when a partial frame waits; 0: none does */
    bool readable, hangup;          /* noted readiness */
    bool stalled;                   /* the last send found no room; WRITABLE will come */
    bool pending;                   /* a whole frame waits in `received` */
    bool backlog;                   /* some call has news that found no room */
    bool is_kept;                   /* the world keeps its handle for the core's successor */
    bool is_noted;                  /* what the pass has made of its calls waits for the commit */
    uint64_t calls_mark;            /* for that: the check words of all its calls, as one */
};

struct net_reply;
struct net_progress;
struct net_kept_head;
struct net_kept_connection;
struct net_kept_flow;
struct net_kept_row;
struct net_replies {                /* how the last calls ended (net/kept/replies.c) */
    struct pages pages;             /* of records, tokens and links: a file may have them, too */
    struct net_reply *records;      /* [limits.replies] */
    uint32_t free;                  /* the first that is free, or CALL_NONE */
    uint64_t kept;                  /* since boot */
    struct { uint32_t first, last; } of[QUOTA_ACCOUNTS_MAX];    /* of each account, oldest first */
    struct quota quota, tokens_quota;
    uint32_t *tokens;               /* (chunks, NET_REPLY_CHUNK) */
    uint32_t *chunk_next;           /* [chunks]: of the same reply, or of the free ones */
    bool *chunk_is_used;            /* [chunks]: by a record that was taken up at boot */
    uint32_t chunk_free;
    uint32_t *heads;                /* (domain, program id, call id) -> place of a record */
    uint32_t heads_count;
};

struct net_flow_intake {            /* room to read a FLOW_OPEN (net/workflow/) */
    struct workflow_source source;
    struct workflow_operand *operands;      /* [limits.workflow.pieces] */
    struct workflow_text *texts;            /* [limits.workflow.pieces] */
    uint32_t *lists;                /* [limits.workflow.value_tokens]: see workflow_source */
    char *literal;                  /* [literal_bytes_max]: parts of a text, joined */
    uint32_t literal_bytes_max;
};

struct net_key {
    char id[WIRE_KEY_ID_BYTES];
    uint8_t secret[WIRE_SECRET_BYTES];
    uint64_t domain;
    uint32_t calls_max, calls_open;
};

struct net_listener {
    int32_t handle;                 /* -1: off */
    bool is_watched, is_ready;
    uint64_t again_us;              /* not watched because there is no room: when to try again */
};

struct net {
    struct net_settings settings;
    const struct world *world;
    const struct vocab *vocab;
    uint64_t vocab_digest, chat_digest;     /* for MODEL */
    struct call_table *calls;
    struct exchange *exchange;
    struct stats *stats;
    struct workflow_table *workflows;
    const struct workflow_encoder *encoder;
    struct net_connection *connections;     /* [limits.connections] */
    struct net_listener listeners[NET_LISTENERS_MAX];
    bool draining;
    bool is_resting;                /* accepts no connection: another core will */
    /* private: only net/ */
    uint32_t *order;                /* a permutation of the slots: awake, other open, free */
    uint32_t awake_count;           /* connections with something to do in this pass or the next */
    uint32_t open_count;            /* connections that are open */
    uint64_t due_us;                /* no deadline of a connection is earlier */
    uint64_t polled_us;             /* time of the pass before, which has read all that had come */
    uint32_t preauth_first, preauth_last, preauth_count;
    struct quota quota;             /* connections that have authenticated */
    struct net_key *keys;           /* [limits.keys] */
    char owners[QUOTA_ACCOUNTS_MAX - 1][CONFIG_KEY_NAME_BYTES];     /* names of their domains */
    uint32_t keys_count;
    uint8_t decoy_secret[WIRE_SECRET_BYTES];    /* checks the proof of an unknown key id */
    bool again;                     /* work was left for the next pass: do not wait */
    struct {                        /* calls whose end waits for the disk: */
        bool are_there;
        uint64_t at;                /* how much was on disk when they were last looked at */
    } held;
    uint32_t *open_heads;           /* open calls: (domain, program id, call id) -> slot */
    uint32_t open_mask;
    uint64_t open_key[2];
    struct net_replies replies;
    struct net_progress *progress;  /* [limits.calls]: of open calls (net/kept/progress.c) */
    struct {
        struct net_kept_head *head;
        struct net_kept_connection *of;     /* [limits.connections] (net/kept/connections.c) */
        struct net_kept_flow *flows;        /* [workflows] (net/kept/workflows.c) */
        struct net_kept_row *rows;          /* [workflows, rows] */
        uint8_t *payloads;                  /* [workflows, limits.frame_bytes]: of FLOW_OPEN */
    } kept;
    struct net_refusals refusals;
    struct net_flow_intake flow_intake;
    uint64_t emit_us;               /* of the pass that sends (net/workflow/emit.c) */
    struct vocab_scratch scratch;   /* for the tokenizer: room for the longest text of a prompt */
    char *text;                     /* [limits.send_bytes]: text of the frame that is being made */
};

/* BOOT_ONLY. Fills everything that follows from options; the caller adds boot_id, chat and
 * event_log. */
void net_settings_fill(struct net_settings *settings, const struct options *options,
                       const struct limits *limits, const struct config_access *access,
                       const char *model_name);
/* The number of the trust domain with this index in the file of keys. */
uint64_t net_domain_of_key(uint32_t index);
/* True for the domain of a user of the unix socket: its lower half is the user's number. */
bool net_domain_is_user(uint64_t domain);
/* A digest of the layout of kept memory: a core can take over from another one with the same. */
uint64_t net_kept_layout(void);
/* The same for replies alone, which may also be in a file. */
uint64_t net_replies_layout(void);
/* Takes the memory for replies from the start of `kept`, zeroed or as the last core has left it,
 * for a caller that also keeps it in a file and hands `pages` to net_init(). */
void net_replies_take(struct pages *pages, const struct limits *limits, struct arena *kept);
void net_plan_memory(struct memory_plan *plan, const struct limits *limits,
                     const struct gguf_vocab_info *vocab);
/* `keys` are copied; NULL where TCP needs none. */
void net_init(struct net *net, const struct net_settings *settings,
              const struct config_keys *keys, const struct net_wiring *wiring, struct arena *arena);
/* BOOT_ONLY, after the first net_bind_quotas(): restores what the last core has left in
 * wiring.kept, as far as it is whole. `was_killed`: that core did not die of a frame.
 * O(replies * log replies + tokens). */
void net_take_up(struct net *net, bool was_killed);
/* Sets how connections and replies are divided among accounts. O(accounts). */
void net_bind_quotas(struct net *net, const struct quotas *quotas);
/* Starts to accept connections on a listening handle (-1: off). */
void net_listen(struct net *net, enum net_listener_index index, int32_t handle);
/* Replaces keys, users and groups. Connections of clients that may no longer come in are closed
 * with BAD_AUTH; the others stay. O(connections * keys). */
void net_admit_anew(struct net *net, const struct config_admission *admission, uint64_t now_us);
/* No new connections, no new calls. */
void net_drain(struct net *net);
/* Accepts no connection any more: another core will. */
void net_rest(struct net *net);
/* After net_drain(), in each pass, if another process serves by now: closes listeners, and
 * connections whose clients wait for nothing, so that they come back to it. O(connections). */
void net_leave(struct net *net);
/* True while a connection is not open yet, so that it would not outlive this core. */
bool net_has_newcomers(const struct net *net);
/* Notes readiness; work is done in net_poll(). */
void net_event(struct net *net, const struct world_event *event);
/* Stage 1: accepts and reads, parses frames into call slots and commands, applies deadlines. */
void net_poll(struct net *net, uint64_t now_us);
/* Between the settlement and sched's intake: searches the new tokens for stop strings. */
void net_scan(struct net *net);
/* Stage 5: writes answers and frames of calls into send buffers, sends them, frees call slots. */
void net_emit(struct net *net, uint64_t now_us);
/* When net must run even if nothing happens. 0: now (work was left); UINT64_MAX: never. */
uint64_t net_next_us(const struct net *net, uint64_t now_us);
/* Takes the oldest refusal off; false: there is none. */
bool net_refusal_take(struct net *net, struct net_refusal *refusal);
/* How many refusals were not noted, at most once a second; 0: none, or not yet. */
uint64_t net_refusal_take_left_out(struct net *net, uint64_t now_us);
/* True when the send buffer of every connection is empty and no call slot belongs to net. */
bool net_is_flushed(const struct net *net);
void net_close_all(struct net *net);
void net_check(const struct net *net);
