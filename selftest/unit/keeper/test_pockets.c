/* SPDX-License-Identifier: MIT */
/*
 * Goal: a connection that is in a pocket outlives its handle, with its bytes and their exact counts
 * on TCP, until it is taken out; and where there is no pocket, it does not.
 * Method: real sockets on loopback.
 */
#include "selftest/unit/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "appliance/pockets.h"

#define COUNT 4u

static struct pockets pockets;

static int begin(void **state)
{
    pockets_open(&pockets, COUNT);
    return pockets.count != COUNT;
}

static int end(void **state)
{
    pockets_forget(&pockets);
    return 0;
}

/* [0] is the client's end, [1] the server's. */
static void connect_tcp(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&address, &bytes);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(ends[0], (struct sockaddr *)&address, bytes), 0);
    ends[1] = accept(listener, NULL, NULL);
    assert_true(ends[1] >= 0);
    close(listener);
}

static void move_bytes(int from, int to, size_t count)
{
    uint8_t bytes[4096] = {0};
    assert_int_equal(send(from, bytes, count, 0), (ssize_t)count);
    assert_int_equal(recv(to, bytes, count, MSG_WAITALL), (ssize_t)count);
}

static bool is_closed(int handle)
{
    uint8_t byte;
    ssize_t count = recv(handle, &byte, 1, 0);
    return count == 0 || (count < 0 && errno == ECONNRESET);
}

static void test_what_tcp_has_moved_is_exact(void **state)
{
    int ends[2];
    uint8_t some[100];
    connect_tcp(ends);
    struct world_kept kept;
    assert_true(pocket_keep(&pockets, ends[1], 2));
    uint64_t sent = 0, taken = 0;
    for (uint32_t i = 0; i < 20; i++) {
        move_bytes(ends[0], ends[1], 700);
        move_bytes(ends[1], ends[0], 900);
        assert_int_equal(send(ends[1], some, 50, 0), 50);       /* it waits for the client */
        assert_int_equal(send(ends[0], some, 100, 0), 100);
        assert_int_equal(recv(ends[1], some, 40, MSG_WAITALL), 40);     /* the rest waits here */
        sent += 950;
        taken += 740;
        int32_t again = pocket_recall(&pockets, 2, &kept);
        assert_true(again >= 0 && kept.is_exact);
        assert_int_equal(kept.sent, sent);
        assert_int_equal(kept.taken, taken);
        close(ends[1]);
        ends[1] = again;
        assert_int_equal(recv(ends[0], some, 50, MSG_WAITALL), 50);
        assert_int_equal(recv(ends[1], some, 60, MSG_WAITALL), 60);
        taken += 60;
    }
    close(ends[1]);
    pocket_forget(&pockets, 2);
    assert_true(is_closed(ends[0]));
    close(ends[0]);
}

static void test_a_connection_outlives_its_handle(void **state)
{
    int ends[2];
    struct world_kept kept;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_true(pocket_keep(&pockets, ends[1], 0));
    close(ends[1]);
    for (uint32_t i = 0; i < 3; i++) {
        int32_t again = pocket_recall(&pockets, 0, &kept);
        assert_true(again >= 0 && !kept.is_exact);      /* a unix socket counts no bytes */
        move_bytes(ends[0], again, 10);
        close(again);
    }
    pocket_forget(&pockets, 0);
    assert_true(is_closed(ends[0]));
    assert_int_equal(pocket_recall(&pockets, 0, &kept), WORLD_ECLOSED);
    close(ends[0]);
}

static void test_each_has_its_own(void **state)
{
    int a[2], b[2];
    struct world_kept kept;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, b), 0);
    assert_true(pocket_keep(&pockets, a[1], 0) && pocket_keep(&pockets, b[1], COUNT - 1));
    close(a[1]);
    close(b[1]);
    pocket_forget(&pockets, 1);                 /* empty: nothing happens */
    pocket_forget(&pockets, 0);
    assert_true(is_closed(a[0]));
    int32_t again = pocket_recall(&pockets, COUNT - 1, &kept);
    move_bytes(b[0], again, 10);
    close(again);
    pocket_forget(&pockets, COUNT - 1);
    close(a[0]);
    close(b[0]);
}

/* What another process has put there stays its own. */
static void test_renewed_ones_are_empty_and_in_their_places(void **state)
{
    int ends[2];
    struct world_kept kept;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_true(pocket_keep(&pockets, ends[1], 1));
    int theirs = dup(pockets.first + 3);        /* the end that messages are taken from */
    assert_true(pockets_renew(&pockets));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(pocket_recall(&pockets, i, &kept), WORLD_ECLOSED);
    }
    assert_true(pocket_keep(&pockets, ends[1], 1));
    close(ends[1]);
    pocket_forget(&pockets, 1);
    uint8_t byte;
    assert_int_equal(recv(ends[0], &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    close(theirs);
    assert_true(is_closed(ends[0]));
    close(ends[0]);
}

static void test_beyond_the_last_nothing_is_kept(void **state)
{
    int ends[2];
    struct world_kept kept;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_false(pocket_keep(&pockets, ends[1], COUNT));
    pocket_forget(&pockets, COUNT);
    assert_int_equal(pocket_recall(&pockets, COUNT, &kept), WORLD_ECLOSED);
    close(ends[1]);
    assert_true(is_closed(ends[0]));
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_tcp_has_moved_is_exact, begin, end),
        cmocka_unit_test_setup_teardown(test_a_connection_outlives_its_handle, begin, end),
        cmocka_unit_test_setup_teardown(test_each_has_its_own, begin, end),
        cmocka_unit_test_setup_teardown(test_renewed_ones_are_empty_and_in_their_places, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_beyond_the_last_nothing_is_kept, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
