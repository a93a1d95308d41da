/* SPDX-License-Identifier: MIT */
#include "appliance/text/page/who.h"

#include "config/base/assert.h"

void text_add_name(struct text *page, const char *name, uint32_t bytes, uint32_t most)
{
    for (uint32_t i = 0; i < bytes && i < most && name[i] != '\0'; i++) {
        bool is_plain = name[i] > 0x20 && name[i] < 0x7f;
        text_add_bytes(page, is_plain ? &name[i] : ".", 1);
    }
    text_add(page, bytes == 0 || name[0] == '\0' ? "-" : "");
}

static void add_hex_group(struct text *page, uint32_t group)
{
    static const char digits[] = "0123456789abcdef";
    char text[4];
    uint32_t count = 0;
    for (uint32_t shift = 16; shift > 0; shift -= 4) {
        uint32_t digit = group >> (shift - 4) & 15;
        if (digit != 0 || count > 0 || shift == 4) {
            text[count++] = digits[digit];
        }
    }
    text_add_bytes(page, text, count);
}

static void add_address(struct text *page, const uint8_t ip[16])
{
    bool is_ipv4 = config_ip_is_ipv4(ip);
    for (uint32_t i = is_ipv4 ? 12 : 0; i < 16; i += is_ipv4 ? 1 : 2) {
        if (is_ipv4) {
            text_add(page, i > 12 ? "." : "");
            text_add_u64(page, ip[i]);
        } else {
            text_add(page, i > 0 ? ":" : "");
            add_hex_group(page, (uint32_t)ip[i] << 8 | ip[i + 1]);
        }
    }
}

void text_add_peer(struct text *page, enum world_peer_kind kind, const uint8_t ip[16])
{
    if (kind == WORLD_PEER_LOCAL) {
        text_add(page, "unix");
    } else {
        add_address(page, ip);
    }
}

static void add_user(struct text *page, uint64_t domain)
{
    text_add(page, "user:");
    text_add_u64(page, (uint32_t)domain);
}

void text_add_client(struct text *page, const struct net *net,
                     const struct net_connection *connection)
{
    if (connection->key != NET_KEY_NONE) {
        ASSERT(connection->key < net->keys_count);
        text_add_name(page, net->keys[connection->key].id, WIRE_KEY_ID_BYTES, WIRE_KEY_ID_BYTES);
    } else if (connection->peer_kind == WORLD_PEER_LOCAL) {
        add_user(page, connection->domain);
    } else {
        text_add(page, "-");
    }
}

/* The name that a key gives to the domain; NULL: none does, or sched.tenants = off. */
static const char *name_of(const struct sched *sched, uint64_t domain)
{
    for (uint32_t i = 0; i < sched->tenants.count; i++) {
        const struct sched_tenant *tenant = &sched->tenants.of[i];
        if (tenant->domain == domain && tenant->name[0] != '\0') {
            return tenant->name;
        }
    }
    return NULL;
}

void text_add_unnamed(struct text *page, uint64_t domain)
{
    if (domain == 0) {
        text_add(page, "tcp");
    } else if (net_domain_is_user(domain)) {
        add_user(page, domain);
    } else {
        text_add(page, "key:");
        text_add_u64(page, (uint32_t)domain);
    }
}

void text_add_domain(struct text *page, const struct sched *sched, uint64_t domain)
{
    const char *name = name_of(sched, domain);
    if (name != NULL) {
        text_add_name(page, name, SCHED_TENANT_NAME_BYTES, TEXT_DOMAIN_COLUMNS);
    } else {
        text_add_unnamed(page, domain);
    }
}

const struct net_connection *text_connection_of(const struct net *net,
                                                const struct program *program)
{
    if (program->connection == CALL_NONE) {
        return NULL;
    }
    const struct net_connection *connection = &net->connections[program->connection];
    ASSERT(program->connection < net->settings.limits->connections);
    /* Its slot may have been given to another since. */
    bool is_it = connection->state != NET_CLOSED && connection->domain == program->domain &&
                 connection->accepted_us <= program->last_arrival_us;
    return is_it ? connection : NULL;
}
