/* SPDX-License-Identifier: MIT */
/*
 * Goal: requests that belong together are of one program, others are not, and the tables stay as
 * large as they are.
 * Method: conversations and names by hand; a clock that the test moves.
 */
#include "selftest/unit/door/door_rig.h"

#define IDLE_US (600 * UINT64_C(1000000))

static struct chat_text text_of(const char *text)
{
    return (struct chat_text){text, (uint32_t)strlen(text)};
}

/* A request whose conversation is these texts, of a user and an assistant in turn. */
static struct request *ask(const char *const *texts)
{
    static struct chat_message messages[8];
    struct request *request = rig_take("/v1/chat/completions");
    uint32_t count = 0;
    for (; texts[count] != NULL; count++) {
        messages[count] = (struct chat_message){
            .role = count % 2 == 0 ? CHAT_USER : CHAT_ASSISTANT, .content = text_of(texts[count])};
    }
    program_read_conversation(request, &(struct chat){.messages = messages,
                                                      .messages_count = count});
    assert_true(program_find(request, NULL));
    return request;
}
#define ASK(...) ask((const char *const[]){__VA_ARGS__, NULL})

static void answer(struct request *request, const char *text)
{
    const struct chat_message message = {.role = CHAT_ASSISTANT, .content = text_of(text)};
    program_note_answer(request, &message);
    request_free(request);
}

static void test_conversation_that_goes_on_is_one_program(void **state)
{
    rig_begin();
    struct request *first = ASK("hello");
    const struct program *program = first->program;
    answer(first, "hi");
    struct request *next = ASK("hello", "hi", "how are you?");
    assert_ptr_equal(next->program, program);
    answer(next, "well");
    struct request *edited = ASK("hello", "hi!", "how are you?");      /* the client has cut it */
    assert_ptr_equal(edited->program, program);
    struct request *other = ASK("hullo", "hi", "how are you?");
    assert_ptr_not_equal(other->program, program);
    rig_end();
}

static void test_same_conversation_twice_is_two_programs(void **state)
{
    rig_begin();
    struct request *first = ASK("hello");
    const struct program *program = first->program;
    answer(first, "hi");
    struct request *again = ASK("hello");
    assert_ptr_not_equal(again->program, program);
    assert_int_equal(programs_count(&rig.door), 2);
    rig_end();
}

static void test_longest_conversation_decides(void **state)
{
    rig_begin();
    answer(ASK("a"), "b");
    struct request *longer = ASK("other");
    const struct program *program = longer->program;
    answer(longer, "b");
    longer = ASK("other", "b", "c");
    assert_ptr_equal(longer->program, program);
    answer(longer, "d");
    assert_ptr_equal(ASK("other", "b", "c", "d", "e")->program, program);
    rig_end();
}

static void test_headers_name_programs_in_their_order(void **state)
{
    rig_begin();
    struct request *request = rig_take("/v1/chat/completions");
    uint8_t id[AGX_ID_BYTES];
    rig_header("X-Session-Id", "second");
    rig_header("X-Agentix-Program", "first");
    rig_header("X-Agentix-Thread", "4294967167");
    assert_true(program_find(request, "third"));
    agx_program_id("first", id);
    assert_memory_equal(request->program->id, id, sizeof id);
    assert_int_equal(request->thread, 4294967167u);
    rig_no_headers();
    request = rig_take("/v1/chat/completions");
    assert_true(program_find(request, "third"));
    agx_program_id("third", id);
    assert_memory_equal(request->program->id, id, sizeof id);
    rig_end();
}

static void test_thread_that_is_no_number_is_refused(void **state)
{
    static const char *const wrong[] = {"", "x", "-1", "1x", "4294967168", "99999999999999999999"};
    rig_begin();
    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct request *request = rig_take("/v1/chat/completions");
        rig_no_headers();
        rig_header("X-Agentix-Thread", wrong[i]);
        assert_false(program_find(request, NULL));
        assert_int_equal(request->refusal.status, 400);
        request_free(request);
    }
    rig_end();
}

static void find(struct request *request, uint32_t number)
{
    char name[16];
    snprintf(name, sizeof name, "p%u", number);
    assert_true(program_find(request, name));
}

static void test_oldest_program_yields_and_open_ones_never(void **state)
{
    rig_begin();
    struct request *open = rig_take("/v1/chat/completions");
    find(open, 0);
    for (uint32_t i = 1; i < 2000; i++) {
        struct request *request = rig_take("/v1/chat/completions");
        rig.door.now_us++;
        find(request, i);
        request_free(request);
        assert_true(programs_count(&rig.door) <= 64);
    }
    uint8_t id[AGX_ID_BYTES];
    agx_program_id("p0", id);
    assert_true(open->program->is_used);
    assert_memory_equal(open->program->id, id, sizeof id);
    assert_false(program_end(&rig.door, &rig.door.domains[0], "p0"));
    assert_true(program_end(&rig.door, &rig.door.domains[0], "p1999"));
    assert_false(program_end(&rig.door, &rig.door.domains[0], "p1999"));
    rig_end();
}

static void test_without_a_place_a_request_is_refused(void **state)
{
    rig_begin();
    uint32_t refused = 0;
    rig.door.programs = NULL;
    rig.door.options.door_programs.number = 16;
    assert_status(STATUS_OK, programs_begin(&rig.door));
    for (uint32_t i = 0; i < 17; i++) {
        struct request *request = rig_take("/v1/chat/completions");
        char name[16];
        snprintf(name, sizeof name, "p%u", i);
        if (!program_find(request, name)) {
            assert_int_equal(request->refusal.status, 429);
            refused++;
        }
    }
    assert_int_equal(refused, 1);
    rig_end();
}

static void test_idle_program_is_ended_and_a_busy_one_is_not(void **state)
{
    rig_begin();
    struct request *open = rig_take("/v1/chat/completions");
    find(open, 1);
    struct request *request = rig_take("/v1/chat/completions");
    find(request, 2);
    request_free(request);
    rig.door.now_us += IDLE_US;
    programs_run(&rig.door);
    assert_int_equal(programs_count(&rig.door), 2);
    rig.door.now_us++;
    programs_run(&rig.door);
    assert_int_equal(programs_count(&rig.door), 1);
    request_free(open);
    rig.door.now_us += IDLE_US + 1;
    programs_run(&rig.door);
    assert_int_equal(programs_count(&rig.door), 0);
    rig_end();
}

static void test_end_header_ends_with_the_last_request(void **state)
{
    rig_begin();
    struct request *open = rig_take("/v1/chat/completions");
    find(open, 1);
    struct request *last = rig_take("/v1/chat/completions");
    rig_header("X-Agentix-End", "1");
    find(last, 1);
    request_free(last);
    assert_int_equal(programs_count(&rig.door), 1);     /* it is not the last one */
    last = rig_take("/v1/chat/completions");
    find(last, 1);
    request_free(open);
    request_free(last);
    assert_int_equal(programs_count(&rig.door), 0);
    rig_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversation_that_goes_on_is_one_program),
        cmocka_unit_test(test_same_conversation_twice_is_two_programs),
        cmocka_unit_test(test_longest_conversation_decides),
        cmocka_unit_test(test_headers_name_programs_in_their_order),
        cmocka_unit_test(test_thread_that_is_no_number_is_refused),
        cmocka_unit_test(test_oldest_program_yields_and_open_ones_never),
        cmocka_unit_test(test_without_a_place_a_request_is_refused),
        cmocka_unit_test(test_idle_program_is_ended_and_a_busy_one_is_not),
        cmocka_unit_test(test_end_header_ends_with_the_last_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
