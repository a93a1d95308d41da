/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever happens, each call finds in its blocks exactly the KV of its own tokens.
 * Method: random plans, steps and accidents against a dumb model that carries the content: for each
 * position of each block a digest of (salt, all tokens up to there; without the salt as long as the
 * tokens are those of a declared prefix). Moves are carried out when the step runs, rows write
 * through the block ids of the step record, and before every row all positions that it continues
 * are compared. Few different tokens, two salts and small pools, so that equal beginnings,
 * evictions and short answers are the rule. kvmem_check() after everything.
 */
#include "selftest/unit/test.h"

#include "kvmem/block.h"

enum {
    BLOCK_TOKENS = 4, CALLS = 7, BLOCKS_PER_CALL = 8, CONTEXT = BLOCK_TOKENS * BLOCKS_PER_CALL,
    DEVICE_MIN = BLOCKS_PER_CALL, DEVICE_SPREAD = 14, HOST_SPREAD = 20,
    PREFIXES = 2, PREFIX = 3 * BLOCK_TOKENS,
    BLOCKS_MAX = DEVICE_MIN + DEVICE_SPREAD + PREFIXES * PREFIX / BLOCK_TOKENS + HOST_SPREAD,
    HOLDERS = 5, ACCOUNTS = 3, OPERATIONS = 100000, UNIT_US = 1000,
};

struct model_call {
    bool open;                      /* the others: a free slot */
    bool row;                       /* in the step */
    uint64_t salt;
    uint32_t tokens[CONTEXT];
    uint32_t known;                 /* tokens */
    uint32_t positions;             /* whose KV is there, once the moves are done */
    uint32_t reserved;              /* positions that blocks are there for; 0: not resident */
};

static struct model {
    struct kvmem kv;
    struct step step;
    struct quotas quotas;
    uint64_t content[BLOCKS_MAX][BLOCK_TOKENS];
    struct model_call calls[CALLS];
    uint32_t past[CONTEXT];         /* tokens of a call that was there before */
    uint32_t past_count;
    uint32_t prefixes[PREFIXES][PREFIX];        /* settings.prefixes of them */
    uint64_t now_us;
    uint64_t random;
    uint64_t found, moved, copied, declared, stale;     /* to know that something is tested */
} m;

static uint32_t below(uint32_t bound)
{
    m.random = m.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(m.random >> 33) % bound;
}

/* Number of leading tokens that are those of some prefix. */
static uint32_t declared_of(const uint32_t *tokens)
{
    uint32_t longest = 0;
    for (uint32_t p = 0; p < m.kv.settings.prefixes; p++) {
        uint32_t common = 0;
        while (common < PREFIX && m.prefixes[p][common] == tokens[common]) {
            common++;
        }
        longest = common > longest ? common : longest;
    }
    return longest;
}

static uint64_t digest(const struct model_call *call, uint32_t position)
{
    uint32_t declared = declared_of(call->tokens);
    uint64_t value = 17;
    for (uint32_t i = 0; i <= position; i++) {
        value += i == declared ? call->salt * 1000003 : 0;
        value = (value ^ (call->tokens[i] + 1)) * UINT64_C(0x100000001b3);
    }
    return value;
}

static uint64_t *place(const uint32_t *blocks, uint32_t position)
{
    uint32_t block = blocks[position / BLOCK_TOKENS];
    assert_true(block < m.kv.settings.device_blocks);
    return &m.content[block][position % BLOCK_TOKENS];
}

static void assert_content(const struct model_call *call, const uint32_t *blocks)
{
    for (uint32_t i = 0; i < call->positions; i++) {
        assert_int_equal(*place(blocks, i), digest(call, i));
    }
}

/* ---- plan ----------------------------------------------------------------------------------- */

static struct kvmem_use some_use(void)
{
    return (struct kvmem_use){below(HOLDERS), below(2), m.now_us};
}

static void give_up(uint32_t index)
{
    struct model_call *call = &m.calls[index];
    if (below(12) == 0) {
        kvmem_drop(&m.kv, index);
    } else {
        kvmem_keep(&m.kv, index, call->tokens, call->positions, some_use());
    }
    call->positions = 0;
    call->reserved = 0;
    assert_int_equal(kvmem_call_blocks(&m.kv, index), 0);
}

static void end(uint32_t index)
{
    struct model_call *call = &m.calls[index];
    give_up(index);
    memcpy(m.past, call->tokens, sizeof m.past);
    m.past_count = call->known;
    call->open = false;
}

