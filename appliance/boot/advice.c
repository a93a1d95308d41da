/* SPDX-License-Identifier: MIT */
/*
 * What: searches options for values with which the memory plan fits.
 *
 * Method: a knob is an option with a ladder of values, from the one that is now in force downwards.
 * First all knobs stand at their lowest value: if that does not fit, nothing will. Then one knob is
 * lowered alone, then each two, three, ...; the first choice of knobs that fits at their lowest
 * values is taken, and each of its knobs is raised again as far as the plan still fits. So there is
 * no command with fewer changes, and none with the same changes that takes away less. A plan that
 * only just fits now may not when the command is run, so it has to fit with a margin.
 *
 * Bounds: 2^KNOBS choices, each planned once with the least KV; then a ladder for each knob. The
 * knobs are in the order in which a user would miss them least.
 * Owner: the keeper, before it forks, when it is about to refuse. BOOT_ONLY: stdio.
 */
#include "appliance/boot/advice.h"

#include <stdio.h>
#include <string.h>

#include "appliance/boot/boot.h"
#include "appliance/boot/plan.h"
#include "config/base/assert.h"
#include "config/base/text.h"

struct knob {
    const char *section, *key;
    uint64_t least;                 /* of a COUNT or BYTES: halved down to this, then this */
    const char *word;               /* the one value below; NULL: a ladder of numbers */
};
static const struct knob knobs[] = {
    {"kv", "host_ratio", 0, "0"},
    {"kv", "device_blocks", 0, "0"},
    {"kv", "type", 0, "f16"},
    {"limits", "ended", 0, "0"},
    {"workflow", "workflows", 0, NULL},
    {"limits", "context_tokens", 512, NULL},
    {"sched", "prefill_tokens", 32, NULL},
    {"limits", "connections", 8, NULL},
    {"limits", "calls", 8, NULL},
    {"sched", "batch", 1, NULL},
    {"limits", "programs", 64, NULL},
    {"limits", "reply_tokens", 1, NULL},
    {"limits", "replies", 0, NULL},
    {"limits", "events", 0, NULL},
    {"net", "send_bytes", 18432, NULL},
    {"engine", "threads", 1, NULL},
    {"engine", "workers", 1, NULL},
    {"model", "weights", 0, "bf16"},
};
#define KNOBS (sizeof knobs / sizeof knobs[0])

struct search {
    const struct boot *boot;
    const struct option_row *rows[KNOBS];
    uint64_t now[KNOBS];            /* the number that is in force */
    uint32_t lowest[KNOBS];         /* steps down the ladder that there are */
    struct boot trial;
    uint32_t steps[KNOBS];          /* steps down; 0: as it is */
};

/* ---- ladders ---- */

/* What stands for 0, or for a number that limits.c lowers. */
static uint64_t number_in_force(const struct search *search, uint32_t knob)
{
    const struct boot *boot = search->boot;
    const struct limits *limits = &boot->limits;
    const char *key = knobs[knob].key;
    if (strcmp(key, "context_tokens") == 0) {
        return limits->context_tokens;
    }
    if (strcmp(key, "threads") == 0) {
        return limits->engine_threads;
    }
    return config_value(&boot->options, search->rows[knob])->number;
}

/* The largest power of two below a number; of 1, nothing. */
static uint64_t power_below(uint64_t number)
{
    uint64_t power = 1;
    while (power * 2 < number) {
        power *= 2;
    }
    return number > 1 ? power : 0;
}

/* The value `steps` below the one in force, as it is written; false: there is none. */
static bool value_below(const struct search *search, uint32_t knob, uint32_t steps,
                        char text[CONFIG_TEXT_BYTES])
{
    const struct option_row *row = search->rows[knob];
    const struct option_value *value = config_value(&search->boot->options, row);
    uint64_t number = search->now[knob];
    text[config_format(row, value, text, CONFIG_TEXT_BYTES - 1)] = '\0';
    if (knobs[knob].word != NULL) {
        bool is_there = strcmp(text, knobs[knob].word) == 0;
        snprintf(text, CONFIG_TEXT_BYTES, "%s", knobs[knob].word);
        return steps == 1 && !is_there;
    }
    for (uint32_t i = 0; i < steps; i++) {
        if (number <= knobs[knob].least) {
            return false;
        }
        number = power_below(number);
        number = number < knobs[knob].least ? knobs[knob].least : number;
    }
    snprintf(text, CONFIG_TEXT_BYTES, "%llu", (unsigned long long)number);
    return true;
}

