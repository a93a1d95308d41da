/* SPDX-License-Identifier: MIT */
/* What: the checks of CPU, clock, sockets, files and locked memory. */
#include "selftest/post/machine.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "selftest/post/cpu.h"

#define CLOCK_READINGS 10000u       /* on each CPU */

/* ---- CPU ---- */

static void run_cpu(void *state, const struct post *post, uint32_t variant,
                    struct post_outcome *outcome)
{
    struct post_cpus cpus;
    post_cpus_init(&cpus);
    if (post->boot->engine.simd > kernels_simd_best()) {
        post_fault_say(&outcome->faults, "lacks what the kernels need");
    }
    enum kernels_simd used = post->boot->engine.simd, best = kernels_simd_best();
    snprintf(outcome->amount, sizeof outcome->amount, "%u CPUs, %s%s%s", cpus.count,
             kernels_simd_name(used), used != best ? ", best " : "",
             used != best ? kernels_simd_name(best) : "");
}

const struct post_check post_cpu = {NULL, NULL, run_cpu};

/* ---- clock ---- */

void post_clock_compare(uint64_t before_us, uint64_t now_us, uint32_t cpu,
                        struct post_faults *faults)
{
    if (now_us < before_us) {
        post_fault_say(faults, "went back by %llu us on CPU %u",
                       (unsigned long long)(before_us - now_us), cpu);
    }
}

/* Compares the clocks of the CPUs, because threads move between them. */
static void run_clock(void *state, const struct post *post, uint32_t variant,
                      struct post_outcome *outcome)
{
    struct post_cpus cpus;
    post_cpus_init(&cpus);
    uint64_t first = clock_us(CLOCK_MONOTONIC), before = first;
    for (uint32_t i = 0; i < cpus.count; i++) {
        uint32_t cpu = post_cpus_pin(&cpus, i);
        for (uint32_t j = 0; j < CLOCK_READINGS; j++) {
            uint64_t now = clock_us(CLOCK_MONOTONIC);
            post_clock_compare(before, now, cpu, &outcome->faults);
            before = now;
        }
    }
    if (before == first) {
        post_fault_say(&outcome->faults, "stands still");
    }
    snprintf(outcome->amount, sizeof outcome->amount, "%u readings", cpus.count * CLOCK_READINGS);
}

const struct post_check post_clock = {NULL, NULL, run_clock};

/* ---- sockets ---- */

/* Sends a byte from one end to the other, over a listener at an address that the kernel
 * completes. */
static bool byte_passes(struct sockaddr *address, socklen_t bind_bytes, socklen_t room)
{
    socklen_t length = room;
    char sent = 'a', got = 0;
    int listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, address, bind_bytes) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, address, &length) != 0 || connect(client, address, length) != 0) {
        return false;
    }
    int server = accept(listener, NULL, NULL);
    return server >= 0 && send(client, &sent, 1, MSG_NOSIGNAL) == 1 &&
           recv(server, &got, 1, 0) == 1 && got == sent;
}

static void run_sockets(void *state, const struct post *post, uint32_t variant,
                        struct post_outcome *outcome)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in loopback = {.sin_family = AF_INET};
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!byte_passes((struct sockaddr *)&local, sizeof(sa_family_t), sizeof local)) {
        post_fault_say(&outcome->faults, "unix: %s", strerror(errno));
    }
    bool tcp = post->boot->options.net_tcp.text[0] != '\0' ||
               post->boot->options.text_listen.text[0] != '\0';
    if (tcp && !byte_passes((struct sockaddr *)&loopback, sizeof loopback, sizeof loopback)) {
        post_fault_say(&outcome->faults, "127.0.0.1: %s", strerror(errno));
    }
    snprintf(outcome->amount, sizeof outcome->amount, "unix%s", tcp ? ", loopback" : "");
}

const struct post_check post_sockets = {NULL, NULL, run_sockets};

/* ---- files ---- */

void post_file_compare(const char *path, uint32_t forbidden, struct post_faults *faults)
{
    struct stat file;
    if (stat(path, &file) != 0) {
        post_fault_say(faults, "%.80s: %s", path, strerror(errno));
    } else if (S_ISREG(file.st_mode) && (file.st_mode & forbidden) != 0) {
        post_fault_say(faults, "%.80s: mode %04o, need %04o or less", path,
                       (unsigned)file.st_mode & 07777, 0777 & ~forbidden);
    }
}

/* A user who may write a file may change what the appliance does. One who may read the keys may
 * connect. */
static void run_files(void *state, const struct post *post, uint32_t variant,
                      struct post_outcome *outcome)
{
    const struct {
        const char *path;
        uint32_t forbidden;
    } files[] = {
        {post->boot->options.source, 0002},
        {post->boot->options.model_path.text, 0002},
        {post->boot->options.auth_keys.text, 0077},
    };
    uint32_t count = 0;
    for (uint32_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (files[i].path[0] != '\0') {
            post_file_compare(files[i].path, files[i].forbidden, &outcome->faults);
            count++;
        }
    }
    snprintf(outcome->amount, sizeof outcome->amount, "%u files", count);
}

const struct post_check post_files = {NULL, NULL, run_files};

/* ---- locked memory ---- */

/* MLOCK_ONFAULT asks for the right to lock and takes no memory. Only with memory.lock = yes is a
 * refusal a fault. */
static void run_lock(void *state, const struct post *post, uint32_t variant,
                     struct post_outcome *outcome)
{
    void *room = mmap(NULL, post->memory_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool may = room != MAP_FAILED && mlock2(room, post->memory_bytes, MLOCK_ONFAULT) == 0;
    if (!may && option_memory_lock(&post->boot->options) == OPTION_MEMORY_LOCK_YES) {
        post_fault_say(&outcome->faults, "memory.lock = yes: mlock: %s", strerror(errno));
    }
    snprintf(outcome->amount, sizeof outcome->amount, "%.1f MiB %s", post_mib(post->memory_bytes),
             may ? "may be locked" : "may not be locked");
}

const struct post_check post_lock = {NULL, NULL, run_lock};
