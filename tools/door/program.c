/* SPDX-License-Identifier: MIT */
/*
 * What: programs, and the conversations that lead to them (tools/door/program.h).
 *
 * Both are tables of WAYS places for each hash, so that nothing grows and nothing is searched.
 * Where all places of a hash are taken, the one that was used longest ago yields: its program is
 * ended, its conversation forgotten; a program with open requests never yields.
 *
 * A conversation is a chain of hashes, one for each message, under a key of this process. The chain
 * of a request is noted when it ends, without and with the answer. A later request is of the
 * program of the longest chain that its own begins with and goes beyond: the same conversation sent
 * twice is two programs, as two clients that begin alike.
 * A second chain leaves out the messages of the system. It counts where the first one leads
 * nowhere: agents of one graph see the same conversation, each below its own instructions, and some
 * clients write the time there.
 * Why hashes: the texts would be most of the door's memory. With 128 bits under a key that no
 * client knows, two conversations of one hash cannot be found.
 */
#include "tools/door/program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "config/base/hash.h"
#include "tools/door/http.h"
#include "tools/door/request.h"
#include "tools/door/uplink/uplink.h"

#define WAYS            16
#define ENDED_PER_PASS  64          /* places that programs_run() looks at, at least */
#define CONVERSATIONS   8           /* for each program */

struct conversation_end {
    uint64_t hash[2];
    uint8_t program[AGX_ID_BYTES];
    uint64_t used_us;               /* 0: free */
};

struct programs {
    uint64_t key[4];
    uint32_t count;                 /* of programs; a multiple of WAYS */
    uint32_t next;                  /* that programs_run() looks at */
    uint32_t used;
    struct program *programs;
    struct conversation_end *conversations;     /* [CONVERSATIONS * count] */
};

enum status programs_begin(struct door *door)
{
    struct programs *p = calloc(1, sizeof *p);
    if (p == NULL || getrandom(p->key, sizeof p->key, 0) != (ssize_t)sizeof p->key) {
        return STATUS_CONFIG_MEMORY;
    }
    p->count = (uint32_t)door->options.door_programs.number / WAYS * WAYS;
    p->programs = calloc(p->count, sizeof *p->programs);
    p->conversations = calloc((size_t)CONVERSATIONS * p->count, sizeof *p->conversations);
    door->programs = p;
    return p->programs != NULL && p->conversations != NULL ? STATUS_OK : STATUS_CONFIG_MEMORY;
}

/* ---- programs -------------------------------------------------------------------------------- */

static struct program *places_of(const struct programs *p, uint32_t domain,
                                 const uint8_t id[AGX_ID_BYTES])
{
    uint64_t hash = hash_program(p->key, domain, id);
    return &p->programs[hash % (p->count / WAYS) * WAYS];
}

static bool is_of(const struct program *program, uint32_t domain, const uint8_t id[AGX_ID_BYTES])
{
    return program->is_used && program->domain == domain &&
           memcmp(program->id, id, AGX_ID_BYTES) == 0;
}

static struct program *known(const struct programs *p, uint32_t domain,
                             const uint8_t id[AGX_ID_BYTES])
{
    struct program *places = places_of(p, domain, id);
    for (uint32_t i = 0; i < WAYS; i++) {
        if (is_of(&places[i], domain, id)) {
            return &places[i];
        }
    }
    return NULL;
}

static void end(struct door *door, struct program *program)
{
    if (program->is_told) {
        uplink_end_program(door, &door->domains[program->domain], program->id);
    }
    program->is_used = false;
    door->programs->used--;
}

/* A place for a new program; NULL: all have open requests. */
static struct program *make_place(struct door *door, uint32_t domain,
                                  const uint8_t id[AGX_ID_BYTES])
{
    struct program *places = places_of(door->programs, domain, id), *oldest = NULL;
    for (uint32_t i = 0; i < WAYS; i++) {
        struct program *at = &places[i];
        if (!at->is_used) {
            return at;
        }
        if (at->requests_open == 0 && (oldest == NULL || at->used_us < oldest->used_us)) {
            oldest = at;
        }
    }
    if (oldest != NULL) {
        end(door, oldest);
    }
    return oldest;
}

static bool is_class(const char *name)
{
    size_t bytes = strlen(name);
    for (size_t i = 0; i < bytes; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            return false;
        }
    }
    return bytes <= AGX_CLASS_BYTES;
}

