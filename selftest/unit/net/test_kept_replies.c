/* SPDX-License-Identifier: MIT */
/*
 * Goal: of the replies that another core has left, the newest ones that their accounts may have now
 * are taken up, and each says what it said; also to a version whose statuses have other numbers.
 * Method: cores one after the other over the same kept memory, with quotas that a restart changes.
 */
#include "selftest/unit/net/auth_rig.h"

#include "net/kept/replies.h"

#define KEPT_WORDS (1u << 14)
#define TOKENS     NET_REPLY_CHUNK     /* of each reply */

static _Alignas(ARENA_ALIGN_BYTES) uint64_t kept[KEPT_WORDS];

static struct fixture *begin_core(const struct config_keys *of)
{
    struct arena arena = {.base = (uint8_t *)kept, .size_bytes = sizeof kept};    /* not zeroed */
    fixture_kept = &arena;
    fixture_init_keyed(&fixture, test_arena(), &fixture_limits, of);
    fixture_kept = NULL;
    net_check(&fixture.net);
    memset(answers, 0, sizeof answers);
    return &fixture;
}

static int begin(void **state)
{
    memset(kept, 0, sizeof kept);
    *state = begin_core(&keys);
    return 0;
}

static void run(struct fixture *f, uint32_t peer, uint64_t id, enum call_finish finish)
{
    struct wire_call call = fixture_wire_call(id);
    memset(&answers[id], 0, sizeof answers[id]);
    call.max_tokens = TOKENS;
    uint32_t slot = start_call(f, peer, &call);
    for (uint32_t i = 0; i < TOKENS; i++) {
        fixture_generate(f, slot, FIXTURE_BYTE(id + i));
        fixture_pass(f);
    }
    fixture_finish(f, slot, finish, finish == CALL_FINISH_DEADLINE ? STATUS_GONE_DEADLINE
                                                                   : STATUS_OK);
    fixture_pass(f);
    read_all(f, peer);
}

static const struct net_reply *reply_of(const struct fixture *f, uint64_t domain, uint64_t id)
{
    const struct wire_call call = fixture_wire_call(id);
    return net_reply_find(&f->net, domain, call.program_id, id);
}

/* Red has had the calls up to `last`; it knows those from `first` on. */
static void expect_known(const struct fixture *f, uint64_t first, uint64_t last)
{
    for (uint64_t id = 1; id <= last; id++) {
        assert_true((reply_of(f, net_domain_of_key(0), id) != NULL) == (id >= first));
    }
    assert_int_equal(f->net.replies.quota.used_by[1], last + 1 - first);
}

/* ---- quotas ---------------------------------------------------------------------------------- */

static struct config_keys with(enum quota_kind kind, uint32_t max)
{
    struct config_keys bound = keys;
    bound.quotas[0][kind].max = max;
    return bound;
}

static void test_the_newest_replies_are_taken_up_where_tokens_are_fewer(void **state)
{
    static const struct { uint32_t max; uint64_t first; } rows[] = {
        {3 * TOKENS, 1}, {3 * TOKENS - 1, 2}, {2 * TOKENS, 2}, {TOKENS, 3}, {TOKENS - 1, 4}};
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(state);
        struct fixture *f = *state;
        uint32_t peer = open_member(f, 0);
        for (uint64_t id = 1; id <= 3; id++) {
            run(f, peer, id, CALL_FINISH_EOS);
        }
        const struct config_keys fewer = with(QUOTA_REPLY_TOKENS, rows[i].max);
        f = begin_core(&fewer);
        expect_known(f, rows[i].first, 3);
        f = begin_core(&fewer);
        expect_known(f, rows[i].first, 3);
        if (rows[i].max >= TOKENS) {
            run(f, open_member(f, 0), 4, CALL_FINISH_EOS);      /* the oldest makes room */
            expect_known(f, 5 - rows[i].max / TOKENS, 4);
            net_check(&f->net);
        }
    }
}

static void test_the_newest_replies_are_taken_up_where_records_are_fewer(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_member(f, 0);
    for (uint64_t id = 1; id <= 3; id++) {
        run(f, peer, id, CALL_FINISH_EOS);
    }
    const struct config_keys two = with(QUOTA_REPLIES, 2), one = with(QUOTA_REPLIES, 1);
    expect_known(begin_core(&two), 2, 3);
    expect_known(begin_core(&one), 3, 3);
    expect_known(begin_core(&keys), 3, 3);          /* dropped for good */
}

static void test_what_one_domain_may_not_have_another_keeps(void **state)
{
    struct fixture *f = *state;
    run(f, open_member(f, 1), 1, CALL_FINISH_EOS);
    uint32_t peer = open_member(f, 0);
    for (uint64_t id = 1; id <= 3; id++) {
        run(f, peer, id, CALL_FINISH_EOS);
    }
    const struct config_keys fewer = with(QUOTA_REPLY_TOKENS, TOKENS);
    f = begin_core(&fewer);
    expect_known(f, 3, 3);
    assert_non_null(reply_of(f, net_domain_of_key(1), 1));
}

/* As after a machine crashed: the page on which one was forgotten is not on the disk. */
static void test_of_two_replies_with_the_same_ids_the_newer_one_counts(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = open_member(f, 0);
    run(f, peer, 1, CALL_FINISH_EOS);
    struct net_reply *first = &f->net.replies.records[0];
    const struct net_reply before = *first;
    assert_true(before.number == 1);
    run(f, peer, 2, CALL_FINISH_EOS);
    net_reply_forget(&f->net, first);
    run(f, peer, 1, CALL_FINISH_EOS);
    struct net_reply *free = &f->net.replies.records[f->net.replies.free];
    *free = before;                 /* it has the same tokens, in the same chunks */
    f = begin_core(&keys);
    assert_true(reply_of(f, net_domain_of_key(0), 1)->number == 3);
    assert_int_equal(f->net.replies.quota.used, 2);
}

/* ---- what it says ---------------------------------------------------------------------------- */

static void test_a_status_is_kept_by_its_code_on_the_wire(void **state)
{
    struct fixture *f = *state;
    run(f, open_member(f, 0), 1, CALL_FINISH_DEADLINE);
    for (uint32_t cores = 0; cores < 2; cores++) {
        const struct net_reply *reply = reply_of(f, net_domain_of_key(0), 1);
        assert_int_equal(reply->status_code, status_wire(STATUS_GONE_DEADLINE));
        assert_int_equal(reply->done.status, 0);
        assert_int_equal(net_reply_done(reply).status, STATUS_GONE_DEADLINE);
        assert_int_equal(net_reply_done(reply).finish, CALL_FINISH_DEADLINE);
        f = begin_core(&keys);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, begin)
    const struct CMUnitTest tests[] = {
        T(test_the_newest_replies_are_taken_up_where_tokens_are_fewer),
        T(test_the_newest_replies_are_taken_up_where_records_are_fewer),
        T(test_what_one_domain_may_not_have_another_keeps),
        T(test_of_two_replies_with_the_same_ids_the_newer_one_counts),
        T(test_a_status_is_kept_by_its_code_on_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
