/* SPDX-License-Identifier: MIT */
/*
 * What: the GPU worker's binary, started from memory (appliance/gpu_binary.h). One memfd holds the
 * binary, another the page. execveat() needs no file system but for the loader's own files.
 *
 * Invariant: nothing here opens the driver, which is in the child's address space only.
 */
#include "appliance/gpu_binary.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u              /* Linux 6.3; older kernels refuse the flag */
#endif

#define SEAL_TRIES 20                /* each takes the kernel up to a fifth of a second */

extern const uint8_t gpu_binary_bytes[], gpu_binary_end[];

/* The kernel refuses with EBUSY while it holds a page itself, as when it moves it to another place;
 * it waits for that, but not for long. */
static bool seal(int handle)
{
    const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int left = SEAL_TRIES;
    while (fcntl(handle, F_ADD_SEALS, seals) != 0) {
        if (errno != EBUSY || --left == 0) {
            return false;
        }
    }
    return true;
}

int gpu_memory_open(const char *name, const uint8_t *bytes, uint64_t count, unsigned flags)
{
    int handle = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    while (handle >= 0 && count > 0) {
        ssize_t written = write(handle, bytes, count);
        if (written <= 0) {
            break;
        }
        bytes += written;
        count -= (uint64_t)written;
    }
    if (handle >= 0 && (count > 0 || !seal(handle))) {
        close(handle);
        return -1;
    }
    return handle;
}

static int open_binary(void)
{
    const char *name = "agentix-gpu-worker";
    uint64_t count = (uint64_t)(gpu_binary_end - gpu_binary_bytes);
    int handle = gpu_memory_open(name, gpu_binary_bytes, count, MFD_EXEC);
    return handle < 0 && errno == EINVAL ? gpu_memory_open(name, gpu_binary_bytes, count, 0)
                                         : handle;
}

bool gpu_binary_open_page(struct gpu_binary *binary)
{
    binary->page_handle = memfd_create("agentix-gpu-page", MFD_CLOEXEC);
    binary->page = MAP_FAILED;
    if (binary->page_handle < 0 ||
        ftruncate(binary->page_handle, sizeof *binary->page) != 0) {
        return false;
    }
    binary->page = mmap(NULL, sizeof *binary->page, PROT_READ | PROT_WRITE, MAP_SHARED,
                         binary->page_handle, 0);
    return binary->page != MAP_FAILED;
}

bool gpu_binary_open(struct gpu_binary *binary)
{
    binary->handle = open_binary();
    return gpu_binary_open_page(binary) && binary->handle >= 0;
}

void gpu_binary_close(struct gpu_binary *binary)
{
    if (binary->page != MAP_FAILED) {
        munmap(binary->page, sizeof *binary->page);
    }
    for (int i = 0; i < 2; i++) {
        int handle = i == 0 ? binary->handle : binary->page_handle;
        if (handle >= 0) {
            close(handle);
        }
    }
    *binary = (struct gpu_binary){.handle = -1, .page_handle = -1, .page = MAP_FAILED};
}

void gpu_binary_order(const struct gpu_binary *binary, enum gpu_order order, uint32_t device,
                      const struct options *options)
{
    struct gpu_page *page = binary->page;
    memset(page, 0, sizeof *page);
    page->order = order;
    page->device = device;
    memcpy(page->cuda_library, options->engine_cuda_library.text, CONFIG_TEXT_BYTES);
    memcpy(page->cublas_library, options->engine_cublas_library.text, CONFIG_TEXT_BYTES);
    memcpy(page->nvml_library, options->engine_nvml_library.text, CONFIG_TEXT_BYTES);
}

/* Above all descriptors that the binary is to have, so that none takes another's place. */
static int lift(int handle)
{
    return handle < 0 ? -1 : fcntl(handle, F_DUPFD_CLOEXEC, GPU_HANDLES_END);
}

_Noreturn void gpu_binary_run(const struct gpu_binary *binary, const int handles[GPU_HANDLES])
{
    char name[] = "agentix-gpu-worker";
    char *const arguments[] = {name, NULL};
    int lifted[GPU_HANDLES];
    int handle = lift(binary->handle);
    bool is_ready = handle >= 0;
    for (int i = 0; i < GPU_HANDLES; i++) {
        lifted[i] = lift(handles[i]);
    }
    for (int i = 0; i < GPU_HANDLES; i++) {
        is_ready = is_ready && (handles[i] < 0 || dup2(lifted[i], GPU_PAGE + i) == GPU_PAGE + i);
    }
    if (is_ready) {
        /* It needs the environment for paths of libraries. */
        syscall(SYS_execveat, handle, "", arguments, environ, AT_EMPTY_PATH);
    }
    _exit(GPU_NOT_RUN);
}
