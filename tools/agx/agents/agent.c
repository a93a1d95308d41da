/* SPDX-License-Identifier: MIT */
#include "tools/agx/agents/agent.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/base/assert.h"
#include "tools/agx/agents/calculator.h"
#include "tools/agx/agents/table.h"

/*
 * What: how agents of each kind work. To change how agents work, change this file.
 *
 *     react   prompt -> "Act: TOOL[...]" -> the same text, "Obs: ..." -> ... -> "Answer: X"
 *     map     each prompt -> "Found: X", all at once; the merge is a loop as above
 *     vote    each prompt or sample -> "Answer: X", all at once; the most frequent wins
 *     chat    "User: ...\nBot:" -> the reply; the next line follows it
 *
 * Invariants: a model may say anything. A missing or too long answer makes the agent wrong; it
 * never ends the run. A prompt that grows keeps its beginning byte for byte, so the appliance finds
 * it in its cache.
 */

/* ---- texts ----------------------------------------------------------------------------------- */

static void clear(struct agent_text *text, char *bytes, size_t room)
{
    *text = (struct agent_text){.bytes = bytes, .room = room};
    text->bytes[0] = '\0';
}

/* Adds all of it; or nothing, and sets `is_full`. */
static void add(struct agent_text *text, const char *more)
{
    size_t bytes = strlen(more);
    if (bytes + 1 > text->room - text->count) {
        text->is_full = true;
    }
    if (!text->is_full) {
        memcpy(text->bytes + text->count, more, bytes + 1);
        text->count += bytes;
    }
}

/* Adds to the next prompt and to the record. */
static void tell(struct agent *agent, const char *more)
{
    add(&agent->text, more);
    add(&agent->record, more);
}

/* Copies without the blanks at both ends. */
static void trim(const char *text, size_t bytes, char *out, size_t out_bytes)
{
    size_t first = strspn(text, " ");
    first = first < bytes ? first : bytes;
    while (bytes > first && text[bytes - 1] == ' ') {
        bytes--;
    }
    snprintf(out, out_bytes, "%.*s", (int)(bytes - first), text + first);
}

/* Finds the last line of `said` that begins with `mark`, and copies what follows the mark, without
 * blanks at its ends, to `rest`. Returns the line; NULL: there is none, or nothing follows. */
