/* SPDX-License-Identifier: MIT */
/*
 * What: the command line of agentix-sim: which seeds, for how long; and the report of a failure.
 *
 * A run that fails is repeated from its tape. It must fail alike: else the run is not a function of
 * its tape, which is worse. Then the tape is shrunk and left as two files: the tape, for --replay,
 * and the script, for people.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "selftest/sim/sim.h"

#define STEPS_DEFAULT     2000
#define OPPORTUNITIES_MAX 24            /* that are tried, of a fault in a scenario */

struct request {
    uint64_t first, last, steps, seconds, depth, scenarios;
    const char *replay, *out;
    bool twice, reads_along, shrinks, stops;
};

struct tally {
    uint64_t seeds, passes, faults, failures, engine_steps, tokens, virtual_us;
};

static const char usage[] =
    "usage: agentix-sim [--seed S | --seeds A-B | --minutes M | --seconds S | --replay TAPE\n"
    "                    | --exhaust D | --nth-fault S]\n"
    "                   [--steps N] [--twice] [--script] [--no-shrink] [--stop] [--out FOLDER]\n"
    "  --seed S       one run\n"
    "  --seeds A-B    a run for each\n"
    "  --minutes M    runs of seeds that were not run before, for so much CPU time; 0: for ever\n"
    "  --seconds S    runs of the seeds from 1 on, for so much CPU time\n"
    "  --replay TAPE  the run that a failure has left\n"
    "  --exhaust D    every order of D events, in small worlds\n"
    "  --nth-fault S  each fault at each of its first opportunities, in S scenarios\n"
    "  --steps N      passes of a run before the faults cease (2000)\n"
    "  --twice        each run a second time, from its tape: both must be the same\n"
    "  --script       say what happens\n"
    "  --no-shrink    leave the tape of a failure as it is\n"
    "  --stop         the first failure is the last\n"
    "  --out FOLDER   where failures are left (build)\n";

/* CPU time of this process, so that a busy machine does not shorten a run. */
static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void count(struct tally *tally, const struct sim *sim)
{
    tally->seeds++;
    tally->passes += sim->pass;
    tally->engine_steps += sim->counts.steps;
    tally->tokens += sim->loop.stats.tokens_generated;
    tally->virtual_us += sim->now_us - SIM_EPOCH_US;
    for (uint32_t i = 0; i < SIM_FAULTS; i++) {
        tally->faults += sim->faults[i];
    }
}

/* Runs what is on the tape; true when it ends as the run before did. */
static bool repeats(struct sim *sim, struct tape *tape)
{
    const struct sim_failure before = sim->failure;
    uint64_t hash = sim->hash, pass = sim->pass;
    tape_replay(tape);
    sim_run(sim, tape);
    return sim->hash == hash && sim->pass == pass &&
           sim->failure.invariant == before.invariant;
}

static void write_script(struct sim *sim, struct tape *tape, const char *path)
{
    FILE *along = sim->script;
    sim->script = fopen(path, "w");
    tape_replay(tape);
    sim_run(sim, tape);
    if (sim->script != NULL) {
        fclose(sim->script);
    }
    sim->script = along;
}

static void tell(const struct sim *sim, const char *what, uint64_t seed)
{
    const struct sim_failure *failure = &sim->failure;
    printf("%s %llu, pass %llu, %.6f s: invariant %d: %s\n    %s\n", what,
           (unsigned long long)seed, (unsigned long long)failure->pass,
           (double)failure->now_us / 1e6, failure->invariant, invariant_text(failure->invariant),
           failure->text);
    fflush(stdout);
}

static void report(struct sim *sim, struct tape *tape, const struct request *request,
                   uint64_t seed)
{
    char tape_path[256], script_path[256];
    tell(sim, "seed", seed);
    if (!repeats(sim, tape)) {
        printf("    NOT THE SAME WHEN RUN AGAIN: invariant %d\n", INVARIANT_DETERMINISM);
        return;
    }
    if (request->shrinks) {
        sim_shrink(sim, tape);
    }
    snprintf(tape_path, sizeof tape_path, "%s/sim-%llu.tape", request->out,
             (unsigned long long)seed);
    snprintf(script_path, sizeof script_path, "%s/sim-%llu.script", request->out,
             (unsigned long long)seed);
    write_script(sim, tape, script_path);
    if (tape_write(tape, tape_path) == 0) {
        tell(sim, "    shrunk: seed", seed);
        printf("    agentix-sim --replay %s --script\n    read %s\n", tape_path, script_path);
    }
}

static void run_seed(struct sim *sim, struct tape *tape, const struct request *request,
                     struct tally *tally, uint64_t seed)
{
    tape_record(tape, seed, request->steps);
    enum sim_outcome outcome = sim_run(sim, tape);
    count(tally, sim);
    if (outcome == SIM_FAILED) {
        tally->failures++;
        report(sim, tape, request, seed);
    } else if (request->twice && !repeats(sim, tape)) {
        tally->failures++;
        printf("seed %llu: invariant %d: %s\n", (unsigned long long)seed, INVARIANT_DETERMINISM,
               invariant_text(INVARIANT_DETERMINISM));
    }
}

