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

enum {
    ENTRIES = 8, CHUNKS = 8, TOKENS = CHUNKS * PROMPT_CACHE_CHUNK, WORDS = 256, ROUNDS = 4000,
    DOMAINS = 3, PROMPTS = 12, FULL = DOMAINS,      /* one domain more, which has all of it */
};

static _Alignas(ARENA_ALIGN_BYTES) uint64_t kept[WORDS];
static uint64_t before[WORDS], after[WORDS], random_state = 1;
static uint32_t words;              /* of `kept` that the cache has */
static uint64_t upgrades;
static struct prompt_cache cache;

/* A key takes longer than all else. */
static struct prompt_cache_key keys[DOMAINS + 1][PROMPTS];
static uint8_t keys_secret[32];

static uint64_t draw(uint64_t bound)
{
    return draw_below(&random_state, bound);
}

static void fill_keys(void)
{
    const struct workflow_node node = {.kind = WORKFLOW_LLM, .max_tokens = 4};
    if (memcmp(keys_secret, cache.head->secret, sizeof keys_secret) == 0) {
        return;
    }
    memcpy(keys_secret, cache.head->secret, sizeof keys_secret);
    for (uint32_t domain = 0; domain <= FULL; domain++) {
        for (uint32_t prompt = 0; prompt < PROMPTS; prompt++) {
            keys[domain][prompt] = prompt_cache_key(&cache, domain, &node, &prompt, 1);
        }
    }
}

static void begin_core_of(struct prompt_cache_counts counts)
{
    static uint8_t cores;
    struct arena arena = {.base = (uint8_t *)kept, .size_bytes = sizeof kept};  /* not zeroed */
    const struct prompt_cache_source source = {.secret = {++cores}, .upgrades = upgrades};
    prompt_cache_init(&cache, counts, &source, test_arena(), &arena);
    words = (uint32_t)(arena.used_bytes / sizeof *kept);
    prompt_cache_check(&cache);
    fill_keys();
}

static void begin_core(void)
{
    begin_core_of((struct prompt_cache_counts){ENTRIES, TOKENS});
}

static void begin_of(struct prompt_cache_counts counts)
{
    memset(kept, 0, sizeof kept);
    begin_core_of(counts);
}

static void begin(void)
{
    begin_of((struct prompt_cache_counts){ENTRIES, TOKENS});
}

/* One in four values is that of other prompts, too. */
static uint32_t token_of(uint64_t domain, uint32_t prompt)
{
    return prompt % 4 == 0 ? 7 : (uint32_t)domain * 1000 + prompt;
}

static uint32_t open(uint64_t domain, uint32_t prompt)
{
    return prompt_cache_open(&cache, domain, &keys[domain][prompt]);
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
    uint32_t entry = prompt_cache_find(&cache, &keys[domain][prompt]);
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
        keep(FULL, i, PROMPT_CACHE_CHUNK);
    }
    assert_int_equal(cache.known, ENTRIES);
    assert_int_equal(cache.used_chunks, CHUNKS);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        assert_int_equal(find(FULL, i), PROMPT_CACHE_CHUNK);
    }
    keep(FULL, ENTRIES, TOKENS);
    assert_int_equal(find(FULL, ENTRIES), TOKENS);
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
    keep(0, 9, 2 * PROMPT_CACHE_CHUNK + 1);
    for (uint32_t cores = 0; cores < 3; cores++) {
        begin_core();
        assert_int_equal(cache.known, 4);
        assert_int_equal(cache.used_chunks, 5);
        assert_int_equal(find(1, 10), 0);
        assert_int_equal(find(1, 11), 1);
        assert_int_equal(find(2, 10), PROMPT_CACHE_CHUNK);
        assert_int_equal(find(0, 9), 2 * PROMPT_CACHE_CHUNK + 1);
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
    assert_int_not_equal(open(1, 9), PROMPT_CACHE_NONE);
    begin_core();
    assert_int_equal(find(1, 10), UINT32_MAX);
    assert_int_equal(find(1, 11), 1);
    assert_int_equal(find(1, 9), UINT32_MAX);
    fill_up();
}

static void test_domains_have_their_shares_again(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 6; i++) {
        keep(1, i, 1);
    }
    keep(2, 0, 1);
    keep(2, 1, 1);
    begin_core();
    keep(2, 2, 1);                  /* it has less than its share, and takes from the other */
    keep(2, 3, 1);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(find(2, i), 1);
    }
}

static void test_what_was_doubted_is_not(void **state)
{
    (void)state;
    begin();
    keep(1, 10, 1);
    memcpy(before, kept, sizeof kept);
    prompt_cache_doubt(&cache);
    keep(1, 11, 1);
    struct prompt_cache_head head = *cache.head;
    begin_core();
    assert_int_equal(find(1, 10), UINT32_MAX);
    assert_int_equal(find(1, 11), 1);
    memcpy(kept, before, sizeof kept);
    begin_core();
    assert_int_equal(find(1, 10), 1);
    memcpy(kept, before, sizeof kept);          /* the core died after the first store */
    *cache.head = head;
    begin_core();
    assert_int_equal(find(1, 10), UINT32_MAX);
    fill_up();
}

static void test_after_an_upgrade_nothing_is(void **state)
{
    (void)state;
    begin();
    keep(1, 10, 1);
    upgrades++;
    begin_core();
    assert_int_equal(find(1, 10), UINT32_MAX);
    keep(1, 10, 1);
    begin_core();
    assert_int_equal(find(1, 10), 1);
}

