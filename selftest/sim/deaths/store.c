/* SPDX-License-Identifier: MIT */
/*
 * What: the core's death at a store to kept memory: a version may be half written, and what makes
 * it hold not yet.
 *
 * Kept memory is read-only while such a pass runs. Each store faults, is counted, and is let
 * through alone, by the trap flag of the processor; the chosen one does not come back. Step records
 * lie before what counts here: workers write them, too. So does the world what it receives.
 * How many stores a pass has depends on the compiler: a tape fails in the build that wrote it.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "net/kept/connections.h"
#include "selftest/sim/sim.h"

#define PAGE_BYTES 4096u
#define STORES_BITS 12          /* so many stores, as a power of two: each is equally likely */
#define TRAP_FLAG 0x100
#ifdef AGENTIX_NO_TRAP
#define CAN_TRAP false          /* sanitizers have handlers of their own */
#else
#define CAN_TRAP true
#endif

static struct sim *armed;       /* NULL: none is */
static struct sigaction old_fault, old_step;

static uint8_t *first_page(const struct sim *sim)
{
    uint64_t records = sim->kept.used_bytes;
    return sim->kept.base + (records + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static uint64_t pages_bytes(const struct sim *sim)
{
    uint64_t before = (uint64_t)(first_page(sim) - sim->kept.base);
    uint64_t rest = sim->kept.size_bytes > before ? sim->kept.size_bytes - before : 0;
    return (rest + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void protect(const struct sim *sim, int protection)
{
    uint64_t bytes = pages_bytes(sim);
    if (bytes > 0 && mprotect(first_page(sim), bytes, protection) != 0) {
        abort();
    }
}

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    protect(armed, PROT_READ);
}

/* Half of the deaths are at stores to records of connections: there passes are committed. */
static bool counts(const struct sim *sim, const uint8_t *at)
{
    const uint8_t *records = (const uint8_t *)sim->loop.net.kept.of;
    uint64_t bytes = sim->limits.connections * sizeof *sim->loop.net.kept.of;
    return !sim->is_in_world &&
           (!sim->aims_at_records || (at >= records && at < records + bytes));
}

static void on_store(int number, siginfo_t *info, void *context)
{
    struct sim *sim = armed;
    const uint8_t *at = info->si_addr;
    if (at < first_page(sim) || at >= first_page(sim) + pages_bytes(sim)) {
        sim_stores_disarm();
        raise(number);          /* a crash */
        return;
    }
    protect(sim, PROT_READ | PROT_WRITE);
    if (counts(sim, at) && sim->stores_left-- == 0) {
        sim->was_at_a_store = true;
        sim_core_dies(sim);
    }
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

void sim_stores_arm(struct sim *sim)
{
    const struct sigaction fault = {.sa_sigaction = on_store, .sa_flags = SA_SIGINFO | SA_NODEFER};
    const struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    sim->aims_at_records = sim_choose(sim, 2) == 1;
    sim->stores_left = sim_choose(sim, 1u << sim_choose(sim, STORES_BITS));
    if (CAN_TRAP) {
        armed = sim;
        sigaction(SIGSEGV, &fault, &old_fault);
        sigaction(SIGTRAP, &step, &old_step);
        protect(sim, PROT_READ);
    }
}

void sim_stores_disarm(void)
{
    if (armed != NULL) {
        protect(armed, PROT_READ | PROT_WRITE);
        sigaction(SIGSEGV, &old_fault, NULL);
        sigaction(SIGTRAP, &old_step, NULL);
        armed = NULL;
    }
}
