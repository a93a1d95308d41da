/* SPDX-License-Identifier: MIT */
/*
 * What: reads, compares, passes on. One line of the log for what was taken, for each option that
 * takes a restart, or for the reason that nothing was taken.
 *
 * Invariants: keys reach the core by a pipe, which workers do not have, and are wiped here; nothing
 * is passed on before the core has taken what was passed on before, so that the pipe has room. What
 * the reading takes of the heap it gives back.
 * Owner: the keeper. The core cannot open files: it is sealed.
 */
#include "appliance/keeper/reload.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "appliance/boot/files.h"
#include "appliance/log.h"
#include "appliance/seal/heap.h"

static void remember(struct reload *reload, const struct config_keys *keys)
{
    reload->known = *keys;
    config_keys_wipe_secrets(&reload->known);
}

void reload_init(struct reload *reload, struct boot *boot)
{
    reload->boot = boot;
    reload->is_due = false;
    memcpy(reload->keys_path, boot->options.auth_keys.text, sizeof reload->keys_path);
    remember(reload, boot->keys);
}

void reload_close(struct boot *boot, bool is_core)
{
    close(boot->shared.admission_pipe[1]);
    if (!is_core) {
        close(boot->shared.admission_pipe[0]);
    }
}

void reload_begin(struct reload *reload)
{
    config_keys_wipe(reload->boot->keys);
}

static bool is_equal(const struct option_value *a, const struct option_value *b)
{
    return a->number == b->number && strcmp(a->text, b->text) == 0;
}

static bool is_taken_up(const struct option_row *row)
{
    return strcmp(row->section, "auth") == 0 && strcmp(row->key, "tcp") != 0;
}

/* Options of the door are the door's. */
static void refuse_others(const struct options *before, const struct options *now)
{
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        const struct option_value *value = config_value(now, row);
        char text[CONFIG_TEXT_BYTES];
        if (!is_taken_up(row) && strcmp(row->section, "door") != 0 &&
            !is_equal(value, config_value(before, row))) {
            text[config_format(row, value, text, sizeof text - 1)] = '\0';
            log_event(LOG_WARN, "reload: %s.%s = %s takes a restart", row->section, row->key, text);
        }
    }
}

static enum status read_admission(struct reload *reload, struct options *options,
                                  struct config_admission *admission, struct config_error *error)
{
    const struct boot *boot = reload->boot;
    TRY(line_read_options(&boot->line, options, error));
    TRY(config_check(options, error));
    TRY(config_access_fill(&admission->access, options, boot->access.own_uid, error));
    if (!boot->access.tcp_needs_key) {
        return STATUS_OK;
    }
    if (options->auth_keys.text[0] == '\0') {
        snprintf(error->text, sizeof error->text, "auth.keys is empty, and auth.tcp = psk");
        return STATUS_CONFIG_OPTION;
    }
    if (!files_are_known(boot, options->auth_keys.text)) {
        snprintf(error->text, sizeof error->text, "auth.keys = %s: another folder than that of the "
                 "configuration or of the keys before takes a restart", options->auth_keys.text);
        return STATUS_CONFIG_OPTION;
    }
    TRY(config_keys_load_file(&admission->keys, options->auth_keys.text, error));
    TRY(config_keys_keep_domains(&admission->keys, &reload->known, error));
    return config_quotas_check(&admission->keys, &boot->limits, error);
}

/* What the core takes up now, the next one takes up at its start. */
static void pass_on(struct reload *reload, const struct config_admission *admission)
{
    struct shared *shared = &reload->boot->shared;
    if (write(shared->admission_pipe[1], admission, sizeof *admission) !=
        (ssize_t)sizeof *admission) {
        log_event(LOG_ERROR, "reload: the core does not listen");
        return;
    }
    remember(reload, &admission->keys);
    config_access_admit(&reload->boot->access, &admission->access);
    atomic_fetch_add(&shared->control->admissions, 1);
    control_ring(shared->control_bell);
    log_event(LOG_INFO, "reloaded auth.keys=%u auth.uids=%u auth.gids=%u", admission->keys.count,
              admission->access.uids_count, admission->access.gids_count);
}

static void read_and_pass_on(struct reload *reload)
{
    static struct options options;
    static struct config_admission admission;
    struct config_error error = {.text = "unknown"};
    uint64_t mark = heap_used_bytes();
    memset(&admission, 0, sizeof admission);
    if (read_admission(reload, &options, &admission, &error) == STATUS_OK) {
        refuse_others(&reload->boot->options, &options);
        memcpy(reload->keys_path, options.auth_keys.text, sizeof reload->keys_path);
        pass_on(reload, &admission);
    } else {
        log_event(LOG_ERROR, "reload: nothing is taken up: %s", error.text);
    }
    config_keys_wipe(&admission.keys);
    heap_rewind(mark);
}

/* What lies in the pipe was meant for the core that has ended. */
static void empty_pipe(const struct shared *shared)
{
    char bytes[4096];
    while (read(shared->admission_pipe[0], bytes, sizeof bytes) > 0) {
    }
    explicit_bzero(bytes, sizeof bytes);
}

bool reload_renew(struct reload *reload)
{
    struct boot *boot = reload->boot;
    struct config_error error = {.text = "unknown"};
    uint64_t mark = heap_used_bytes();
    enum status status = STATUS_OK;
    if (boot->access.tcp_needs_key) {
        status = config_keys_load_file(boot->keys, reload->keys_path, &error);
    }
    if (status == STATUS_OK) {
        status = config_keys_keep_domains(boot->keys, &reload->known, &error);
    }
    if (status == STATUS_OK) {
        status = config_quotas_check(boot->keys, &boot->limits, &error);
    }
    if (status != STATUS_OK) {
        log_event(LOG_ERROR, "no other core: %s", error.text);
    }
    remember(reload, boot->keys);
    empty_pipe(&boot->shared);
    heap_rewind(mark);
    return status == STATUS_OK;
}

bool reload_hand_over(struct reload *reload)
{
    static struct config_admission admission;
    struct boot *boot = reload->boot;
    admission = (struct config_admission){.access = boot->access, .keys = *boot->keys};
    ssize_t count = write(boot->shared.admission_pipe[1], &admission, sizeof admission);
    config_keys_wipe(&admission.keys);
    if (count != (ssize_t)sizeof admission) {
        empty_pipe(&boot->shared);
        return false;
    }
    config_keys_wipe(boot->keys);
    return true;
}

void reload_tick(struct reload *reload)
{
    const struct control *control = reload->boot->shared.control;
    if (reload->is_due &&
        atomic_load(&control->admissions) == atomic_load(&control->admissions_taken)) {
        reload->is_due = false;
        read_and_pass_on(reload);
    }
}
