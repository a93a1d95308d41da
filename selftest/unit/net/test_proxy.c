/* SPDX-License-Identifier: MIT */
/*
 * Goal: behind a load balancer the limits of an address are those of the client that its header
 * names; only listed balancers may send one, and these must.
 * Method: the stage with three places before authentication, two for one address, and a balancer at
 * 10.0.0.1; headers cut at every byte and with every wrong one.
 */
#include "selftest/unit/net/net_client.h"

#include "net/auth/proxy.h"

#define YIELDS_US 500000

static const uint8_t balancer[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1};

static int set_up_behind_balancer(void **state)
{
    int result = setup(state);
    struct config_peers *proxies = &fixture.net.settings.access.proxies;
    assert_status(STATUS_OK, config_peers_parse("10.0.0.1", proxies));
    return result;
}

/* ---- headers --------------------------------------------------------------------------------- */

struct source { uint8_t command, family; uint8_t ip[16]; uint32_t extra; };

static uint32_t put_header(const struct source *source, uint8_t *bytes)
{
    uint32_t address = source->family == 0x21 ? 16 : source->family == 0x11 ? 4 : 0;
    uint32_t length = (address > 0 ? 2 * address + 4 : 0) + source->extra;
    memset(bytes, 0xee, NET_PROXY_FIXED_BYTES + length);
    memcpy(bytes, "\r\n\r\n\0\r\nQUIT\n", 12);
    bytes[12] = source->command;
    bytes[13] = source->family;
    bytes[14] = (uint8_t)(length >> 8);
    bytes[15] = (uint8_t)length;
    memcpy(bytes + 16, source->ip, address);
    return NET_PROXY_FIXED_BYTES + length;
}

static const struct source of_ipv4 = {0x21, 0x11, {192, 0, 2, 7}, 0};
static const struct source of_ipv6 = {0x21, 0x21, {0x20, 1, 0x0d, 0xb8, [15] = 9}, 0};
static const struct source of_itself = {0x20, 0x00, {0}, 0};

static void test_parse_names_the_source(void **state)
{
    uint8_t bytes[1024];
    struct net_proxy_header header;
    static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 7};
    (void)state;
    uint32_t count = put_header(&of_ipv4, bytes);
    assert_int_equal(count, 28);
    net_proxy_parse(bytes, count, &header);
    assert_int_equal(header.kind, NET_PROXY_CLIENT);
    assert_memory_equal(header.ip, mapped, 16);
    count = put_header(&of_ipv6, bytes);
    net_proxy_parse(bytes, count, &header);
    assert_int_equal(header.kind, NET_PROXY_CLIENT);
    assert_memory_equal(header.ip, of_ipv6.ip, 16);
    count = put_header(&of_itself, bytes);
    assert_int_equal(count, 16);
    net_proxy_parse(bytes, count, &header);
    assert_int_equal(header.kind, NET_PROXY_OWN);
}

/* Of every length up to the longest, however it is cut. */
static void test_parse_skips_what_follows_the_addresses(void **state)
{
    static const struct source *const sources[] = {&of_ipv4, &of_ipv6, &of_itself};
    uint8_t bytes[1024];
    struct net_proxy_header header;
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct source source = *sources[i];
        for (; source.extra < 600; source.extra += 1 + source.extra / 8) {
            uint32_t whole = put_header(&source, bytes);
            bool fits = whole <= NET_PROXY_BYTES_MAX;
            for (uint32_t cut = 0; cut <= whole; cut++) {
                net_proxy_parse(bytes, cut, &header);
                bool is_known = cut >= NET_PROXY_FIXED_BYTES;
                assert_int_equal(header.kind == NET_PROXY_BAD, is_known && !fits);
                assert_int_equal(header.kind == NET_PROXY_PARTIAL,
                                 !is_known || (fits && cut < whole));
                assert_true(!fits || header.bytes == (is_known ? whole : 16));
            }
        }
    }
    struct source longest = of_ipv4;
    longest.extra = NET_PROXY_BYTES_MAX - 28;
    net_proxy_parse(bytes, put_header(&longest, bytes), &header);
    assert_int_equal(header.kind, NET_PROXY_CLIENT);
    longest.extra++;
    net_proxy_parse(bytes, put_header(&longest, bytes), &header);
    assert_int_equal(header.kind, NET_PROXY_BAD);
}

