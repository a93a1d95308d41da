/* SPDX-License-Identifier: MIT */
/*
 * Goal: the world says who connects as the kernel does: users on a unix socket, loopback on TCP of
 * both families and of one through the other. Of what is closed it tells nothing more.
 * Method: real sockets of this machine. Who is connected may be a moment from being accepted, which
 * is waited for.
 */
#include "selftest/unit/folder.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "appliance/world_linux.h"

static struct world_linux linux_world;

static int setup(void **state)
{
    static _Alignas(struct control) uint8_t control[sizeof(struct control)];
    const struct shared shared = {.control = (void *)control,
                                  .engine_bell = eventfd(0, EFD_NONBLOCK),
                                  .control_bell = eventfd(0, EFD_NONBLOCK)};
    const struct step no_step = {.base = NULL};
    static const struct pockets no_pockets;
    return world_linux_init(&linux_world, &shared, &no_step, &no_pockets) != STATUS_OK;
}

/* Binds, connects from here to `to`, accepts. */
static struct world_peer visit(struct sockaddr *address, socklen_t bytes, struct sockaddr *to,
                               socklen_t to_bytes)
{
    struct world_peer peer = {.uid = 1, .gids_count = 1, .address = 1};
    int listener = socket(address->sa_family, SOCK_STREAM, 0);
    int client = socket(to->sa_family, SOCK_STREAM, 0), off = 0;
    if (address->sa_family == AF_INET6) {       /* whatever net.ipv6.bindv6only says */
        assert_int_equal(setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), 0);
    }
    assert_int_equal(bind(listener, address, bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, address, &bytes), 0);
    if (to->sa_family != AF_UNIX) {     /* the port lies at the same place in both families */
        ((struct sockaddr_in *)to)->sin_port = ((struct sockaddr_in *)address)->sin_port;
    }
    assert_int_equal(connect(client, to, to_bytes), 0);
    struct pollfd visitor = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&visitor, 1, -1), 1);
    const struct world *world = &linux_world.world;
    int32_t handle = world->accept(world->self, listener, &peer);
    assert_true(handle >= 0);
    world->close(world->self, handle);
    close(client);
    close(listener);
    return peer;
}

static void test_accept_on_a_unix_socket_names_the_user(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", test_folder());
    struct sockaddr *any = (struct sockaddr *)&address;
    struct world_peer peer = visit(any, sizeof address, any, sizeof address);
    assert_int_equal(peer.kind, WORLD_PEER_LOCAL);
    assert_int_equal(peer.uid, geteuid());
    gid_t groups[WORLD_PEER_GIDS_MAX];
    int count = getgroups(WORLD_PEER_GIDS_MAX - 1, groups);
    assert_int_equal(peer.gids_count, 1 + count);
    assert_int_equal(peer.gids[0], getegid());
    for (int i = 0; i < count; i++) {
        assert_int_equal(peer.gids[1 + i], groups[i]);
    }
}

static void test_accept_on_ipv4_tells_loopback(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in to = address;
    struct world_peer peer = visit((struct sockaddr *)&address, sizeof address,
                                   (struct sockaddr *)&to, sizeof to);
    assert_int_equal(peer.kind, WORLD_PEER_LOOPBACK);
    assert_int_equal(peer.uid + peer.gids_count, 0);    /* nothing of what stood there before */
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = probe >= 0 && bind(probe, (struct sockaddr *)&address, sizeof address) == 0;
    close(probe);
    return has;
}

static void test_accept_on_ipv6_tells_loopback_of_both_families(void **state)
{
    if (!has_ipv6()) {
        print_message("not run: this machine has no IPv6\n");
        skip();
    }
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in6 any = {.sin6_family = AF_INET6}, to = loopback;
    struct sockaddr_in to_ipv4 = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct world_peer peer = visit((struct sockaddr *)&loopback, sizeof loopback,
                                   (struct sockaddr *)&to, sizeof to);
    assert_int_equal(peer.kind, WORLD_PEER_LOOPBACK);
    peer = visit((struct sockaddr *)&any, sizeof any, (struct sockaddr *)&to_ipv4,
                 sizeof to_ipv4);
    assert_int_equal(peer.kind, WORLD_PEER_LOOPBACK);
    assert_true(peer.address == 0x7f000001);
}

/* Another process, a core that ends, has the connection still. */
static void test_nothing_is_told_of_what_is_closed(void **state)
{
    int pair[2];
    struct world_event events[4];
    const struct world *world = &linux_world.world;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    int other = dup(pair[0]);
    world->watch(world->self, pair[0], WORLD_SOURCE_CONNECTION, 7, WORLD_READABLE);
    assert_int_equal(write(pair[1], "x", 1), 1);
    assert_int_equal(world->wait(world->self, events, 4, 0), 1);
    assert_int_equal(events[0].index, 7);
    world->close(world->self, pair[0]);
    close(pair[1]);
    assert_int_equal(world->wait(world->self, events, 4, 0), 0);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accept_on_a_unix_socket_names_the_user),
        cmocka_unit_test(test_accept_on_ipv4_tells_loopback),
        cmocka_unit_test(test_accept_on_ipv6_tells_loopback_of_both_families),
        cmocka_unit_test(test_nothing_is_told_of_what_is_closed),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
