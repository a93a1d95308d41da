/* SPDX-License-Identifier: MIT */
/*
 * Goal: the proofs are HMAC-SHA256 over the bytes of docs/protocol.md.
 * Method: the published vectors of RFC 4231; the proofs of selftest/vectors/frames.txt, which were
 * made by Python's hmac; then every input of a proof is changed, one bit after the other.
 */
#include "selftest/unit/test.h"

#include <stdio.h>

#include "net/wire.h"

static void expect_bytes(const uint8_t *bytes, const char *hex)
{
    char text[2 * WIRE_MAC_BYTES + 1];
    for (uint32_t i = 0; i < WIRE_MAC_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    assert_string_equal(text, hex);
}

/* HMAC fills a short key up with zeros, so the vectors with keys up to 32 bytes serve as they are.
 * Test cases 1 to 4 of RFC 4231. */
static void test_hmac_of_published_vectors_is_theirs(void **state)
{
    uint8_t secret[WIRE_SECRET_BYTES] = {0}, bytes[64], mac[WIRE_MAC_BYTES];
    memset(secret, 0x0b, 20);
    wire_hmac(secret, (const uint8_t *)"Hi There", 8, mac);
    expect_bytes(mac, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    memset(secret, 0, sizeof secret);
    memcpy(secret, "Jefe", 4);
    wire_hmac(secret, (const uint8_t *)"what do ya want for nothing?", 28, mac);
    expect_bytes(mac, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(secret, 0, sizeof secret);
    memset(secret, 0xaa, 20);
    memset(bytes, 0xdd, 50);
    wire_hmac(secret, bytes, 50, mac);
    expect_bytes(mac, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    memset(secret, 0, sizeof secret);
    for (uint8_t i = 0; i < 25; i++) {
        secret[i] = (uint8_t)(i + 1);
    }
    memset(bytes, 0xcd, 50);
    wire_hmac(secret, bytes, 50, mac);
    expect_bytes(mac, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
}

static const struct wire_proof *sample(uint8_t *secret)
{
    static struct wire_proof proof;
    proof = (struct wire_proof){.key_id = "ops"};
    for (uint8_t i = 0; i < WIRE_NONCE_BYTES; i++) {
        proof.server_nonce[i] = (uint8_t)(0x20 + i);
        proof.client_nonce[i] = (uint8_t)(0x40 + i);
        secret[i] = (uint8_t)(0x80 + i);
        proof.boot_id[i % WIRE_BOOT_ID_BYTES] = (uint8_t)(i % WIRE_BOOT_ID_BYTES);
    }
    return &proof;
}

static void test_proofs_are_those_of_the_second_implementation(void **state)
{
    uint8_t secret[WIRE_SECRET_BYTES], mac[WIRE_MAC_BYTES];
    const struct wire_proof *proof = sample(secret);
    wire_proof_mac(proof, WIRE_CLIENT, secret, mac);
    expect_bytes(mac, "54180a8b9460a1e50680d6cc2e5be9c8864d8d2869a8cd72229909cf197fc698");
    wire_proof_mac(proof, WIRE_SERVER, secret, mac);
    expect_bytes(mac, "ef003716a28d3872b03309790be1327e8370b2fc845fd622a31fc5680ac98cf5");
}

static void test_proof_depends_on_every_bit_that_goes_in(void **state)
{
    uint8_t secret[WIRE_SECRET_BYTES], right[WIRE_MAC_BYTES], mac[WIRE_MAC_BYTES];
    struct wire_proof proof = *sample(secret);
    memset(proof.key_id, 'k', sizeof proof.key_id - 1);
    wire_proof_mac(&proof, WIRE_CLIENT, secret, right);
    for (uint32_t bit = 0; bit < 8 * sizeof proof; bit++) {
        uint8_t *byte = (uint8_t *)&proof + bit / 8;
        if (byte == (uint8_t *)&proof.key_id[WIRE_KEY_ID_BYTES - 1]) {
            continue;               /* always zero */
        }
        *byte ^= (uint8_t)(1u << bit % 8);
        wire_proof_mac(&proof, WIRE_CLIENT, secret, mac);
        assert_false(wire_is_equal(mac, right));
        *byte ^= (uint8_t)(1u << bit % 8);
    }
    for (uint32_t bit = 0; bit < 8 * sizeof secret; bit++) {
        secret[bit / 8] ^= (uint8_t)(1u << bit % 8);
        wire_proof_mac(&proof, WIRE_CLIENT, secret, mac);
        assert_false(wire_is_equal(mac, right));
        secret[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    wire_proof_mac(&proof, WIRE_CLIENT, secret, mac);
    assert_true(wire_is_equal(mac, right));
}

static void test_macs_are_equal_only_when_every_bit_is(void **state)
{
    uint8_t a[WIRE_MAC_BYTES] = {1, 2, 3}, b[WIRE_MAC_BYTES] = {1, 2, 3};
    assert_true(wire_is_equal(a, b));
    for (uint32_t bit = 0; bit < 8 * sizeof b; bit++) {
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(wire_is_equal(a, b));
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hmac_of_published_vectors_is_theirs),
        cmocka_unit_test(test_proofs_are_those_of_the_second_implementation),
        cmocka_unit_test(test_proof_depends_on_every_bit_that_goes_in),
        cmocka_unit_test(test_macs_are_equal_only_when_every_bit_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
