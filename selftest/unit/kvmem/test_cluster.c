/* SPDX-License-Identifier: MIT */
/*
 * Goal: the blocks of a call are neighbours, whatever others take and give up meanwhile, and few
 * contents go for that before their time. Method: pools of a few clusters; what stays is told by
 * what a call still finds.
 */
#include "selftest/unit/kvmem/rig.h"

enum { CLUSTERS = 4, BLOCKS = CLUSTERS * KVMEM_CLUSTER };

static struct rig *fresh(uint32_t free_blocks, uint32_t host)
{
    struct kvmem_settings settings = rig_settings(BLOCKS, host);
    settings.free_blocks = free_blocks;
    settings.blocks_per_call = BLOCKS;
    return rig_start(&settings);
}

static void assert_neighbours(const struct rig *rig, uint32_t call, uint32_t first, uint32_t end)
{
    const uint32_t *table = kvmem_table_of(&rig->kv, call);
    for (uint32_t i = first + 1; i < end; i++) {
        assert_int_equal(table[i], table[i - 1] + 1);
    }
}

/* A call gives up so many blocks of tokens that start at `first`. */
static void leave(struct rig *rig, uint32_t first, uint32_t blocks, uint64_t now_us)
{
    rig_leave(rig, first, blocks * BLOCK_TOKENS, retained(now_us));
}

static uint32_t found(struct rig *rig, uint32_t first, uint32_t blocks)
{
    return rig_found(rig, first, blocks * BLOCK_TOKENS + 1) / BLOCK_TOKENS;
}

static void test_calls_that_grow_in_turns_do_not_share_a_cluster(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, 0);
    for (uint32_t blocks = 1; blocks <= KVMEM_CLUSTER; blocks++) {
        for (uint32_t call = 0; call < 3; call++) {
            rig_grow(rig, call, blocks * BLOCK_TOKENS);
        }
    }
    for (uint32_t call = 0; call < 3; call++) {
        assert_neighbours(rig, call, 0, KVMEM_CLUSTER);
    }
}

/* What a cluster has left goes to others when there is no whole one. */
static void test_every_block_can_be_had(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, 0);
    for (uint32_t call = 0; call < CLUSTERS; call++) {
        rig_grow(rig, call, BLOCK_TOKENS);
    }
    rig_grow(rig, 0, (BLOCKS - CLUSTERS + 1) * BLOCK_TOKENS);
    assert_int_equal(kvmem_free(&rig->kv), 0);
    assert_neighbours(rig, 0, 0, KVMEM_CLUSTER);
    assert_neighbours(rig, 0, KVMEM_CLUSTER, 2 * KVMEM_CLUSTER - 1);
}

/* Contents go end first; who needs their room at once gets it in order. */
static void test_room_of_contents_comes_in_order(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, HOST);
    for (uint32_t i = 0; i < CLUSTERS; i++) {
        leave(rig, 1000 * (i + 1), KVMEM_CLUSTER - 2, i);     /* six of each cluster */
    }
    for (uint32_t i = 0; i < 2; i++) {
        leave(rig, 6000 + 1000 * i, CLUSTERS, CLUSTERS + i);   /* and what is left of them */
    }
    assert_int_equal(kvmem_free(&rig->kv), 0);
    rig_grow(rig, 0, (KVMEM_CLUSTER - 2) * BLOCK_TOKENS);
    assert_neighbours(rig, 0, 0, KVMEM_CLUSTER - 2);
}

static void fill(struct rig *rig)
{
    for (uint32_t i = 0; i < CLUSTERS; i++) {
        leave(rig, 1000 * (i + 1), KVMEM_CLUSTER, i);
    }
    assert_int_equal(kvmem_free(&rig->kv), 0);
}