static void arrive(uint32_t index)
{
    struct model_call *call = &m.calls[index];
    *call = (struct model_call){.open = true, .salt = below(2) * UINT64_C(77777777777)};
    call->known = 1 + below(CONTEXT);
    for (uint32_t i = 0; i < call->known; i++) {
        call->tokens[i] = below(12) == 0;
    }
    if (below(3) > 0) {             /* continues an earlier one */
        uint32_t common = below(m.past_count + 1);
        memcpy(call->tokens, m.past, common * sizeof *call->tokens);
        call->known = call->known > common ? call->known : common;
        call->known += call->known == 0;
    }
}

/* Another call is preempted. */
static void make_room(uint32_t index)
{
    uint32_t victim = (index + 1 + below(CALLS - 1)) % CALLS;
    if (m.calls[victim].reserved > 0) {
        give_up(victim);
        kvmem_check(&m.kv);
    }
}

static struct kvmem_answer ask(uint32_t index)
{
    const struct model_call *call = &m.calls[index];
    const struct kvmem_question question = {.call = index, .salt = call->salt,
                                            .tokens = call->tokens, .count = call->known};
    struct kvmem_answer answer = kvmem_ask(&m.kv, &question);
    answer.positions = answer.is_owned ? call->positions : answer.positions;
    assert_true(answer.positions < call->known);
    kvmem_check(&m.kv);
    return answer;
}

/* Not committed: what was found gets another place, or is forgotten. */
static void decline(const struct kvmem_answer *answer)
{
    if (below(12) == 0) {
        kvmem_forget(&m.kv, answer);
    } else if (below(3) > 0) {
        kvmem_touch(&m.kv, answer, some_use());
    }
}

/* Asks, and commits if there is room. */
static void visit(uint32_t index)
{
    struct model_call *call = &m.calls[index];
    struct kvmem_answer answer = ask(index);
    if (below(4) == 0) {
        make_room(index);
    }
    if (kvmem_is_stale(&m.kv, &answer)) {
        m.stale++;
        answer = ask(index);
    }
    uint32_t wanted = answer.positions + 1 + below(call->known - answer.positions);
    if (below(10) > 0 && kvmem_fits(&m.kv, &answer, wanted)) {
        m.found += answer.is_owned ? 0 : answer.positions;
        m.declared += answer.declared_blocks;
        kvmem_commit(&m.kv, &answer, wanted);
        call->positions = answer.positions;
        answer = kvmem_ask(&m.kv, &(struct kvmem_question){
            .call = index, .salt = call->salt, .tokens = call->tokens, .count = call->known});
        assert_int_equal(kvmem_missing(&m.kv, &answer, wanted), 0);
        call->reserved = wanted > call->reserved ? wanted : call->reserved;
    } else if (!answer.is_owned) {
        decline(&answer);
    }
}

static void plan_operation(void)
{
    uint32_t index = below(CALLS);
    struct model_call *call = &m.calls[index];
    if (!call->open) {
        arrive(index);
    }
    switch (below(8)) {
    case 0:
        give_up(index);
        break;
    case 1:
        if (below(3) == 0) {
            end(index);
        }
        break;
    default:
        if (call->known > call->positions) {
            visit(index);
        }
    }
    kvmem_check(&m.kv);
}

/* ---- step ----------------------------------------------------------------------------------- */

static uint32_t phase_of(const struct step_move *move)
{
    bool is_out = move->to >= m.kv.settings.device_blocks;
    bool is_in = move->from >= m.kv.settings.device_blocks;
    assert_false(is_out && is_in);
    return is_out ? 0 : is_in ? 2 : 1;
}

/* In any order, but for those within the device. */
static void carry_out_phase(uint32_t phase)
{
    uint32_t count = step_header(&m.step)->moves_count;
    bool is_backward = phase != 1 && below(2);
    for (uint32_t i = 0; i < count; i++) {
        const struct step_move *move = &step_moves(&m.step)[is_backward ? count - 1 - i : i];
        if (phase_of(move) == phase) {
            memcpy(m.content[move->to], m.content[move->from], sizeof m.content[0]);
            m.copied += phase == 1;
        }
    }
}

static void carry_out_moves(void)
{
    bool target[BLOCKS_MAX] = {false};
    uint32_t count = step_header(&m.step)->moves_count;
    const struct step_move *moves = step_moves(&m.step);
    for (uint32_t i = 0; i < count; i++) {
        assert_false(target[moves[i].to]);
        target[moves[i].to] = true;
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_true(phase_of(&moves[i]) != 2 || !target[moves[i].from]);
    }
    for (uint32_t phase = 0; phase < 3; phase++) {
        carry_out_phase(phase);
    }
    m.moved += count;
}

