/* SPDX-License-Identifier: MIT */
/*
 * What: the command line of agentix-sim: which seeds, for how long; and the report of a failure.
 *
 * A run that fails is repeated from its tape. It must fail alike: else the run is not a function of
 * its tape, which is worse. Then the tape is shrunk and left as two files: the tape, for --replay,
 * and the script, for people.
 */
#include <stdlib.h>
#include <time.h>

#include "selftest/sim/sim.h"
#include "tools/command_line.h"

#define STEPS_DEFAULT     2000
#define NOT_GIVEN         UINT64_MAX
#define OPPORTUNITIES_MAX 24            /* that are tried, of a fault in a scenario */

static struct request {
    struct argument_range seeds, engines, tenants;
    uint64_t seed, minutes, seconds, steps, depth, scenarios, deaths;
    const char *replay, *out;
    bool twice, reads_along, keeps_tapes, stops;
} request = {.seeds = {1, 100}, .engines = {1, 1}, .minutes = NOT_GIVEN, .seed = NOT_GIVEN,
             .steps = STEPS_DEFAULT, .out = "build"};

static const struct argument rows[] = {
    {"--seed", "S", ARGUMENT_U64, &request.seed, 0, 0, "one run"},
    {"--seeds", "A-B", ARGUMENT_RANGE, &request.seeds, 0, 0, "a run for each"},
    {"--minutes", "M", ARGUMENT_U64, &request.minutes, 0, 0,
     "runs of seeds that were not run before, for so much CPU time; 0: for ever"},
    {"--seconds", "S", ARGUMENT_U64, &request.seconds, 0, 0,
     "runs of the seeds from 1 on, for so much CPU time"},
    {"--replay", "TAPE", ARGUMENT_TEXT, &request.replay, 0, 0, "the run that a failure has left"},
    {"--exhaust", "D", ARGUMENT_U64, &request.depth, 0, 0,
     "every order of D events, in small worlds"},
    {"--nth-fault", "S", ARGUMENT_U64, &request.scenarios, 0, 0,
     "each fault at each of its first opportunities, in S scenarios"},
    {"--steps", "N", ARGUMENT_U64, &request.steps, 0, 0,
     "passes of a run before the faults cease (2000)"},
    {"--tenants", "A-B", ARGUMENT_RANGE, &request.tenants, 0, 0,
     "for each seed a tenant's program alone, and beside tenants that attack"},
    {"--engines", "A-B", ARGUMENT_RANGE, &request.engines, 1, SIM_ENGINES_MAX,
     "number of engines, by the seed (1-1)"},
    {"--deaths", "N", ARGUMENT_U64, &request.deaths, 0, UINT32_MAX,
     "cores die often, up to N times a run"},
    {"--twice", "", ARGUMENT_FLAG, &request.twice, 0, 0,
     "each run a second time, from its tape: both must be the same"},
    {"--script", "", ARGUMENT_FLAG, &request.reads_along, 0, 0, "say what happens"},
    {"--no-shrink", "", ARGUMENT_FLAG, &request.keeps_tapes, 0, 0,
     "leave the tape of a failure as it is"},
    {"--stop", "", ARGUMENT_FLAG, &request.stops, 0, 0, "the first failure is the last"},
    {"--out", "FOLDER", ARGUMENT_TEXT, &request.out, 0, 0, "where failures are left (build)"},
};
static const struct command_line line = {
    .program = "agentix-sim",
    .usage = "[--seed S | --seeds A-B | --minutes M | --seconds S | --replay TAPE\n"
             "                    | --exhaust D | --nth-fault S | --tenants A-B]\n"
             "                   [--engines A-B] [--steps N] [--deaths N] [--twice]\n"
             "                   [--script] [--no-shrink] [--stop] [--out FOLDER]",
    .rows = rows, .rows_count = sizeof rows / sizeof rows[0]};

struct tally {
    uint64_t seeds, passes, faults, failures, engine_steps, tokens, virtual_us, deaths, upgrades;
};

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
    tally->deaths += sim->deaths;
    tally->upgrades += sim->upgrades;
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

static void report(struct sim *sim, struct tape *tape, uint64_t seed)
{
    char tape_path[256], script_path[256];
    tell(sim, "seed", seed);
    if (!repeats(sim, tape)) {
        printf("    NOT THE SAME WHEN RUN AGAIN: invariant %d\n", INVARIANT_DETERMINISM);
        return;
    }
    if (!request.keeps_tapes) {
        sim_shrink(sim, tape);
    }
    snprintf(tape_path, sizeof tape_path, "%s/sim-%llu.tape", request.out,
             (unsigned long long)seed);
    snprintf(script_path, sizeof script_path, "%s/sim-%llu.script", request.out,
             (unsigned long long)seed);
    write_script(sim, tape, script_path);
    if (tape_write(tape, tape_path) == 0) {
        tell(sim, "    shrunk: seed", seed);
        printf("    agentix-sim --replay %s --script\n    read %s\n", tape_path, script_path);
    }
}

/* It is no choice of the tape: so the seeds of one engine run as they did when there was only
 * one. */
