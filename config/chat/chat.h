/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: chat formats: how a conversation becomes the prompt that a model was trained on. A model
 * file says it as a template (Jinja2). We do not run templates: chat_recognise() tells which format
 * a template is, and chat_render() writes that format as Jinja2 would.
 *
 * A rendering is text in parts that alternate: what the template writes, what the conversation
 * says, and so on. Special tokens are looked for in the first kind only (vocab_encode(), CALL), so
 * no text of a conversation becomes one. All texts are the caller's; nothing is allocated.
 */
#include <stdbool.h>
#include <stdint.h>

#define CHAT_TEMPLATE_BYTES_MAX 32768u  /* a longer template is not recognised */
#define CHAT_NAME_BYTES         32
#define CHAT_TOKEN_BYTES        64
#define CHAT_SYSTEM_BYTES       512
#define CHAT_DATE_UNKNOWN       "26 Jul 2024"   /* what Llama 3.1 is told without a date */

enum chat_id {
#define FORMAT(id, name, render, traits, help) CHAT_##id,
#include "config/chat/formats.def"
    CHAT_FORMATS
};

/* The format of a model: a row of the table, and what varies from model to model within it. */
struct chat_format {
    enum chat_id id;
    char bos[CHAT_TOKEN_BYTES], eos[CHAT_TOKEN_BYTES];  /* their texts; empty: none */
    char system[CHAT_SYSTEM_BYTES];     /* said when a conversation has no system message */
};

/* What a template is. */
enum chat_verdict {
    CHAT_ABSENT,                    /* the model has no template: the format is `plain` */
    CHAT_KNOWN,
    CHAT_UNKNOWN,                   /* it has one that is none of ours */
};

/* ---- the table ------------------------------------------------------------------------------- */

const char *chat_format_name(enum chat_id id);
const char *chat_format_help(enum chat_id id);
bool chat_format_has_tools(enum chat_id id);
/* True when the prompt names the day. */
bool chat_format_has_date(enum chat_id id);
/* A text that ends an answer, for models that have no token for it; NULL: there is none. */
const char *chat_format_stop(enum chat_id id);
/* Of all that decides how a conversation is written, but the texts of tokens. */
uint64_t chat_digest(enum chat_verdict verdict, const struct chat_format *format);
/* CHAT_FORMATS: there is no format of this name. */
enum chat_id chat_format_find(const char *name);

/* ---- recognition ----------------------------------------------------------------------------- */

struct chat_scratch {               /* 160 KiB: place it statically */
    char source[CHAT_TEMPLATE_BYTES_MAX];     /* for the caller to read it into */
    char canonical[4 * CHAT_TEMPLATE_BYTES_MAX];
    uint32_t bytes;
};
/* Sets format->id and format->system. The template may be any bytes. Time is linear in it, times
 * the marks of the table. */
enum chat_verdict chat_recognise(const char *source, uint32_t bytes, struct chat_scratch *scratch,
                                 struct chat_format *format);

/* ---- conversations --------------------------------------------------------------------------- */

struct chat_text { const char *bytes; uint32_t count; };

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_TOOL };

struct chat_member {                /* of a tool's `function` */
    struct chat_text key;
    struct chat_text value;         /* a text as it is; everything else as JSON */
    bool is_text;
};
struct chat_tool {                  /* JSON: as Python's json.dumps(ensure_ascii=False) writes it */
    struct chat_text json;
    struct chat_text indented;      /* with indent=4 */
    const struct chat_member *members;
    uint32_t members_count;
};
struct chat_call {                  /* a call of a tool, in a message of the assistant */
    struct chat_text id, name;
    struct chat_text arguments;     /* JSON, an object */
    struct chat_text function;      /* JSON: {"name": ..., "arguments": ...} */
};
struct chat_message {
    enum chat_role role;
    struct chat_text content;
    const struct chat_call *calls;
    uint32_t calls_count;
    struct chat_text call_id;       /* of a TOOL message, as is the next one */
    struct chat_text content_json;  /* JSON, a text: the content */
};
struct chat {
    const struct chat_message *messages;
    uint32_t messages_count;
    const struct chat_tool *tools;
    uint32_t tools_count;
    struct chat_text date;          /* such as "26 Jul 2024"; empty: CHAT_DATE_UNKNOWN */
    bool no_thinking;               /* the answer begins with an empty thought, if formats can */
    bool begins_call;               /* the prompt begins the answer: with a call of a tool */
    struct chat_text called;        /* of this one; empty: of one that the model chooses */
};

/* ---- rendering ------------------------------------------------------------------------------- */

/* Text, and the lengths of its parts: the first, third, ... are the template's; a part may be
 * empty. The sum of the lengths is text_bytes. The last answer_bytes of it are what begins the
 * answer: a reader (config/chat/answer.h) takes them before what the model says. */
struct chat_output {
    char *text;
    uint32_t text_max, text_bytes, answer_bytes;
    uint32_t *parts;
    uint32_t parts_max, parts_count;
};

enum chat_result {
    CHAT_OK,
    CHAT_ERROR_SPACE,               /* the text or its parts do not fit */
    CHAT_ERROR_EMPTY,               /* there is no message */
    CHAT_ERROR_ANSWERED,            /* the assistant's is the last: some refuse */
    CHAT_ERROR_ALTERNATION,         /* user and assistant do not take turns */
    CHAT_ERROR_SYSTEM,              /* a system message where the format has no place for it */
    CHAT_ERROR_TOOLS,               /* tools, calls or results, and the format has none */
    CHAT_ERROR_CALLS,               /* more than one call in a message */
    CHAT_ERROR_CALL_ID,             /* a call's id has not nine characters */
    CHAT_ERROR_ARGUMENTS,           /* a call has more or fewer arguments than one */
    CHAT_ERROR_THOUGHT,             /* begins_call, and the answer begins with a thought */
};
const char *chat_result_text(enum chat_result result);

/* The prompt that asks for the assistant's next message. Linear in the conversation. The output is
 * not valid after an error. */
enum chat_result chat_render(const struct chat_format *format, const struct chat *chat,
                             struct chat_output *output);
