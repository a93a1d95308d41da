/* SPDX-License-Identifier: MIT */
/*
 * What: operators: clients of the text port. They ask everything that there is to ask, in lines and
 * in HTTP, and things that there are not; some hang up in the middle. What comes back is printable.
 * They take nothing from anybody else, so nobody needs an excuse for them.
 */
#include <string.h>

#include "selftest/sim/sim.h"

#define READ_BYTES 4096

static const char *const lines[] = {
    "health\n", "stats\r\n", "programs\n", "calls\n", "config\n", "help\n", "events\n",
    "events 3\n", "events 99999999999999999999\n", "quit\n", "nonsense\n", "\n",
    "\xff\xfb\x01stats\n",
    "GET /health HTTP/1.0\r\n\r\n", "GET /stats HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\n",
    "sta",
};
enum { LINES = sizeof lines / sizeof lines[0] };

void sim_operator_act(struct sim *sim, uint32_t client)
{
    const char *line = lines[sim_choose(sim, LINES)];
    uint32_t sent = sim_send(sim, sim->clients[client].peer, line, (uint32_t)strlen(line));
    sim->clients[client].moved += sent;
}

void sim_operator_read(struct sim *sim, uint32_t client)
{
    char page[READ_BYTES];
    uint32_t count = sim_receive(sim, sim->clients[client].peer, page, sizeof page);
    sim->clients[client].moved += count;
    for (uint32_t i = 0; i < count; i++) {
        bool ends_line = page[i] == '\n' || page[i] == '\r';
        SIM_REQUIRE(sim, ends_line || (page[i] >= ' ' && page[i] <= '~'), INVARIANT_ANSWER,
                    "the text port says byte %u", (uint8_t)page[i]);
    }
}
