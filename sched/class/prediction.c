/* SPDX-License-Identifier: MIT */
/*
 * What: prediction of a program's cost when its first call comes, and what classes learn when
 * programs end. The sources, the first that knows counts:
 *
 *   foretold   the lab has told
 *   trained    a file has a model of the class: corrected by the mean error of its predictions for
 *              the class since, then held within what ten programs or more have cost
 *   class      the means of the class
 *   largest    the means of that class of the trust domain that costs most: who has new names for
 *              programs does not gain by them
 *
 * Means are not corrected: they follow what they predict, and are within its range anyhow. Errors
 * are those of trained predictions, before they are corrected, and of means. Their mean begins at
 * none, and moves by a tenth towards each: one program says little about a file that was made from
 * many.
 *
 * What a domain's programs cost teaches its own classes only, whatever it calls them.
 * Invariants: integers only.
 * Bounds: O(log domains) as a rule (class.c); a trained prediction takes what predictor.c does.
 */
#include "sched/class/prediction.h"

#include <string.h>

#include "sched/call.h"
#include "sched/cost.h"
#include "sched/class/log2.h"
#include "sched/class/predictor.h"

#define MEAN_PARTS 10                   /* a new value counts for a tenth at least */
#define ERROR_ZERO (64 << LOG2_BITS)    /* more than any error, for a mean without a sign */
STATIC_ASSERT(SCHED_CLASS_ONE == 1 << LOG2_BITS, "one fixed point");

/* ---- what is predicted ----------------------------------------------------------------------- */

static bool is_first(const struct program *program)
{
    return program->calls_ended == 0 && program->active_calls == 1;
}

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* All that is known of a class's programs, as a prediction. */
static struct sched_prediction means_of(const struct sched_class *class, enum sched_source source)
{
    if (class == NULL || class->learnt.programs == 0) {
        return (struct sched_prediction){.source = SCHED_SOURCE_NONE};
    }
    const struct sched_learnt *learnt = &class->learnt;
    uint64_t output = (learnt->output_tokens + SCHED_CLASS_ONE / 2) / SCHED_CLASS_ONE;
    return (struct sched_prediction){
        .rounds = learnt->rounds, .tokens = learnt->tokens, .rounds_raw = learnt->rounds,
        .output_tokens = output < UINT32_MAX ? (uint32_t)output : UINT32_MAX, .source = source};
}

/* The file's rounds, if it knows the class; the rest stays as it is. */
static void predict_trained(const struct sched *sched, const struct sched_class *class,
                            const struct call *call, struct sched_prediction *prediction)
{
    const struct predictor_class *trained =
        class == NULL ? NULL : sched_predictor_find(sched->settings.predictor, class->name,
                                                    (uint32_t)strlen(class->name));
    if (trained == NULL) {
        return;
    }
    uint64_t rounds = sched_predictor_cost(trained, call->tokens, call->prompt_tokens);
    const struct sched_learnt *learnt = &class->learnt;
    prediction->source = SCHED_SOURCE_TRAINED;
    bool has_range = learnt->programs >= MEAN_PARTS;
    prediction->rounds_raw = rounds;
    prediction->rounds = clamp(log2_scale(rounds, learnt->error),
                               has_range ? learnt->rounds_least : 1,
                               has_range ? learnt->rounds_most : UINT64_MAX);
}

struct sched_prediction sched_class_predict(const struct sched *sched, const struct call *call)
{
    const struct program *program = &sched->programs[call->program];
    const struct sched_class *class = sched_class_of(sched, program);
    struct sched_prediction prediction = means_of(class, SCHED_SOURCE_CLASS);
    if (prediction.source == SCHED_SOURCE_NONE) {
        prediction = means_of(sched_class_largest(sched, program->domain), SCHED_SOURCE_LARGEST);
    }
    predict_trained(sched, class, call, &prediction);
    if (call->foretold.program_cost != 0) {
        prediction.source = SCHED_SOURCE_FORETOLD;
        prediction.rounds = prediction.rounds_raw = call->foretold.program_cost;
        prediction.tokens = call->foretold.program_tokens;
    }
    if (call->foretold.output_tokens != 0) {
        prediction.output_tokens = call->foretold.output_tokens;
    }
    return prediction;
}

