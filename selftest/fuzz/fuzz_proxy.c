/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever a load balancer sends before a client's first byte, the stage takes exactly what a
 * header is, or closes the connection without a word; a peer that is not listed cannot send one.
 * Method: the first byte says how many bytes a receive moves and whether the peer is listed, the
 * rest is what it sends. A second parser, which looks at the whole input at once, says what must
 * become of it; after a header a HELLO is answered.
 */
#include "net/auth/proxy.h"
#include "selftest/fuzz/dictionary.h"
#include "selftest/unit/net/net_fixture.h"

#define MEMORY_BYTES (96u << 10)
#define INPUT_MAX    1024

static _Alignas(ARENA_ALIGN_BYTES) uint8_t memory[MEMORY_BYTES];
static struct fixture fixture;
static struct received got;

static const char signature[] = "\r\n\r\n\0\r\nQUIT\n";

enum verdict { IS_PARTIAL, IS_BAD, IS_OWN, IS_CLIENT };

/* Byte by byte: what may stand there. */
static enum verdict judge(const uint8_t *bytes, size_t count, size_t *header_bytes)
{
    size_t length = 0;
    for (size_t at = 0; at < count && at < 16; at++) {
        uint8_t byte = bytes[at];
        bool is_right = at < 12    ? byte == (uint8_t)signature[at]
                        : at == 12 ? byte == 0x20 || byte == 0x21
                        : at == 13 ? bytes[12] == 0x20 || byte == 0x11 || byte == 0x21
                                   : true;
        if (!is_right) {
            return IS_BAD;
        }
    }
    if (count < 16) {
        return IS_PARTIAL;
    }
    length = (size_t)bytes[14] * 256 + bytes[15];
    *header_bytes = 16 + length;
    size_t least = bytes[12] == 0x20 ? 0 : bytes[13] == 0x11 ? 12 : 36;
    if (length > 520 || length < least) {
        return IS_BAD;
    }
    return count < 16 + length ? IS_PARTIAL : bytes[12] == 0x20 ? IS_OWN : IS_CLIENT;
}

/* The same at every cut: a verdict, once there, stays. */
static void check_cuts(const uint8_t *bytes, size_t count)
{
    for (size_t cut = 0; cut <= count; cut++) {
        struct net_proxy_header header;
        size_t header_bytes = 16;
        enum verdict wanted = judge(bytes, cut, &header_bytes);
        net_proxy_parse(bytes, (uint32_t)cut, &header);
        ASSERT((wanted == IS_PARTIAL) == (header.kind == NET_PROXY_PARTIAL));
        ASSERT((wanted == IS_BAD) == (header.kind == NET_PROXY_BAD));
        ASSERT((wanted == IS_OWN) == (header.kind == NET_PROXY_OWN));
        ASSERT(wanted == IS_BAD || header.bytes == header_bytes);
        if (wanted == IS_CLIENT) {
            const uint8_t *ip = bytes[13] == 0x11 ? header.ip + 12 : header.ip;
            ASSERT(memcmp(ip, bytes + 16, bytes[13] == 0x11 ? 4 : 16) == 0);
        }
    }
}

static uint32_t connect_peer(struct fixture *f, bool is_listed)
{
    uint8_t ip[16] = {[10] = 0xff, [11] = 0xff, 10, 0, 0, is_listed ? 1 : 2};
    uint32_t peer = fake_client_connect(&f->fake, NET_LISTENER_TCP);
    ASSERT(peer != FAKE_NONE);
    config_peer_from_ip(&f->fake.peers[peer].who, ip);
    fixture_passes(f, 2);
    return peer;
}

static void expect(struct fixture *f, uint32_t peer, enum verdict verdict, bool is_alone)
{
    bool is_closed = fake_client_is_closed(&f->fake, peer);
    if (verdict == IS_PARTIAL || verdict == IS_BAD) {
        ASSERT(is_closed == (verdict == IS_BAD) && !fixture_receive(f, peer, &got));
        ASSERT(f->stats.proxy_headers_bad == (verdict == IS_BAD));
        return;
    }
    ASSERT(f->stats.proxy_headers_bad == 0 && (!is_alone || !is_closed));
    if (is_alone) {
        f->fake.transfer_max = 0;
        fixture_hello(f, peer);
        fixture_passes(f, 3);
        ASSERT(fixture_receive(f, peer, &got) && got.type == WIRE_WELCOME);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct arena arena;
    struct fixture *f = &fixture;
    size_t header_bytes = 0;
    if (count < 2 || count > INPUT_MAX) {
        return 0;
    }
    arena_init(&arena, memory, sizeof memory);
    fixture_init(f, &arena, &fixture_limits);
    ASSERT(config_peers_parse("10.0.0.1", &f->net.settings.access.proxies) == STATUS_OK);
    f->fake.transfer_max = bytes[0] / 2 + 1;
    bool is_listed = bytes[0] % 2 == 0;
    bytes++, count--;
    check_cuts(bytes, count);
    uint32_t peer = connect_peer(f, is_listed);
    fixture_send(f, peer, bytes, (uint32_t)count);
    fixture_passes(f, (uint32_t)count / f->fake.transfer_max + 8);
    enum verdict verdict = judge(bytes, count, &header_bytes);
    if (is_listed) {
        expect(f, peer, verdict, count == header_bytes);
    } else {
        ASSERT(f->stats.proxy_headers_bad == 0);
        ASSERT(bytes[0] != '\r' || fake_client_is_closed(&f->fake, peer));
    }
    net_close_all(&f->net);
    net_check(&f->net);
    return 0;
}

void dictionary_write(void)
{
    static const char tcp4[] = "\x21\x11\0\x0c", tcp6[] = "\x21\x21\0\x24", own[] = "\x20\0\0\0";
    dictionary_word(signature, 12);
    dictionary_word(tcp4, 4);
    dictionary_word(tcp6, 4);
    dictionary_word(own, 4);
}
