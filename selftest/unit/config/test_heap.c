/* SPDX-License-Identifier: MIT */
/*
 * Goal: the least key is first, whatever is set, changed and removed.
 * Method: random verbs against a table of keys that is searched; heap_check() after each.
 */
#include "selftest/unit/test.h"

#include "config/base/heap.h"

enum { IDS = 40, VERBS = 20000 };

static uint64_t least_of(const uint64_t *keys)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t id = 0; id < IDS; id++) {
        least = keys[id] < least ? keys[id] : least;
    }
    return least;
}

static void test_random_verbs_keep_the_least_key_first(void **state)
{
    (void)state;
    struct heap heap;
    uint64_t keys[IDS], random = 1;
    heap_init(&heap, IDS, test_arena());
    memset(keys, 0xff, sizeof keys);                    /* not in the heap */
    for (uint32_t i = 0; i < VERBS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        uint32_t id = (uint32_t)(random >> 33) % IDS;
        if ((random >> 40) % 3 == 0) {
            heap_remove(&heap, id);
            keys[id] = UINT64_MAX;
        } else {
            heap_set(&heap, id, keys[id] = (random >> 50) % 64);
        }
        heap_check(&heap);
        assert_int_equal(heap_has(&heap, id), keys[id] != UINT64_MAX);
        assert_int_equal(heap_first_key(&heap), least_of(keys));
        assert_true(heap.count == 0 || keys[heap_first(&heap)] == least_of(keys));
    }
    heap_clear(&heap);
    assert_int_equal(heap_first(&heap), HEAP_NONE);
    heap_check(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_verbs_keep_the_least_key_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
