/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the hand-off between net and sched, and nothing else crosses it.
 *
 *   inbox   net -> sched   commands, in order of arrival
 *   outbox  sched -> net   answers to program commands
 *   emit    sched -> net   calls that have something new to tell, each at most once; net marks
 *                          one itself when it answers it from its record of ended calls
 *   news    sched -> net   workflows that have something new to tell, each at most once
 *
 * Capacity: net acts on a frame only while one CANCEL of every call and every workflow still fits
 * after it; a call is at most once in `emit`, a workflow in `news`; an answer is always the answer
 * to one command of the same pass.
 */
#include "config/base/call.h"
#include "config/base/ring.h"

enum command_kind {
    COMMAND_CALL,               /* `call` is ready for admission */
    COMMAND_CANCEL,             /* call.cancel was set */
    COMMAND_PROGRAM_START,
    COMMAND_PROGRAM_END,
    COMMAND_WORKFLOW_OPEN,      /* the workflow is ORDERING: it is to be optimised */
    COMMAND_WORKFLOW_ROW,       /* the row is GIVEN: its columns are in their place */
    COMMAND_WORKFLOW_ANSWER,    /* the value of a lambda is in its place, or it failed */
    COMMAND_WORKFLOW_CLOSE,     /* no more rows */
    COMMAND_WORKFLOW_CANCEL,    /* workflow.cancel was set */
};

struct command {
    enum command_kind kind;
    uint32_t call;              /* CALL, CANCEL */
    uint32_t call_generation;   /* CANCEL: dropped when it no longer matches */
    uint32_t connection;        /* PROGRAM_*: who asked */
    uint32_t connection_generation;
    uint64_t domain;            /* PROGRAM_*: of the program */
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    char class_name[CALL_CLASS_BYTES + 1];  /* PROGRAM_START, and the lab's CALLs: of the
                                               program; empty: none */
    uint32_t workflow;          /* WORKFLOW_* */
    uint32_t workflow_generation;   /* dropped when it no longer matches */
    uint32_t row;               /* WORKFLOW_ROW, WORKFLOW_ANSWER: its place in workflow.rows */
    uint32_t node;              /* WORKFLOW_ANSWER: the lambda, */
    uint32_t tokens_count;      /* the length of its value, */
    bool failed;                /* or that it has none */
};

struct answer {
    enum command_kind kind;     /* PROGRAM_START or PROGRAM_END */
    uint32_t connection;
    uint32_t connection_generation;
    uint8_t program_id[CALL_PROGRAM_ID_BYTES];
    enum status status;
    uint64_t service_us;        /* the program's, at the end */
    uint64_t wait_us;
    uint32_t calls;             /* calls that it has completed */
};

struct exchange {
    struct ring inbox_ring;     /* net pushes, sched pops; full: net leaves bytes in its buffers */
    struct command *inbox;
    struct ring outbox_ring;    /* sched pushes, net pops; full: impossible, one per command */
    struct answer *outbox;
    struct ring emit_ring;      /* sched pushes, net pops; full: impossible, one per call */
    uint32_t *emit;
    struct ring news_ring;      /* sched pushes, net pops; full: impossible, one per workflow */
    uint32_t *news;
    bool *is_news;              /* of each workflow: it is in `news` */
};

struct exchange_counts { uint32_t commands, calls, workflows; };
void exchange_plan_memory(struct memory_plan *plan, const struct exchange_counts *counts);
void exchange_init(struct exchange *exchange, const struct exchange_counts *counts,
                   struct arena *arena);
void exchange_command(struct exchange *exchange, const struct command *command);
void exchange_answer(struct exchange *exchange, const struct answer *answer);
/* Marks the call as having news; a second mark before net looked is free. */
void exchange_emit(struct exchange *exchange, struct call *call);
/* The same for a workflow. */
void exchange_workflow_news(struct exchange *exchange, uint32_t workflow);
/* The next workflow that has news, which is unmarked; there must be one. */
uint32_t exchange_workflow_news_pop(struct exchange *exchange);
