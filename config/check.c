/* SPDX-License-Identifier: MIT */
#include "config/config.h"

#include <stddef.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/address.h"
#include "config/devices.h"
#include "config/error.h"
#include "config/options.h"

/*
 * What: relations between options that need no model; each function checks one. options.def gives
 * the range of a single value; limits.c checks what depends on the model or the machine.
 * Rule: a default never makes a file wrong. Where a default contradicts a value that was written,
 * the default yields (limits.c takes the smaller one). Only two written values can contradict each
 * other.
 */

static enum status refuse(struct config_error *error, const struct options *options,
                          const char *section, const char *key)
{
    const struct option_row *row = config_options_find(section, key);
    ASSERT(row != NULL);
    config_error_begin(error, options, row);
    return STATUS_CONFIG_OPTION;
}

/* `only` says why an address beyond loopback is refused; NULL: it is allowed. */
static enum status check_address(const struct options *options, const char *section,
                                 const char *key, const char *only, struct config_error *error)
{
    const struct option_row *row = config_options_find(section, key);
    struct config_address address = {0};
    ASSERT(row != NULL && row->type == OPTION_TEXT);
    const char *text = config_value(options, row)->text;
    if (text[0] == '\0') {
        return STATUS_OK;
    }
    if (config_address_parse(text, &address) != STATUS_OK) {
        config_error_begin(error, options, row);
        return config_error_add(error, "not a numeric address, "
                                       "allowed like 127.0.0.1:PORT or [::1]:PORT, "
                                       "PORT 65535 at most");
    }
    if (only != NULL && !config_address_is_loopback(&address)) {
        config_error_begin(error, options, row);
        return config_error_add(error, "not a loopback address: %s, allowed 127.0.0.0/8 and [::1]",
                                only);
    }
    return STATUS_OK;
}

static bool asks_for_key(const struct options *options)
{
    return option_auth_tcp(options) == OPTION_AUTH_TCP_PSK;
}

static enum status check_keys(const struct options *options, struct config_error *error)
{
    if (!asks_for_key(options) || options->auth_keys.text[0] != '\0') {
        return STATUS_OK;
    }
    (void)refuse(error, options, "auth", "tcp");
    return config_error_add(error, "there is no file of keys, allowed with auth.keys only");
}

static enum status check_send_bytes(const struct options *options, struct config_error *error)
{
    uint64_t frames = options->net_frames_per_pass.number;
    uint64_t least = CONFIG_TOKEN_FRAME_BYTES + CONFIG_REPLY_BYTES * frames;
    if (options->net_send_bytes.number >= least) {
        return STATUS_OK;
    }
    (void)refuse(error, options, "net", "send_bytes");
    return config_error_add(error, "net.frames_per_pass = %llu needs %u + %llu x %u = %llu bytes, "
                                   "allowed that much, or fewer frames",
                            (unsigned long long)frames, CONFIG_TOKEN_FRAME_BYTES,
                            (unsigned long long)frames, CONFIG_REPLY_BYTES,
                            (unsigned long long)least);
}

static enum status check_replies_file(const struct options *options, struct config_error *error)
{
    if (options->limits_replies_file.text[0] == '\0' || options->limits_replies.number > 0) {
        return STATUS_OK;
    }
    (void)refuse(error, options, "limits", "replies_file");
    return config_error_add(error, "there are none to have in it, allowed with limits.replies > 0");
}

static enum status check_addresses_differ(const struct options *options, struct config_error *error)
{
    struct config_address binary = {0}, text = {0};
    if (config_address_parse(options->net_tcp.text, &binary) != STATUS_OK ||
        config_address_parse(options->text_listen.text, &text) != STATUS_OK ||
        !config_address_is_equal(&binary, &text) || binary.port == 0) {
        return STATUS_OK;
    }
    (void)refuse(error, options, "text", "listen");
    return config_error_add(error, "the same address as net.tcp, allowed any other port");
}

static enum status check_block_tokens(const struct options *options, struct config_error *error)
{
    if (options->kv_block_tokens.number % 8 == 0) {
        return STATUS_OK;
    }
    (void)refuse(error, options, "kv", "block_tokens");
    return config_error_add(error, "not a multiple of 8, allowed 8, 16, 24 .. 256");
}

static enum status check_calls_per_connection(const struct options *options,
                                              struct config_error *error)
{
    if (options->limits_calls_per_connection.line == 0 ||
        options->limits_calls_per_connection.number <= options->limits_calls.number) {
        return STATUS_OK;
    }
    (void)refuse(error, options, "limits", "calls_per_connection");
    return config_error_add(error, "more than all open calls, allowed 1 .. limits.calls = %llu",
                            (unsigned long long)options->limits_calls.number);
}

/* Queue i is quantum * growth^i wide; the last one begins at the sum of the widths above it. */
static enum status check_queue_ranges(const struct options *options, struct config_error *error)
{
    uint64_t width = options->sched_quantum.number, end = 0;      /* learnt: 0, and none */
    for (uint64_t queue = 0; queue < options->sched_queues.number; queue++) {
        if (__builtin_add_overflow(end, width, &end) ||
            __builtin_mul_overflow(width, options->sched_quantum_growth.number, &width)) {
            (void)refuse(error, options, "sched", "quantum_growth");
            return config_error_add(error, "queue %llu of %llu would leave 64 bits of "
                                           "microseconds, allowed fewer queues, a smaller quantum "
                                           "or growth",
                                    (unsigned long long)queue + 1,
                                    (unsigned long long)options->sched_queues.number);
        }
    }
    return STATUS_OK;
}

/* Two deadlines that were both written must be in order. */
static enum status check_order(const struct options *options, const char *first_key,
                               const char *key, struct config_error *error)
{
    const struct option_row *row = config_options_find("kv", first_key);
    ASSERT(row != NULL);
    const struct option_value *first = config_value(options, row);
    const struct option_value *second = config_value(options, config_options_find("kv", key));
    char text[CONFIG_TEXT_BYTES];
    if (first->line == 0 || second->line == 0 || first->number <= second->number) {
        return STATUS_OK;
    }
    text[config_format(row, first, text, sizeof text - 1)] = '\0';
    (void)refuse(error, options, "kv", key);
    return config_error_add(error, "less than kv.%s = %s, "
                                   "allowed kv.retain_device <= kv.retain_host <= kv.retain_drop",
                            first_key, text);
}

enum status config_check(const struct options *options, struct config_error *error)
{
    struct config_devices devices;
    TRY(check_address(options, "net", "tcp",
                      asks_for_key(options) ? NULL : "others need auth.tcp = psk", error));
    bool has_peers = options->text_peers.text[0] != '\0';
    TRY(check_address(options, "text", "listen",
                      has_peers ? NULL : "others need text.peers, which says who may ask", error));
    bool has_tokens = options->door_tokens.text[0] != '\0';
    TRY(check_address(options, "door", "listen",
                      has_tokens ? NULL : "others need door.tokens", error));
    TRY(check_keys(options, error));
    TRY(check_send_bytes(options, error));
    TRY(check_replies_file(options, error));
    TRY(check_addresses_differ(options, error));
    TRY(check_block_tokens(options, error));
    TRY(check_calls_per_connection(options, error));
    TRY(config_devices_fill(&devices, options, error));
    TRY(check_queue_ranges(options, error));
    TRY(check_order(options, "retain_device", "retain_host", error));
    TRY(check_order(options, "retain_host", "retain_drop", error));
    TRY(check_order(options, "retain_device", "retain_drop", error));
    return STATUS_OK;
}
