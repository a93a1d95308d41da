/* SPDX-License-Identifier: MIT */
/*
 * What: starts the GPU worker's program to learn what GPU there is, and for the self-test's checks.
 *
 *   a memfd holds the program, another the page; the child has the page as descriptor 3, and
 *   nothing else of ours; execveat() needs no file system but what the loader wants
 *
 * Invariant: nothing here opens the driver: that is in the child's address space only. What the
 * child has written is copied once and made to end before anybody reads it.
 * Bounds: PROBE_TICKS without a beat, and a check that has begun engine.hang; a driver that hangs
 * costs a minute of boot, and the child is killed.
 */
#include "appliance/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROBE_TICKS     6000        /* of TICK_NS: a minute; waking a sleeping GPU takes seconds */
#define TICK_US         UINT64_C(10000)
#define TICK_NS         (TICK_US * 1000)
#define NOT_RUN         127         /* of the child: it is not our program's, which exits 0 */
#ifndef MFD_EXEC
#define MFD_EXEC        0x10u       /* Linux 6.3; older kernels refuse the flag */
#endif

extern const uint8_t gpu_program[], gpu_program_end[];

static enum status refuse(struct config_error *error, const char *what)
{
    snprintf(error->text, sizeof error->text, "the GPU worker cannot be started: %s: %s", what,
             strerror(errno));
    return STATUS_CONFIG_ENGINE;
}

/* A descriptor of the program; -1: errno says why. */
static int program_open(void)
{
    const uint8_t *at = gpu_program;
    int handle = memfd_create("agentix-gpu-worker", MFD_CLOEXEC | MFD_EXEC);
    if (handle < 0 && errno == EINVAL) {
        handle = memfd_create("agentix-gpu-worker", MFD_CLOEXEC);
    }
    while (handle >= 0 && at < gpu_program_end) {
        ssize_t count = write(handle, at, (size_t)(gpu_program_end - at));
        if (count <= 0) {
            close(handle);
            return -1;
        }
        at += count;
    }
    return handle;
}

static struct gpu_page *page_open(int *handle)
{
    *handle = memfd_create("agentix-gpu-page", MFD_CLOEXEC);
    if (*handle < 0 || ftruncate(*handle, sizeof(struct gpu_page)) != 0) {
        return MAP_FAILED;
    }
    return mmap(NULL, sizeof(struct gpu_page), PROT_READ | PROT_WRITE, MAP_SHARED, *handle, 0);
}

/* In the child. What it needs of the environment are paths of libraries. */
static _Noreturn void run_program(int program, int page, pid_t parent)
{
    char name[] = "agentix-gpu-worker";
    char *const arguments[] = {name, NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && dup2(page, GPU_PAGE_DESCRIPTOR) == GPU_PAGE_DESCRIPTOR) {
        fcntl(GPU_PAGE_DESCRIPTOR, F_SETFD, 0);
        syscall(SYS_execveat, program, "", arguments, environ, AT_EMPTY_PATH);
    }
    _exit(NOT_RUN);
}

/* How the child ended; -1: it had to be killed. Before the first beat it wakes the GPU. */
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
    } else if (WIFEXITED(ended) && WEXITSTATUS(ended) == NOT_RUN) {
        snprintf(error->text, sizeof error->text, "the GPU worker cannot be executed: it needs the "
                 "system's C library and loader, and a vm.memfd_noexec of 0 or 1");
    } else {
        snprintf(error->text, sizeof error->text, "the GPU worker ended without a report: "
                 "status=%d signal=%d", WIFEXITED(ended) ? WEXITSTATUS(ended) : 0,
                 WIFSIGNALED(ended) ? WTERMSIG(ended) : 0);
    }
    return STATUS_CONFIG_ENGINE;
}

/* From the page, which somebody else has written. */
static enum status take_report(const struct gpu_page *page, int ended, struct config_error *error)
{
    if (!page->is_reported || page->status >= STATUS_COUNT) {
        return refuse_silence(ended, error);
    }
    memcpy(error->text, page->error, sizeof error->text);
    error->text[sizeof error->text - 1] = '\0';
    return (enum status)page->status;
}

static void take_device(struct gpu *gpu, const struct gpu_page *page)
{
    memcpy(gpu->name, page->name, sizeof gpu->name);
    memcpy(gpu->arch, page->arch, sizeof gpu->arch);
    gpu->name[sizeof gpu->name - 1] = '\0';
    gpu->arch[sizeof gpu->arch - 1] = '\0';
    gpu->driver_version = page->driver_version;
    gpu->processors = page->processors;
    gpu->memory_bytes = page->memory_bytes;
    gpu->free_bytes = page->free_bytes;
}

static void take_burn(struct burn *burn, const struct gpu_page *page)
{
    memcpy(burn, &page->burn, sizeof *burn);
    burn->amount[sizeof burn->amount - 1] = '\0';
    for (uint32_t i = 0; i < POST_FAULTS_KEPT; i++) {
        burn->faults.kept[i].where[POST_WHERE_BYTES - 1] = '\0';
    }
}

static enum status run_order(struct gpu_page *page, int page_handle, uint64_t hang_us,
                             struct config_error *error)
{
    pid_t parent = getpid();
    int program = program_open();
    pid_t child = program < 0 ? -1 : fork();
    if (child == 0) {
        run_program(program, page_handle, parent);
    }
    enum status status = child < 0 ? refuse(error, program < 0 ? "memfd" : "fork")
                                   : take_report(page, await_end(child, page, hang_us), error);
    if (program >= 0) {
        close(program);
    }
    return status;
}

/* One of `gpu` and `burn` is what is asked for; NULL: the other one. */
static enum status ask(struct gpu *gpu, struct burn *burn, const struct options *options,
                       struct config_error *error)
{
    int handle = -1;
    struct gpu_page *page = page_open(&handle);
    enum status status = STATUS_OK;
    if (page == MAP_FAILED) {
        status = refuse(error, "memfd");
    } else {
        memcpy(page->cuda_library, options->engine_cuda_library.text, CONFIG_TEXT_BYTES);
        memcpy(page->cublas_library, options->engine_cublas_library.text, CONFIG_TEXT_BYTES);
        memcpy(page->nvml_library, options->engine_nvml_library.text, CONFIG_TEXT_BYTES);
        if (burn != NULL) {
            page->order = GPU_BURN;
            memcpy(&page->burn, burn, sizeof *burn);
        }
        status = run_order(page, handle, options->engine_hang.number, error);
        if (burn != NULL) {
            take_burn(burn, page);
        } else {
            take_device(gpu, page);
        }
        munmap(page, sizeof *page);
    }
    if (handle >= 0) {
        close(handle);
    }
    return status;
}

enum status gpu_probe(struct gpu *gpu, const struct options *options, struct config_error *error)
{
    return ask(gpu, NULL, options, error);
}

enum status gpu_burn(struct burn *burn, const struct options *options, struct config_error *error)
{
    return ask(NULL, burn, options, error);
}
