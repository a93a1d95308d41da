/* SPDX-License-Identifier: MIT */
/*
 * Goal: a draft is what came after the last of the longest matches, whatever pieces the text has.
 * Method: texts by hand; then random ones of few tokens against a search that compares every place.
 */
#include "selftest/unit/test.h"

#include "kernels/round/draft.h"

enum { TOKENS_MAX = 60, DRAFT_MAX = 15, TEXTS = 20000 };

static uint64_t random_state = 1;

static uint32_t below(uint32_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % bound;
}

/* The draft of a text that is cut after `past` tokens. */
static uint32_t find_cut(const uint32_t *tokens, uint32_t count, uint32_t past, uint32_t *draft,
                         uint32_t max)
{
    const struct draft_text text = {tokens, past, tokens + past, count - past};
    return draft_find(&text, draft, max);
}

/* The index of the token after the last of the longest matches; 0: there is none. */
static uint32_t naive_find(const uint32_t *tokens, uint32_t count)
{
    uint32_t best = 0, longest = DRAFT_MATCH_MIN - 1;
    for (uint32_t at = count - 1; at >= DRAFT_MATCH_MIN && count > DRAFT_MATCH_MIN; at--) {
        uint32_t match = 0;
        while (match < DRAFT_MATCH_MAX && match < at &&
               tokens[at - 1 - match] == tokens[count - 1 - match]) {
            match++;
        }
        best = match > longest ? at : best;
        longest = match > longest ? match : longest;
    }
    return best;
}

static void test_find_copies_what_came_after_the_longest_match(void **state)
{
    (void)state;
    const uint32_t text[] = {7, 1, 2, 3, 4, 5, 9, 2, 3, 6, 8, 1, 2, 3};
    uint32_t draft[DRAFT_MAX];
    for (uint32_t past = 0; past <= 14; past++) {
        assert_int_equal(find_cut(text, 14, past, draft, 3), 3);
        assert_int_equal(draft[0], 4);      /* 1 2 3, and not the later 2 3 */
        assert_int_equal(draft[1], 5);
        assert_int_equal(draft[2], 9);
    }
    assert_int_equal(find_cut(text, 13, 5, draft, 0), 0);
}

static void test_find_goes_on_beyond_the_end(void **state)
{
    (void)state;
    const uint32_t text[] = {5, 1, 2, 1, 2};
    uint32_t draft[DRAFT_MAX];
    assert_int_equal(find_cut(text, 5, 2, draft, 5), 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(draft[i], 1 + i % 2);
    }
}

static void test_find_without_a_match_finds_nothing(void **state)
{
    (void)state;
    const uint32_t text[] = {1, 2, 3, 2, 1, 3};
    uint32_t draft[DRAFT_MAX];
    for (uint32_t count = 0; count <= 6; count++) {
        for (uint32_t past = 0; past <= count; past++) {
            assert_int_equal(find_cut(text, count, past, draft, DRAFT_MAX), 0);
        }
    }
}

static void test_find_agrees_with_a_search_of_all_places(void **state)
{
    (void)state;
    uint32_t tokens[TOKENS_MAX], draft[DRAFT_MAX], found = 0;
    for (uint32_t t = 0; t < TEXTS; t++) {
        uint32_t count = below(TOKENS_MAX + 1), of = 1 + below(6);
        for (uint32_t i = 0; i < count; i++) {
            tokens[i] = below(of);
        }
        uint32_t from = count > 0 ? naive_find(tokens, count) : 0;
        uint32_t max = 1 + below(DRAFT_MAX);
        uint32_t got = find_cut(tokens, count, below(count + 1), draft, max);
        assert_int_equal(got, from > 0 ? max : 0);
        for (uint32_t i = 0; i < got; i++) {
            assert_int_equal(draft[i], from + i < count ? tokens[from + i]
                                                        : draft[from + i - count]);
        }
        found += got > 0;
    }
    assert_true(found > TEXTS / 4);
}

/* The pair at the end stands everywhere, and no place agrees any further. */
static void test_find_looks_at_a_bounded_number_of_places(void **state)
{
    (void)state;
    enum { MANY = 3 * DRAFT_LOOKS_MAX };
    static uint32_t tokens[3 * MANY + 8];
    uint32_t draft[DRAFT_MAX], count = 0;
    const uint32_t end[] = {9, 8, 1, 2};
    memcpy(tokens, end, sizeof end);        /* the longest match, beyond all looks */
    count = 4;
    for (uint32_t i = 0; i < MANY; i++) {
        tokens[count++] = 100 + i;
        tokens[count++] = 1;
        tokens[count++] = 2;
    }
    memcpy(tokens + count, end, sizeof end);
    count += 4;
    assert_int_equal(find_cut(tokens, count, count, draft, 1), 1);
    assert_int_equal(draft[0], 9);          /* after the last of the shorter ones */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_copies_what_came_after_the_longest_match),
        cmocka_unit_test(test_find_goes_on_beyond_the_end),
        cmocka_unit_test(test_find_without_a_match_finds_nothing),
        cmocka_unit_test(test_find_agrees_with_a_search_of_all_places),
        cmocka_unit_test(test_find_looks_at_a_bounded_number_of_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