static void bind(void)
{
    struct step_planned planned[CALLS];
    uint32_t rows = 0;
    for (uint32_t i = 0; i < CALLS; i++) {
        struct model_call *call = &m.calls[i];
        call->row = call->open && call->reserved > call->positions && below(4) > 0;
        if (call->row) {
            planned[rows] = (struct step_planned){
                .call = i, .first_position = call->positions,
                .tokens_count = call->reserved - call->positions};
            *step_row(&m.step, rows++) = (struct step_row){
                .call = i, .first_position = call->positions,
                .tokens_count = call->reserved - call->positions};
        }
    }
    step_header(&m.step)->rows_count = rows;
    kvmem_bind(&m.kv, &m.step, planned, rows);
}

static void compute(void)
{
    carry_out_moves();
    for (uint32_t i = 0; i < CALLS; i++) {
        if (m.calls[i].reserved > 0) {
            assert_content(&m.calls[i], kvmem_table_of(&m.kv, i));
        }
    }
    for (uint32_t r = 0; r < step_header(&m.step)->rows_count; r++) {
        const struct step_row *row = step_row(&m.step, r);
        const uint32_t *blocks = step_blocks(&m.step, r);
        const struct model_call *call = &m.calls[row->call];
        assert_content(call, blocks);
        for (uint32_t i = 0; i < row->tokens_count; i++) {
            uint32_t position = row->first_position + i;
            uint32_t block = blocks[position / BLOCK_TOKENS];
            assert_int_equal(m.kv.blocks[block].state, KVMEM_PRIVATE);
            *place(blocks, position) = digest(call, position);
        }
    }
}

/* While the engine computes, calls come to their end, in the step or not. */
static void accident(void)
{
    uint32_t index = below(CALLS);
    struct model_call *call = &m.calls[index];
    if (!call->open) {
        return;
    }
    if (call->reserved == 0 && below(2)) {      /* what it left is looked for once more */
        const struct kvmem_answer answer = ask(index);
        decline(&answer);
        kvmem_check(&m.kv);
    }
    call->row = false;
    end(index);
}

static void settle(void)
{
    kvmem_moved(&m.kv);
    kvmem_check(&m.kv);
    for (uint32_t i = 0; i < CALLS; i++) {
        struct model_call *call = &m.calls[i];
        if (!call->row) {
            continue;
        }
        call->row = false;
        if (below(30) == 0) {
            kvmem_drop(&m.kv, i);               /* its numbers are wrong */
            call->open = false;
            call->positions = call->reserved = 0;
        } else {
            call->positions = call->reserved;
            kvmem_settle(&m.kv, i, call->tokens, call->positions);
            assert_content(call, kvmem_table_of(&m.kv, i));
            if (call->known < CONTEXT && below(2)) {
                call->tokens[call->known++] = below(2);
            }
        }
        kvmem_check(&m.kv);
    }
}

/* Before any call has blocks. */
static void compute_prefixes(void)
{
    for (uint32_t p = 0; p < m.kv.settings.prefixes; p++) {
        struct model_call prefix = {.known = PREFIX};
        uint32_t call = CALLS + p;
        memcpy(prefix.tokens, m.prefixes[p], sizeof m.prefixes[p]);
        const struct kvmem_question question = {.call = call, .salt = KVMEM_SALT_DECLARED,
                                                .tokens = prefix.tokens, .count = PREFIX};
        const struct kvmem_answer answer = kvmem_ask(&m.kv, &question);
        kvmem_commit(&m.kv, &answer, PREFIX);
        for (uint32_t i = answer.positions; i < PREFIX; i++) {
            *place(kvmem_table_of(&m.kv, call), i) = digest(&prefix, i);
        }
        kvmem_settle(&m.kv, call, prefix.tokens, PREFIX);
        kvmem_check(&m.kv);
    }
}

static void lose_engine(void)
{
    memset(m.content, 0xee, sizeof m.content);
    for (uint32_t i = 0; i < CALLS; i++) {
        kvmem_drop(&m.kv, i);
        m.calls[i].positions = m.calls[i].reserved = 0;
        m.calls[i].row = false;
    }
    for (uint32_t p = 0; p < m.kv.settings.prefixes; p++) {
        kvmem_drop(&m.kv, CALLS + p);
    }
    kvmem_check(&m.kv);
    kvmem_lost(&m.kv);
    kvmem_check(&m.kv);
    assert_int_equal(kvmem_free(&m.kv), m.kv.settings.device_blocks);
    assert_int_equal(kvmem_host_used(&m.kv), 0);
    compute_prefixes();
}

