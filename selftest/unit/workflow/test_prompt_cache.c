/* SPDX-License-Identifier: MIT */
/* The prompt cache: values by prompts, within a domain, and who gives up room to whom. */
#include "selftest/unit/test.h"

#include "sched/workflow/prompt_cache.h"

enum { ENTRIES = 8, TOKENS = 8 * PROMPT_CACHE_CHUNK };

static struct prompt_cache cache;

static void start(void)
{
    const struct prompt_cache_source source = {.secret = {1, 2, 3}};
    struct arena *arena = test_arena();
    prompt_cache_init(&cache, (struct prompt_cache_counts){ENTRIES, TOKENS}, &source, arena, arena);
}

static struct prompt_cache_key key_of(uint64_t domain, uint32_t prompt)
{
    const struct workflow_node node = {.kind = WORKFLOW_LLM, .max_tokens = 4};
    return prompt_cache_key(&cache, domain, &node, &prompt, 1);
}

/* Keeps a value of `count` tokens, each of which is the prompt; false: there was no room. */
static bool keep(uint64_t domain, uint32_t prompt, uint32_t count)
{
    uint32_t value[TOKENS];
    struct prompt_cache_key key = key_of(domain, prompt);
    uint32_t entry = prompt_cache_open(&cache, domain, &key);
    assert_int_not_equal(entry, PROMPT_CACHE_NONE);
    for (uint32_t i = 0; i < count; i++) {
        value[i] = prompt;
    }
    prompt_cache_fill(&cache, entry, value, count);
    prompt_cache_check(&cache);
    return prompt_cache_find(&cache, &key) == entry;
}

static bool has(uint64_t domain, uint32_t prompt, uint32_t count)
{
    uint32_t value[TOKENS];
    struct prompt_cache_key key = key_of(domain, prompt);
    uint32_t entry = prompt_cache_find(&cache, &key);
    if (entry == PROMPT_CACHE_NONE) {
        return false;
    }
    assert_int_equal(prompt_cache_read(&cache, entry, value), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(value[i], prompt);
    }
    prompt_cache_check(&cache);
    return true;
}

static void test_a_value_is_found_by_its_prompt(void **state)
{
    (void)state;
    start();
    assert_true(keep(1, 10, 0));
    assert_true(keep(1, 11, 1));
    assert_true(keep(1, 12, PROMPT_CACHE_CHUNK));
    assert_true(keep(1, 13, PROMPT_CACHE_CHUNK + 1));
    assert_true(has(1, 10, 0) && has(1, 11, 1) && has(1, 12, PROMPT_CACHE_CHUNK));
    assert_true(has(1, 13, PROMPT_CACHE_CHUNK + 1));
    assert_false(has(1, 14, 1));
    assert_int_equal(cache.known, 4);
    assert_int_equal(cache.used_chunks, 4);
}

static void test_another_domain_finds_nothing(void **state)
{
    (void)state;
    start();
    assert_true(keep(1, 10, 1));
    assert_false(has(2, 10, 1));
}

static void test_what_a_value_depends_on_is_in_the_key(void **state)
{
    (void)state;
    start();
    const uint32_t prompt[2] = {7, 8};
    struct workflow_node nodes[6] = {{.max_tokens = 4}};
    for (uint32_t i = 1; i < 6; i++) {
        nodes[i] = nodes[0];
    }
    nodes[1].max_tokens = 5;
    nodes[2].call.ignore_eos = true;
    nodes[3].call.sampling.stop_ids_count = 1;
    nodes[4].call.stop_texts_count = 1;
    nodes[4].call.stop_texts[0] = (struct call_stop_text){.length_bytes = 1, .bytes = "x"};
    nodes[5].call.sampling.repeat_penalty = 1.5f;
    for (uint32_t i = 0; i < 6; i++) {
        struct prompt_cache_key one = prompt_cache_key(&cache, 1, &nodes[i], prompt, 2);
        struct prompt_cache_key less = prompt_cache_key(&cache, 1, &nodes[i], prompt, 1);
        assert_memory_not_equal(&one, &less, sizeof one);
        for (uint32_t j = 0; j < i; j++) {
            struct prompt_cache_key other = prompt_cache_key(&cache, 1, &nodes[j], prompt, 2);
            assert_memory_not_equal(&one, &other, sizeof one);
        }
    }
    nodes[1] = nodes[0];
    nodes[1].call.sampling.seed = 9;            /* a greedy call draws nothing */
    struct prompt_cache_key one = prompt_cache_key(&cache, 1, &nodes[0], prompt, 2);
    struct prompt_cache_key same = prompt_cache_key(&cache, 1, &nodes[1], prompt, 2);
    assert_memory_equal(&one, &same, sizeof one);
}