static uint32_t count_steps(const struct search *search, uint32_t knob)
{
    char text[CONFIG_TEXT_BYTES];
    uint32_t steps = 0;
    while (value_below(search, knob, steps + 1, text)) {
        steps++;
    }
    return steps;
}

/* ---- one try ---- */

/* A value that is the default needs no --set, unless a file says something else. */
static void set(struct search *search, uint32_t knob, const char *text)
{
    struct options *options = &search->trial.options;
    const struct option_row *row = search->rows[knob];
    struct option_value *value = config_value_of(options, row);
    struct config_error error;
    char assignment[2 * CONFIG_TEXT_BYTES];
    snprintf(assignment, sizeof assignment, "%s.%s=%s", knobs[knob].section, knobs[knob].key,
             text);
    enum status status = config_set(options, assignment, &error);
    ASSERT(status == STATUS_OK);
    if (options->source[0] == '\0' && value->number == row->default_number) {
        value->line = 0;
    }
}

/* The options with the knobs where they stand; false: they contradict each other. */
static bool turn(struct search *search)
{
    struct boot *trial = &search->trial;
    struct config_error error;
    char text[CONFIG_TEXT_BYTES];
    trial->options = search->boot->options;
    for (uint32_t knob = 0; knob < KNOBS; knob++) {
        if (search->steps[knob] > 0 && value_below(search, knob, search->steps[knob], text)) {
            set(search, knob, text);
        }
    }
    return config_check(&trial->options, &error) == STATUS_OK &&
           plan_least(trial, &error) == STATUS_OK;
}

static bool fits(struct search *search)
{
    return turn(search) && plan_fits(&search->trial);
}

/* ---- the search ---- */

/* Puts the chosen knobs at their lowest and the others where they were. */
static void lower(struct search *search, uint32_t chosen)
{
    for (uint32_t knob = 0; knob < KNOBS; knob++) {
        search->steps[knob] = (chosen & 1u << knob) != 0 ? search->lowest[knob] : 0;
    }
}

static void raise_again(struct search *search)
{
    for (uint32_t knob = KNOBS; knob-- > 0;) {
        uint32_t steps_max = search->steps[knob];
        for (search->steps[knob] = steps_max > 0; search->steps[knob] < steps_max;
             search->steps[knob]++) {
            if (fits(search)) {
                break;
            }
        }
    }
}

/* The next larger number with as many bits (Gosper). */
static uint32_t next_choice(uint32_t chosen)
{
    uint32_t low = chosen & -chosen, ripple = chosen + low;
    return ripple | (((chosen ^ ripple) >> 2) / low);
}

/* The knobs that can be lowered at all. */
static uint32_t usable(const struct search *search)
{
    uint32_t knobs_usable = 0;
    for (uint32_t knob = 0; knob < KNOBS; knob++) {
        knobs_usable |= search->lowest[knob] > 0 ? 1u << knob : 0;
    }
    return knobs_usable;
}

/* True when even the lowest values of all knobs leave the plan too large. */
static bool is_hopeless(struct search *search)
{
    lower(search, usable(search));
    return turn(search) && !plan_fits(&search->trial);
}

static bool search_all(struct search *search)
{
    const uint32_t not_usable = ~usable(search);
    for (uint32_t count = 1; count <= KNOBS; count++) {
        for (uint32_t chosen = (1u << count) - 1; chosen < 1u << KNOBS;
             chosen = next_choice(chosen)) {
            lower(search, chosen);
            if ((chosen & not_usable) == 0 && fits(search)) {
                raise_again(search);
                return true;
            }
        }
    }
    return false;
}

/* ---- the command ---- */

