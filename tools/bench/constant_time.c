/* SPDX-License-Identifier: MIT
 *
 * What: whether the time of authentication depends on secrets, by the method of dudect (Reparaz,
 * Balasch, Verbauwhede: "Dude, is my code constant time?", 2017).
 *
 *     constant-time [--samples N]     (default: 1000000 of each row)
 *
 * Each row runs one function with inputs of two classes, one fixed and one random, in random order,
 * and counts cycles. Welch's t tells how certain it is that the means of the classes differ. It is
 * computed for all samples, and for those below each of a few percentiles, which excludes
 * interrupts. The largest |t| counts, so chance alone reaches 3 or 4. Above 10 the classes differ.
 * The rows named "planted" have a leak on purpose and must be found: else the tool proves nothing.
 * Exit code 1: a row differs that should not, or a planted one is not found.
 *
 * Inputs of a batch are made before its first measurement, in memory that is alike for both
 * classes. Other work on the machine adds noise to both and lowers |t|; more samples raise it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "config/base/splitmix.h"
#include "net/auth/auth.h"
#include "tools/command_line.h"

#define SAMPLES      1000000u
#define BATCH        1000u
#define T_DIFFERENT  10.0
#define KEYS         64u                /* CONFIG_KEYS_MAX: the largest table */
#define FIXED_KEY    0u
#define AUTH_BYTES   (WIRE_KEY_ID_BYTES + WIRE_NONCE_BYTES + WIRE_MAC_BYTES)

struct input { uint8_t bytes[AUTH_BYTES]; };
struct row {
    const char *name, *fixed, *random;
    void (*fill)(struct input *input, bool is_fixed);
    void (*act)(const struct input *input);
    bool is_planted;
};

static struct net net;
static struct stats stats;
static struct net_connection connection;
static struct net_key keys[KEYS];
static struct wire_proof proof;
static uint8_t expected[WIRE_MAC_BYTES];
static volatile uint32_t sink;

/* ---- chance ---------------------------------------------------------------------------------- */

static uint64_t random_u64(void)
{
    static uint64_t state;
    return splitmix_next(&state);
}

static void fill_random(uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)random_u64();
    }
}

/* A name as AUTH must carry it: 31 letters and a terminator. */
static void fill_id(char *id)
{
    for (uint32_t i = 0; i + 1 < WIRE_KEY_ID_BYTES; i++) {
        id[i] = (char)('a' + random_u64() % 26);
    }
    id[WIRE_KEY_ID_BYTES - 1] = '\0';
}

/* ---- what is measured ------------------------------------------------------------------------ */

/* Both are wrong: one in its last byte, one most probably in its first. */
static void fill_guess(struct input *input, bool is_fixed)
{
    fill_random(input->bytes, WIRE_MAC_BYTES);
    if (is_fixed) {
        memcpy(input->bytes, expected, WIRE_MAC_BYTES - 1);
        input->bytes[WIRE_MAC_BYTES - 1] = (uint8_t)~expected[WIRE_MAC_BYTES - 1];
    }
}

static void compare(const struct input *input)
{
    sink = wire_is_equal(expected, input->bytes);
}

static void compare_until_different(const struct input *input)
{
    uint32_t i = 0;
    while (i < WIRE_MAC_BYTES && input->bytes[i] == expected[i]) {
        i++;
    }
    sink = i;
}

static void fill_secret(struct input *input, bool is_fixed)
{
    fill_random(input->bytes, WIRE_SECRET_BYTES);
    if (is_fixed) {
        memset(input->bytes, 0, WIRE_SECRET_BYTES);
    }
}

static void make_proof(const struct input *input)
{
    uint8_t mac[WIRE_MAC_BYTES];
    wire_proof_mac(&proof, WIRE_CLIENT, input->bytes, mac);
    sink = mac[0];
}

/* AUTH that is refused: the proof is random. */
static void fill_auth(struct input *input, const char *id)
{
    fill_random(input->bytes, AUTH_BYTES);
    memcpy(input->bytes, id, WIRE_KEY_ID_BYTES);
}

static void fill_known_or_not(struct input *input, bool is_fixed)
{
    char unknown[WIRE_KEY_ID_BYTES];
    fill_id(unknown);
    fill_auth(input, is_fixed ? keys[FIXED_KEY].id : unknown);
}

static void fill_one_or_any(struct input *input, bool is_fixed)
{
    uint32_t any = (uint32_t)(random_u64() % KEYS);
    fill_auth(input, keys[is_fixed ? FIXED_KEY : any].id);
}

static void refuse(const struct input *input)
{
    struct net_frame frame = {.net = &net, .type = WIRE_AUTH, .payload = input->bytes,
                              .payload_bytes = AUTH_BYTES};
    sink = net_auth_intake(&frame);
}

static void refuse_and_stop_where_found(const struct input *input)
{
    uint32_t i = 0;
    refuse(input);
    while (i < KEYS && memcmp(keys[i].id, input->bytes, WIRE_KEY_ID_BYTES) != 0) {
        i++;
    }
    sink = i;
}