static uint32_t engines_of(uint64_t seed)
{
    uint64_t mixed = seed * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t count = request.engines.last - request.engines.first + 1;
    return (uint32_t)(request.engines.first + (mixed >> 32) % count);
}

static void run_seed(struct sim *sim, struct tape *tape, struct tally *tally, uint64_t seed)
{
    tape_record(tape, seed, request.steps);
    tape->engines = engines_of(seed);
    tape->deaths = (uint32_t)request.deaths;
    enum sim_outcome outcome = sim_run(sim, tape);
    count(tally, sim);
    if (outcome == SIM_FAILED) {
        tally->failures++;
        report(sim, tape, seed);
    } else if (request.twice && !repeats(sim, tape)) {
        tally->failures++;
        printf("seed %llu: invariant %d: %s\n", (unsigned long long)seed, INVARIANT_DETERMINISM,
               invariant_text(INVARIANT_DETERMINISM));
    }
}

static void run_replay(struct sim *sim, struct tape *tape, struct tally *tally)
{
    if (tape_read(tape, request.replay) != 0) {
        exit(2);
    }
    tape_replay(tape);
    if (sim_run(sim, tape) == SIM_FAILED) {
        tally->failures++;
        tell(sim, "tape", 0);
    }
    count(tally, sim);
}

static void run_exhaust(struct sim *sim, struct tape *tape, struct tally *tally)
{
    uint32_t depth = request.depth < TAPE_DIGITS_MAX ? (uint32_t)request.depth : TAPE_DIGITS_MAX;
    tally->seeds = sim_exhaust(sim, tape, depth);
    if (tally->seeds == 0) {
        tally->failures++;
        tell(sim, "small world", 0);
    }
}

static void run_nth_faults(struct sim *sim, struct tape *tape, struct tally *tally)
{
    tape->engines = (uint32_t)request.engines.last;
    tally->seeds = sim_nth_faults(sim, tape, (uint32_t)request.scenarios, OPPORTUNITIES_MAX);
    if (tally->seeds == 0) {
        tally->failures++;
        tell(sim, "scenario", 0);
    }
}

static bool goes_on(const struct tally *tally)
{
    return !request.stops || tally->failures == 0;
}

static void run_tenants(struct sim *sim, struct tape *tape, struct tally *tally)
{
    for (uint64_t seed = request.tenants.first; seed <= request.tenants.last && goes_on(tally);
         seed++) {
        tape->engines = engines_of(seed);
        bool is_isolated = sim_tenants_run(sim, tape, seed);
        count(tally, sim);
        if (!is_isolated) {
            tally->failures++;
            tell(sim, "tenants of seed", seed);
        }
    }
    printf("the slowest call took %u thousandths of what its share allows\n",
           sim_tenants_worst());
}

static void run_seeds(struct sim *sim, struct tape *tape, struct tally *tally)
{
    for (uint64_t seed = request.seeds.first; seed <= request.seeds.last && goes_on(tally);
         seed++) {
        if (request.seconds > 0 && cpu_seconds() >= (double)request.seconds) {
            return;
        }
        run_seed(sim, tape, tally, seed);
    }
}

/* Which seeds, and for how long, by the words of the command line. */
static void choose_seeds(void)
{
    if (request.seed != NOT_GIVEN) {
        request.seeds = (struct argument_range){request.seed, request.seed};
    }
    if (request.minutes != NOT_GIVEN) {
        request.seconds = 60 * request.minutes;
        request.seeds = (struct argument_range){(uint64_t)time(NULL) << 20, UINT64_MAX};
    } else if (request.seconds > 0) {
        request.seeds.last = UINT64_MAX;
    }
}

static void print_tally(const struct tally *tally)
{
    double cpu_s = cpu_seconds();
    printf("%llu runs, %llu failed, %.1f s of CPU", (unsigned long long)tally->seeds,
           (unsigned long long)tally->failures, cpu_s);
    if (tally->passes > 0) {
        printf(": %llu deaths of cores, %llu upgrades, %llu passes, %llu steps, %llu tokens, "
               "%llu faults, %.1f virtual hours; %.0f passes a second",
               (unsigned long long)tally->deaths, (unsigned long long)tally->upgrades,
               (unsigned long long)tally->passes,
               (unsigned long long)tally->engine_steps, (unsigned long long)tally->tokens,
               (unsigned long long)tally->faults, (double)tally->virtual_us / 3.6e9,
               (double)tally->passes / cpu_s);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static struct tape tape;
    struct tally tally = {0};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    choose_seeds();
    struct sim *sim = sim_new();
    tape_init(&tape);
    sim->script = request.reads_along ? stdout : NULL;
    if (request.replay != NULL) {
        run_replay(sim, &tape, &tally);
    } else if (request.scenarios > 0) {
        run_nth_faults(sim, &tape, &tally);
    } else if (request.tenants.last > 0) {
        run_tenants(sim, &tape, &tally);
    } else if (request.depth > 0) {
        run_exhaust(sim, &tape, &tally);
    } else {
        run_seeds(sim, &tape, &tally);
    }
    print_tally(&tally);
    return tally.failures > 0 ? 1 : 0;
}
