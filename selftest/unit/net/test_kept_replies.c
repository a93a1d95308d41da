/* SPDX-License-Identifier: MIT */
/*
 * Goal: of the replies that another core has left, the newest ones that their accounts may have now
 * are taken up, and each says what it said; also to a version whose statuses have other numbers.
 * All that has changed is marked.
 * Method: cores one after the other over the same kept memory, with quotas that a restart changes;
 * or over what was marked of it.
 */
#include "selftest/unit/net/auth_rig.h"

#include "net/kept/replies.h"

#define KEPT_WORDS (1u << 14)
#define TOKENS     NET_REPLY_CHUNK     /* of each reply */

static _Alignas(ARENA_ALIGN_BYTES) uint64_t kept[KEPT_WORDS];

static struct limits limits;

static struct fixture *begin_core(const struct config_keys *of)
{
    struct arena arena = {.base = (uint8_t *)kept, .size_bytes = sizeof kept};    /* not zeroed */
    fixture_kept = &arena;
    fixture_init_keyed(&fixture, test_arena(), &limits, of);
    fixture_kept = NULL;
    net_check(&fixture.net);
    memset(answers, 0, sizeof answers);
    return &fixture;
}

static int begin(void **state)
{
    memset(kept, 0, sizeof kept);
    limits = fixture_limits;
    *state = begin_core(&keys);
    return 0;
}

static uint8_t program;             /* whose calls they are */

static struct wire_call call_of(uint64_t id)
{
    struct wire_call call = fixture_wire_call(id);
    call.program_id[CALL_PROGRAM_ID_BYTES - 1] = program;
    return call;
}

static void run(struct fixture *f, uint32_t peer, uint64_t id, enum call_finish finish)
{
    struct wire_call call = call_of(id);
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
    const struct wire_call call = call_of(id);
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

/* ---- marks ----------------------------------------------------------------------------------- */

#define MANY 40u

static uint8_t written[8 * KEPT_WORDS];         /* by place in `kept` */

/* As the writer does. */
static void write_marked(const struct pages *pages)
{
    uint64_t base = (uint64_t)(pages->base - (uint8_t *)kept);
    for (uint64_t page = 0; page < pages_count(pages->bytes); page++) {
        uint64_t from = page * PAGES_BYTES, rest = pages->bytes - from;
        if (pages->marks[page].written != pages->marks[page].changed) {
            memcpy(written + base + from, pages->base + from,
                   rest < PAGES_BYTES ? rest : PAGES_BYTES);
            pages->marks[page].written = pages->marks[page].changed;
        }
    }
}

static void expect_written(const struct fixture *f)
{
    const struct net_replies *replies = &f->net.replies;
    for (uint32_t i = 0; i < MANY; i++) {
        const uint8_t *record = (const uint8_t *)&replies->records[i];
        assert_memory_equal(written + (record - (uint8_t *)kept), record,
                            offsetof(struct net_reply, domain));
    }
}

static void test_a_core_that_has_only_what_was_marked_knows_all(void **state)
{
    memset(kept, 0, sizeof kept);
    memset(written, 0, sizeof written);
    limits.replies = MANY;
    limits.reply_tokens = MANY * TOKENS;
    struct fixture *f = begin_core(&keys);
    uint32_t peer = open_member(f, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        program = (uint8_t)(i / 10);
        run(f, peer, i % 10, CALL_FINISH_EOS);
        write_marked(&f->net.replies.pages);
        expect_written(f);
    }
    net_reply_forget(&f->net, reply_of(f, net_domain_of_key(0), 9));
    write_marked(&f->net.replies.pages);
    expect_written(f);
    memcpy(kept, written, sizeof kept);
    f = begin_core(&keys);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t tokens[TOKENS];
        program = (uint8_t)(i / 10);
        const struct net_reply *reply = reply_of(f, net_domain_of_key(0), i % 10);
        assert_true((reply != NULL) == (i < MANY - 1));
        if (reply != NULL) {
            net_reply_tokens(&f->net, reply, tokens);
            assert_int_equal(tokens[TOKENS - 1], FIXTURE_BYTE(i % 10 + TOKENS - 1));
        }
    }
    program = 0;
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
        T(test_a_core_that_has_only_what_was_marked_knows_all),
        T(test_a_status_is_kept_by_its_code_on_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
