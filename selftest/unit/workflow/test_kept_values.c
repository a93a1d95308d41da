/* SPDX-License-Identifier: MIT */
/*
 * Goal: values of the prompt cache outlive the core: the next one finds each of them as it was, or
 * does not find it; never another one, and no room is lost or given twice.
 * Method: caches one after the other over the same kept memory. Deaths: each word is that from
 * before some changes or that from after them, by chance, which is more than any death leaves.
 */
#include "selftest/unit/draw.h"
#include "selftest/unit/test.h"

#include "sched/workflow/prompt_cache.h"

enum { ENTRIES = 8, CHUNKS = 8, TOKENS = CHUNKS * PROMPT_CACHE_CHUNK, WORDS = 256, ROUNDS = 20000 };

static _Alignas(ARENA_ALIGN_BYTES) uint64_t kept[WORDS];
static uint64_t before[WORDS], after[WORDS], random_state = 1;
static struct prompt_cache cache;

static uint64_t draw(uint64_t bound)
{
    return draw_below(&random_state, bound);
}

static void begin_core_of(struct prompt_cache_counts counts)
{
    static uint8_t cores;
    struct arena arena = {.base = (uint8_t *)kept, .size_bytes = sizeof kept};  /* not zeroed */
    const uint8_t secret[32] = {++cores};
    prompt_cache_init(&cache, counts, secret, test_arena(), &arena);
    prompt_cache_take_up(&cache);
    prompt_cache_check(&cache);
}

static void begin_core(void)
{
    begin_core_of((struct prompt_cache_counts){ENTRIES, TOKENS});
}

static void begin(void)
{
    memset(kept, 0, sizeof kept);
    begin_core();
}

static struct prompt_cache_key key_of(uint64_t domain, uint32_t prompt)
{
    const struct workflow_node node = {.kind = WORKFLOW_LLM, .max_tokens = 4};
    return prompt_cache_key(&cache, domain, &node, &prompt, 1);
}

/* One in four values is that of other prompts, too. */
static uint32_t token_of(uint64_t domain, uint32_t prompt)
{
    return prompt % 4 == 0 ? 7 : (uint32_t)domain * 1000 + prompt;
}

static uint32_t open(uint64_t domain, uint32_t prompt)
{
    struct prompt_cache_key key = key_of(domain, prompt);
    return prompt_cache_open(&cache, domain, &key);
}

static void keep(uint64_t domain, uint32_t prompt, uint32_t count)
{
    uint32_t value[TOKENS], entry = open(domain, prompt);
    for (uint32_t i = 0; i < count; i++) {
        value[i] = token_of(domain, prompt);
    }
    prompt_cache_fill(&cache, entry, value, count);
    prompt_cache_check(&cache);
}

/* Tokens of its value, each of which is right; UINT32_MAX: it is not there. */
static uint32_t find(uint64_t domain, uint32_t prompt)
{
    uint32_t value[TOKENS];
    struct prompt_cache_key key = key_of(domain, prompt);
    uint32_t entry = prompt_cache_find(&cache, &key);
    if (entry == PROMPT_CACHE_NONE) {
        return UINT32_MAX;
    }
    uint32_t count = prompt_cache_read(&cache, entry, value);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(value[i], token_of(domain, prompt));
    }
    return count;
}

/* When all values are given up, every entry and every chunk can be had, once. */
static void fill_up(void)
{
    prompt_cache_doubt(&cache);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        keep(9, 100 + i, PROMPT_CACHE_CHUNK);
    }
    assert_int_equal(cache.known, ENTRIES);
    assert_int_equal(cache.used_chunks, CHUNKS);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        assert_int_equal(find(9, 100 + i), PROMPT_CACHE_CHUNK);
    }
    keep(9, 99, TOKENS);
    assert_int_equal(find(9, 99), TOKENS);
    assert_int_equal(cache.known, 1);
}

/* ---- in order -------------------------------------------------------------------------------- */

static void test_values_are_found_again(void **state)
{
    (void)state;
    begin();
    keep(1, 10, 0);
    keep(1, 11, 1);
    keep(2, 10, PROMPT_CACHE_CHUNK);
    keep(3, 13, 2 * PROMPT_CACHE_CHUNK + 1);
    for (uint32_t cores = 0; cores < 3; cores++) {
        begin_core();
        assert_int_equal(cache.known, 4);
        assert_int_equal(cache.used_chunks, 5);
        assert_int_equal(find(1, 10), 0);
        assert_int_equal(find(1, 11), 1);
        assert_int_equal(find(2, 10), PROMPT_CACHE_CHUNK);
        assert_int_equal(find(3, 13), 2 * PROMPT_CACHE_CHUNK + 1);
        assert_int_equal(find(2, 11), UINT32_MAX);
    }
    fill_up();
}

