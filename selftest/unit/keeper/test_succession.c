/* SPDX-License-Identifier: MIT */
/*
 * Goal: of an old keeper and a new one exactly one serves in the end, and it is the new one exactly
 * if the command was told so, whichever messages cross, and when one dies, stands still, or is told
 * to end. None is bound for ever.
 * Method: both real sides over one socket, with models of their cores, of the lock of kept memory
 * and of the command. Who acts next, how much time goes by, and two faults are drawn by a seed.
 */
#include "selftest/unit/test.h"

#undef fail                         /* of CMocka: taker.c has its own */
#include "appliance/keeper/upgrade/taker.c"
#include "appliance/keeper/upgrade/giver.h"

enum { RUNS = 6000, STEPS = 120, FAIR_STEPS = 400 };

enum fault { NONE, OLD_DIES, NEW_DIES, OLD_IS_TOLD, OLD_STANDS_STILL, NEW_STANDS_STILL,
             ALL_NEW_STANDS_STILL, NEW_CORE_STANDS_STILL, NEW_CORE_DIES, FAULTS };

struct side {
    bool lives, is_still;           /* the keeper */
    bool has_core, core_is_still, core_yields;
};

static struct giver giver;
static struct boot boot;
static struct control control;
static struct config_keys domains;
static struct side old, new;
static const struct side *lock;     /* whose core has kept memory */
static uint64_t now_us, seed;
static uint32_t stops_due;
static bool is_told, has_launcher;  /* of the command */
static bool is_given;               /* the old one ended, or drains, for the new one */
static bool was_hit[FAULTS];
static bool is_crossing;
static uint32_t number, told_count, back_count, killed_count;   /* of the run; of runs */

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static void end_core(struct side *side)
{
    side->has_core = side->core_is_still = side->core_yields = false;
    lock = lock == side ? NULL : lock;
}

static void end(struct side *side, int *handle)
{
    if (*handle >= 0) {
        close(*handle);
    }
    *handle = -1;
    side->lives = false;
    end_core(side);
}

static void begin(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    boot.version = "1";
    boot.shared.control = &control;
    giver = (struct giver){.boot = &boot, .state = GIVER_OFFERED, .socket = pair[0]};
    memset(&taker, 0, sizeof taker);
    taker.socket = pair[1];
    taker.is_apart = draw(2) != 0;
    old = (struct side){.lives = true, .has_core = true};
    new = (struct side){.lives = true};
    lock = &old;
    now_us = 1000;
    stops_due = 0;
    is_told = is_given = false;
    has_launcher = true;
    memset(was_hit, 0, sizeof was_hit);
}

/* Standard error is full of the log. */
static void must(bool condition, int line)
{
    if (!condition) {
        print_message("%s:%d: is not so in run %u\n", __FILE__, line, number);
    }
    assert_true(condition);
}

/* ---- who acts -------------------------------------------------------------------------------- */

static bool serves(const struct side *side)
{
    return side->has_core && (taker.is_apart || lock == side);
}

static void act_old(void);
static void act_new(void);

/* One side may act after the other one has heard nothing, and before that says something. */
static void cross(const struct side *side, void (*acts)(void))
{
    if (!is_crossing && draw(3) == 0 && side->lives && !side->is_still) {
        is_crossing = true;
        acts();
        is_crossing = false;
    }
}

static void pass_stop(void)
{
    if (old.lives && stops_due > 0 && !giver_is_bound(&giver) && serves(&old)) {
        giver_refuse(&giver, "told to end");
        end(&old, &giver.socket);   /* it has drained */
    }
}

static void act_old(void)
{
    uint8_t byte;
    struct giver_facts facts = {.may_give = serves(&old), .has_core = old.has_core,
                                .domains = &domains, .now_us = now_us};
    switch (giver_tick(&giver, &facts)) {
    case GIVER_NOTHING:
        break;
    case GIVER_END_CORE:
        old.core_yields = true;
        break;
    case GIVER_KILL_CORE:
        end_core(&old);
        break;
    case GIVER_BEGIN_CORE:
        must(!old.has_core, __LINE__);
        old.has_core = true;
        back_count++;
        break;
    case GIVER_LEAVE:
    case GIVER_END:
        is_given = true;
        end(&old, &giver.socket);
        break;
    }
    if (recv(boot.upgrade_leash[0], &byte, 1, MSG_DONTWAIT) == 1 && new.lives) {
        must(!is_told, __LINE__);
        end(&new, &taker.socket);
        killed_count++;
    }
    cross(&new, act_new);
    pass_stop();
}

/* As taker_tick(), but for the other one, which may act in between. */
static enum taker_order tick_new(const struct taker_facts *facts)
{
    enum taker_order order = hear();
    if (order == TAKER_NOTHING) {
        cross(&old, act_old);
    }
    return order == TAKER_NOTHING && new.lives ? go_on(facts) : order;
}

