/* SPDX-License-Identifier: MIT */
/*
 * Goal: a file of replies serves the appliance that it was made for, and no other.
 * Method: one member of a header after the other is changed, with a right check word and without.
 */
#include "selftest/unit/test.h"

#include "appliance/keeper/replies/header.h"

static struct replies_header header(void)
{
    struct replies_header header = {.layout = 1, .replies = 2, .reply_tokens = 3, .bytes = 4,
                                    .model = 5, .weights = 6};
    replies_header_end(&header);
    return header;
}

static void expect(const struct replies_header *found, const char *what)
{
    const struct replies_header own = header();
    const char *why = replies_header_unlike(found, &own);
    if (what == NULL) {
        assert_null(why);
    } else {
        assert_non_null(why);
        assert_non_null(strstr(why, what));
    }
}

static void test_a_header_of_the_same_appliance_is_right(void **state)
{
    const struct replies_header same = header();
    expect(&same, NULL);
}

static void test_another_appliance_is_told_what_differs(void **state)
{
    struct replies_header layout = header(), replies = header(), tokens = header(),
                          bytes = header(), model = header(), weights = header();
    layout.layout++;
    replies.replies++;
    tokens.reply_tokens++;
    bytes.bytes++;
    model.model++;
    weights.weights++;
    struct {
        struct replies_header *header;
        const char *what;
    } const cases[] = {{&layout, "version"},       {&replies, "limits.replies"},
                       {&tokens, "reply_tokens"},  {&bytes, "limits.replies"},
                       {&model, "another model"},  {&weights, "another model"}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(cases[i].header, "damaged");
        replies_header_end(cases[i].header);
        expect(cases[i].header, cases[i].what);
    }
}

static void test_weights_that_are_not_known_forbid_nothing(void **state)
{
    struct replies_header unknown = header();
    unknown.weights = 0;
    replies_header_end(&unknown);
    expect(&unknown, NULL);
}

static void test_any_changed_bit_is_found(void **state)
{
    for (uint32_t bit = 0; bit < 8 * sizeof(struct replies_header); bit++) {
        struct replies_header found = header();
        ((uint8_t *)&found)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        const struct replies_header own = header();
        assert_non_null(replies_header_unlike(&found, &own));
    }
}

static void test_a_page_of_zeros_alone_is_new(void **state)
{
    union replies_page page = {.bytes = {0}};
    assert_true(replies_page_is_new(&page));
    page.bytes[sizeof page.bytes - 1] = 1;
    assert_false(replies_page_is_new(&page));
    page = (union replies_page){.header = header()};
    assert_false(replies_page_is_new(&page));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_header_of_the_same_appliance_is_right),
        cmocka_unit_test(test_another_appliance_is_told_what_differs),
        cmocka_unit_test(test_weights_that_are_not_known_forbid_nothing),
        cmocka_unit_test(test_any_changed_bit_is_found),
        cmocka_unit_test(test_a_page_of_zeros_alone_is_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