static void test_the_least_recently_used_goes(void **state)
{
    (void)state;
    start();
    for (uint32_t i = 0; i < ENTRIES; i++) {
        assert_true(keep(1, i, 1));
    }
    assert_true(has(1, 0, 1));
    assert_true(keep(1, 100, 1));
    assert_false(has(1, 1, 1));
    assert_true(has(1, 0, 1) && has(1, 2, 1) && has(1, 100, 1));
}

static void test_a_long_value_takes_the_room_of_several(void **state)
{
    (void)state;
    start();
    for (uint32_t i = 0; i < ENTRIES; i++) {
        assert_true(keep(1, i, PROMPT_CACHE_CHUNK));
    }
    assert_true(keep(1, 100, 3 * PROMPT_CACHE_CHUNK));
    assert_false(has(1, 2, PROMPT_CACHE_CHUNK));
    assert_true(has(1, 3, PROMPT_CACHE_CHUNK) && has(1, 100, 3 * PROMPT_CACHE_CHUNK));
    assert_true(keep(1, 101, TOKENS));
    assert_int_equal(cache.known, 1);
}

static void test_no_domain_evicts_another_below_its_share(void **state)
{
    (void)state;
    start();
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(keep(1, i, 1));
    }
    for (uint32_t i = 0; i < 100; i++) {
        assert_true(keep(2, i, 1));             /* a flood, which has what is left */
    }
    assert_true(has(1, 0, 1) && has(1, 1, 1) && has(1, 2, 1));
    assert_true(keep(1, 3, 1));                 /* up to its share it takes from the flood, */
    assert_true(has(1, 0, 1) && has(1, 3, 1));
    assert_true(keep(1, 4, 1));                 /* and beyond it from itself */
    assert_false(has(1, 1, 1));
    assert_true(has(2, 99, 1) && has(2, 96, 1));
}

static void test_open_entries_are_never_given_up(void **state)
{
    (void)state;
    start();
    struct prompt_cache_key key;
    uint32_t first = PROMPT_CACHE_NONE;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        key = key_of(1, i);
        uint32_t entry = prompt_cache_open(&cache, 1, &key);
        assert_int_not_equal(entry, PROMPT_CACHE_NONE);
        first = i == 0 ? entry : first;
    }
    key = key_of(1, 100);
    assert_int_equal(prompt_cache_open(&cache, 1, &key), PROMPT_CACHE_NONE);
    prompt_cache_drop(&cache, first);
    prompt_cache_check(&cache);
    assert_int_not_equal(prompt_cache_open(&cache, 1, &key), PROMPT_CACHE_NONE);
}

/* Those that wait get the value of a call that goes on; the next one calls anew. */
static void test_after_a_doubt_nothing_is_found_that_was_there_or_under_way(void **state)
{
    const uint32_t value[] = {11};
    (void)state;
    start();
    assert_true(keep(1, 10, 1) && keep(2, 20, PROMPT_CACHE_CHUNK + 1));
    struct prompt_cache_key open = key_of(1, 11);
    uint32_t entry = prompt_cache_open(&cache, 1, &open);
    prompt_cache_doubt(&cache);
    prompt_cache_check(&cache);
    assert_int_equal(cache.known, 0);
    assert_int_equal(cache.used_chunks, 0);
    assert_int_equal(prompt_cache_find(&cache, &open), entry);
    prompt_cache_fill(&cache, entry, value, 1);
    assert_false(has(1, 10, 1) || has(1, 11, 1) || has(2, 20, PROMPT_CACHE_CHUNK + 1));
    assert_true(keep(1, 11, 1) && has(1, 11, 1) && keep(1, 10, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_a_doubt_nothing_is_found_that_was_there_or_under_way),
        cmocka_unit_test(test_a_value_is_found_by_its_prompt),
        cmocka_unit_test(test_another_domain_finds_nothing),
        cmocka_unit_test(test_what_a_value_depends_on_is_in_the_key),
        cmocka_unit_test(test_the_least_recently_used_goes),
        cmocka_unit_test(test_a_long_value_takes_the_room_of_several),
        cmocka_unit_test(test_no_domain_evicts_another_below_its_share),
        cmocka_unit_test(test_open_entries_are_never_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
