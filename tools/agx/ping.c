/* SPDX-License-Identifier: MIT */
/*
 * What: `agx ping`: round trips through the appliance's loop, in microseconds. The appliance
 * answers between two steps, so a long step shows here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/agx/dial.h"

/* One round trip; EXIT_COMPLETE or an exit code after a message. */
static int round_trip(struct dial *dial, uint64_t nonce, uint64_t *took_us)
{
    struct agx_event event;
    uint64_t start_us = dial_now_us();
    enum agx_result result = agx_ping(&dial->agx, nonce);
    if (result == AGX_OK) {
        result = agx_next(&dial->agx, &event, DIAL_TIMEOUT_MS);
    }
    if (result != AGX_OK) {
        return dial_fail(&dial->agx, result == AGX_AGAIN ? AGX_ERROR_TIMEOUT : result, "ping");
    }
    if (event.kind != AGX_PONG || event.nonce != nonce) {
        return dial_fail(&dial->agx, AGX_ERROR_PROTOCOL, "ping");
    }
    *took_us = dial_now_us() - start_us;
    return EXIT_COMPLETE;
}

static int ping_all(struct dial *dial, uint32_t count)
{
    uint64_t min_us = UINT64_MAX, max_us = 0, sum_us = 0, took_us = 0;
    for (uint32_t i = 0; i < count; i++) {
        int code = round_trip(dial, i + 1, &took_us);
        if (code != EXIT_COMPLETE) {
            return code;
        }
        printf("pong %" PRIu32 ": %" PRIu64 " us\n", i + 1, took_us);
        min_us = took_us < min_us ? took_us : min_us;
        max_us = took_us > max_us ? took_us : max_us;
        sum_us += took_us;
    }
    printf("min %" PRIu64 " us, mean %" PRIu64 " us, max %" PRIu64 " us\n", min_us,
           sum_us / count, max_us);
    return EXIT_COMPLETE;
}

int ping_main(const char *to, int argc, char **argv)
{
    uint32_t count = 4;
    const struct argument rows[] = {
        {"--count", "N", ARGUMENT_U32, &count, 1, 1000000, "round trips (default 4)"},
    };
    const struct command_line line = {
        AGX_COMMAND("ping"), .usage = "[--count N]", .purpose = "Measures round trips.",
        .rows = rows, .rows_count = 1};
    struct dial dial = {0};
    int code = command_line_parse(&line, argc, argv);
    if (code != ARGUMENT_GO_ON) {
        return code;
    }
    enum agx_result result = dial_try(&dial, to, 0);    /* a probe does not wait for a start */
    code = result == AGX_OK ? EXIT_COMPLETE : dial_fail_to(&dial.agx, result, to);
    if (code == EXIT_COMPLETE) {
        code = ping_all(&dial, count);
        agx_close(&dial.agx);
    }
    free(dial.buffer);
    return code;
}