static const char *last_line(const char *said, const char *mark, char *rest, size_t rest_bytes)
{
    const char *found = NULL;
    for (const char *line = said; line != NULL;) {
        const char *end = strchr(line, '\n');
        found = strncmp(line, mark, strlen(mark)) == 0 ? line : found;
        line = end != NULL ? end + 1 : NULL;
    }
    if (found == NULL) {
        return NULL;
    }
    const char *from = found + strlen(mark);
    trim(from, strcspn(from, "\n"), rest, rest_bytes);
    return rest[0] != '\0' ? found : NULL;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static void expect(struct agent *agent, const char *expected, const char *got)
{
    snprintf(agent->expected, sizeof agent->expected, "%.*s", TASK_ANSWER_BYTES_MAX, expected);
    snprintf(agent->got, sizeof agent->got, "%.*s", AGENT_GOT_BYTES - 1, got);
}

static enum agent_next judge(struct agent *agent, const char *answer)
{
    expect(agent, agent->task->answers[0], answer);
    agent->is_right = strcmp(agent->expected, answer) == 0;
    return AGENT_OVER;
}

static enum agent_next give_up(struct agent *agent, const char *why)
{
    expect(agent, agent->task->answers[0], why);
    return AGENT_OVER;
}

void agent_fail(struct agent *agent, const char *why)
{
    agent->is_right = false;
    (void)give_up(agent, why);
}

/* ---- calls ----------------------------------------------------------------------------------- */

void agent_hear(struct agent_call *call, const char *text, size_t bytes)
{
    size_t room = sizeof call->said - 1 - call->said_bytes;
    size_t count = bytes < room ? bytes : room;
    memcpy(call->said + call->said_bytes, text, count);
    call->said_bytes += (uint32_t)count;
    call->said[call->said_bytes] = '\0';
}

static void ask(struct agent *agent, const char *prompt, const char *news)
{
    ASSERT(agent->calls_count < AGENT_CALLS_MAX);
    struct agent_call *call = &agent->calls[agent->calls_count++];
    call->prompt = prompt;
    call->prompt_bytes = strlen(prompt);
    call->news = news;
    call->temperature = 0;
    call->seed = agent->seed;
    call->said_bytes = 0;
    call->said[0] = '\0';
}

/* ---- react: a loop of thought and tool ------------------------------------------------------- */

static bool use_tool(struct agent *agent, const char *act)
{
    static const struct { const char *name; bool is_calculator; } tools[] = {
        {"calc[", true}, {"lookup[", false}};
    char argument[AGENT_GOT_BYTES];
    size_t bytes = strlen(act);
    for (uint32_t i = 0; i < sizeof tools / sizeof tools[0]; i++) {
        size_t name = strlen(tools[i].name);
        if (bytes <= name || strncmp(act, tools[i].name, name) != 0 || act[bytes - 1] != ']') {
            continue;
        }
        trim(act + name, bytes - name - 1, argument, sizeof argument);
        if (tools[i].is_calculator) {
            calculator_answer(argument, agent->observed, sizeof agent->observed);
        } else {
            table_look_up(agent->task->prompts[0], argument, agent->observed,
                          sizeof agent->observed);
        }
        return true;
    }
    return false;
}

/* The later of the model's last "Act: " and last "Answer: " decides. */
static enum agent_next loop_on(struct agent *agent)
{
    const char *said = agent->calls[0].said;
    char answer[AGENT_GOT_BYTES], act[AGENT_GOT_BYTES];
    const char *answers = last_line(said, "Answer:", answer, sizeof answer);
    const char *acts = last_line(said, "Act:", act, sizeof act);
    tell(agent, said);
    if (answers != NULL && (acts == NULL || answers > acts)) {
        return judge(agent, answer);
    }
    if (acts == NULL || !use_tool(agent, act)) {
        return give_up(agent, acts == NULL ? "neither an act nor an answer" : "no such tool");
    }
    if (agent->turn >= AGENT_TURNS_MAX) {
        return give_up(agent, "no answer in 12 turns");
    }
    tell(agent, "\nObs: ");
    tell(agent, agent->observed);
    tell(agent, "\n");
    return AGENT_TOOL;
}

/* ---- map: parts at once, then a merge -------------------------------------------------------- */

/* The merge's prompt: "Parts: X+Y+Z\nTask: Add the parts.\n". */
static enum agent_next merge(struct agent *agent)
{
    char found[AGENT_GOT_BYTES];
    for (uint32_t i = 0; i < agent->calls_count; i++) {
        if (last_line(agent->calls[i].said, "Found:", found, sizeof found) == NULL) {
            return give_up(agent, "a part that found nothing");
        }
        tell(agent, i == 0 ? "Parts: " : "+");
        tell(agent, found);
    }
    tell(agent, "\nTask: Add the parts.\n");
    agent->is_merging = true;
    agent->turn = 0;
    return AGENT_GO_ON;
}

/* ---- vote: the same question more than once -------------------------------------------------- */

static enum agent_next count_votes(struct agent *agent)
{
    char answers[AGENT_CALLS_MAX][AGENT_GOT_BYTES];
    uint32_t best = 0, best_votes = 0;
    for (uint32_t i = 0; i < agent->calls_count; i++) {
        if (last_line(agent->calls[i].said, "Answer:", answers[i], sizeof answers[i]) == NULL) {
            answers[i][0] = '\0';
        }
    }
    for (uint32_t i = 0; i < agent->calls_count; i++) {
        uint32_t votes = 0;
        for (uint32_t j = 0; j < agent->calls_count && answers[i][0] != '\0'; j++) {
            votes += strcmp(answers[i], answers[j]) == 0;
        }
        best = votes > best_votes ? i : best;
        best_votes = votes > best_votes ? votes : best_votes;
    }
    return best_votes > 0 ? judge(agent, answers[best]) : give_up(agent, "no answer");
}

/* ---- chat: a person between ------------------------------------------------------------------ */

static void say_line(struct agent *agent)
{
    const char *line = agent->task->prompts[agent->turn - 1];
    tell(agent, agent->turn > 1 ? "\nUser: " : "User: ");
    tell(agent, line);
    tell(agent, "\nBot:");
    ask(agent, agent->text.bytes, line);
}

static bool contains(const char *text, const char *key)
{
    size_t bytes = strlen(key);
    for (; *text != '\0'; text++) {
        if (strncasecmp(text, key, bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* `got` and `expected` are those of the first reply that lacks its key. */
static enum agent_next read_reply(struct agent *agent)
{
    const char *reply = agent->calls[0].said, *key = agent->task->answers[agent->turn - 1];
    if (agent->turn == 1) {
        agent->is_right = true;
    }
    if (agent->is_right) {
        agent->is_right = contains(reply, key);
        expect(agent, key, reply[0] == ' ' ? reply + 1 : reply);
    }
    tell(agent, reply);
    return agent->turn < agent->task->prompts_count ? AGENT_READER : AGENT_OVER;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void ask_all(struct agent *agent)
{
    const struct task *task = agent->task;
    for (uint32_t i = 0; i < task->prompts_count; i++) {
        ask(agent, task->prompts[i], task->prompts[i]);
    }
    for (uint32_t i = 1; i < task->samples; i++) {
        ask(agent, task->prompts[0], "");
    }
    for (uint32_t i = 0; i < task->samples; i++) {
        agent->calls[i].temperature = 1;
        agent->calls[i].seed = agent->seed + i;
    }
}

static bool is_fan(const struct agent *agent)
{
    enum task_kind kind = agent->task->kind;
    return kind == TASK_VOTE || (kind == TASK_MAP && !agent->is_merging);
}

void agent_begin(struct agent *agent, const struct task *task, uint64_t seed)
{
    agent->task = task;
    agent->seed = seed;
    agent->turn = agent->calls_count = 0;
    agent->is_right = agent->is_merging = false;
    agent->observed[0] = '\0';
    expect(agent, "", "");
    clear(&agent->text, agent->text_bytes, sizeof agent->text_bytes);
    clear(&agent->record, agent->record_bytes, sizeof agent->record_bytes);
    if (task->kind == TASK_REACT) {
        tell(agent, task->prompts[0]);
    }
}

void agent_begin_turn(struct agent *agent)
{
    agent->turn++;
    agent->calls_count = 0;
    if (is_fan(agent)) {
        ask_all(agent);
    } else if (agent->task->kind == TASK_CHAT) {
        say_line(agent);
    } else {        /* a loop: only the first prompt is news; tools' answers were shown */
        ask(agent, agent->text.bytes, agent->turn == 1 ? agent->text.bytes : "");
    }
}

enum agent_next agent_end_turn(struct agent *agent)
{
    enum agent_next next;
    for (uint32_t i = 0; i < agent->calls_count && is_fan(agent); i++) {
        add(&agent->record, agent->calls[i].news);
        add(&agent->record, agent->calls[i].said);
        add(&agent->record, "\n");
    }
    if (agent->task->kind == TASK_CHAT) {
        next = read_reply(agent);
    } else if (agent->task->kind == TASK_VOTE) {
        next = count_votes(agent);
    } else {
        next = is_fan(agent) ? merge(agent) : loop_on(agent);
    }
    if (next != AGENT_OVER && agent->text.is_full) {
        agent_fail(agent, "said more than an agent can hold");
        return AGENT_OVER;
    }
    return next;
}
