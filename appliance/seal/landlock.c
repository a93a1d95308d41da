/* SPDX-License-Identifier: MIT */
/*
 * What: Landlock's three system calls, and what each version of it knows.
 * Why our own declarations: those of the system may be older than the kernel that runs.
 */
#include "appliance/seal/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_BYTES      256             /* more than an option has */
#define VERSION_ONLY    1u              /* flag: tell the version, make nothing */
#define PATH_BENEATH    1               /* kind of a rule */
#define OF_FILES        (LANDLOCK_EXECUTE | LANDLOCK_WRITE | LANDLOCK_READ | LANDLOCK_TRUNCATE | \
                         LANDLOCK_IOCTL)

/* The versions that brought these. */
enum { HAS_MOVE = 2, HAS_TRUNCATE = 3, HAS_TCP = 4, HAS_IOCTL = 5, HAS_SCOPES = 6 };

enum { BIND = 1, CONNECT = 2 };
enum { ABSTRACT_SOCKETS = 1, SIGNALS = 2 };

/* As the kernel reads them; one that does not know the last members takes them if they are 0. */
struct ruleset {
    uint64_t files;
    uint64_t tcp;
    uint64_t scopes;
};

struct __attribute__((packed)) beneath {
    uint64_t rights;
    int32_t parent;
};

static uint64_t known_files(long version)
{
    return LANDLOCK_ALL & ~(uint64_t)((version < HAS_MOVE ? LANDLOCK_MOVE : 0) |
                                      (version < HAS_TRUNCATE ? LANDLOCK_TRUNCATE : 0) |
                                      (version < HAS_IOCTL ? LANDLOCK_IOCTL : 0));
}

void landlock_begin(struct landlock *landlock, const struct landlock_loss *loss)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_ONLY);
    *landlock = (struct landlock){.version = (int32_t)version, .rules = -1,
                                  .files = loss->files & known_files(version)};
    const struct ruleset ruleset = {
        .files = landlock->files,
        .tcp = loss->tcp && version >= HAS_TCP ? BIND | CONNECT : 0,
        .scopes = version < HAS_SCOPES ? 0 : (loss->abstract_sockets ? ABSTRACT_SOCKETS : 0) |
                                             (loss->signals ? SIGNALS : 0),
    };
    if (version >= 1) {
        landlock->rules = (int)syscall(SYS_landlock_create_ruleset, &ruleset, sizeof ruleset, 0);
    }
    landlock->error = errno;
}

void landlock_keep(const struct landlock *landlock, const char *path, uint64_t rights)
{
    struct stat stat;
    struct beneath beneath = {.parent = -1};
    if (landlock->rules < 0 || path[0] == '\0') {
        return;
    }
    beneath.parent = open(path, O_PATH | O_CLOEXEC);
    if (beneath.parent < 0) {
        return;
    }
    if (fstat(beneath.parent, &stat) == 0) {
        beneath.rights = rights & landlock->files &
                         (S_ISDIR(stat.st_mode) ? LANDLOCK_ALL : OF_FILES);
        (void)syscall(SYS_landlock_add_rule, landlock->rules, PATH_BENEATH, &beneath, 0);
    }
    close(beneath.parent);
}

void landlock_keep_folder_of(const struct landlock *landlock, const char *path, uint64_t rights)
{
    char folder[PATH_BYTES] = ".";
    const char *name = strrchr(path, '/');
    if (path[0] == '\0' || (name != NULL && name - path >= PATH_BYTES - 1)) {
        return;
    }
    if (name != NULL) {
        size_t bytes = (size_t)(name - path) + (name == path ? 1 : 0);
        memcpy(folder, path, bytes);
        folder[bytes] = '\0';
    }
    landlock_keep(landlock, folder, rights);
}

enum status landlock_end(struct landlock *landlock)
{
    if (landlock->rules < 0) {
        errno = landlock->error;
        return STATUS_DEVICE_IO;
    }
    long result = syscall(SYS_landlock_restrict_self, landlock->rules, 0);
    close(landlock->rules);
    landlock->rules = -1;
    return result == 0 ? STATUS_OK : STATUS_DEVICE_IO;
}