static void test_a_damage_is_doubted_for_once(void **state)
{
    (void)state;
    begin();
    keep(1, 10, 1);
    prompt_cache_doubt_for(&cache, 1);
    assert_int_equal(find(1, 10), UINT32_MAX);
    keep(1, 10, 1);
    begin_core();
    prompt_cache_doubt_for(&cache, 1);
    assert_int_equal(find(1, 10), 1);
    prompt_cache_doubt_for(&cache, 2);
    assert_int_equal(find(1, 10), UINT32_MAX);
    keep(1, 10, 1);
    upgrades++;                     /* the new process counts from 0 on */
    begin_core();
    keep(1, 10, 1);
    prompt_cache_doubt_for(&cache, 2);
    assert_int_equal(find(1, 10), UINT32_MAX);
}

/* ---- deaths and garbage ---------------------------------------------------------------------- */

/* The core died while it wrote the secret, or something else has garbled it. */
static void test_what_another_secret_found_is_not(void **state)
{
    (void)state;
    begin();
    keep(1, 10, 1);
    cache.head->secret[5] ^= 1;
    begin_core();
    assert_int_equal(cache.known, 0);
    keep(1, 10, 1);
    begin_core();
    assert_int_equal(find(1, 10), 1);
}

static void test_a_value_without_an_end_is_none(void **state)
{
    (void)state;
    begin();
    keep(1, 10, PROMPT_CACHE_CHUNK);
    cache.values[0].tokens = UINT32_MAX;
    cache.chunk_next[cache.values[0].first_chunk] = cache.values[0].first_chunk;
    begin_core();
    assert_int_equal(cache.known, 0);
    fill_up();
}

/* The second value took the room of the first, and is the same; the first one's record is back. */
static void test_no_two_values_have_one_chunk(void **state)
{
    const struct prompt_cache_counts counts = {2, PROMPT_CACHE_CHUNK};
    (void)state;
    begin_of(counts);
    keep(1, 4, 1);
    struct prompt_cache_value first = cache.values[0];
    assert_int_not_equal(first.check, 0);
    keep(1, 8, 1);
    assert_int_equal(find(1, 4), UINT32_MAX);
    cache.values[0] = first;
    begin_core_of(counts);
    assert_int_equal(cache.known, 1);
    assert_int_equal(cache.used_chunks, 1);
    keep(1, 9, 1);
    assert_int_equal(cache.known, 1);
}

/* The first value had two chunks, of which the second one's took one: the other is free. */
static void test_the_chunks_of_no_value_are_free(void **state)
{
    const struct prompt_cache_counts counts = {2, 2 * PROMPT_CACHE_CHUNK};
    (void)state;
    begin_of(counts);
    keep(1, 4, PROMPT_CACHE_CHUNK + 1);
    struct prompt_cache_value first = cache.values[0];
    uint32_t second_chunk = cache.chunk_next[first.first_chunk];
    keep(1, 8, 1);
    assert_int_equal(cache.values[1].first_chunk, second_chunk);
    cache.values[0] = first;
    begin_core_of(counts);
    assert_int_equal(cache.known, 1);
    assert_int_equal(find(1, 8), 1);
    keep(1, 9, 1);
    assert_int_equal(find(1, 8), 1);
    assert_int_equal(find(1, 9), 1);
}

/* The same with a value that has no chunk, and has come to another entry. */
static void test_no_value_is_there_twice(void **state)
{
    const struct prompt_cache_counts counts = {2, PROMPT_CACHE_CHUNK};
    (void)state;
    begin_of(counts);
    keep(1, 10, 0);
    struct prompt_cache_value first = cache.values[0];
    keep(1, 11, 0);
    keep(1, 9, 0);
    keep(1, 10, 0);
    assert_int_not_equal(cache.values[1].check, 0);
    cache.values[0] = first;
    begin_core_of(counts);
    assert_int_equal(cache.known, 1);
    assert_int_equal(find(1, 10), 0);
}

static void change(void)
{
    uint64_t domain = draw(DOMAINS);
    uint32_t prompt = (uint32_t)draw(PROMPTS), count = (uint32_t)draw(3 * PROMPT_CACHE_CHUNK);
    if (draw(50) == 0) {
        prompt_cache_doubt(&cache);
    } else if (find(domain, prompt) == UINT32_MAX) {
        keep(domain, prompt, count);
    }
}

static void look(uint32_t round)
{
    for (uint64_t domain = 0; domain < DOMAINS; domain++) {
        for (uint32_t prompt = 0; prompt < PROMPTS; prompt++) {
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
        for (uint32_t i = 0; i < words; i++) {
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
        kept[draw(words)] ^= draw(2) == 0 ? UINT64_C(1) << draw(64) : draw(UINT64_MAX);
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
        cmocka_unit_test(test_domains_have_their_shares_again),
        cmocka_unit_test(test_what_was_doubted_is_not),
        cmocka_unit_test(test_after_an_upgrade_nothing_is),
        cmocka_unit_test(test_a_damage_is_doubted_for_once),
        cmocka_unit_test(test_what_another_secret_found_is_not),
        cmocka_unit_test(test_a_value_without_an_end_is_none),
        cmocka_unit_test(test_no_two_values_have_one_chunk),
        cmocka_unit_test(test_the_chunks_of_no_value_are_free),
        cmocka_unit_test(test_no_value_is_there_twice),
        cmocka_unit_test(test_a_death_leaves_values_that_are_right),
        cmocka_unit_test(test_garbage_is_no_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