/* The appliance takes the class of a program with its first call. */
static void read_class(struct request *request, const struct program *program)
{
    const char *name = http_header(request, "X-Agentix-Class");
    if (name != NULL && !program->has_called) {
        memcpy(request->class_name, name, strlen(name) + 1);
    }
}

bool program_join(struct request *request, const uint8_t id[AGX_ID_BYTES])
{
    struct door *door = request->door;
    const char *class_name = http_header(request, "X-Agentix-Class");
    if (class_name != NULL && !is_class(class_name)) {
        return request_refuse(request, 400, "X-Agentix-Class",
                              "a class has at most 32 printable characters and no spaces");
    }
    uint32_t domain = request->domain->index;
    struct program *program = known(door->programs, domain, id);
    if (program == NULL) {
        program = make_place(door, domain, id);
        if (program == NULL) {
            return request_refuse(request, 429, NULL, "too many programs are open");
        }
        *program = (struct program){.is_used = true, .domain = domain};
        door->programs->used++;
        memcpy(program->id, id, AGX_ID_BYTES);
    }
    read_class(request, program);
    program->requests_open++;
    program->used_us = door->now_us;
    request->program = program;
    return true;
}

void program_leave(struct request *request)
{
    struct program *program = request->program;
    if (program != NULL) {
        program->requests_open--;
        program->used_us = request->door->now_us;
        if (request->ends_program && program->requests_open == 0) {
            end(request->door, program);
        }
    }
    request->program = NULL;
}

bool program_end(struct door *door, struct domain *domain, const char *name)
{
    uint8_t id[AGX_ID_BYTES];
    agx_program_id(name, id);
    struct program *program = known(door->programs, domain->index, id);
    if (program == NULL || program->requests_open > 0) {
        return false;
    }
    end(door, program);
    return true;
}

void programs_run(struct door *door)
{
    struct programs *p = door->programs;
    uint32_t most = ENDED_PER_PASS + p->count / 64;     /* each place within about a minute */
    for (uint32_t i = 0; i < most && i < p->count; i++) {
        struct program *program = &p->programs[p->next];
        p->next = (p->next + 1) % p->count;
        if (program->is_used && program->requests_open == 0 &&
            door->now_us - program->used_us > door->options.door_program_idle.number) {
            end(door, program);
        }
    }
}

uint32_t programs_count(const struct door *door)
{
    return door->programs->used;
}

/* ---- conversations --------------------------------------------------------------------------- */

struct chain { uint64_t hash[2]; };

static void add_text(const struct programs *p, struct chain *chain, const char *text,
                     uint32_t count)
{
    uint64_t word = count;
    for (uint32_t at = 0;; at += sizeof word) {
        chain->hash[0] = hash_fold(chain->hash[0] ^ p->key[0], word ^ p->key[1]);
        chain->hash[1] = hash_fold(chain->hash[1] ^ p->key[2], word ^ p->key[3]);
        if (at >= count) {
            return;
        }
        word = 0;
        memcpy(&word, text + at, count - at < sizeof word ? count - at : sizeof word);
    }
}

static void add_message(const struct programs *p, struct chain *chain,
                        const struct chat_message *message)
{
    char role = (char)message->role;
    add_text(p, chain, &role, 1);
    add_text(p, chain, message->content.bytes, message->content.count);
    for (uint32_t i = 0; i < message->calls_count; i++) {
        add_text(p, chain, message->calls[i].function.bytes, message->calls[i].function.count);
    }
}

static struct conversation_end *places_of_chain(const struct programs *p,
                                                const struct chain *chain)
{
    return &p->conversations[chain->hash[0] % ((uint64_t)CONVERSATIONS * p->count / WAYS) * WAYS];
}

static struct conversation_end *find_chain(const struct programs *p, const struct chain *chain)
{
    struct conversation_end *places = places_of_chain(p, chain);
    for (uint32_t i = 0; i < WAYS; i++) {
        if (places[i].used_us != 0 &&
            memcmp(places[i].hash, chain->hash, sizeof chain->hash) == 0) {
            return &places[i];
        }
    }
    return NULL;
}

/* The place of the chain, a free one, or the one that was used longest ago. */
static struct conversation_end *choose_place(const struct programs *p, const struct chain *chain)
{
    struct conversation_end *place = find_chain(p, chain), *places = places_of_chain(p, chain);
    if (place == NULL) {
        place = places;
        for (uint32_t i = 1; i < WAYS; i++) {
            place = places[i].used_us < place->used_us ? &places[i] : place;
        }
    }
    return place;
}

