/* SPDX-License-Identifier: MIT */
#include "selftest/fake/store_trap.h"

#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "config/base/assert.h"

#define PAGE_BYTES UINT64_C(4096)
#define TRAP_FLAG  0x100

static struct store_trap armed;                 /* base is NULL: none is */
static struct sigaction old_fault, old_step;
static uint8_t *open_first, *open_end;          /* pages that the store of now may write */

static void protect(uint8_t *first, const uint8_t *end, int protection)
{
    ASSERT(end <= first || mprotect(first, (size_t)(end - first), protection) == 0);
}

/* A store may go from one page into the next one. */
static void open_pages(const uint8_t *at)
{
    uint64_t page = (uint64_t)(at - armed.base) / PAGE_BYTES * PAGE_BYTES;
    uint8_t *first = armed.base + page;
    uint8_t *end = page + 2 * PAGE_BYTES < armed.bytes ? first + 2 * PAGE_BYTES
                                                       : armed.base + armed.bytes;
    protect(first, end, PROT_READ | PROT_WRITE);
    open_first = open_first == NULL || first < open_first ? first : open_first;
    open_end = open_end == NULL || end > open_end ? end : open_end;
}

/* The store has happened. */
static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    protect(open_first, open_end, PROT_READ);
    open_first = open_end = NULL;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const uint8_t *at = info->si_addr;
    (void)number;
    if (at < armed.base || at >= armed.base + armed.bytes) {
        store_trap_disarm();                    /* none of ours: it comes again */
        return;
    }
    armed.on_store(armed.context, at);
    open_pages(at);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

void store_trap_arm(const struct store_trap *trap)
{
    const struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    const struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    ASSERT(armed.base == NULL);
    armed = *trap;
    open_first = open_end = NULL;
    sigaction(SIGSEGV, &fault, &old_fault);
    sigaction(SIGTRAP, &step, &old_step);
    protect(armed.base, armed.base + armed.bytes, PROT_READ);
}

void store_trap_disarm(void)
{
    if (armed.base != NULL) {
        protect(armed.base, armed.base + armed.bytes, PROT_READ | PROT_WRITE);
        sigaction(SIGSEGV, &old_fault, NULL);
        sigaction(SIGTRAP, &old_step, NULL);
        armed.base = NULL;
    }
}
