/* SPDX-License-Identifier: MIT */
/*
 * What: the core's death at a store to kept memory: a version may be half written, and what makes
 * it hold not yet.
 *
 * What the world receives it writes itself, and that does not count. How many stores a pass has
 * depends on the compiler: a tape fails in the build that wrote it.
 */
#include "net/kept/connections.h"
#include "selftest/fake/store_trap.h"
#include "selftest/sim/sim.h"

#define PAGE_BYTES UINT64_C(4096)
#define STORES_BITS 12          /* so many stores, as a power of two: each is equally likely */
#ifdef AGENTIX_NO_TRAP
#define CAN_TRAP false
#else
#define CAN_TRAP true
#endif

/* Half of the deaths are at stores to records of connections: there passes are committed. */
static bool counts(const struct sim *sim, const uint8_t *at)
{
    const uint8_t *records = (const uint8_t *)sim->loop.net.kept.of;
    uint64_t bytes = sim->limits.connections * sizeof *sim->loop.net.kept.of;
    return !sim->is_in_world &&
           (!sim->aims_at_records || (at >= records && at < records + bytes));
}

static void on_store(void *context, const uint8_t *at)
{
    struct sim *sim = context;
    if (counts(sim, at) && sim->stores_left-- == 0) {
        sim->was_at_a_store = true;
        sim_core_dies(sim);
    }
}

void sim_stores_arm(struct sim *sim)
{
    uint64_t bytes = (sim->kept.size_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    sim->aims_at_records = sim_choose(sim, 2) == 1;
    sim->stores_left = sim_choose(sim, 1u << sim_choose(sim, STORES_BITS));
    if (CAN_TRAP) {
        store_trap_arm(&(struct store_trap){.base = sim->kept.base, .bytes = bytes,
                                            .on_store = on_store, .context = sim});
    }
}