/* A party comes to be needed more or less, or is gone, and accounts have other minimums. */
static void turn_of_need(void)
{
    uint32_t holder = below(HOLDERS);
    if (below(20) == 0) {
        kvmem_abandon(&m.kv, holder, below(2));
        kvmem_account(&m.kv, holder, below(ACCOUNTS));
        m.quotas.of[QUOTA_KV_BLOCKS][below(ACCOUNTS)].min = below(2) * below(DEVICE_MIN);
        kvmem_bind_quotas(&m.kv, &m.quotas);
    } else {
        kvmem_need(&m.kv, holder, below(2) * KVMEM_WANTED + below(3));
    }
    kvmem_check(&m.kv);
}

/* Returns the number of operations. */
static uint32_t step(void)
{
    uint32_t operations = 1 + below(6);
    for (uint32_t i = 0; i < operations; i++) {
        m.now_us += below(UNIT_US);
        plan_operation();
        if (below(4) == 0) {
            turn_of_need();
        }
    }
    kvmem_expire(&m.kv, m.now_us, below(3) > 0);
    kvmem_check(&m.kv);
    bind();
    kvmem_check(&m.kv);
    compute();
    while (below(5) == 0) {
        accident();
        turn_of_need();
    }
    if (below(200) == 0) {
        lose_engine();
    } else {
        settle();
    }
    return operations + 3;
}

static void start(uint64_t seed, uint32_t hash_mask)
{
    struct arena *arena = test_arena();
    memset(&m, 0, sizeof m);
    m.random = seed;
    struct kvmem_settings settings = {
        .device_blocks = DEVICE_MIN + below(DEVICE_SPREAD + 1),
        .host_blocks = below(4) == 0 ? 0 : below(HOST_SPREAD + 1),
        .block_tokens = BLOCK_TOKENS, .calls = CALLS, .blocks_per_call = BLOCKS_PER_CALL,
        .holders = HOLDERS, .prefixes = below(PREFIXES + 1),
    };
    settings.device_blocks += settings.prefixes * PREFIX / BLOCK_TOKENS;
    settings.free_blocks = below(2) * below(12);
    settings.retain_device_us = below(30) * UNIT_US;
    settings.retain_host_us = settings.retain_device_us + below(60) * UNIT_US;
    settings.retain_drop_us = settings.retain_host_us + below(200) * UNIT_US;
    kvmem_init(&m.kv, &settings, arena);
    m.kv.hash_mask &= hash_mask;
    m.step.layout = (struct step_layout){
        .rows_max = CALLS, .steps_max = 1, .tokens_max = CALLS * CONTEXT,
        .blocks_per_call = BLOCKS_PER_CALL, .moves_max = kvmem_moves_max(settings.device_blocks)};
    step_layout_init(&m.step.layout);
    m.step.base = arena_take(arena, 1, m.step.layout.total_bytes);
    for (uint32_t i = 0; i < PREFIX; i++) {
        m.prefixes[1][i] = i >= BLOCK_TOKENS;   /* the first one has nothing but zeros */
    }
    compute_prefixes();
}

static void run(uint32_t operations, uint32_t hash_mask)
{
    uint64_t found = 0, moved = 0, copied = 0, declared = 0, stale = 0, returned = 0;
    for (uint32_t done = 0, seed = 1; done < operations; seed++) {
        start(seed, hash_mask);
        for (uint32_t i = 0; i < 200; i++) {
            done += step();
        }
        found += m.found;
        moved += m.moved;
        copied += m.copied;
        declared += m.declared;
        stale += m.stale;
        returned += m.kv.counters.returned_blocks;
    }
    assert_true(found > operations / 10);
    assert_true(moved > operations / 100);
    assert_true(copied > operations / 100);
    assert_true(declared > operations / 100);
    assert_true(stale > operations / 1000);
    assert_true(returned > operations / 1000);
}

static void test_random_operations_keep_every_call_its_own_kv(void **state)
{
    (void)state;
    run(OPERATIONS, UINT32_MAX);
}

static void test_random_operations_do_not_depend_on_the_hash(void **state)
{
    (void)state;
    run(OPERATIONS / 4, 0);     /* everything collides */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations_keep_every_call_its_own_kv),
        cmocka_unit_test(test_random_operations_do_not_depend_on_the_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