/* Every other value of each of the fixed bytes; a fault is known at once. */
static void test_parse_refuses_every_wrong_byte(void **state)
{
    uint8_t bytes[1024];
    struct net_proxy_header header;
    (void)state;
    uint32_t count = put_header(&of_ipv4, bytes);
    for (uint32_t at = 0; at < 14; at++) {
        uint8_t right = bytes[at];
        for (uint32_t value = 0; value < 256; value++) {
            bytes[at] = (uint8_t)value;
            bool is_own = at == 12 && value == 0x20;
            if (value == right || is_own) {
                continue;
            }
            net_proxy_parse(bytes, at + 1, &header);
            /* IPv6 would be as good a family, but it is longer. */
            bool is_late = at == 13 && value == 0x21;
            assert_int_equal(header.kind, is_late ? NET_PROXY_PARTIAL : NET_PROXY_BAD);
            net_proxy_parse(bytes, count, &header);
            assert_int_equal(header.kind, NET_PROXY_BAD);
        }
        bytes[at] = right;
    }
    for (uint32_t length = 0; length < 12; length++) {
        bytes[15] = (uint8_t)length;
        net_proxy_parse(bytes, 16, &header);
        assert_int_equal(header.kind, NET_PROXY_BAD);
    }
    static const char text[] = "PROXY TCP4 192.0.2.7 10.0.0.1 5000 7411\r\n";    /* version 1 */
    net_proxy_parse((const uint8_t *)text, 1, &header);
    assert_int_equal(header.kind, NET_PROXY_BAD);
}

/* ---- the stage ------------------------------------------------------------------------------- */

static uint32_t knock(struct fixture *f, const uint8_t ip[16])
{
    uint32_t peer = fake_client_connect(&f->fake, NET_LISTENER_TCP);
    assert_int_not_equal(peer, FAKE_NONE);
    config_peer_from_ip(&f->fake.peers[peer].who, ip);
    fixture_passes(f, 2);
    return peer;
}

static void say_header(struct fixture *f, uint32_t peer, const struct source *source)
{
    uint8_t bytes[1024];
    fixture_send(f, peer, bytes, put_header(source, bytes));
    fixture_passes(f, 3);
}

static struct source client_at(uint8_t last)
{
    struct source source = of_ipv4;
    source.ip[3] = last;
    return source;
}

static void expect_welcome(struct fixture *f, uint32_t peer)
{
    fixture_hello(f, peer);
    fixture_passes(f, 3);
    assert_true(fixture_receive(f, peer, &got));
    assert_int_equal(got.type, WIRE_WELCOME);
}

static void test_header_comes_before_hello_however_it_is_cut(void **state)
{
    struct fixture *f = *state;
    static const struct source *const sources[] = {&of_ipv4, &of_ipv6, &of_itself};
    for (uint32_t chunk = 1; chunk < 40; chunk++) {
        struct source source = *sources[chunk % 3];
        source.extra = chunk * 7;
        f->fake.transfer_max = chunk;
        uint32_t peer = knock(f, balancer);
        uint8_t bytes[1024];
        uint32_t count = put_header(&source, bytes);
        struct wire_hello hello = {.version_min = 1, .version_max = 1, .name = "behind"};
        count += wire_hello_encode(&hello, bytes + count, sizeof bytes - count);
        fixture_send(f, peer, bytes, count);        /* as HAProxy does: both at once */
        fixture_passes(f, count + 300);
        assert_true(fixture_receive(f, peer, &got));
        assert_int_equal(got.type, WIRE_WELCOME);
        fake_client_finish(&f->fake, peer);
        fixture_passes(f, 3);
        fake_client_forget(&f->fake, peer);
    }
    assert_int_equal(f->stats.proxy_headers_bad, 0);
}

static void test_listed_balancer_must_send_a_header(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = knock(f, balancer);
    fixture_hello(f, peer);
    fixture_passes(f, 2);
    assert_true(fake_client_is_closed(&f->fake, peer));
    assert_false(fixture_receive(f, peer, &got));       /* no answer: it is not understood */
    assert_int_equal(f->stats.proxy_headers_bad, 1);
    assert_int_equal(f->stats.connections_dropped, 1);
    peer = knock(f, balancer);
    fixture_send(f, peer, (const uint8_t *)"\r\n\r\n\0\r\nQUIT\n\x21\x31", 14);
    fixture_passes(f, 2);
    assert_true(fake_client_is_closed(&f->fake, peer));
    assert_int_equal(f->stats.proxy_headers_bad, 2);
}

static void test_other_peers_may_not_send_a_header(void **state)
{
    struct fixture *f = *state;
    static const uint8_t other[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2};
    uint32_t peer = knock(f, other);
    say_header(f, peer, &of_ipv4);
    assert_true(fake_client_is_closed(&f->fake, peer));
    assert_int_equal(f->stats.proxy_headers_bad, 0);
    peer = knock(f, other);
    expect_welcome(f, peer);
    /* Nor may anyone where no balancer is listed. */
    f->net.settings.access.proxies.count = 0;
    peer = knock(f, balancer);
    say_header(f, peer, &of_ipv4);
    assert_true(fake_client_is_closed(&f->fake, peer));
    expect_welcome(f, knock(f, balancer));
}

