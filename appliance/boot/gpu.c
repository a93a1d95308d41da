/* SPDX-License-Identifier: MIT */
/*
 * What: runs the GPU worker's binary to probe the GPU and to check it. The child gets the page and
 * no other descriptor.
 *
 * Invariant: what the child has written is copied once, and its texts are terminated, before it is
 * read.
 * Bounds: PROBE_TICKS; engine.hang from one beat to the next once a check has begun. A driver that
 * hangs costs a minute of boot, and the child is killed.
 */
#include "appliance/boot/gpu.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROBE_TICKS     6000        /* of TICK_NS: a minute; waking a sleeping GPU takes seconds */
#define TICK_US         10000
#define TICK_NS         (TICK_US * 1000)

/* How the child ended; -1: it had to be killed. */
static int await_end(pid_t child, const struct gpu_page *page, uint64_t hang_us)
{
    static const struct timespec tick = {.tv_nsec = TICK_NS};
    uint64_t beats = 0, ticks_max = PROBE_TICKS;
    int wait_status = 0;
    for (uint64_t i = 0; i < ticks_max; i++) {
        if (waitpid(child, &wait_status, WNOHANG) == child) {
            return wait_status;
        }
        if (page->burn.beats != beats) {
            beats = page->burn.beats;
            ticks_max = hang_us / TICK_US;
            i = 0;
        }
        nanosleep(&tick, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return -1;
}

static enum status refuse_silence(int ended, struct config_error *error)
{
    if (ended < 0) {
        snprintf(error->text, sizeof error->text, "the GPU driver does not answer");
    } else if (WIFEXITED(ended) && WEXITSTATUS(ended) == GPU_NOT_RUN) {
        snprintf(error->text, sizeof error->text, "the GPU worker cannot be executed: it needs the "
                 "system's C library and loader, and a vm.memfd_noexec of 0 or 1");
    } else {
        snprintf(error->text, sizeof error->text, "the GPU worker ended without a report: "
                 "status=%d signal=%d", WIFEXITED(ended) ? WEXITSTATUS(ended) : 0,
                 WIFSIGNALED(ended) ? WTERMSIG(ended) : 0);
    }
    return STATUS_CONFIG_ENGINE;
}

/* From the page, which another process has written. */
static enum status take_report(const struct gpu_page *page, int ended, struct config_error *error)
{
    uint32_t status = page->report.status;
    if (!page->report.is_there || status >= STATUS_COUNT) {
        return refuse_silence(ended, error);
    }
    memcpy(error->text, page->report.error, sizeof error->text);
    error->text[sizeof error->text - 1] = '\0';
    return (enum status)status;
}

static void take_device(struct gpu *gpu, const struct gpu_page *page)
{
    memcpy(gpu->name, page->report.name, sizeof gpu->name);
    memcpy(gpu->arch, page->report.arch, sizeof gpu->arch);
    gpu->name[sizeof gpu->name - 1] = '\0';
    gpu->arch[sizeof gpu->arch - 1] = '\0';
    gpu->driver_version = page->report.driver_version;
    gpu->processors = page->report.processors;
    gpu->shared_bytes_max = page->report.shared_bytes_max;
    gpu->memory_bytes = page->report.memory_bytes;
    gpu->free_bytes = page->report.free_bytes;
}

static void take_burn(struct burn *burn, const struct gpu_page *page)
{
    memcpy(burn, &page->burn, sizeof *burn);
    burn->amount[sizeof burn->amount - 1] = '\0';
    for (uint32_t i = 0; i < POST_FAULTS_KEPT; i++) {
        burn->faults.kept[i].where[POST_WHERE_BYTES - 1] = '\0';
    }
}

static _Noreturn void run_child(const struct gpu_binary *binary, pid_t parent)
{
    const int handles[GPU_HANDLES] = {binary->page_handle, -1, -1, -1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(GPU_NOT_RUN);
    }
    gpu_binary_run(binary, handles);
}

/* Runs the order on the page to its end. */
static enum status run_order(const struct gpu_binary *binary, uint64_t hang_us,
                             struct config_error *error)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        run_child(binary, parent);
    }
    if (child < 0) {
        snprintf(error->text, sizeof error->text, "the GPU worker cannot be started: fork: %s",
                 strerror(errno));
        return STATUS_CONFIG_ENGINE;
    }
    return take_report(binary->page, await_end(child, binary->page, hang_us), error);
}

enum status gpu_probe(struct gpu *gpu, const struct gpu_binary *binary,
                      const struct options *options, struct config_error *error)
{
    gpu_binary_order(binary, GPU_PROBE, gpu->device, options);
    enum status status = run_order(binary, options->engine_hang.number, error);
    take_device(gpu, binary->page);
    return status;
}

enum status gpu_burn(struct burn *burn, uint32_t device, const struct gpu_binary *binary,
                     const struct options *options, struct config_error *error)
{
    gpu_binary_order(binary, GPU_BURN, device, options);
    memcpy(&binary->page->burn, burn, sizeof *burn);
    enum status status = run_order(binary, options->engine_hang.number, error);
    take_burn(burn, binary->page);
    return status;
}
