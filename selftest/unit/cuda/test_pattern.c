/* SPDX-License-Identifier: MIT
 *
 * Goal: every pattern is written as it is defined; every wrong word is counted and the first one
 * reported, wherever it is. Method: fills against the definition, for counts around the size of a
 * thread block; single wrong bits at the edges; all words wrong.
 */
#include "selftest/unit/cuda/gpu_rig.h"

#define MANY (3u * GPU_PATTERN_THREADS * GPU_PATTERN_WORDS + 5)

static struct gpu_pattern_report verify(const struct gpu_pattern_fill *fill)
{
    uint32_t blocks = gpu_pattern_grid(fill->count);
    struct gpu_pattern_report sum = {0}, *reports = rig_take(blocks * sizeof *reports);
    struct gpu_pattern_verify args = {
        .pattern = fill->pattern, .words = fill->words, .first = fill->first, .count = fill->count,
        .reports = rig_address(reports)};
    RIG_LAUNCH(pattern_verify, &args);
    for (uint32_t i = 0; i < blocks; i++) {
        gpu_pattern_report_add(&sum, &reports[i]);
    }
    return sum;
}

static uint64_t *fill(struct gpu_pattern_fill *args, uint64_t count)
{
    uint64_t *words = rig_take(count * sizeof *words);
    args->words = rig_address(words);
    args->count = count;
    RIG_LAUNCH(pattern_fill, args);
    return words;
}

static void test_fill_every_pattern_holds_what_is_defined(void **state)
{
    (void)state;
    const uint64_t counts[] = {1, GPU_PATTERN_THREADS * GPU_PATTERN_WORDS,
                               GPU_PATTERN_THREADS * GPU_PATTERN_WORDS + 1, MANY};
    for (uint32_t kind = 0; kind < GPU_PATTERN_KINDS * 2; kind++) {
        struct gpu_pattern_fill args = {
            .pattern = {.seed = 77, .kind = kind / 2, .is_inverted = kind % 2}, .first = 1000};
        for (uint32_t c = 0; c < 4; c++) {
            uint64_t *words = fill(&args, counts[c]);
            for (uint64_t i = 0; i < counts[c]; i++) {
                assert_int_equal(words[i], gpu_pattern_word(&args.pattern, 1000 + i));
            }
            assert_int_equal(verify(&args).wrong, 0);
        }
    }
}

/* As the operator knows them. */
static void test_word_of_each_kind_is_what_its_name_says(void **state)
{
    (void)state;
    struct gpu_pattern pattern = {.seed = 3};
    const uint64_t words[GPU_PATTERN_KINDS] = {
        [GPU_PATTERN_ADDRESS] = 40, [GPU_PATTERN_SOLID] = 0,
        [GPU_PATTERN_CHECKERBOARD] = 0xaaaaaaaaaaaaaaaa, [GPU_PATTERN_WALKING_BIT] = 1u << 8};
    for (uint32_t kind = 0; kind < GPU_PATTERN_KINDS; kind++) {
        pattern.kind = kind;
        pattern.is_inverted = 0;
        if (kind != GPU_PATTERN_RANDOM) {   /* any numbers will do */
            assert_int_equal(gpu_pattern_word(&pattern, 5), words[kind]);
        }
        pattern.is_inverted = 1;
        uint64_t inverse = gpu_pattern_word(&pattern, 5);
        pattern.is_inverted = 0;
        assert_int_equal(gpu_pattern_word(&pattern, 5), ~inverse);
    }
}

static void test_verify_one_bit_anywhere_is_found(void **state)
{
    (void)state;
    const uint64_t places[] = {0, 31, 255, 256, 4095, 4096, MANY / 2, MANY - 2, MANY - 1};
    struct gpu_pattern_fill args = {.pattern = {.seed = 5, .kind = GPU_PATTERN_RANDOM}};
    uint64_t *words = fill(&args, MANY);
    for (uint32_t i = 0; i < sizeof places / sizeof *places; i++) {
        words[places[i]] ^= UINT64_C(1) << (i * 7);
        struct gpu_pattern_report report = verify(&args);
        assert_int_equal(report.wrong, 1);
        assert_int_equal(report.first, places[i]);
        assert_int_equal(report.found, words[places[i]]);
        words[places[i]] ^= UINT64_C(1) << (i * 7);
    }
}

static void test_verify_many_wrong_words_are_counted_and_the_first_is_named(void **state)
{
    (void)state;
    struct gpu_pattern_fill args = {.pattern = {.kind = GPU_PATTERN_SOLID}};
    uint64_t *words = fill(&args, MANY);
    words[4097] = 3;
    words[300] = 2;
    words[MANY - 1] = 1;
    struct gpu_pattern_report report = verify(&args);
    assert_int_equal(report.wrong, 3);
    assert_int_equal(report.first, 300);
    assert_int_equal(report.found, 2);
    args.pattern.is_inverted = 1;
    report = verify(&args);
    assert_int_equal(report.wrong, MANY);
    assert_int_equal(report.first, 0);
}

static void test_fold_every_word_counts_once(void **state)
{
    (void)state;
    const uint64_t counts[] = {2, 2 * GPU_PATTERN_THREADS, GPU_PATTERN_THREADS * GPU_PATTERN_WORDS,
                               GPU_PATTERN_THREADS * GPU_PATTERN_WORDS + 2, MANY + 1};
    struct gpu_pattern_fill args = {.pattern = {.seed = 9, .kind = GPU_PATTERN_RANDOM}};
    for (uint32_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        uint64_t *words = fill(&args, counts[c]), expected = 0, found = 0;
        uint32_t threads = gpu_pattern_grid(counts[c]) * GPU_PATTERN_THREADS;
        uint64_t *folds = rig_take(threads * sizeof *folds);
        memset(folds, 0xff, threads * sizeof *folds);
        const struct gpu_pattern_fold fold = {rig_address(words), counts[c], rig_address(folds)};
        RIG_LAUNCH(pattern_fold, &fold);
        for (uint64_t i = 0; i < counts[c]; i++) {
            expected ^= words[i];
        }
        for (uint32_t i = 0; i < threads; i++) {
            found ^= folds[i];
        }
        assert_int_equal(found, expected);
    }
}

static const struct CMUnitTest tests[] = {
    RIG_TEST(test_fill_every_pattern_holds_what_is_defined),
    RIG_TEST(test_word_of_each_kind_is_what_its_name_says),
    RIG_TEST(test_verify_one_bit_anywhere_is_found),
    RIG_TEST(test_verify_many_wrong_words_are_counted_and_the_first_is_named),
    RIG_TEST(test_fold_every_word_counts_once),
};

rig_main(tests)
