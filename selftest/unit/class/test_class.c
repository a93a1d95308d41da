/* SPDX-License-Identifier: MIT */
/*
 * Goal: a program gets the class of its name, or else of its first prompt's beginning, once; trust
 * domains share none; a full table forgets by domain, and what refers to a forgotten class finds
 * nothing.
 * Method: a table of 4 classes and of 8 programs; at last random programs of five domains beside
 * lists that are searched from end to end. sched_check() after each command.
 */
#include "selftest/unit/sched/bench.h"

enum { TABLE = 4, PROGRAMS = 8, ALICE = 1, BOB = 2 };

static struct bench *fresh(void)
{
    struct sched_settings settings = bench_settings(SCHED_PLAS);
    settings.classes = TABLE;
    return bench_start(&settings, 256);
}

static struct program *program_of(struct bench *bench, uint64_t domain, uint32_t program)
{
    uint8_t id[CALL_PROGRAM_ID_BYTES];
    bench_program_id(program, id);
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        struct program *entry = &bench->sched.programs[i];
        if (entry->in_use && entry->domain == domain && memcmp(entry->id, id, sizeof id) == 0) {
            return entry;
        }
    }
    return NULL;
}

static const struct sched_class *class_of(struct bench *bench, uint64_t domain, uint32_t program)
{
    const struct program *entry = program_of(bench, domain, program);
    assert_non_null(entry);
    return sched_class_of(&bench->sched, entry);
}

static const struct sched_class *start(struct bench *bench, uint64_t domain, uint32_t program,
                                       const char *name)
{
    bench_class(bench, domain, program, name);
    return class_of(bench, domain, program);
}

/* A whole call of the domain, whose prompt depends on `seed`. */
static void call_in(struct bench *bench, uint64_t domain, uint32_t program, uint32_t prompt_tokens,
                    uint32_t seed)
{
    uint32_t call = bench_take(bench, program, prompt_tokens, 2, seed);
    bench_at(bench, call)->domain = domain;
    bench_send(bench, call);
    bench_intake(bench);
    while (bench_step(bench)) {
    }
    bench_free(bench, call);
}