static void run_replay(struct sim *sim, struct tape *tape, const struct request *request,
                       struct tally *tally)
{
    if (tape_read(tape, request->replay) != 0) {
        exit(2);
    }
    tape_replay(tape);
    if (sim_run(sim, tape) == SIM_FAILED) {
        tally->failures++;
        tell(sim, "tape", 0);
    }
    count(tally, sim);
}

static void run_exhaust(struct sim *sim, struct tape *tape, const struct request *request,
                        struct tally *tally)
{
    uint32_t depth = request->depth < TAPE_DIGITS_MAX ? (uint32_t)request->depth : TAPE_DIGITS_MAX;
    tally->seeds = sim_exhaust(sim, tape, depth);
    if (tally->seeds == 0) {
        tally->failures++;
        tell(sim, "small world", 0);
    }
}

static void run_nth_faults(struct sim *sim, struct tape *tape, const struct request *request,
                           struct tally *tally)
{
    tally->seeds = sim_nth_faults(sim, tape, (uint32_t)request->scenarios, OPPORTUNITIES_MAX);
    if (tally->seeds == 0) {
        tally->failures++;
        tell(sim, "scenario", 0);
    }
}

static bool goes_on(const struct request *request, const struct tally *tally)
{
    return !request->stops || tally->failures == 0;
}

static void run_seeds(struct sim *sim, struct tape *tape, const struct request *request,
                      struct tally *tally)
{
    for (uint64_t seed = request->first; seed <= request->last && goes_on(request, tally); seed++) {
        if (request->seconds > 0 && cpu_seconds() >= (double)request->seconds) {
            return;
        }
        run_seed(sim, tape, request, tally, seed);
    }
}

static bool parse_word(struct request *request, const char *word)
{
    request->twice = request->twice || strcmp(word, "--twice") == 0;
    request->reads_along = request->reads_along || strcmp(word, "--script") == 0;
    request->shrinks = request->shrinks && strcmp(word, "--no-shrink") != 0;
    request->stops = request->stops || strcmp(word, "--stop") == 0;
    return strcmp(word, "--twice") == 0 || strcmp(word, "--script") == 0 ||
           strcmp(word, "--no-shrink") == 0 || strcmp(word, "--stop") == 0;
}

static bool parse_pair(struct request *request, const char *word, const char *value)
{
    char *end = NULL;
    uint64_t number = strtoull(value, &end, 10);
    if (strcmp(word, "--replay") == 0) {
        request->replay = value;
    } else if (strcmp(word, "--out") == 0) {
        request->out = value;
    } else if (strcmp(word, "--seeds") == 0 && *end == '-') {
        request->first = number;
        request->last = strtoull(end + 1, &end, 10);
    } else if (strcmp(word, "--seed") == 0) {
        request->first = request->last = number;
    } else if (strcmp(word, "--nth-fault") == 0) {
        request->scenarios = number;
    } else if (strcmp(word, "--exhaust") == 0) {
        request->depth = number;
    } else if (strcmp(word, "--steps") == 0) {
        request->steps = number;
    } else if (strcmp(word, "--minutes") == 0) {
        request->seconds = 60 * number;
        request->first = (uint64_t)time(NULL) << 20;
        request->last = UINT64_MAX;
    } else if (strcmp(word, "--seconds") == 0) {
        request->seconds = number;
        request->last = UINT64_MAX;
    } else {
        return false;
    }
    return strcmp(word, "--replay") == 0 || strcmp(word, "--out") == 0 || *end == '\0';
}

static bool parse(struct request *request, int count, char **words)
{
    for (int i = 1; i < count; i++) {
        if (parse_word(request, words[i])) {
            continue;
        }
        if (i + 1 == count || !parse_pair(request, words[i], words[i + 1])) {
            return false;
        }
        i++;
    }
    return true;
}

static void print_tally(const struct tally *tally)
{
    double cpu_s = cpu_seconds();
    printf("%llu runs, %llu failed, %.1f s of CPU", (unsigned long long)tally->seeds,
           (unsigned long long)tally->failures, cpu_s);
    if (tally->passes > 0) {
        printf(": %llu passes, %llu steps, %llu tokens, %llu faults, %.1f virtual hours; "
               "%.0f passes a second", (unsigned long long)tally->passes,
               (unsigned long long)tally->engine_steps, (unsigned long long)tally->tokens,
               (unsigned long long)tally->faults, (double)tally->virtual_us / 3.6e9,
               (double)tally->passes / cpu_s);
    }
    printf("\n");
}

int main(int count, char **words)
{
    static struct tape tape;
    struct tally tally = {0};
    struct request request = {.first = 1, .last = 100, .steps = STEPS_DEFAULT, .out = "build",
                              .shrinks = true};
    if (!parse(&request, count, words)) {
        fputs(usage, stderr);
        return 2;
    }
    struct sim *sim = sim_new();
    tape_init(&tape);
    sim->script = request.reads_along ? stdout : NULL;
    if (request.replay != NULL) {
        run_replay(sim, &tape, &request, &tally);
    } else if (request.scenarios > 0) {
        run_nth_faults(sim, &tape, &request, &tally);
    } else if (request.depth > 0) {
        run_exhaust(sim, &tape, &request, &tally);
    } else {
        run_seeds(sim, &tape, &request, &tally);
    }
    print_tally(&tally);
    return tally.failures > 0 ? 1 : 0;
}
