/* SPDX-License-Identifier: MIT */
/*
 * Goal: replies that another boot has left are those of the trust domain of the same name, whatever
 * number that has now; and of no other.
 * Method: cores one after the other over the same kept memory, with other files of keys.
 */
#include "selftest/unit/net/auth_rig.h"

#include "net/auth/owner.h"
#include "net/kept/replies.h"

#define KEPT_WORDS (1u << 14)

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

/* Alice, of red, has a reply of three tokens. */
static int begin(void **state)
{
    memset(kept, 0, sizeof kept);
    struct fixture *f = begin_core(&keys);
    const struct wire_call call = fixture_wire_call(1);
    uint32_t peer = open_member(f, 0), slot = start_call(f, peer, &call);
    for (uint32_t i = 0; i < 3; i++) {
        fixture_generate(f, slot, FIXTURE_BYTE(1 + i));
        fixture_pass(f);
    }
    fixture_finish(f, slot, CALL_FINISH_EOS, STATUS_OK);
    fixture_pass(f);
    *state = f;
    return 0;
}

static const struct net_reply *reply_of(const struct fixture *f, uint64_t domain)
{
    const struct wire_call call = fixture_wire_call(1);
    return net_reply_find(&f->net, domain, call.program_id, call.call_id);
}

static void test_domains_that_are_numbered_otherwise_keep_their_replies(void **state)
{
    struct config_keys swapped = keys;
    memcpy(swapped.domains[0], keys.domains[1], sizeof swapped.domains[0]);
    memcpy(swapped.domains[1], keys.domains[0], sizeof swapped.domains[1]);
    for (uint32_t i = 0; i < swapped.count; i++) {
        swapped.keys[i].domain = 1 - keys.keys[i].domain;
    }
    assert_non_null(reply_of(*state, net_domain_of_key(0)));
    const struct fixture *f = begin_core(&swapped);
    assert_null(reply_of(f, net_domain_of_key(0)));
    const struct net_reply *reply = reply_of(f, net_domain_of_key(1));
    assert_non_null(reply);
    assert_int_equal(f->net.replies.quota.used_by[2], 1);
    f = begin_core(&keys);
    assert_non_null(reply_of(f, net_domain_of_key(0)));
}

static void test_replies_of_a_domain_that_is_gone_are_dropped(void **state)
{
    struct config_keys blue = {.count = 1, .domains_count = 1, .keys = {keys.keys[1]}};
    memcpy(blue.domains[0], keys.domains[1], sizeof blue.domains[0]);
    blue.keys[0].domain = 0;
    const struct fixture *f = begin_core(&blue);
    assert_int_equal(f->net.replies.quota.used, 0);
    f = begin_core(&keys);
    assert_null(reply_of(f, net_domain_of_key(0)));     /* dropped for good */
}

/* Two names of one FNV-64, and one that begins as the other. */
static void test_a_name_that_is_only_alike_is_another_domain(void **state)
{
    static const char names[][CONFIG_KEY_NAME_BYTES] = {
        "8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ", "8yn0iYCKYHlIj4-BwPq"};
    struct fixture *f = *state;
    struct config_keys named = keys;
    assert_true(fnv_add(FNV_START, names[0], 20) == fnv_add(FNV_START, names[1], 20));
    memcpy(named.domains[0], names[0], sizeof names[0]);
    net_owners_fill(&f->net, &named);
    const struct net_owner owner = net_owner_of(&f->net, net_domain_of_key(0));
    uint64_t domain = 0;
    assert_true(net_owner_find(&f->net, &owner, &domain) && domain == net_domain_of_key(0));
    for (uint32_t i = 1; i < 3; i++) {
        memcpy(named.domains[0], names[i], sizeof names[i]);
        net_owners_fill(&f->net, &named);
        assert_false(net_owner_find(&f->net, &owner, &domain));
    }
}

static void test_domains_without_keys_are_their_numbers(void **state)
{
    const struct net *net = &((struct fixture *)*state)->net;
    const uint64_t numbers[] = {0, DOMAIN_OF_USER | 1000, DOMAIN_OF_USER | UINT32_MAX};
    uint64_t domain = 1;
    for (uint32_t i = 0; i < 3; i++) {
        const struct net_owner owner = net_owner_of(net, numbers[i]);
        assert_true(owner.domain == numbers[i] && owner.name[0] == '\0');
        assert_true(net_owner_find(net, &owner, &domain) && domain == numbers[i]);
    }
    /* A domain of keys has its name, and places without one are no domain's. */
    const uint64_t none[] = {net_domain_of_key(0), net_domain_of_key(1), UINT64_MAX};
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(net_owner_find(net, &(struct net_owner){.domain = none[i]}, &domain));
    }
    assert_false(net_owner_find(net, &(struct net_owner){.domain = UINT64_MAX, .name = "red"},
                                &domain));
}

static void test_a_change_is_marked_and_numbered(void **state)
{
    struct fixture *f = *state;
    const struct pages *pages = &f->net.replies.pages;
    const struct net_reply *reply = reply_of(f, net_domain_of_key(0));
    assert_true(pages->numbers->changed == reply->number && reply->number == 1);
    for (uint64_t page = 0; page < pages_count(pages->bytes); page++) {
        pages->marks[page].written = pages->marks[page].changed;
    }
    net_reply_forget(&f->net, reply);
    uint64_t place = (uint64_t)((const uint8_t *)reply - pages->base) / PAGES_BYTES;
    assert_int_not_equal(pages->marks[place].written, pages->marks[place].changed);
}

/* Else an end could be told because another one, of the core before, has been written. */
static void test_a_number_counts_once_though_its_reply_is_gone(void **state)
{
    struct fixture *f = *state;
    net_reply_forget(&f->net, reply_of(f, net_domain_of_key(0)));
    f = begin_core(&keys);
    assert_true(f->net.replies.kept == 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, begin)
    const struct CMUnitTest tests[] = {
        T(test_domains_that_are_numbered_otherwise_keep_their_replies),
        T(test_replies_of_a_domain_that_is_gone_are_dropped),
        T(test_a_name_that_is_only_alike_is_another_domain),
        T(test_domains_without_keys_are_their_numbers),
        T(test_a_change_is_marked_and_numbered),
        T(test_a_number_counts_once_though_its_reply_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
