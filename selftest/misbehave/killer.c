/* SPDX-License-Identifier: MIT */
/*
 * What: the first program of the image that selftest/e2e/test_image.py boots: it leaves a child on
 * the second serial port, which kills a process when it is told to, and becomes the appliance's
 * init. So the image that is shipped needs no way to do that, and has none.
 *
 *   agentix-worker      on /dev/ttyS1: the process of that name gets SIGKILL; the answer is its
 *                       number, or 0 when there is none
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define LINE_BYTES 64

static bool is_named(const char *pid, const char *name)
{
    char path[LINE_BYTES], comm[LINE_BYTES] = "";
    snprintf(path, sizeof path, "/proc/%.20s/comm", pid);
    FILE *file = fopen(path, "re");
    bool is_read = file != NULL && fgets(comm, sizeof comm, file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    comm[strcspn(comm, "\n")] = '\0';
    return is_read && strcmp(comm, name) == 0;
}

static pid_t find(const char *name)
{
    pid_t found = 0;
    const struct dirent *entry;
    DIR *processes = opendir("/proc");
    while (processes != NULL && (entry = readdir(processes)) != NULL) {
        found = is_named(entry->d_name, name) ? (pid_t)strtol(entry->d_name, NULL, 10) : found;
    }
    if (processes != NULL) {
        closedir(processes);
    }
    return found;
}

static void make_raw(int handle)
{
    struct termios line;
    if (tcgetattr(handle, &line) == 0) {
        line.c_lflag &= (tcflag_t)~(ECHO | ICANON);
        tcsetattr(handle, TCSANOW, &line);
    }
}

/* /dev is mounted by init, a little later. */
static int open_port(void)
{
    int handle = -1;
    while ((handle = open("/dev/ttyS1", O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
        usleep(10000);
    }
    make_raw(handle);
    return handle;
}

static void obey(FILE *port)
{
    char name[LINE_BYTES];
    while (fgets(name, sizeof name, port) != NULL) {
        name[strcspn(name, "\r\n")] = '\0';
        pid_t found = find(name);
        if (found > 0) {
            kill(found, SIGKILL);
        }
        fseek(port, 0, SEEK_CUR);       /* from reading to writing */
        fprintf(port, "%d\n", (int)found);
        fflush(port);
    }
}

int main(int argc, char **argv)
{
    if (fork() == 0) {
        FILE *port = fdopen(open_port(), "r+");
        if (port != NULL) {
            obey(port);
        }
        return 0;
    }
    static char init[] = "/appliance/init";
    argv[0] = init;
    execv(argv[0], argv);
    return 1;
}