static void test_second_header_is_no_frame(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = knock(f, balancer);
    say_header(f, peer, &of_ipv4);
    say_header(f, peer, &of_ipv4);
    assert_true(fake_client_is_closed(&f->fake, peer));
    assert_int_equal(f->stats.proxy_headers_bad, 0);
}

static void test_partial_header_has_the_time_of_the_handshake(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[64];
    uint32_t peer = knock(f, balancer), count = put_header(&of_ipv4, bytes);
    for (uint32_t i = 0; i + 1 < count; i++) {          /* a byte now and then */
        fixture_send(f, peer, bytes + i, 1);
        fixture_sleep(f, 2000000 / count);
    }
    assert_false(fake_client_is_closed(&f->fake, peer));
    fixture_sleep(f, 2000000);
    assert_true(fake_client_is_closed(&f->fake, peer));
    assert_int_equal(f->stats.connections_expired, 1);
    assert_int_equal(f->net.open_count, 0);
}

/* Three places, two of them for one address: it is the client's that counts. */
static void test_limit_of_an_address_counts_clients_and_not_the_balancer(void **state)
{
    struct fixture *f = *state;
    f->limits.preauth = 4;
    const struct source a = client_at(1), b = client_at(2);
    uint32_t first = knock(f, balancer), second = knock(f, balancer), third;
    say_header(f, first, &a);
    say_header(f, second, &a);
    third = knock(f, balancer);
    assert_true(f->fake.peers[third].accepted);         /* its address is not known yet */
    say_header(f, third, &a);
    expect_error(f, third, STATUS_BUSY_PREAUTH, WIRE_FIELD_CONNECTION, true);
    assert_int_equal(got.error.fault.found, 2);
    assert_int_equal(got.error.retry_ms, 1000);
    assert_true(fake_client_is_closed(&f->fake, third));
    assert_int_equal(f->stats.connections_refused, 1);
    assert_int_equal(f->stats.frames_bad, 0);
    uint32_t other = knock(f, balancer);
    say_header(f, other, &b);
    expect_welcome(f, other);
    fixture_sleep(f, YIELDS_US);
    uint32_t fourth = knock(f, balancer);               /* displaces its own oldest, no other's */
    say_header(f, fourth, &a);
    assert_true(fake_client_is_closed(&f->fake, first));
    assert_false(fake_client_is_closed(&f->fake, second));
    assert_false(fake_client_is_closed(&f->fake, other));
    assert_int_equal(f->stats.connections_displaced, 1);
    expect_welcome(f, fourth);
}

/* Half an IPv6 address is one household. */
static void test_limit_of_an_ipv6_client_is_that_of_its_network(void **state)
{
    struct fixture *f = *state;
    struct source source = of_ipv6;
    uint32_t peers[3];
    for (uint32_t i = 0; i < 3; i++) {
        source.ip[15] = (uint8_t)i;
        peers[i] = knock(f, balancer);
        say_header(f, peers[i], &source);
    }
    expect_error(f, peers[2], STATUS_BUSY_PREAUTH, WIRE_FIELD_CONNECTION, true);
}

static void test_connections_of_the_balancer_itself_are_spared(void **state)
{
    struct fixture *f = *state;
    uint32_t peers[3];
    for (uint32_t i = 0; i < 3; i++) {
        peers[i] = knock(f, balancer);
        say_header(f, peers[i], &of_itself);
    }
    for (uint32_t i = 0; i < 3; i++) {
        expect_welcome(f, peers[i]);
    }
}

static void test_balancer_that_only_knocks_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    uint32_t peer = knock(f, balancer);
    fake_client_finish(&f->fake, peer);
    fixture_passes(f, 2);
    assert_int_equal(f->net.open_count, 0);
    assert_int_equal(f->net.preauth_count, 0);
    assert_int_equal(f->stats.connections_dropped, 0);
}

int main(void)
{
#define STAGE(test) cmocka_unit_test_setup(test, set_up_behind_balancer)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_names_the_source),
        cmocka_unit_test(test_parse_skips_what_follows_the_addresses),
        cmocka_unit_test(test_parse_refuses_every_wrong_byte),
        STAGE(test_header_comes_before_hello_however_it_is_cut),
        STAGE(test_listed_balancer_must_send_a_header),
        STAGE(test_other_peers_may_not_send_a_header),
        STAGE(test_second_header_is_no_frame),
        STAGE(test_partial_header_has_the_time_of_the_handshake),
        STAGE(test_limit_of_an_address_counts_clients_and_not_the_balancer),
        STAGE(test_limit_of_an_ipv6_client_is_that_of_its_network),
        STAGE(test_connections_of_the_balancer_itself_are_spared),
        STAGE(test_balancer_that_only_knocks_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
