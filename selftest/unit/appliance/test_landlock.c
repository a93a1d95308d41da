/* SPDX-License-Identifier: MIT */
/*
 * Goal: what a process loses by Landlock it loses, with all that it forks; what rules keep is kept;
 * a kernel without Landlock is told from one that has it. And the appliance's own rules: by the CPU
 * it reads what its options name, where a GPU may serve it changes what a driver may change.
 * Method: a child loses its rights and then tries.
 */
#include "selftest/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "appliance/boot/files.c"
#include "appliance/seal/landlock.c"
#include "appliance/seal/rules.h"

#define WITH_TCP    4                   /* versions */
#define WITH_SCOPES 6

static struct boot boot;
static char folder[] = "/tmp/agentix-landlock-XXXXXX", elsewhere[] = "/var/tmp/agentix-XXXXXX";
static char given[64], other[64], stray[64];        /* files; the last one elsewhere */
static const char *socket_path = "";

const char *listen_path(const struct boot *unused)
{
    return socket_path;
}

static int version(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_ONLY);
}

static void write_file(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    close(file);
}

static int set_up(void **state)
{
    assert_non_null(mkdtemp(folder));
    assert_non_null(mkdtemp(elsewhere));
    snprintf(given, sizeof given, "%s/given", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    snprintf(stray, sizeof stray, "%s/stray", elsewhere);
    write_file(given);
    write_file(other);
    write_file(stray);
    return 0;
}

static int tear_down(void **state)
{
    unlink(given);
    unlink(other);
    unlink(stray);
    rmdir(folder);
    rmdir(elsewhere);
    return 0;
}

/* What `work` returns in a child: 0, or the number of the line that is wrong. */
static int line_of(int (*work)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        _exit(work());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* 0, or why it was refused. */
static int opening(const char *path, int flags)
{
    int file = open(path, flags | O_CLOEXEC, 0600);
    if (file < 0) {
        return errno;
    }
    close(file);
    return 0;
}

static int executing(const char *path)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        execl(path, path, NULL);
        _exit(errno);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static int connecting(void)
{
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(1),
                                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int result = connect(handle, (const struct sockaddr *)&address, sizeof address);
    int error = result == 0 ? 0 : errno;
    close(handle);
    return error;
}

#define EXPECT(is_so) \
    do { \
        if (!(is_so)) { \
            return __LINE__ % 256; \
        } \
    } while (0)

static int lose_all_but_one_file(void)
{
    struct landlock landlock;
    landlock_begin(&landlock, &(struct landlock_loss){LANDLOCK_ALL, true, true, true});
    landlock_keep(&landlock, given, LANDLOCK_READ | LANDLOCK_LIST);
    landlock_keep(&landlock, "/nonexistent", LANDLOCK_ALL);
    landlock_keep(&landlock, "", LANDLOCK_ALL);
    EXPECT(landlock_end(&landlock) == STATUS_OK);
    EXPECT(opening(given, O_RDONLY) == 0);
    EXPECT(opening(given, O_WRONLY) == EACCES);
    EXPECT(opening(other, O_RDONLY) == EACCES);
    EXPECT(opening("/etc/passwd", O_RDONLY) == EACCES);
    EXPECT(opening(folder, O_RDONLY | O_DIRECTORY) == EACCES);
    EXPECT(unlink(given) < 0 && errno == EACCES);
    EXPECT(executing("/bin/true") == EACCES);
    EXPECT(version() < WITH_TCP || connecting() == EACCES);
    EXPECT(version() < WITH_SCOPES || (kill(getppid(), 0) < 0 && errno == EPERM));
    EXPECT(kill(getpid(), 0) == 0);
    return 0;
}

static void test_what_is_lost_is_lost_and_what_is_kept_is_kept(void **state)
{
    assert_int_equal(line_of(lose_all_but_one_file), 0);
}

static int lose_all_but_a_folder(void)
{
    struct landlock landlock;
    landlock_begin(&landlock, &(struct landlock_loss){.files = LANDLOCK_ALL});
    landlock_keep_folder_of(&landlock, given, LANDLOCK_READ | LANDLOCK_REMOVE);
    landlock_keep_folder_of(&landlock, "", LANDLOCK_ALL);
    EXPECT(landlock_end(&landlock) == STATUS_OK);
    EXPECT(opening(other, O_RDONLY) == 0);
    EXPECT(opening(other, O_WRONLY) == EACCES);
    EXPECT(opening(stray, O_RDONLY) == EACCES);
    EXPECT(opening("Makefile", O_RDONLY) == EACCES);
    EXPECT(rename(other, given) < 0 && errno == EACCES);
    EXPECT(unlink(other) == 0);
    EXPECT(connecting() == ECONNREFUSED);
    EXPECT(kill(getppid(), 0) == 0);
    return 0;
}

static void test_the_folder_of_a_path_keeps_what_is_in_it(void **state)
{
    assert_int_equal(line_of(lose_all_but_a_folder), 0);
    write_file(other);
}

static int lose_nothing(void)
{
    static const struct filter_rule rules[] = {NO_CALL(landlock_create_ruleset)};
    static const struct filter filter = RULES(rules, FILTER_ALLOW);
    struct landlock landlock;
    EXPECT(filter_load(&filter, NULL) == STATUS_OK);
    landlock_begin(&landlock, &(struct landlock_loss){.files = LANDLOCK_ALL});
    EXPECT(landlock.version < 1);
    landlock_keep(&landlock, given, LANDLOCK_READ);
    errno = 0;
    EXPECT(landlock_end(&landlock) != STATUS_OK && errno == ENOSYS);
    files_confine_boot(&boot);
    files_confine_service(&boot);
    EXPECT(opening(stray, O_WRONLY) == 0);
    return 0;
}

static void test_a_kernel_without_landlock_takes_nothing(void **state)
{
    assert_int_equal(line_of(lose_nothing), 0);
}

static void begin_boot(const char *kind)
{
    static char program[] = "agentix", set[] = "--set", file[] = "--config";
    static char *words[] = {program, set, file, file, given};
    struct config_error error;
    char assignment[96];
    boot = (struct boot){.line = {5, words}};
    config_defaults(&boot.options);
    snprintf(assignment, sizeof assignment, "engine.kind=%s", kind);
    assert_status(STATUS_OK, config_set(&boot.options, assignment, &error));
    snprintf(assignment, sizeof assignment, "prefix.8=%s", stray);
    assert_status(STATUS_OK, config_set(&boot.options, assignment, &error));
}

static int read_by_the_cpu(void)
{
    files_confine_boot(&boot);
    EXPECT(opening(other, O_RDONLY) == 0 && opening(stray, O_RDONLY) == 0);
    EXPECT(opening("/etc/passwd", O_RDONLY) == 0 && opening("/proc/meminfo", O_RDONLY) == 0);
    EXPECT(opening(other, O_WRONLY) == EACCES && opening("/dev/null", O_WRONLY) == EACCES);
    EXPECT(opening("Makefile", O_RDONLY) == EACCES && executing("/bin/true") == EACCES);
    EXPECT(unlink(other) < 0 && errno == EACCES);
    EXPECT(version() < WITH_TCP || connecting() == EACCES);
    files_confine_service(&boot);
    EXPECT(opening(other, O_RDONLY) == 0 && opening("/etc/passwd", O_RDONLY) == 0);
    EXPECT(opening(stray, O_RDONLY) == EACCES && opening("/proc/meminfo", O_RDONLY) == EACCES);
    return 0;
}

static void test_where_the_cpu_serves_the_files_of_options_are_left(void **state)
{
    begin_boot("cpu");
    assert_int_equal(line_of(read_by_the_cpu), 0);
}

static int remove_the_socket(void)
{
    socket_path = other;
    files_confine_boot(&boot);
    files_confine_service(&boot);
    EXPECT(unlink(stray) < 0 && errno == EACCES);
    EXPECT(unlink(other) == 0);
    return 0;
}

static void test_a_socket_of_its_own_is_removed(void **state)
{
    begin_boot("cpu");
    assert_int_equal(line_of(remove_the_socket), 0);
    write_file(other);
}

static int start_a_driver(void)
{
    files_confine_boot(&boot);
    boot.serves_by_gpu = true;
    files_confine_service(&boot);
    EXPECT(opening("Makefile", O_RDONLY) == 0 && executing("/bin/true") == 0);
    EXPECT(opening(other, O_WRONLY) == 0 && opening("/dev/null", O_RDWR) == 0);
    EXPECT(opening("/etc/passwd", O_WRONLY) == EACCES);
    EXPECT(mkdir("/agentix-landlock", 0700) < 0 && errno == EACCES);
    EXPECT(version() < WITH_TCP || connecting() == EACCES);
    return 0;
}

static void test_where_a_gpu_may_serve_a_driver_can_start(void **state)
{
    begin_boot("cuda");
    assert_int_equal(line_of(start_a_driver), 0);
    begin_boot("auto");
    assert_int_equal(line_of(start_a_driver), 0);
}

static int find_no_gpu(void)
{
    files_confine_boot(&boot);
    files_confine_service(&boot);
    EXPECT(opening("/dev/null", O_RDWR) == EACCES && opening("Makefile", O_RDONLY) == EACCES);
    return 0;
}

static void test_auto_without_a_gpu_ends_as_the_cpu_does(void **state)
{
    begin_boot("auto");
    assert_int_equal(line_of(find_no_gpu), 0);
}

static void test_a_reload_may_read_keys_in_the_folders_that_were_known(void **state)
{
    begin_boot("cpu");
    assert_true(files_are_known(&boot, other));
    assert_false(files_are_known(&boot, stray));
    assert_false(files_are_known(&boot, "other"));
    struct config_error error;
    assert_status(STATUS_OK, config_set(&boot.options, "auth.keys=keys", &error));
    assert_true(files_are_known(&boot, "other"));
    assert_false(files_are_known(&boot, "/other"));
}

int main(void)
{
    if (!IS_CONFINED || version() < 1) {
        print_message("skipped: %s\n", IS_CONFINED ? "this kernel has no Landlock"
                                                   : "a build with sanitizers is not confined");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_lost_is_lost_and_what_is_kept_is_kept),
        cmocka_unit_test(test_the_folder_of_a_path_keeps_what_is_in_it),
        cmocka_unit_test(test_a_kernel_without_landlock_takes_nothing),
        cmocka_unit_test(test_where_the_cpu_serves_the_files_of_options_are_left),
        cmocka_unit_test(test_a_socket_of_its_own_is_removed),
        cmocka_unit_test(test_where_a_gpu_may_serve_a_driver_can_start),
        cmocka_unit_test(test_auto_without_a_gpu_ends_as_the_cpu_does),
        cmocka_unit_test(test_a_reload_may_read_keys_in_the_folders_that_were_known),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
