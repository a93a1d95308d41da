/* SPDX-License-Identifier: MIT */
/*
 * What: options are checked before a socket is open, sockets are open before the rights are gone,
 * and rights, other files and most system calls are gone before a model, a key or a prefix is read.
 * So what is read is read with the rights that a reload will have, and a parser that fails has
 * little to give.
 * Owner: the keeper, before it forks; `--check` and `--selftest` read as it does.
 */
#include "appliance/keeper/confine.h"

#include <unistd.h>

#include "appliance/boot/files.h"
#include "appliance/boot/listen.h"
#include "appliance/keeper/replies/file.h"
#include "appliance/keeper/upgrade/giver.h"
#include "appliance/keeper/upgrade/taker.h"
#include "appliance/log.h"
#include "appliance/seal/keeper.h"
#include "appliance/seal/rights.h"

#define DESCRIPTORS_OWN 256         /* more than the seal counts beside connections */

static enum boot_exit fail(const struct config_error *error)
{
    log_event(LOG_ERROR, "boot failed: %s", error->text);
    return BOOT_EXIT_CONFIG;
}

enum boot_exit confine(struct boot *boot, bool serves)
{
    const struct options *options = &boot->options;
    struct config_error error = {.text = "unknown"};
    /* A connection has its own descriptor, and two of a pocket. */
    uint64_t descriptors = 3 * options->limits_connections.number + DESCRIPTORS_OWN;
    if (config_check(options, &error) != STATUS_OK ||
        config_user_fill(&boot->user, options, &error) != STATUS_OK) {
        return fail(&error);
    }
    enum boot_exit exit_status = serves && boot->is_upgrade ? taker_ask(boot) : BOOT_EXIT_OK;
    if (exit_status == BOOT_EXIT_OK && serves) {
        exit_status = listen_open(boot);
    }
    if (exit_status != BOOT_EXIT_OK) {
        return exit_status;
    }
    if (rights_confine(&boot->user, descriptors, &error) != STATUS_OK) {
        listen_remove(boot);
        return fail(&error);
    }
    if (!serves) {
        return BOOT_EXIT_OK;            /* the self-test connects, and starts a GPU's binary */
    }
    giver_listen(boot);
    pockets_open(&boot->pockets, (uint32_t)options->limits_connections.number);
    exit_status = boot->is_upgrade ? taker_take_pockets(boot) : BOOT_EXIT_OK;
    if (exit_status == BOOT_EXIT_OK) {
        exit_status = replies_file_open(boot);
    }
    if (exit_status != BOOT_EXIT_OK) {
        listen_remove(boot);
        return exit_status;
    }
    files_confine_boot(boot);
    if (geteuid() == 0) {
        log_event(LOG_WARN, "runs as root, without capabilities: set appliance.user to run as "
                  "another user");
    }
    exit_status = seal_boot(boot);
    if (exit_status != BOOT_EXIT_OK) {
        listen_remove(boot);
    }
    return exit_status;
}