static void note_chain(struct door *door, const struct chain *chain, const struct program *program)
{
    struct conversation_end *place = choose_place(door->programs, chain);
    memcpy(place->hash, chain->hash, sizeof chain->hash);
    memcpy(place->program, program->id, AGX_ID_BYTES);
    place->used_us = door->now_us;
}

/* The chain of a domain before its first message. */
static struct chain begin_chain(const struct request *request)
{
    const struct programs *p = request->door->programs;
    return (struct chain){{hash_fold(p->key[0], request->domain->index + 1), p->key[2]}};
}

/* Adds the messages to the chain; the last end of a conversation on the way, or NULL. */
static const struct conversation_end *follow(const struct programs *p, struct chain *chain,
                                             const struct chat *chat, bool leaves_out_system)
{
    const struct conversation_end *last = NULL;
    uint32_t added = 0;
    for (uint32_t i = 0; i < chat->messages_count; i++) {
        if (leaves_out_system && chat->messages[i].role == CHAT_SYSTEM) {
            continue;
        }
        const struct conversation_end *end = added++ > 0 ? find_chain(p, chain) : NULL;
        last = end != NULL ? end : last;
        add_message(p, chain, &chat->messages[i]);
    }
    return last;
}

void program_read_conversation(struct request *request, const struct chat *chat)
{
    const struct programs *p = request->door->programs;
    struct chain whole = begin_chain(request), bare = whole;
    const struct conversation_end *end = follow(p, &whole, chat, false);
    const struct conversation_end *bare_end = follow(p, &bare, chat, true);
    end = end != NULL ? end : bare_end;
    request->is_conversation = chat->messages_count > 0;
    request->has_origin = end != NULL;
    if (end != NULL) {
        memcpy(request->origin, end->program, AGX_ID_BYTES);
    }
    memcpy(request->conversation, whole.hash, sizeof whole.hash);
    memcpy(request->bare_conversation, bare.hash, sizeof bare.hash);
}

static void note_both(struct request *request, const uint64_t hash[2],
                      const struct chat_message *answer)
{
    struct chain chain;
    memcpy(chain.hash, hash, sizeof chain.hash);
    note_chain(request->door, &chain, request->program);
    add_message(request->door->programs, &chain, answer);
    note_chain(request->door, &chain, request->program);
}

void program_note_answer(struct request *request, const struct chat_message *answer)
{
    if (request->is_conversation && request->program != NULL) {
        note_both(request, request->conversation, answer);
        if (memcmp(request->conversation, request->bare_conversation,
                   sizeof request->conversation) != 0) {
            note_both(request, request->bare_conversation, answer);
        }
    }
}

/* ---- what a client says ---------------------------------------------------------------------- */

static const char *name_of(const struct request *request)
{
    static const char *const headers[] = {"X-Agentix-Program", "X-Session-ID", "session_id",
                                          "session-id", "X-Claude-Code-Session-Id"};
    for (uint32_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        const char *value = http_header(request, headers[i]);
        if (value != NULL && value[0] != '\0') {
            return value;
        }
    }
    return NULL;
}

static bool read_thread(struct request *request)
{
    const char *thread = http_header(request, "X-Agentix-Thread");
    uint64_t most = UINT32_MAX - request->door->options.door_choices.number;
    if (thread != NULL) {
        char *end;
        unsigned long number = strtoul(thread, &end, 10);
        if (thread[0] < '0' || thread[0] > '9' || *end != '\0' || number > most) {
            return request_refuse(request, 400, "X-Agentix-Thread", "a thread is a number");
        }
        request->thread = (uint32_t)number;
    }
    return true;
}

bool program_find(struct request *request, const char *name)
{
    uint8_t id[AGX_ID_BYTES];
    const char *end = http_header(request, "X-Agentix-End");
    const char *said = name_of(request), *key = http_header(request, "Idempotency-Key");
    request->ends_program = end != NULL && strcmp(end, "0") != 0;
    said = said != NULL ? said : name;
    if (!read_thread(request)) {
        return false;
    }
    if (said != NULL) {
        agx_program_id(said, id);
    } else if (request->has_origin) {
        memcpy(id, request->origin, AGX_ID_BYTES);
    } else if (key != NULL) {
        agx_program_id(key, id);        /* the request that is sent again is of the same program */
    } else if (agx_unique_id(id) != AGX_OK) {
        return request_refuse(request, 500, NULL, "no random numbers");
    }
    return program_join(request, id);
}
