/* SPDX-License-Identifier: MIT */
/*
 * What: the page `programs`: a line for each entry of the process table.
 * Invariant: no whole program id appears; long names are cut, `connections` has them whole.
 */
#include "appliance/text/page/programs.h"

#include "appliance/text/page/column.h"
#include "appliance/text/page/who.h"

#define PROGRAM_ID_SHOWN_BYTES 4
#define PROGRAM_THREADS_SHOWN  4
#define CLASS_COLUMNS          16
#define NAME_COLUMNS           24

/* Time since its last completion, or its start; 0 for a program with open calls. */
static uint64_t program_idle_us(const struct program *program, uint64_t now_us)
{
    uint64_t since_us = program->last_completion_us > program->started_us
                            ? program->last_completion_us : program->started_us;
    return program->active_calls == 0 && since_us < now_us ? now_us - since_us : 0;
}

/* The slots of its open calls, engine by engine, the newest first; `calls` shows all of them. */
static void add_threads(struct text *page, const struct textport_view *view, uint32_t index)
{
    const struct sched *sched = view->sched;
    uint32_t shown = 0;
    for (uint32_t i = 0; i < sched->settings.engines; i++) {
        uint32_t call = sched->engines[i].members[index].first_call;
        for (; call != CALL_NONE && shown <= PROGRAM_THREADS_SHOWN; shown++) {
            text_add(page, " ");
            if (shown < PROGRAM_THREADS_SHOWN) {
                text_add_u64(page, call);
            } else {
                text_add(page, "...");
            }
            call = view->calls->calls[call].program_next;
        }
    }
    if (shown == 0) {
        text_add(page, " -");
    }
}

/* Of the program in the KV: active, waiting for it with open calls, or without any. */
static const char *place_name(const struct sched *sched, uint32_t index)
{
    const struct program *program = &sched->programs[index];
    const char *other = program->active_calls > 0 ? " waiting" : " none   ";
    return sched_program_is_active(sched, index) ? " active " : other;
}

/* The slot of its class in `classes`, or a dash. */
static void add_class(struct text *page, const struct sched *sched, const struct program *program)
{
    if (sched_class_of(sched, program) == NULL) {
        text_add(page, "     -");
    } else {
        text_add_column(page, program->class.slot, 5);
    }
}

/* The engine that it is assigned to, or a dash. */
static void add_engine(struct text *page, const struct program *program)
{
    if (program->engine == SCHED_ENGINE_NONE) {
        text_add(page, "      -");
    } else {
        text_add_column(page, program->engine, 6);
    }
}

/* How long ago its last call came, or a dash: none has. */
static void add_arrival(struct text *page, const struct program *program, uint64_t now_us)
{
    if (program->last_arrival_us == 0) {
        text_add(page, "          -");
    } else {
        text_add_column(page, text_elapsed_ms(program->last_arrival_us, now_us), 10);
    }
}

/* Whose it is: its trust domain, the name of its class, what its client calls itself. */
static void add_names(struct text *page, const struct textport_view *view,
                      const struct program *program)
{
    const struct sched_class *class = sched_class_of(view->sched, program);
    const struct net_connection *connection = text_connection_of(view->net, program);
    const char *class_name = class != NULL ? class->name : "";
    const char *name = connection != NULL ? connection->name : "";
    text_add(page, " ");
    uint32_t start = page->length;
    text_add_domain(page, view->sched, program->domain);
    text_pad_to(page, start, TEXT_DOMAIN_COLUMNS + 1);
    start = page->length;
    text_add_name(page, class_name, class != NULL ? sizeof class->name : 0, CLASS_COLUMNS);
    text_pad_to(page, start, CLASS_COLUMNS + 1);
    start = page->length;
    text_add_name(page, name, connection != NULL ? sizeof connection->name : 0, NAME_COLUMNS);
    text_pad_to(page, start, NAME_COLUMNS);
}

void textpage_programs(struct text *page, const struct textport_view *view, uint64_t now_us)
{
    const struct sched *sched = view->sched;
    text_add(page, "   slot id         service_ms    wait_ms   open   ended    idle_ms engine "
                   "arrival_ms place    blocks displaced class tenant           class_name"
                   "       client                   threads\n");
    for (uint32_t i = 0; i < sched->settings.programs; i++) {
        const struct program *program = &sched->programs[i];
        if (!program->in_use) {
            continue;
        }
        text_add_u64_padded(page, i, 7, ' ');
        text_add(page, " ");
        text_add_hex(page, program->id, PROGRAM_ID_SHOWN_BYTES);
        text_add_column(page, program->service_us / 1000, 12);
        text_add_column(page, program->wait_us / 1000, 10);
        text_add_column(page, program->active_calls, 6);
        text_add_column(page, program->calls_ended, 7);
        text_add_column(page, program_idle_us(program, now_us) / 1000, 10);
        add_engine(page, program);
        add_arrival(page, program, now_us);
        text_add(page, place_name(sched, i));
        text_add_column(page, sched_program_blocks(sched, i), 6);
        text_add_column(page, program->displacements, 9);
        add_class(page, sched, program);
        add_names(page, view, program);
        add_threads(page, view, i);
        text_add(page, "\n");
    }
}