void sched_class_foresee(struct sched *sched, const struct call *call)
{
    struct program *program = &sched->programs[call->program];
    if (is_first(program)) {
        sched_class_join_by_prompt(sched, call);
        program->predicted = sched_class_predict(sched, call);
    }
}

/* ---- what is learnt -------------------------------------------------------------------------- */

void sched_class_spend(struct program *program, const struct call *call)
{
    struct sched_spent *spent = &program->spent;
    uint32_t prompt = call->prompt_tokens, output = call->generated_tokens;
    spent->rounds = sched_sum(spent->rounds, sched_cost_rounds(prompt, output));
    spent->tokens = sched_sum(spent->tokens, sched_cost_tokens(prompt, output));
    spent->output_tokens = sched_sum(spent->output_tokens, output);
}

/* The n-th value moves the mean by 1 / n of the way, but by a tenth at least; to the nearest. */
static uint64_t mean_of(uint64_t mean, uint64_t value, uint32_t n)
{
    uint32_t parts = n < MEAN_PARTS ? n : MEAN_PARTS;
    uint64_t way = value > mean ? value - mean : mean - value;
    uint64_t step = way / parts + (way % parts + parts / 2) / parts;
    return value > mean ? mean + step : mean - step;
}

/* One more of what is counted. */
static uint32_t count(uint32_t *counted)
{
    *counted += *counted < UINT32_MAX;
    return *counted;
}

static void learn_error(struct sched_learnt *learnt, const struct program *program)
{
    const struct sched_prediction *predicted = &program->predicted;
    bool is_of_class = predicted->source == SCHED_SOURCE_TRAINED ||
                       predicted->source == SCHED_SOURCE_CLASS;
    if (!is_of_class || predicted->rounds_raw == 0) {
        return;
    }
    int32_t error = log2_fixed(program->spent.rounds) - log2_fixed(predicted->rounds_raw);
    uint64_t mean = mean_of((uint64_t)(learnt->error + ERROR_ZERO), (uint64_t)(error + ERROR_ZERO),
                            MEAN_PARTS);
    count(&learnt->predicted);
    learnt->error = (int32_t)mean - ERROR_ZERO;
}

void sched_class_learn(struct sched *sched, const struct program *program)
{
    const struct sched_spent *spent = &program->spent;
    if (spent->rounds == 0 || sched_class_of(sched, program) == NULL) {
        return;                         /* it got no token, or nothing is known of its class */
    }
    struct sched_class *class = &sched->classes.each[program->class.slot];
    struct sched_learnt *learnt = &class->learnt;
    uint32_t n = count(&learnt->programs);
    uint64_t rounds = spent->rounds;
    uint64_t output = spent->output_tokens / program->calls_ended * SCHED_CLASS_ONE;
    learnt->tokens = mean_of(learnt->tokens, spent->tokens, n);
    learnt->output_tokens = mean_of(learnt->output_tokens, output, n);
    learnt->rounds_least = n == 1 || rounds < learnt->rounds_least ? rounds : learnt->rounds_least;
    learnt->rounds_most = rounds > learnt->rounds_most ? rounds : learnt->rounds_most;
    learn_error(learnt, program);
    if (program->service_us > 0) {
        sched_promise_note(&learnt->promises, program->service_us);
        sched_promise_learn(&learnt->promises);
    }
    sched_class_set_mean(sched, class, mean_of(learnt->rounds, rounds, n));
}

uint64_t sched_class_real_percent(const struct sched_class *class)
{
    return log2_scale(100, class->learnt.error);
}

void sched_class_teach(struct sched *sched, const struct program *ended, const char *name)
{
    struct program program = *ended;
    sched_class_join_name(sched, &program, name);
    sched_class_learn(sched, &program);
}
