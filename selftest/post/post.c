/* SPDX-License-Identifier: MIT */
#include "selftest/post/post.h"

#include <stdio.h>

#include "appliance/log.h"

enum boot_exit post_run(struct boot *boot)
{
    static const struct {
        const char *name;
        bool (*run)(struct boot *boot);
    } parts[POST_PARTS] = {
        [POST_MEMORY] = {"memory patterns", post_memory},
        [POST_MODEL] = {"model digest", post_model},
        [POST_KERNELS] = {"kernels against their plain twins", post_kernels},
        [POST_CALL] = {"a call from socket to socket", post_call},
    };
    /* The model is read before the kernels run on it. */
    static const enum post_part order[POST_PARTS] = {POST_MEMORY, POST_MODEL, POST_KERNELS,
                                                     POST_CALL};
    log_role("selftest");
    for (uint32_t i = 0; i < POST_PARTS; i++) {
        bool passed = parts[order[i]].run(boot);
        printf("selftest %u %-36s %s\n", (unsigned)order[i], parts[order[i]].name,
               passed ? "passed" : "FAILED");
        fflush(stdout);
        if (!passed) {
            return (enum boot_exit)(BOOT_EXIT_SELFTEST + order[i]);
        }
    }
    return BOOT_EXIT_OK;
}
