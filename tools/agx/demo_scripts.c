/* SPDX-License-Identifier: MIT */
/*
 * What: what the demo's programs ask, turn by turn: a chat, a ReAct-style loop with a tool, and a
 * fan-out with a merge. To change the demo, change this file.
 *
 * A model with random weights says noise: the loop therefore takes a fixed number of turns, gives
 * the tool whatever was said, and goes on with the tool's answer.
 */
#include <stdio.h>
#include <string.h>

#include "tools/agx/calculator.h"
#include "tools/agx/demo.h"

#define READING_US 400000       /* a person reads the answer */
#define TOOL_US    150000       /* the tool works */

/* Appends to the program's history; what does not fit any more pushes the oldest half out. */
static void remember(struct demo_program *program, const char *text)
{
    size_t used = strlen(program->history), more = strlen(text);
    if (more >= sizeof program->history / 2) {
        more = sizeof program->history / 2 - 1;
    }
    if (used + more >= sizeof program->history) {
        size_t kept = used / 2;
        memmove(program->history, program->history + used - kept, kept);
        used = kept;
    }
    memcpy(program->history + used, text, more);
    program->history[used + more] = '\0';
}

/* ---- chat ------------------------------------------------------------------------------------ */

static void chat_begin(struct demo *demo, struct demo_program *program)
{
    static const char *const questions[] = {
        "Tell me a story about the sea.", "Who lives there?", "And how does it end?"};
    const char *question = questions[program->turn];
    screen_say(&demo->screen, program->panel, SCREEN_PROMPT, "you> ", question);
    remember(program, "User: ");
    remember(program, question);
    remember(program, "\nAssistant:");
    demo_ask(demo, program, program->history, demo->max_tokens, "");
}

static uint64_t chat_end(struct demo *demo, struct demo_program *program)
{
    (void)demo;
    remember(program, program->calls[0].said);
    remember(program, "\n");
    return READING_US;
}

/* ---- ReAct ----------------------------------------------------------------------------------- */

static void react_begin(struct demo *demo, struct demo_program *program)
{
    static const char task[] = "Question: how many days are 6 weeks and 3 days?\n";
    if (program->turn == 0) {
        screen_say(&demo->screen, program->panel, SCREEN_PROMPT, "task> ",
                   "how many days are 6 weeks and 3 days?");
        remember(program, task);
    }
    bool is_last = program->turn + 1 == program->script->turns;
    remember(program, is_last ? "Final answer:" : "Thought and sum:");
    demo_ask(demo, program, program->history, demo->max_tokens / 2 + 1, is_last ? "= " : "");
}

static uint64_t react_end(struct demo *demo, struct demo_program *program)
{
    char answer[160], shown[192];
    remember(program, program->calls[0].said);
    if (program->turn + 1 == program->script->turns) {
        return 0;
    }
    calculator_answer(program->calls[0].said, answer, sizeof answer);
    snprintf(shown, sizeof shown, "calculator: %s", answer);
    screen_say(&demo->screen, program->panel, SCREEN_TOOL, "", shown);
    remember(program, "\nObservation: ");
    remember(program, answer);
    remember(program, "\n");
    return TOOL_US;
}

/* ---- fan-out and merge ----------------------------------------------------------------------- */

static void map_begin(struct demo *demo, struct demo_program *program)
{
    static const char *const topics[DEMO_CALLS_MAX] = {"wind", "water", "stone", "light"};
    static const char *const labels[DEMO_CALLS_MAX] = {"a> ", "b> ", "c> ", "d> "};
    char prompt[128];
    if (program->turn == 0) {
        screen_say(&demo->screen, program->panel, SCREEN_PROMPT, "map> ",
                   "wind, water, stone, light");
        for (uint32_t i = 0; i < DEMO_CALLS_MAX; i++) {
            snprintf(prompt, sizeof prompt, "Say one thing about %s:", topics[i]);
            demo_ask(demo, program, prompt, demo->max_tokens, labels[i]);
        }
        return;
    }
    screen_say(&demo->screen, program->panel, SCREEN_PROMPT, "merge> ", "a, b, c, d into one");
    demo_ask(demo, program, program->history, demo->max_tokens, "");
}

static uint64_t map_end(struct demo *demo, struct demo_program *program)
{
    (void)demo;
    for (uint32_t i = 0; program->turn == 0 && i < program->calls_count; i++) {
        remember(program, program->calls[i].said);
        remember(program, "\n");
    }
    remember(program, "All of this in one sentence:");
    return 0;
}

const struct demo_script demo_scripts[DEMO_PROGRAMS] = {
    {"chat", "a person asks, three times", 3, 3, chat_begin, chat_end},
    {"react", "a loop of thought and tool", 4, 4, react_begin, react_end},
    {"map", "four calls at once, then a merge", 2, 5, map_begin, map_end},
};
