/* SPDX-License-Identifier: MIT */
/*
 * What: the paths of the options, as rules of Landlock.
 *
 *                          the CPU serves                         a GPU may serve
 *   boot      reads        files of options, /etc, /proc,         all
 *                          /sys/fs/cgroup
 *             changes      its socket's path goes                 that, and in /dev, /proc, /tmp
 *             executes     nothing                                all
 *   service                reads as a reload, no more             no change
 *
 * The file of replies is open before, and the way to it is not needed again.
 * A reload reads files that may have been replaced since: it has the folders of the configuration
 * and of the keys, and /etc, where accounts are. A driver opens devices, names its threads in
 * /proc, and keeps what it compiles in $HOME/.nv: that was read, not tried.
 */
#include "appliance/boot/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "appliance/boot/listen.h"
#include "appliance/log.h"
#include "appliance/seal/landlock.h"

#ifdef AGENTIX_NO_TRAP
enum { IS_CONFINED = 0 };               /* a sanitizer reads its own files at its end */
#else
enum { IS_CONFINED = 1 };
#endif

/* A folder where a file is expected is refused by its own message. */
#define READ (LANDLOCK_READ | LANDLOCK_LIST)

/* Also the path of the socket, which is removed at the end. */
static void keep_reload(const struct landlock *landlock, const struct boot *boot)
{
    landlock_keep_folder_of(landlock, line_config_path(&boot->line), READ);
    landlock_keep_folder_of(landlock, boot->options.auth_keys.text, READ);
    landlock_keep(landlock, "/etc", READ);
    landlock_keep_folder_of(landlock, listen_path(boot), LANDLOCK_REMOVE);
}

static void keep_boot(const struct landlock *landlock, const struct boot *boot)
{
    landlock_keep(landlock, boot->options.model_path.text, READ);
    landlock_keep(landlock, boot->options.sched_predictor.text, READ);
    for (uint32_t i = 0; i < config_option_rows_count; i++) {
        const struct option_row *row = &config_option_rows[i];
        if (strcmp(row->section, "prefix") == 0) {
            landlock_keep(landlock, config_value(&boot->options, row)->text, READ);
        }
    }
    landlock_keep(landlock, "/proc", READ);
    landlock_keep(landlock, "/sys/fs/cgroup", READ);
}

static void keep_driver(const struct landlock *landlock)
{
    static const char *const folders[] = {"/dev", "/proc", "/tmp", "/var/tmp"};
    const char *home = getenv("HOME");
    char cache[CONFIG_TEXT_BYTES];
    for (uint32_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        landlock_keep(landlock, folders[i], LANDLOCK_CHANGES);
    }
    if (home != NULL && (size_t)snprintf(cache, sizeof cache, "%s/.nv", home) < sizeof cache) {
        landlock_keep(landlock, cache, LANDLOCK_CHANGES);
    }
}

/* The service manager's socket may have an abstract name, and so may a driver's. */
static bool needs_abstract_sockets(const struct boot *boot)
{
    const char *manager = getenv("NOTIFY_SOCKET");
    return boot_may_use_gpu(boot) || (manager != NULL && manager[0] == '@');
}

static bool end(struct landlock *landlock)
{
    bool is_confined = landlock_end(landlock) == STATUS_OK;
    if (!is_confined) {
        log_event(LOG_WARN, "files are not confined: Landlock: %s", strerror(errno));
    }
    return is_confined;
}

void files_confine_boot(const struct boot *boot)
{
    struct landlock landlock;
    bool may_use_gpu = boot_may_use_gpu(boot);
    if (!IS_CONFINED) {
        return;
    }
    landlock_begin(&landlock, &(struct landlock_loss){
        .files = may_use_gpu ? LANDLOCK_CHANGES : LANDLOCK_ALL, .tcp = true, .signals = true,
        .abstract_sockets = !needs_abstract_sockets(boot)});
    keep_reload(&landlock, boot);
    keep_boot(&landlock, boot);
    if (may_use_gpu) {
        keep_driver(&landlock);
    }
    (void)end(&landlock);
}

void files_confine_service(const struct boot *boot)
{
    struct landlock landlock;
    if (!IS_CONFINED || boot->serves_by_gpu) {
        return;
    }
    landlock_begin(&landlock, &(struct landlock_loss){.files = LANDLOCK_ALL});
    keep_reload(&landlock, boot);
    if (landlock.version >= 1 && end(&landlock)) {      /* else the boot has said so */
        log_event(LOG_INFO, "files confined landlock=%d", (int)landlock.version);
    }
}

/* Bytes of the folder of a path, which may be none. */
static size_t folder_bytes(const char *path)
{
    const char *name = strrchr(path, '/');
    return name == NULL ? 0 : (size_t)(name - path) + 1;
}

static bool has_folder_of(const char *path, const char *other)
{
    size_t bytes = folder_bytes(path);
    return other[0] != '\0' && bytes == folder_bytes(other) && memcmp(path, other, bytes) == 0;
}

bool files_are_known(const struct boot *boot, const char *path)
{
    return has_folder_of(path, boot->options.auth_keys.text) ||
           has_folder_of(path, line_config_path(&boot->line));
}
