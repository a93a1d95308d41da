/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the records of the door. A request of a client asks for choices; each choice is a call of
 * the appliance. An API (struct dialect) says how a request is read and how it is answered.
 *
 *   client --HTTP--> request --dialect reads--> choices --uplink--> appliance
 *          <--JSON, events-- dialect writes <-- pieces of answers <--
 *
 * Everything is counted at the start; what grows with what clients send comes out of door.memory.
 */
#include <jansson.h>

#include "config/keys.h"
#include "tools/door/buffer.h"
#include "tools/door/model.h"
#include "tools/sdk/agx.h"

#define DOOR_TOKENS_MAX      64         /* lines of door.tokens */
#define DOOR_TOKEN_BYTES     256
#define DOOR_STOP_BYTES      65
#define DOOR_STOP_TOKENS     64         /* that a stop text may consist of */
#define DOOR_MODEL_BYTES     128
#define DOOR_ID_BYTES        40
#define DOOR_NAME_BYTES      256        /* of headers that name programs */

struct MHD_Connection;
struct MHD_Daemon;

/* ---- the appliance's side -------------------------------------------------------------------- */

/* A trust domain of the appliance, as one key or one user sees it. */
struct domain {
    uint32_t index;
    const struct config_key *key;       /* NULL: no key is needed */
    struct uplink *uplinks;             /* [door.uplinks_count] */
    char absence[200];                  /* why none is up, as last said; empty: one is, or was */
    bool is_refused;                    /* by an appliance that is there: its key, or the user */
    uint64_t again_us, pause_us;        /* is_refused: no uplink is tried before; for so long */
    bool call_ended;                    /* since calls_run() */
};

/* A connection to the appliance. */
struct uplink {
    struct agx agx;
    struct domain *domain;
    void *buffer;
    enum {
        UPLINK_DOWN,
        UPLINK_ASKED,                   /* connected; which model is there is not known yet */
        UPLINK_UP,
        UPLINK_BROKEN,                  /* agx_resume() is due */
    } state;
    bool has_asked;                     /* ASKED: the question is sent */
    struct choice *calls[AGX_CALLS_MAX];    /* [calls_open] */
    uint32_t calls_open;
    bool drains;                        /* its appliance takes no more calls */
    uint64_t again_us;                  /* of DOWN and BROKEN: the next try */
    uint64_t broken_us;                 /* since when it is not UP */
    int watched;                        /* the descriptor that the loop watches; -1: none */
    uint32_t watched_events;
};

/* A prompt of a request, which `n` of its choices have in common: a text, or token ids. */
struct prompt {
    uint32_t holders;
    struct buffer text;
    uint32_t *ids;                      /* [tokens]; NULL: it is a text */
    uint32_t *parts, parts_count, tokens;
};

/* ---- a request ------------------------------------------------------------------------------- */

/* What a model's answer consists of. */
enum piece_kind { PIECE_CONTENT, PIECE_REASONING, PIECE_CALL_BEGIN, PIECE_CALL_ARGUMENTS,
                  PIECE_CALL_END };
struct piece {
    enum piece_kind kind;
    const char *text;                   /* CALL_BEGIN: the name of the tool */
    size_t bytes;
    uint32_t call;                      /* of a tool: which of the answer's calls */
};

struct tool_call { char id[DOOR_ID_BYTES]; struct buffer name, arguments; };
#define DOOR_TOOL_CALLS_MAX 16

struct choice {                         /* one answer: a call of the appliance */
    bool is_used, is_open;              /* open: the appliance will still say something of it */
    bool is_sent_away;                  /* open still: its appliance drains */
    bool is_cancelled;                  /* open still; cancel_due: CANCEL has found no room yet, */
    bool cancel_due;                    /* or no connection */
    bool waits;                         /* not open yet: earlier calls are still being sent */
    uint32_t program_max;               /* 0, or: sent again once fewer of its program are open; */
    uint64_t turn;                      /* the lowest first */
    uint32_t index;                     /* among the request's */
    struct request *request;            /* NULL: the client has left */
    struct uplink *uplink;
    struct agx_call call;
    struct prompt *prompt;
    char stops[AGX_STOP_TEXTS_MAX][DOOR_STOP_BYTES];
    struct reader *reader;              /* of answer.c; NULL: all is content */
    uint32_t own_stops_count;           /* the client's, without that of the model's form */
    uint32_t last_tokens[DOOR_STOP_TOKENS];
    uint64_t tokens_heard;              /* the last of them are kept */
    struct agx_bias biases[AGX_BIASES_MAX];
    json_t *logprobs;                   /* of tokens, not sent yet; NULL: none (api/logprobs.c) */
    struct buffer content, reasoning;
    struct tool_call tool_calls[DOOR_TOOL_CALLS_MAX];
    uint32_t tool_calls_count;
    enum agx_finish finish;
    uint16_t code;
    uint32_t prompt_tokens, cached_tokens, generated_tokens;
};

