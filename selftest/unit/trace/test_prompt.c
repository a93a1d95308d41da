/* SPDX-License-Identifier: MIT */
/*
 * Goal: shared text is the same in all runs, a run's text in all calls of the run and no other, own
 * text in one call; both the client and the lab see it so.
 * Method: two calls of two runs, written by prompt.c and by the lab's prompts.c, compared.
 */
#include "selftest/unit/trace_text.h"

#include "tools/lab/prompts.h"
#include "tools/trace/prompt.h"

#define CONTEXT 100
#define SHARED  10                  /* tokens of each part, in this order */
#define RUN     20
#define OWN     30
#define PROMPT  (SHARED + RUN + OWN)

static const char text[] =
    "agentix-trace 1\nprogram p 0 x\n"
    "call 0 after=- gap=0 in=s:a:10+r:a:20+u:30 out=7\n"
    "call 1 after=- gap=0 in=s:a:10+r:a:20+u:30 out=7\n";

/* Of call [c] of run [r]. */
static uint32_t ids[2][2][PROMPT];

static bool is_same(const uint32_t *one, const uint32_t *other, uint32_t from, uint32_t count)
{
    return memcmp(one + from, other + from, count * sizeof *one) == 0;
}

static void assert_texts(void)
{
    const uint32_t *first = ids[0][0], *sibling = ids[0][1], *other_run = ids[1][0];
    assert_true(is_same(first, sibling, 0, SHARED + RUN));
    assert_false(is_same(first, sibling, SHARED + RUN, OWN));
    assert_true(is_same(first, other_run, 0, SHARED));
    assert_false(is_same(first, other_run, SHARED, RUN));
    assert_false(is_same(first, other_run, SHARED + RUN, OWN));
    assert_false(is_same(first, first + SHARED, 0, SHARED));    /* names are of a kind */
}

static void test_client_writes_texts_in_their_scope(void **state)
{
    struct trace trace;
    struct prompt_book book;
    const struct prompt_limits limits = {.token_scale = 1, .context_tokens = CONTEXT,
                                         .prompt_tokens_max = CONTEXT, .vocab_tokens = 1000,
                                         .bos_id = 1, .eos_id = 2};
    (void)state;
    trace_text_load(&trace, text);
    assert_int_equal(prompt_book_init(&book, &trace, &limits), 0);
    for (uint32_t i = 0; i < 4; i++) {
        struct prompt_source source = {.program = trace.programs, .run = i / 2};
        assert_int_equal(prompt_tokens(&book, i % 2), PROMPT);
        prompt_write(&book, &source, i % 2, ids[i / 2][i % 2]);
    }
    assert_texts();
    prompt_book_free(&book);
    trace_free(&trace);
}

static void test_lab_writes_texts_in_their_scope(void **state)
{
    struct trace trace;
    struct prompts prompts;
    (void)state;
    trace_text_load(&trace, text);
    assert_int_equal(prompts_init(&prompts, &trace, CONTEXT, 1000, 5), 0);
    for (uint32_t i = 0; i < 4; i++) {
        prompts_write(&prompts, trace.programs, i / 2, i % 2, ids[i / 2][i % 2]);
    }
    assert_texts();
    prompts_free(&prompts);
    trace_free(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_writes_texts_in_their_scope),
        cmocka_unit_test(test_lab_writes_texts_in_their_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