/* The next call to grow gets another cluster, and this one can go on. */
static void test_a_content_goes_with_what_would_go_next(void **state)
{
    (void)state;
    struct rig *rig = fresh(KVMEM_CLUSTER, 0);
    fill(rig);
    rig_grow(rig, 0, BLOCK_TOKENS);
    assert_int_equal(kvmem_free(&rig->kv), KVMEM_CLUSTER - 1);
    assert_int_equal(found(rig, 1000, KVMEM_CLUSTER), 0);
    assert_int_equal(found(rig, 2000, KVMEM_CLUSTER), KVMEM_CLUSTER);
    rig_grow(rig, 1, BLOCK_TOKENS);
    assert_int_equal(found(rig, 2000, KVMEM_CLUSTER), 0);
    for (uint32_t blocks = 2; blocks <= KVMEM_CLUSTER; blocks++) {
        rig_grow(rig, 1, blocks * BLOCK_TOKENS);
        rig_grow(rig, 0, blocks * BLOCK_TOKENS);
    }
    assert_neighbours(rig, 0, 0, KVMEM_CLUSTER);
    assert_neighbours(rig, 1, 0, KVMEM_CLUSTER);
    assert_int_equal(found(rig, 3000, KVMEM_CLUSTER), KVMEM_CLUSTER);
}

static void test_none_goes_early_where_enough_are_free(void **state)
{
    (void)state;
    struct rig *rig = fresh(KVMEM_CLUSTER, 0);
    fill(rig);
    rig_grow(rig, 0, BLOCK_TOKENS);
    rig_grow(rig, 1, BLOCK_TOKENS);                 /* seven of each cluster are free: enough */
    assert_int_equal(kvmem_free(&rig->kv), 2 * (KVMEM_CLUSTER - 1));
    rig_grow(rig, 2, BLOCK_TOKENS);
    assert_int_equal(found(rig, 3000, KVMEM_CLUSTER), KVMEM_CLUSTER);
    assert_int_equal(kvmem_free(&rig->kv), 2 * (KVMEM_CLUSTER - 1) - 1);
}

static void test_nothing_goes_along_where_none_may_be_free(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, 0);
    fill(rig);
    rig_grow(rig, 0, BLOCK_TOKENS);
    assert_int_equal(kvmem_free(&rig->kv), 0);
    assert_int_equal(found(rig, 1000, KVMEM_CLUSTER), KVMEM_CLUSTER - 1);
}

static void test_what_a_call_waits_for_does_not_go_along(void **state)
{
    (void)state;
    struct rig *rig = fresh(KVMEM_CLUSTER, 0);
    rig_grow(rig, 2, (BLOCKS - KVMEM_CLUSTER) * BLOCK_TOKENS);
    rig_leave(rig, 3000, KVMEM_CLUSTER / 2 * BLOCK_TOKENS, saved(0));
    leave(rig, 1000, KVMEM_CLUSTER / 2, 1);             /* both in one cluster */
    rig_grow(rig, 0, BLOCK_TOKENS);
    assert_int_equal(found(rig, 1000, KVMEM_CLUSTER / 2), 0);
    assert_int_equal(found(rig, 3000, KVMEM_CLUSTER / 2), KVMEM_CLUSTER / 2);
}

static void test_what_is_within_a_minimum_does_not_go_along(void **state)
{
    (void)state;
    struct rig *rig = fresh(KVMEM_CLUSTER, 0);
    struct quotas quotas = {0};
    quotas.of[QUOTA_KV_BLOCKS][1].min = KVMEM_CLUSTER / 2;
    kvmem_account(&rig->kv, 2, 1);
    kvmem_bind_quotas(&rig->kv, &quotas);
    rig_grow(rig, 2, (BLOCKS - KVMEM_CLUSTER) * BLOCK_TOKENS);
    rig_leave(rig, 3000, KVMEM_CLUSTER / 2 * BLOCK_TOKENS, (struct kvmem_use){2, false, 0});
    leave(rig, 1000, KVMEM_CLUSTER / 2, 1);
    rig_grow(rig, 0, BLOCK_TOKENS);
    assert_int_equal(found(rig, 1000, KVMEM_CLUSTER / 2), 0);
    assert_int_equal(found(rig, 3000, KVMEM_CLUSTER / 2), KVMEM_CLUSTER / 2);
}

