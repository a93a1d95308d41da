/* SPDX-License-Identifier: MIT
 *
 * What: switches stacks on x86-64: pushes the registers that the calling convention preserves, and
 * exchanges the stack pointer. AddressSanitizer is told of each switch; otherwise it takes the
 * other stack for an overflow.
 */
#include "selftest/fake/softgpu/fiber.h"

#include <stddef.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define __asan_unpoison_memory_region(at, bytes) ((void)0)
#define __sanitizer_start_switch_fiber(save, stack, bytes) ((void)(save))
#define __sanitizer_finish_switch_fiber(save, stack, bytes) ((void)(save))
#endif

#define SAVED 6                         /* registers that fiber_exchange pushes */

void fiber_exchange(void **from, void *to) __attribute__((visibility("hidden")));

__asm__(".text\n"
        ".hidden fiber_exchange\n"
        ".globl fiber_exchange\n"
        ".type fiber_exchange, @function\n"
        "fiber_exchange:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size fiber_exchange, . - fiber_exchange\n");

void fiber_init(struct fiber *fiber, uint8_t *stack, uint64_t stack_bytes, void (*entry)(void))
{
    __asan_unpoison_memory_region(stack, stack_bytes);
    /* At the first instruction of a function the stack is 8 bytes off a multiple of 16. */
    uintptr_t *top = (uintptr_t *)(void *)(stack + stack_bytes - 2 * sizeof(uintptr_t));
    top[0] = (uintptr_t)entry;
    top[1] = 0;                         /* there is no caller to return to */
    for (uint32_t i = 1; i <= SAVED; i++) {
        top[-(ptrdiff_t)i] = 0;
    }
    *fiber = (struct fiber){top - SAVED, stack, stack_bytes};
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    void *fake = NULL;
    __sanitizer_start_switch_fiber(&fake, to->stack, to->stack_bytes);
    fiber_exchange(&from->stack_pointer, to->stack_pointer);
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
}

void fiber_begin(struct fiber *from)
{
    const void *stack = from->stack;
    size_t bytes = from->stack_bytes;
    __sanitizer_finish_switch_fiber(NULL, &stack, &bytes);
    from->stack = (uint8_t *)(uintptr_t)stack;
    from->stack_bytes = bytes;
}