/* Quoted for a shell where it must be. */
static void add_word(struct text *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:=,+@%-[]";
    bool is_plain = word[0] != '\0' && strspn(word, plain) == strlen(word);
    text_add(out, is_plain ? "" : "'");
    for (const char *at = word; *at != '\0'; at++) {
        if (*at == '\'') {
            text_add(out, "'\\''");
        } else {
            text_add_bytes(out, at, 1);
        }
    }
    text_add(out, is_plain ? "" : "'");
}

static void add_set(struct text *out, const struct options *options, const struct option_row *row)
{
    const struct option_value *value = config_value(options, row);
    char number[CONFIG_TEXT_BYTES], word[2 * CONFIG_TEXT_BYTES];
    number[config_format(row, value, number, sizeof number - 1)] = '\0';
    snprintf(word, sizeof word, "%s.%s=%s", row->section, row->key, number);
    text_add(out, " --set ");
    add_word(out, word);
}

/* Values that were set before, with those that the search has set. */
static bool write_command(const struct options *options, char command[ADVICE_BYTES])
{
    struct text out;
    text_init(&out, command, ADVICE_BYTES);
    text_add(&out, "agentix");
    if (options->source[0] != '\0') {
        text_add(&out, " --config ");
        add_word(&out, options->source);
    }
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        if (config_value(options, &config_option_rows[i])->line == CONFIG_LINE_SET) {
            add_set(&out, options, &config_option_rows[i]);
        }
    }
    text_add_bytes(&out, "", 1);
    return !out.cut;
}

/* True when the GPU that serves refuses the change, or does not know the option. */
static bool is_of_cpu(const struct boot *boot, uint32_t knob)
{
    const char *key = knobs[knob].key;
    return boot->serves_by_gpu && (strcmp(key, "weights") == 0 || strcmp(key, "threads") == 0 ||
                                   strcmp(key, "workers") == 0);
}

/* What is left moves by some pages from one start to the next. */
static uint64_t with_margin(uint64_t left)
{
    return left == MEMORY_UNBOUNDED ? left : left - left / 128;
}

static struct search *begin(const struct boot *boot)
{
    static struct search search;
    search = (struct search){.boot = boot, .trial = *boot};
    search.trial.bounds.machine = with_margin(boot->bounds.machine);
    search.trial.bounds.group = with_margin(boot->bounds.group);
    for (uint32_t knob = 0; knob < KNOBS; knob++) {
        search.rows[knob] = config_options_find(knobs[knob].section, knobs[knob].key);
        ASSERT(search.rows[knob] != NULL);
        search.now[knob] = number_in_force(&search, knob);
        search.lowest[knob] = is_of_cpu(boot, knob) ? 0 : count_steps(&search, knob);
    }
    return &search;
}

bool advice_find(const struct boot *boot, char command[ADVICE_BYTES])
{
    struct search *search = begin(boot);
    struct config_error error;
    return !is_hopeless(search) && search_all(search) && turn(search) &&
           plan_make(&search->trial, &error) == STATUS_OK && plan_fits(&search->trial) &&
           write_command(&search->trial.options, command);
}

/* What is missing even so, of the plan with the least of everything. */
static void print_hopeless(const struct boot *boot, const struct boot *least)
{
    const struct memory_plan *weights = &boot->plan;
    enum memory_kind kind = MEMORY_WEIGHTS;
    if (boot->serves_by_gpu) {
        weights = &boot->gpu_weights_plan;
        kind = MEMORY_DEVICE;
    }
    fprintf(stderr, "no command fits: weights alone take %.1f MiB; with every option that could "
            "help at its lowest value the plan still needs %.1f MiB",
            plan_mib(memory_plan_bytes(weights, kind)), plan_mib(plan_total_bytes(least)));
    if (boot->serves_by_gpu) {
        fprintf(stderr, ", and %.1f MiB of each GPU: a model must fit one, several do not share it",
                plan_mib(memory_plan_bytes(&least->plan, MEMORY_DEVICE)));
    }
    fprintf(stderr, "\n");
}

void advice_print(const struct boot *boot)
{
    static char command[ADVICE_BYTES];
    if (advice_find(boot, command)) {
        fprintf(stderr, "this command fits:\n  %s\n", command);
        return;
    }
    struct search *search = begin(boot);
    print_hopeless(boot, is_hopeless(search) ? &search->trial : boot);
}