static void act_new(void)
{
    const struct taker_facts facts = {.is_ready = true, .core_waits = new.has_core,
                                      .core_serves = serves(&new), .has_launcher = has_launcher,
                                      .now_us = now_us};
    switch (tick_new(&facts)) {
    case TAKER_NOTHING:
    case TAKER_DONE:
        break;
    case TAKER_BEGIN_CORE:
        must(!new.has_core, __LINE__);
        new.has_core = true;
        break;
    case TAKER_TELL_LAUNCHER:
        must(new.has_core, __LINE__);
        is_told = true;
        break;
    case TAKER_END:
        must(!is_told, __LINE__);
        end(&new, &taker.socket);
        break;
    }
}

/* A core that waits for the lock follows no order. */
static void act_core(struct side *side)
{
    if (!side->has_core || side->core_is_still || taker.is_apart) {
        return;
    }
    if (lock == side && side->core_yields) {
        end_core(side);
    } else if (lock == NULL) {
        lock = side;
    }
}

static void lose_new_core(void)
{
    bool has_successor = new.lives && taker_has_all();
    if (new.has_core) {
        end_core(&new);
        new.has_core = has_successor;
        if (!has_successor) {
            end(&new, &taker.socket);
        }
    }
}

static void hit(enum fault fault)
{
    was_hit[fault] = true;
    switch (fault) {
    case OLD_DIES:
        end(&old, &giver.socket);
        break;
    case NEW_DIES:
        end(&new, &taker.socket);
        break;
    case OLD_IS_TOLD:
        stops_due++;
        break;
    case OLD_STANDS_STILL:
        old.is_still = true;
        break;
    case ALL_NEW_STANDS_STILL:
        new.core_is_still = new.has_core;
        new.is_still = true;
        break;
    case NEW_STANDS_STILL:
        new.is_still = true;
        break;
    case NEW_CORE_STANDS_STILL:
        new.core_is_still = new.has_core;
        break;
    case NEW_CORE_DIES:
        lose_new_core();
        break;
    case NONE:
    case FAULTS:
        break;
    }
}

static void act(uint64_t who)
{
    if (who == 0 && old.lives && !old.is_still) {
        act_old();
    } else if (who == 1 && new.lives && !new.is_still) {
        act_new();
    } else if (who == 2) {
        act_core(&old);
    } else if (who == 3) {
        act_core(&new);
    } else if (who == 4) {
        now_us += draw(8) == 0 ? draw(9000000) : draw(20000);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Where the new one was hit after the old one had ended for it, no process is left to help. */
static void expect_one_serves(void)
{
    bool new_was_hit = was_hit[NEW_DIES] || was_hit[NEW_STANDS_STILL] ||
                       was_hit[ALL_NEW_STANDS_STILL] || was_hit[NEW_CORE_STANDS_STILL];
    bool old_was_hit = was_hit[OLD_DIES] || was_hit[OLD_IS_TOLD];
    must(!(old.lives && giver_is_bound(&giver)), __LINE__);
    must(!(old.lives && was_hit[OLD_IS_TOLD]), __LINE__);
    if (!new_was_hit) {
        must(new.lives == is_told, __LINE__);
        must(serves(&new) == is_told, __LINE__);
        must(is_given == is_told || was_hit[OLD_DIES], __LINE__);
    }
    if (!old_was_hit && !is_given) {
        must(old.lives && serves(&old), __LINE__);
        must(!(taker.state == DONE), __LINE__);
        must(!new.lives || taker.is_apart || taker.state <= WAITS, __LINE__);
    }
}

static void run(void)
{
    enum fault faults[2] = {draw(2) == 0 ? NONE : (enum fault)draw(FAULTS),
                            (enum fault)draw(FAULTS)};
    uint64_t at[2] = {draw(STEPS), draw(STEPS)};
    begin();
    for (uint32_t i = 0; i < STEPS; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            if (at[k] == i) {
                hit(faults[k]);
            }
        }
        act(draw(5));
        has_launcher = has_launcher && (!is_told || draw(8) != 0);
    }
    old.is_still = false;           /* it goes on; a new one does not */
    for (uint32_t i = 0; i < FAIR_STEPS; i++) {
        for (uint64_t who = 0; who < 4; who++) {
            act(who);
        }
        now_us += 250000;
        has_launcher = has_launcher && !is_told;
    }
    expect_one_serves();
    told_count += is_told;
    end(&old, &giver.socket);
    end(&new, &taker.socket);
}

static void test_one_of_both_serves_whatever_comes(void **state)
{
    int said = dup(STDERR_FILENO);
    assert_true(leash_make(boot.upgrade_leash));
    assert_true(dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO) >= 0);
    for (number = 1; number <= RUNS; number++) {
        seed = number * UINT64_C(0x9e3779b97f4a7c15);
        run();
    }
    leash_close(boot.upgrade_leash);
    dup2(said, STDERR_FILENO);
    print_message("told: %u, taken back: %u, killed: %u\n", told_count, back_count, killed_count);
    assert_true(told_count > RUNS / 4 && back_count > RUNS / 100 && killed_count > RUNS / 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_both_serves_whatever_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