static const struct row rows[] = {
    {"proof compared", "wrong at its end", "wrong", fill_guess, compare, false},
    {"proof made", "secret of zeros", "any secret", fill_secret, make_proof, false},
    {"AUTH refused", "known id", "unknown id", fill_known_or_not, refuse, false},
    {"AUTH refused", "one key's id", "any key's id", fill_one_or_any, refuse, false},
    {"planted: compare that stops", "wrong at its end", "wrong", fill_guess,
     compare_until_different, true},
    {"planted: look-up that stops", "one key's id", "any key's id", fill_one_or_any,
     refuse_and_stop_where_found, true},
};

static void prepare(void)
{
    net = (struct net){.stats = &stats, .connections = &connection, .keys = keys,
                       .keys_count = KEYS};
    fill_random(net.decoy_secret, sizeof net.decoy_secret);
    fill_random(expected, sizeof expected);
    fill_id(proof.key_id);
    for (uint32_t i = 0; i < KEYS; i++) {
        fill_id(keys[i].id);
        fill_random(keys[i].secret, sizeof keys[i].secret);
    }
}

/* ---- Welch's t ------------------------------------------------------------------------------- */

static const uint32_t percents[] = {100, 99, 95, 90, 80, 70, 60, 50};
#define CROPS (sizeof percents / sizeof percents[0])

struct sum { double count, mean, squares; };
struct test { uint64_t below; struct sum classes[2]; };     /* of samples up to `below` */

static void add(struct sum *sum, double value)
{
    double away = value - sum->mean;
    sum->mean += away / ++sum->count;
    sum->squares += away * (value - sum->mean);
}

static double welch(const struct test *test)
{
    const struct sum *a = &test->classes[0], *b = &test->classes[1];
    double variance = a->squares / (a->count - 1) / a->count +
                      b->squares / (b->count - 1) / b->count;
    return variance > 0 ? fabs(a->mean - b->mean) / sqrt(variance) : 0;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static struct input inputs[BATCH];
static bool is_fixed[BATCH];
static uint64_t cycles[BATCH];

static void measure_batch(const struct row *row)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        is_fixed[i] = random_u64() & 1;
        row->fill(&inputs[i], is_fixed[i]);
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        unsigned int cpu;
        _mm_lfence();
        uint64_t start = __rdtsc();
        _mm_lfence();
        row->act(&inputs[i]);
        cycles[i] = __rdtscp(&cpu) - start;
        _mm_lfence();
    }
}

/* The first batch only finds the percentiles. */
static void calibrate(const struct row *row, struct test *tests)
{
    measure_batch(row);
    for (uint32_t i = 1; i < BATCH; i++) {
        uint64_t value = cycles[i];
        uint32_t at = i;
        for (; at > 0 && cycles[at - 1] > value; at--) {
            cycles[at] = cycles[at - 1];
        }
        cycles[at] = value;
    }
    for (uint32_t k = 0; k < CROPS; k++) {
        tests[k] = (struct test){
            .below = k == 0 ? UINT64_MAX : cycles[BATCH * percents[k] / 100 - 1]};
    }
}

/* The largest |t| of the row. */
static double measure(const struct row *row, uint64_t samples, struct test *tests)
{
    double most = 0;
    measure_batch(row);                 /* caches and predictors are warm after it */
    calibrate(row, tests);
    for (uint64_t done = 0; done < samples; done += BATCH) {
        measure_batch(row);
        for (uint32_t i = 0; i < BATCH; i++) {
            for (uint32_t k = 0; k < CROPS && cycles[i] <= tests[k].below; k++) {
                add(&tests[k].classes[is_fixed[i]], (double)cycles[i]);
            }
        }
    }
    for (uint32_t k = 0; k < CROPS; k++) {
        most = welch(&tests[k]) > most ? welch(&tests[k]) : most;
    }
    return most;
}

int main(int argc, char **argv)
{
    uint32_t samples = SAMPLES;
    bool is_as_it_should = true;
    const struct argument options[] = {
        {"--samples", "N", ARGUMENT_U32, &samples, BATCH, UINT32_MAX, "of each row"},
    };
    const struct command_line line = {
        .program = "constant-time", .usage = "[--samples N]",
        .purpose = "Does the time of authentication depend on secrets?",
        .rows = options, .rows_count = sizeof options / sizeof options[0]};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    prepare();
    printf("%-28s %-17s %9s %-13s %9s %9s\n", "what", "fixed", "cycles", "random", "cycles", "|t|");
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct test tests[CROPS];
        double t = measure(&rows[i], samples, tests);
        const struct test *half = &tests[CROPS - 1];        /* the fastest half */
        printf("%-28s %-17s %9.2f %-13s %9.2f %9.1f%s\n", rows[i].name, rows[i].fixed,
               half->classes[1].mean, rows[i].random, half->classes[0].mean, t,
               t > T_DIFFERENT ? "  differs" : "");
        is_as_it_should &= (t > T_DIFFERENT) == rows[i].is_planted;
    }
    return is_as_it_should ? 0 : 1;
}
