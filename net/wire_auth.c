/* SPDX-License-Identifier: MIT */
/*
 * What: the proofs of AUTH and AUTH_REPLY (docs/protocol.md, Authentication), for both sides:
 *
 *     HMAC-SHA256(secret, side | version | boot_id | server nonce | client nonce | key_id)
 *
 * The side prevents a proof from being sent back to its maker. The two nonces prevent its use on
 * another connection, the boot id its use on another appliance with the same key. Every field has a
 * fixed size, so no two sets of fields are the same bytes.
 *
 * Why BearSSL: it allocates nothing, its SHA-256 has no branch and no table that depends on the
 * secret, and it is in Debian. No cryptography is written here.
 */
#include <bearssl/bearssl_hmac.h>
#include <string.h>

#include "net/bytes.h"
#include "net/wire.h"

#define PROOF_BYTES \
    (2 + 2 + WIRE_BOOT_ID_BYTES + 2 * WIRE_NONCE_BYTES + WIRE_KEY_ID_BYTES)

void wire_hmac(const uint8_t secret[WIRE_SECRET_BYTES], const uint8_t *bytes, uint32_t count,
               uint8_t mac[WIRE_MAC_BYTES])
{
    br_hmac_key_context key;
    br_hmac_context context;
    br_hmac_key_init(&key, &br_sha256_vtable, secret, WIRE_SECRET_BYTES);
    br_hmac_init(&context, &key, WIRE_MAC_BYTES);
    br_hmac_update(&context, bytes, count);
    br_hmac_out(&context, mac);
}

void wire_proof_mac(const struct wire_proof *proof, enum wire_side side,
                    const uint8_t secret[WIRE_SECRET_BYTES], uint8_t mac[WIRE_MAC_BYTES])
{
    uint8_t bytes[PROOF_BYTES];
    uint8_t role[2] = {side == WIRE_CLIENT ? 'c' : 's', '1'};
    uint16_t version = WIRE_VERSION;
    struct wire_proof copy = *proof;
    struct bytes out = bytes_writer(bytes, sizeof bytes);
    bytes_block(&out, role, sizeof role);
    bytes_u16(&out, &version);
    bytes_block(&out, copy.boot_id, sizeof copy.boot_id);
    bytes_block(&out, copy.server_nonce, sizeof copy.server_nonce);
    bytes_block(&out, copy.client_nonce, sizeof copy.client_nonce);
    bytes_name(&out, copy.key_id, sizeof copy.key_id);
    wire_hmac(secret, bytes, out.at, mac);
}

bool wire_is_equal(const uint8_t a[WIRE_MAC_BYTES], const uint8_t b[WIRE_MAC_BYTES])
{
    uint8_t difference = 0;
    for (uint32_t i = 0; i < WIRE_MAC_BYTES; i++) {
        difference |= (uint8_t)(a[i] ^ b[i]);
    }
    return difference == 0;
}
