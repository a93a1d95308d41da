/* SPDX-License-Identifier: MIT */
/*
 * What: the part of the process table that outlives the core: whose each entry is, what it has had,
 * the name of its class, and what its key is made of; and the clock of the ideal system. The next
 * core takes it up before the first call comes (program.c).
 *
 * Death: an entry has two versions, and so has the clock. A change writes the one that does not
 * hold, with its check word, and then one number, which makes it hold: a death at any instruction
 * leaves the version before or the one after. What was garbled by something else is as if it had
 * not been.
 * Not kept: what drafts, classes and levels have learnt; programs of the ideal system that the
 * process table has forgotten.
 * Bounds: 200 bytes for each change.
 */
#include "sched/kept.h"

#include <stddef.h>
#include <string.h>

#include "config/base/fnv.h"
#include "config/base/hash.h"

STATIC_ASSERT(sizeof(struct sched_kept_version) % 8 == 0 &&
                  offsetof(struct sched_kept_version, check) + sizeof(uint64_t) ==
                      sizeof(struct sched_kept_version),
              "no padding in what is digested");

#define CLOCK UINT32_MAX            /* in place of an entry's number */

void sched_kept_plan_memory(struct memory_plan *plan, uint32_t programs)
{
    memory_plan_add(plan, MEMORY_KEPT, "sched kept programs", programs,
                    sizeof(struct sched_kept_program));
    memory_plan_add(plan, MEMORY_KEPT, "sched kept clock", 1, sizeof(struct sched_kept_clock));
}

void sched_kept_init(struct sched *sched, struct arena *kept)
{
    sched->kept = arena_take(kept, sched->settings.programs, sizeof *sched->kept);
    sched->kept_clock = arena_take(kept, 1, sizeof *sched->kept_clock);
}

/* Never 0, which stands for none. Two words at a time, for each product waits for the one before,
 * and an entry is noted whenever a call comes or ends. The digest so far stays in it beside the
 * product: a word that makes a factor 0 hides nothing. */
static uint64_t check_of(uint32_t entry, const void *version, uint64_t bytes)
{
    const uint8_t *at = version;
    uint64_t digest = FNV_START + entry, words[2];
    for (; bytes >= sizeof words; bytes -= sizeof words, at += sizeof words) {
        memcpy(words, at, sizeof words);
        digest = digest * FNV_PRIME ^ hash_fold(digest ^ words[0], words[1] ^ HASH_START_A);
    }
    return fnv_add_words(digest, at, bytes) | 1;
}

static uint64_t check_of_program(uint32_t program, const struct sched_kept_version *version)
{
    return check_of(program, version, offsetof(struct sched_kept_version, check));
}

static uint64_t check_of_clock(const struct sched_kept_clock_version *version)
{
    return check_of(CLOCK, version, offsetof(struct sched_kept_clock_version, check));
}

/* Whatever the number stands for holds from now on. */
static void hold(uint64_t *number, uint64_t next)
{
    kept_order();
    *number = next;
}

/* The version that does not hold, empty. */
static struct sched_kept_version *open_version(struct sched *sched, uint32_t program)
{
    struct sched_kept_program *kept = &sched->kept[program];
    struct sched_kept_version *version = &kept->versions[(kept->number + 1) % 2];
    *version = (struct sched_kept_version){.number = kept->number + 1};
    return version;
}

/* It holds from now on. */
static void close_version(struct sched *sched, uint32_t program,
                          struct sched_kept_version *version)
{
    version->check = check_of_program(program, version);
    hold(&sched->kept[program].number, version->number);
}

void sched_kept_note(struct sched *sched, uint32_t index)
{
    struct program *program = &sched->programs[index];
    const struct sched_class *class = sched_class_of(sched, program);
    struct sched_kept_version *version = open_version(sched, index);
    ASSERT(program->in_use);
    version->domain = program->domain;
    memcpy(version->id, program->id, sizeof version->id);
    version->service_us = program->attained_us;
    version->wait_us = program->wait_us;
    version->halved_us = program->halved_us;
    version->started_us = program->started_us;
    version->last_arrival_us = program->last_arrival_us;
    version->last_completion_us = program->last_completion_us;
    version->spent = program->spent;
    if (class != NULL) {
        memcpy(version->class_name, class->name, sizeof version->class_name);
    }
    version->policy = sched->settings.policy;
    version->cost_foreseen = program->cost_foreseen;
    version->cost = program->cost;
    version->served = program->served;
    version->key_base = program->key_base;
    version->calls_ended = program->calls_ended;
    version->in_use = 1;
    close_version(sched, index, version);
    program->kept_is_behind = false;
}

void sched_kept_settle(struct sched *sched, uint32_t index)
{
    if (sched->programs[index].kept_is_behind) {
        sched_kept_note(sched, index);
    }
}

void sched_kept_free(struct sched *sched, uint32_t index)
{
    close_version(sched, index, open_version(sched, index));
}

void sched_kept_note_clock(struct sched *sched)
{
    struct sched_kept_clock *kept = sched->kept_clock;
    struct sched_kept_clock_version *version = &kept->versions[(kept->number + 1) % 2];
    *version = (struct sched_kept_clock_version){.number = kept->number + 1,
                                                 .virtual_time = sched->ideal.virtual_time};
    version->check = check_of_clock(version);
    hold(&kept->number, version->number);
}

const struct sched_kept_clock_version *sched_kept_read_clock(const struct sched *sched)
{
    const struct sched_kept_clock *kept = sched->kept_clock;
    const struct sched_kept_clock_version *holds = &kept->versions[kept->number % 2];
    bool is_right = holds->check == check_of_clock(holds) && holds->number == kept->number;
    return is_right ? holds : NULL;
}

static bool is_whole(uint32_t program, const struct sched_kept_version *version)
{
    return version->check == check_of_program(program, version);
}

const struct sched_kept_version *sched_kept_read(const struct sched *sched, uint32_t index)
{
    const struct sched_kept_program *kept = &sched->kept[index];
    const struct sched_kept_version *holds = &kept->versions[kept->number % 2];
    bool is_right = is_whole(index, holds) && holds->number == kept->number && holds->in_use == 1;
    return is_right ? holds : NULL;
}

void sched_kept_check(const struct sched *sched)
{
    for (uint32_t i = 0; i < sched->settings.programs; i++) {
        const struct program *program = &sched->programs[i];
        const struct sched_kept_version *kept = sched_kept_read(sched, i);
        ASSERT((kept != NULL) == program->in_use);
        ASSERT(!program->kept_is_behind);
        ASSERT(kept == NULL || (kept->domain == program->domain &&
                                memcmp(kept->id, program->id, sizeof kept->id) == 0));
        ASSERT(kept == NULL || program->attained_us >= program->service_us);
        /* What was halved since the last change is not noted. */
        ASSERT(kept == NULL || kept->service_us >= program->attained_us);
        ASSERT(kept == NULL || kept->calls_ended == program->calls_ended);
        ASSERT(kept == NULL || (kept->cost == program->cost && kept->served == program->served &&
                                kept->key_base == program->key_base));
    }
}