static bool is_known(const struct bench *bench, uint64_t domain, const char *name)
{
    for (uint32_t i = 0; i < TABLE; i++) {
        const struct sched_class *class = &bench->sched.classes.each[i];
        if (class->in_use && class->domain == domain && strcmp(class->name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void test_one_name_is_one_class_in_each_domain(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    const struct sched_class *web = start(bench, ALICE, 1, "web");
    assert_string_equal(web->name, "web");
    assert_ptr_equal(start(bench, ALICE, 2, "web"), web);
    assert_ptr_not_equal(start(bench, ALICE, 3, "web2"), web);
    assert_ptr_not_equal(start(bench, BOB, 1, "web"), web);
    assert_int_equal(bench->sched.classes.count, 3);
    sched_report(&bench->sched);
    assert_int_equal(bench->stats.classes_known, 3);
}

static void test_longest_name_is_kept_whole(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    char name[CALL_CLASS_BYTES + 1] = {0};
    memset(name, 'x', CALL_CLASS_BYTES);
    const struct sched_class *class = start(bench, ALICE, 1, name);
    assert_string_equal(class->name, name);
    name[CALL_CLASS_BYTES - 1] = 'y';
    assert_ptr_not_equal(start(bench, ALICE, 2, name), class);
}

static void test_first_name_counts_and_only_before_the_first_call(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    assert_null(start(bench, ALICE, 1, ""));
    const struct sched_class *class = start(bench, ALICE, 1, "first");
    assert_ptr_equal(start(bench, ALICE, 1, "second"), class);
    call_in(bench, ALICE, 1, 8, 1);
    assert_ptr_equal(start(bench, ALICE, 1, "third"), class);
    call_in(bench, ALICE, 2, 3, 1);         /* too short for a class: none, even now */
    assert_null(start(bench, ALICE, 2, "late"));
    assert_int_equal(bench->sched.classes.count, 1);
}

static void test_without_a_name_the_first_block_of_the_first_prompt_is_the_class(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    call_in(bench, ALICE, 1, BENCH_BLOCK_TOKENS, 7);
    const struct sched_class *class = class_of(bench, ALICE, 1);
    assert_non_null(class);
    assert_string_equal(class->name, "");
    call_in(bench, ALICE, 1, 8, 8);         /* a later prompt does not count */
    assert_ptr_equal(class_of(bench, ALICE, 1), class);
    call_in(bench, ALICE, 2, 2 * BENCH_BLOCK_TOKENS, 7);
    assert_ptr_equal(class_of(bench, ALICE, 2), class);
    call_in(bench, ALICE, 3, BENCH_BLOCK_TOKENS, 8);
    assert_ptr_not_equal(class_of(bench, ALICE, 3), class);
    call_in(bench, BOB, 4, BENCH_BLOCK_TOKENS, 7);
    assert_ptr_not_equal(class_of(bench, BOB, 4), class);
    call_in(bench, ALICE, 5, BENCH_BLOCK_TOKENS - 1, 7);
    assert_null(class_of(bench, ALICE, 5));
    bench_class(bench, ALICE, 6, "named");
    call_in(bench, ALICE, 6, BENCH_BLOCK_TOKENS, 7);
    assert_string_equal(class_of(bench, ALICE, 6)->name, "named");
}

static void test_full_table_forgets_the_idlest(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    start(bench, ALICE, 1, "a");
    start(bench, ALICE, 2, "b");
    start(bench, ALICE, 3, "c");
    start(bench, ALICE, 4, "d");
    start(bench, ALICE, 5, "a");            /* used again */
    start(bench, ALICE, 6, "e");
    assert_true(is_known(bench, ALICE, "a") && !is_known(bench, ALICE, "b"));
    assert_int_equal(bench->stats.classes_forgotten, 1);
    assert_null(class_of(bench, ALICE, 2));
    assert_status(STATUS_OK, bench_program_in(bench, COMMAND_PROGRAM_END, ALICE, 1).status);
    start(bench, ALICE, 7, "f");
    assert_true(is_known(bench, ALICE, "a") && !is_known(bench, ALICE, "c"));
}

/* Whatever names a domain invents, others keep their share. */
static void test_names_push_out_classes_of_their_own_domain_only(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    start(bench, BOB, 1, "bob-1");
    start(bench, BOB, 2, "bob-2");
    for (uint32_t i = 0; i < 100; i++) {
        char name[] = "mallory-00";
        name[8] = (char)('0' + i / 10);
        name[9] = (char)('0' + i % 10);
        start(bench, ALICE, 3, name);
        assert_status(STATUS_OK, bench_program_in(bench, COMMAND_PROGRAM_END, ALICE, 3).status);
        assert_true(is_known(bench, ALICE, name));
        assert_true(is_known(bench, BOB, "bob-1") && is_known(bench, BOB, "bob-2"));
    }
    start(bench, BOB, 4, "bob-3");          /* more than its share: its own idlest */
    assert_false(is_known(bench, BOB, "bob-1"));
    start(bench, 3, 5, "carol");
    assert_true(is_known(bench, BOB, "bob-3") && is_known(bench, 3, "carol"));
}

/* The slot has a new class by then: it learns nothing of what the old one's programs cost. */
static void test_program_of_a_forgotten_class_teaches_no_other(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    start(bench, ALICE, 1, "old");
    uint32_t slot = program_of(bench, ALICE, 1)->class.slot;
    call_in(bench, ALICE, 1, 8, 1);
    start(bench, ALICE, 2, "b");
    start(bench, ALICE, 3, "c");
    start(bench, ALICE, 4, "d");
    start(bench, ALICE, 5, "new");
    assert_string_equal(bench->sched.classes.each[slot].name, "new");
    assert_null(class_of(bench, ALICE, 1));
    assert_status(STATUS_OK, bench_program_in(bench, COMMAND_PROGRAM_END, ALICE, 1).status);
    assert_int_equal(bench->sched.classes.each[slot].learnt.programs, 0);
}

static void test_class_forgotten_before_the_first_call_is_found_by_the_prompt(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    start(bench, ALICE, 1, "old");
    for (uint32_t i = 0; i < TABLE; i++) {
        char name[] = "x0";
        name[1] = (char)('0' + i);
        start(bench, ALICE, 2 + i, name);
    }
    assert_null(class_of(bench, ALICE, 1));
    call_in(bench, ALICE, 1, 8, 1);
    assert_string_equal(class_of(bench, ALICE, 1)->name, "");
}

/* ---- beside a list --------------------------------------------------------------------------- */

struct model {
    struct { uint64_t domain; char name[3]; } classes[TABLE];   /* idlest first */
    uint32_t count;
};

static uint32_t classes_of(const struct model *model, uint64_t domain)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->count; i++) {
        count += model->classes[i].domain == domain;
    }
    return count;
}

/* May the table give up this one, of a domain with most classes, for one of `domain`? */
static bool may_go(const struct model *model, uint32_t at, uint64_t domain)
{
    uint64_t victim = model->classes[at].domain;
    uint32_t own = classes_of(model, domain);
    for (uint32_t i = 0; i < model->count; i++) {
        if (classes_of(model, model->classes[i].domain) > classes_of(model, victim) ||
            (i < at && model->classes[i].domain == victim)) {
            return false;
        }
    }
    return victim == domain || own < classes_of(model, victim);
}

static void remove_at(struct model *model, uint32_t at)
{
    memmove(&model->classes[at], &model->classes[at + 1],
            (--model->count - at) * sizeof model->classes[0]);
}

static void use(struct bench *bench, struct model *model, uint64_t domain, const char *name)
{
    uint32_t at = 0, gone = TABLE;
    while (at < model->count && (model->classes[at].domain != domain ||
                                 strcmp(model->classes[at].name, name) != 0)) {
        at++;
    }
    for (uint32_t i = 0; i < model->count; i++) {
        gone = is_known(bench, model->classes[i].domain, model->classes[i].name) ? gone : i;
    }
    if (at < model->count) {
        assert_int_equal(gone, TABLE);
        remove_at(model, at);
    } else if (model->count == TABLE) {
        assert_true(gone < TABLE && may_go(model, gone, domain));
        remove_at(model, gone);
    }
    model->classes[model->count].domain = domain;
    memcpy(model->classes[model->count++].name, name, strlen(name) + 1);
}

static void test_random_names_match_a_list(void **state)
{
    (void)state;
    struct bench *bench = fresh();
    struct model model = {.count = 0};
    uint64_t random = 5;
    for (uint32_t round = 0; round < 5000; round++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        char name[3] = {'c', (char)('0' + (random >> 33) % 6), 0};
        uint64_t domain = (random >> 40) % 5;
        bench_class(bench, domain, round, name);
        assert_true(is_known(bench, domain, name));
        use(bench, &model, domain, name);
        assert_int_equal(model.count, bench->sched.classes.count);
        if (random >> 63 == 0) {
            call_in(bench, domain, round, 1 + (random >> 50) % 3, round);
        }
        assert_status(STATUS_OK,
                      bench_program_in(bench, COMMAND_PROGRAM_END, domain, round).status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_name_is_one_class_in_each_domain),
        cmocka_unit_test(test_longest_name_is_kept_whole),
        cmocka_unit_test(test_first_name_counts_and_only_before_the_first_call),
        cmocka_unit_test(test_without_a_name_the_first_block_of_the_first_prompt_is_the_class),
        cmocka_unit_test(test_full_table_forgets_the_idlest),
        cmocka_unit_test(test_names_push_out_classes_of_their_own_domain_only),
        cmocka_unit_test(test_program_of_a_forgotten_class_teaches_no_other),
        cmocka_unit_test(test_class_forgotten_before_the_first_call_is_found_by_the_prompt),
        cmocka_unit_test(test_random_names_match_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
