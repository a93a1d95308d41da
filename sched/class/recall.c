/* SPDX-License-Identifier: MIT */
/*
 * What: what ended calls have said last: of a program, and of a class of programs.
 *
 * Who may recall: a draft that agrees shows in the time of a call, and in its DONE, as KV that is
 * found does. So kv.sharing says of both whose they may be: with `domain` the text of a program's
 * class is recalled, too, and a class is of one trust domain; with `program` that of the program
 * alone; with `off` none. Agents of one class say the same things in the same form (decision 0111).
 * The program's own text is the last: the search prefers the last of equal matches (kernels/round).
 *
 * Memory is one text for each entry of the process table and of the table of classes. An entry
 * begins with none, so what takes its place has nothing of what was there.
 * Bounds: O(recall_tokens) where a call ends, and for each row that gets a draft.
 */
#include "sched/class/recall.h"

#include <string.h>

#include "config/base/bounds.h"
#include "sched/call.h"

static bool has_classes(const struct sched_settings *settings)
{
    return settings->sharing == SCHED_SHARING_DOMAIN;
}

static uint64_t texts_of(const struct sched_settings *settings)
{
    return settings->programs + (has_classes(settings) ? settings->classes : 0);
}

void sched_recall_plan_memory(struct memory_plan *plan, const struct sched_settings *settings)
{
    memory_plan_add(plan, MEMORY_CORE, "sched recalled tokens",
                    texts_of(settings) * settings->recall_tokens, sizeof(uint32_t));
}

void sched_recall_init(struct sched *sched, struct arena *arena)
{
    sched->recalled = arena_take(arena, texts_of(&sched->settings) * sched->settings.recall_tokens,
                                 sizeof *sched->recalled);
}

uint32_t sched_recall_most(const struct sched_settings *settings)
{
    return settings->recall_tokens * (has_classes(settings) ? SCHED_RECALLS_MAX : 1);
}

/* A text: its tokens, and where their number is. */
struct text {
    uint32_t *tokens, *count;
};

/* Those that the call recalls, the newest last. Returns how many they are. */
static uint32_t find_texts(const struct sched *sched, const struct call *call, struct text *texts)
{
    const struct sched_settings *settings = &sched->settings;
    struct program *program = &sched->programs[call->program];
    const struct sched_class *class = has_classes(settings) ? sched_class_of(sched, program) : NULL;
    uint64_t tokens = settings->recall_tokens;
    uint32_t count = 0;
    if (class != NULL) {
        uint32_t slot = program->class.slot;
        texts[count++] = (struct text){sched->recalled + (settings->programs + slot) * tokens,
                                       &sched->classes.each[slot].recalled};
    }
    texts[count++] = (struct text){sched->recalled + call->program * tokens, &program->recalled};
    return count;
}

static void append(struct text text, uint32_t most, const uint32_t *tokens, uint32_t count)
{
    uint32_t more = lesser(count, most), kept = lesser(*text.count, most - more);
    memmove(text.tokens, text.tokens + *text.count - kept, kept * sizeof *tokens);
    memcpy(text.tokens + kept, tokens + count - more, more * sizeof *tokens);
    *text.count = kept + more;
}

void sched_recall_note(struct sched *sched, const struct call *call)
{
    struct text texts[SCHED_RECALLS_MAX];
    uint32_t count = find_texts(sched, call, texts);
    for (uint32_t i = 0; i < count && call->generated_tokens > 0; i++) {
        append(texts[i], sched->settings.recall_tokens,
               call->tokens + sched_call_known(call) - call->generated_tokens,
               call->generated_tokens);
    }
}

uint32_t sched_recall_copy(const struct sched *sched, const struct call *call, uint32_t *tokens)
{
    struct text texts[SCHED_RECALLS_MAX];
    uint32_t count = find_texts(sched, call, texts), copied = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t more = *texts[i].count;
        ASSERT(more <= sched->settings.recall_tokens);
        if (more > 0) {
            memcpy(tokens + copied, texts[i].tokens, more * sizeof *tokens);
        }
        copied += more;
    }
    return copied;
}