static void test_room_is_made_early_for_whole_clusters_only(void **state)
{
    (void)state;
    struct kvmem_settings settings;
    kvmem_settings_fill(&settings, &(struct limits){.kv_free_blocks = KVMEM_CLUSTER - 1});
    assert_int_equal(settings.free_blocks, 0);
    kvmem_settings_fill(&settings, &(struct limits){.kv_free_blocks = 4 * KVMEM_CLUSTER - 1});
    assert_int_equal(settings.free_blocks, 3 * KVMEM_CLUSTER);
}

/* Of the active set, whose room the others must not take. */
static void test_what_is_protected_does_not_go_along(void **state)
{
    (void)state;
    struct rig *rig = fresh(KVMEM_CLUSTER, 0);
    kvmem_protect(&rig->kv, HOLDER_IDLE, true);
    fill(rig);
    rig_grow(rig, 0, BLOCK_TOKENS);
    assert_int_equal(found(rig, 1000, KVMEM_CLUSTER), KVMEM_CLUSTER - 1);
}

/* A call that cannot go on where it is begins a whole cluster, and nothing goes for that. */
static void test_nothing_goes_while_a_cluster_is_free(void **state)
{
    (void)state;
    struct rig *rig = fresh(2 * KVMEM_CLUSTER, 0);
    for (uint32_t i = 0; i + 1 < CLUSTERS; i++) {
        leave(rig, 1000 * (i + 1), KVMEM_CLUSTER, i);
    }
    rig_grow(rig, 0, BLOCK_TOKENS);
    for (uint32_t i = 0; i + 1 < CLUSTERS; i++) {
        assert_int_equal(found(rig, 1000 * (i + 1), KVMEM_CLUSTER), KVMEM_CLUSTER);
    }
}

/* The cluster whose block has been free longest is the first that others take what is left of. */
static void test_what_has_been_free_longest_goes_to_others(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, 0);
    for (uint32_t call = 0; call < CLUSTERS; call++) {
        rig_grow(rig, call, BLOCK_TOKENS);
    }
    rig_grow(rig, 1, KVMEM_CLUSTER * BLOCK_TOKENS);
    rig_grow(rig, 4, BLOCK_TOKENS);
    assert_int_equal(rig_block(rig, 4, 0), rig_block(rig, 0, 0) + 1);
}

/* From the host. */
static void test_what_comes_in_has_neighbours(void **state)
{
    (void)state;
    struct rig *rig = fresh(0, BLOCKS);
    leave(rig, 1000, KVMEM_CLUSTER, 0);
    rig_grow(rig, 2, BLOCKS * BLOCK_TOKENS);        /* it goes to the host */
    rig_step(rig);
    rig_drop(rig, 2);
    const struct kvmem_answer answer =
        rig_ask(rig, 0, rig_tokens(1000), KVMEM_CLUSTER * BLOCK_TOKENS + 1);
    assert_int_equal(answer.host_blocks, KVMEM_CLUSTER);
    rig_commit(rig, &answer, answer.positions);
    assert_neighbours(rig, 0, 0, KVMEM_CLUSTER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_that_grow_in_turns_do_not_share_a_cluster),
        cmocka_unit_test(test_every_block_can_be_had),
        cmocka_unit_test(test_room_of_contents_comes_in_order),
        cmocka_unit_test(test_a_content_goes_with_what_would_go_next),
        cmocka_unit_test(test_none_goes_early_where_enough_are_free),
        cmocka_unit_test(test_nothing_goes_along_where_none_may_be_free),
        cmocka_unit_test(test_room_is_made_early_for_whole_clusters_only),
        cmocka_unit_test(test_what_is_protected_does_not_go_along),
        cmocka_unit_test(test_nothing_goes_while_a_cluster_is_free),
        cmocka_unit_test(test_what_has_been_free_longest_goes_to_others),
        cmocka_unit_test(test_what_comes_in_has_neighbours),
        cmocka_unit_test(test_what_a_call_waits_for_does_not_go_along),
        cmocka_unit_test(test_what_is_within_a_minimum_does_not_go_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
