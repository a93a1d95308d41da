/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: classes of programs: what past programs of a class have cost predicts what the next one
 * will cost. A class is the programs of a trust domain to which their clients give one name or,
 * without a name, those whose first prompts begin with the same KV block. Here are the records, and
 * the table of classes (class.c); sched/class/prediction.h uses them.
 */
#include <stdbool.h>
#include <stdint.h>

#include "config/base/arena.h"
#include "config/base/call.h"
#include "config/base/heap.h"
#include "sched/class/promise.h"

#define SCHED_CLASS_NONE    UINT32_MAX
#define SCHED_CLASS_ONE     256         /* of fixed-point numbers */

struct program;
struct sched;

/* A program's class. It may be forgotten while the program is open; then the number is of another
 * one. */
struct sched_class_ref {
    uint32_t slot;
    uint64_t number;                    /* 0: the program has no class */
};

/* What ended calls of a program have cost (cost.h). */
struct sched_spent {
    uint64_t rounds, tokens, output_tokens;
};

/* Where a prediction comes from, the best source first. */
enum sched_source {
    SCHED_SOURCE_NONE,
    SCHED_SOURCE_FORETOLD,              /* the lab */
    SCHED_SOURCE_TRAINED,               /* a file, corrected by what the class has learnt */
    SCHED_SOURCE_CLASS,                 /* means of the class */
    SCHED_SOURCE_LARGEST,               /* means of the domain's most expensive class */
    SCHED_SOURCES
};
struct sched_prediction {
    uint64_t rounds, tokens;            /* cost of the program; 0: unknown */
    uint32_t output_tokens;             /* of a call; 0: unknown */
    enum sched_source source;
    uint64_t rounds_raw;                /* before it was corrected: errors are of this */
};

/* Of the ended programs of a class. A mean moves by 1 / n towards each of the first ten, by a tenth
 * towards each later one. */
struct sched_learnt {
    uint32_t programs;
    uint32_t predicted;                 /* of them, those that a file or the class predicted */
    uint64_t rounds, tokens;            /* of a program: means */
    uint64_t rounds_least, rounds_most;
    uint64_t output_tokens;             /* of a call: a mean, times SCHED_CLASS_ONE */
    int32_t error;                      /* of what was predicted: the mean of log2(real /
                                           predicted), times SCHED_CLASS_ONE; it begins at 0 */
    struct sched_promises promises;     /* from the services that they received */
};

struct sched_class {
    bool in_use;
    uint64_t number;                    /* never used twice */
    uint64_t domain;
    uint64_t hash;                      /* keyed: of the name, or of the KV block */
    char name[CALL_CLASS_BYTES + 1];    /* empty: it has none */
    struct sched_learnt learnt;
    uint32_t recalled;                  /* tokens that are kept for drafts (recall.h) */
    /* private */
    uint32_t owner;                     /* index of its domain */
    uint32_t hash_next;                 /* chain of the hash table, or of the free list */
    uint32_t next, prev;                /* of its domain, last used first */
};

/* A trust domain that has classes. */
struct sched_class_domain {
    uint64_t domain;
    uint32_t classes;
    uint32_t head, tail;                /* list of them, last used first */
    uint32_t largest;                   /* the one with most token-rounds */
    uint32_t hash_next;                 /* chain of the hash table, or of the free list */
};

struct sched_classes {
    struct sched_class *each;           /* [settings.classes] */
    uint32_t count;
    /* private: only sched/ */
    struct sched_class_domain *domains; /* [settings.classes] */
    uint32_t *hash, *domain_hash;       /* [hash_mask + 1] heads of chains */
    uint32_t hash_mask, free, domain_free;
    struct heap by_classes;             /* domains; the one with most classes first */
    uint64_t number;                    /* of the newest class */
};

/* The class of a program; NULL: it has none, or its class is forgotten. O(1). */
const struct sched_class *sched_class_of(const struct sched *sched, const struct program *program);
/* What its programs really cost, as a percentage of what was predicted. */
uint64_t sched_class_real_percent(const struct sched_class *class);

/* ---- private to sched/ ----------------------------------------------------------------------- */

void sched_class_plan_memory(struct memory_plan *plan, uint32_t classes);
void sched_class_init(struct sched *sched, struct arena *arena);
/* Puts the program into the class of this name, unless the name is empty, the program has a class,
 * or its first call has come. O(log domains), as everything that follows. */
void sched_class_join(struct sched *sched, uint32_t program, const char *name);
/* The same without conditions; of the program only the trust domain is read. */
void sched_class_join_name(struct sched *sched, struct program *program, const char *name);
/* Puts the call's program into the class of this prompt, unless it has a class, or the prompt is
 * shorter than a KV block. */
void sched_class_join_by_prompt(struct sched *sched, const struct call *call);
/* Sets the class's mean of token-rounds. The class counts as used. */
void sched_class_set_mean(struct sched *sched, struct sched_class *class, uint64_t rounds);
/* The class of the domain with the most token-rounds; NULL: it has no class. */
const struct sched_class *sched_class_largest(const struct sched *sched, uint64_t domain);
void sched_class_check(const struct sched *sched);