static void test_what_was_given_up_or_open_is_not(void **state)
{
    (void)state;
    begin();
    keep(1, 10, TOKENS);
    keep(1, 11, 1);                             /* takes its room */
    assert_int_not_equal(open(1, 12), PROMPT_CACHE_NONE);
    begin_core();
    assert_int_equal(find(1, 10), UINT32_MAX);
    assert_int_equal(find(1, 11), 1);
    assert_int_equal(find(1, 12), UINT32_MAX);
    fill_up();
}

static void test_what_was_doubted_is_not(void **state)
{
    (void)state;
    begin();
    keep(1, 10, 1);
    memcpy(before, kept, sizeof kept);
    prompt_cache_doubt(&cache);
    keep(1, 11, 1);
    begin_core();
    assert_int_equal(find(1, 10), UINT32_MAX);
    assert_int_equal(find(1, 11), 1);
    memcpy(kept, before, sizeof kept);          /* the core died after the first store */
    begin_core();
    assert_int_equal(find(1, 10), 1);
    cache.head->doubts++;
    begin_core();
    assert_int_equal(find(1, 10), UINT32_MAX);
    fill_up();
}

/* ---- deaths and garbage ---------------------------------------------------------------------- */

/* The second value took the room of the first, and is the same; the first one's record is back. */
static void test_no_two_values_have_one_chunk(void **state)
{
    const struct prompt_cache_counts counts = {2, PROMPT_CACHE_CHUNK};
    (void)state;
    memset(kept, 0, sizeof kept);
    begin_core_of(counts);
    keep(1, 4, 1);
    struct prompt_cache_value first = cache.values[0];
    assert_int_not_equal(first.check, 0);
    keep(1, 8, 1);
    assert_int_equal(find(1, 4), UINT32_MAX);
    cache.values[0] = first;
    begin_core_of(counts);
    assert_int_equal(cache.known, 1);
    assert_int_equal(cache.used_chunks, 1);
    keep(1, 12, 1);
    assert_int_equal(cache.known, 1);
}

/* The same with a value that has no chunk, and has come to another entry. */
static void test_no_value_is_there_twice(void **state)
{
    const struct prompt_cache_counts counts = {2, PROMPT_CACHE_CHUNK};
    (void)state;
    memset(kept, 0, sizeof kept);
    begin_core_of(counts);
    keep(1, 10, 0);
    struct prompt_cache_value first = cache.values[0];
    keep(1, 11, 0);
    keep(1, 12, 0);
    keep(1, 10, 0);
    assert_int_not_equal(cache.values[1].check, 0);
    cache.values[0] = first;
    begin_core_of(counts);
    assert_int_equal(cache.known, 1);
    assert_int_equal(find(1, 10), 0);
}

static void change(void)
{
    uint64_t domain = draw(3);
    uint32_t prompt = (uint32_t)draw(12), count = (uint32_t)draw(3 * PROMPT_CACHE_CHUNK);
    if (draw(50) == 0) {
        prompt_cache_doubt(&cache);
    } else if (find(domain, prompt) == UINT32_MAX) {
        keep(domain, prompt, count);
    }
}

static void look(uint32_t round)
{
    for (uint64_t domain = 0; domain < 3; domain++) {
        for (uint32_t prompt = 0; prompt < 12; prompt++) {
            find(domain, prompt);
        }
    }
    if (round % 64 == 0) {
        fill_up();
    }
}

static void test_a_death_leaves_values_that_are_right(void **state)
{
    uint64_t found = 0;
    (void)state;
    begin();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        memcpy(before, kept, sizeof kept);
        for (uint64_t i = 1 + draw(3); i > 0; i--) {
            change();
        }
        memcpy(after, kept, sizeof kept);
        uint64_t share = 1 + draw(99);
        for (uint32_t i = 0; i < WORDS; i++) {
            kept[i] = draw(100) < share ? before[i] : after[i];
        }
        begin_core();
        found += cache.known;
        look(round);
    }
    assert_true(found > ROUNDS);
}

static void test_garbage_is_no_value(void **state)
{
    uint64_t found = 0;
    (void)state;
    begin();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        change();
        kept[draw(WORDS)] ^= draw(2) == 0 ? UINT64_C(1) << draw(64) : draw(UINT64_MAX);
        begin_core();
        found += cache.known;
        look(round);
    }
    assert_true(found > ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_found_again),
        cmocka_unit_test(test_what_was_given_up_or_open_is_not),
        cmocka_unit_test(test_what_was_doubted_is_not),
        cmocka_unit_test(test_no_two_values_have_one_chunk),
        cmocka_unit_test(test_no_value_is_there_twice),
        cmocka_unit_test(test_a_death_leaves_values_that_are_right),
        cmocka_unit_test(test_garbage_is_no_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
