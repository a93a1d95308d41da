/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a folder for the files of a test binary. It is removed when the binary ends, also after a
 * test that failed, where the lines after the failure do not run.
 */
#include "selftest/unit/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static struct test_folder {
    char path[sizeof "/tmp/agentix-test-XXXXXX"];
    pid_t owner;                    /* 0: not made */
} test_folder_;

/* Not in a child, which may end first. The test removes subfolders itself. */
static inline void test_folder_remove(void)
{
    DIR *folder = test_folder_.owner == getpid() ? opendir(test_folder_.path) : NULL;
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder != NULL) {
        closedir(folder);
        rmdir(test_folder_.path);
    }
}

/* The folder's path; the first call makes the folder. */
static inline const char *test_folder(void)
{
    if (test_folder_.owner == 0) {
        strcpy(test_folder_.path, "/tmp/agentix-test-XXXXXX");
        assert_non_null(mkdtemp(test_folder_.path));
        test_folder_.owner = getpid();
        assert_int_equal(atexit(test_folder_remove), 0);
    }
    return test_folder_.path;
}