#define DOOR_METHODS_BYTES 32
#define DOOR_MEMORY_TEXT "door.memory is used up: try again later"

/* Why a request is not answered as it wishes. */
struct refusal {
    uint32_t status;                    /* of HTTP */
    const char *type;                   /* of the API: "invalid_request_error", ... */
    const char *code;                   /* of OpenAI's, for clients that act on it; NULL: none */
    char param[64];                     /* the field; empty: none */
    char text[256];
    uint32_t retry_s;                   /* 0: nothing is known */
};

struct request {
    enum { REQUEST_FREE, REQUEST_RECEIVING, REQUEST_WAITING, REQUEST_STREAMING,
           REQUEST_ANSWERED } state;
    struct request *next;               /* FREE: another one */
    struct door *door;
    struct MHD_Connection *connection;
    int descriptor;
    bool is_suspended, is_watched, has_left;
    bool is_known;                      /* by its token: `domain` is that of the client */
    const struct endpoint *endpoint;
    const struct dialect *dialect;      /* NULL: what is refused is said as OpenAI's chat does */
    struct domain *domain;
    char rest[DOOR_NAME_BYTES];         /* of the path, behind that of the endpoint */
    struct buffer body;
    /* the answer */
    uint32_t status, retry_s;
    const char *content_type;
    const char *constant;               /* the answer, where there is no memory for one */
    struct buffer out;                   /* whole, or of a stream what is not sent yet */
    size_t sent;                        /* of `out` */
    bool is_complete;                   /* of a stream: nothing more comes */
    struct refusal refusal;             /* status 0: there is none */
    /* what was asked */
    bool streams, wants_usage;
    struct context *context;            /* of answer.c; NULL: no chat */
    char id[DOOR_ID_BYTES], model[DOOR_MODEL_BYTES];
    char methods[DOOR_METHODS_BYTES];   /* of its path, if it came with another one */
    int64_t created_s;
    struct choice **choices;            /* [choices_count], from memory_take(); by their prompts */
    uint32_t choices_count, choices_open;
    struct program *program;
    uint32_t thread;                    /* of the program: that of the first choice */
    char class_name[AGX_CLASS_BYTES + 1];   /* to be named before the first call; empty: none */
    bool ends_program;                  /* with this request */
    bool is_conversation, has_origin;
    uint64_t conversation[2];           /* hash of its messages */
    uint64_t bare_conversation[2];      /* the same without those of the system */
    uint8_t origin[AGX_ID_BYTES];       /* the program whose conversation goes on */
    void *own;                          /* of the dialect, from memory_take(); freed with it */
};

struct dialect {
    /* Reads the body: fills the request, its prompt and choices. False after request_refuse(). */
    bool (*read)(struct request *request, const json_t *body);
    /* The whole answer, once every choice has ended. */
    json_t *(*answer)(struct request *request);
    /* The events of a stream: the first ones; a piece of a choice; its end; the last ones. */
    void (*begin)(struct request *request);
    void (*say)(struct request *request, struct choice *choice, const struct piece *piece);
    void (*end)(struct request *request, struct choice *choice);
    void (*finish)(struct request *request);
    /* Frees what `own` holds; NULL: nothing. */
    void (*drop)(struct request *request);
    /* What the API says of a refusal. */
    json_t *(*refuse)(const struct refusal *refusal);
};

/* ---- the whole ------------------------------------------------------------------------------- */

struct door_stats {
    uint64_t requests, refused, left, calls, prompt_tokens, cached_tokens, generated_tokens;
    uint32_t connections_open;
};

struct token { char text[DOOR_TOKEN_BYTES]; struct domain *domain; };

struct door {
    struct options options;
    char appliance[CONFIG_TEXT_BYTES];  /* its address */
    struct model model;
    struct chat_output rendered;        /* room for a prompt in the model's form */
    struct conversation *conversation;  /* of the request that is being read */
    struct config_keys keys;
    struct domain domains[DOOR_TOKENS_MAX];
    uint32_t domains_count;
    uint32_t uplinks_count;             /* one more than is wanted, for where an appliance drains */
    struct token tokens[DOOR_TOKENS_MAX];
    uint32_t tokens_count;              /* 0: no client needs one */
    struct request *requests;           /* [options.door_requests] */
    struct request *first_free;         /* of them */
    struct choice *choices;             /* [domains_count * options.door_calls] */
    struct programs *programs;
    struct responses *responses;
    struct MHD_Daemon *http;
    int listener, epoll;
    uint64_t now_us;                    /* of this pass */
    uint64_t connects_us;               /* no uplink is tried before */
    bool calls_wait;                    /* some choice does (choice.waits) */
    uint64_t turns;                     /* that choices have got, which wait for their program */
    uint32_t unauthorized;              /* requests since request_tell_refusals() */
    bool is_other;                      /* the appliance serves another model than `model` */
    bool drains;                        /* no more clients are let in, until then: */
    uint64_t drain_end_us;
    bool stops;
    struct door_stats stats;
};
