/* SPDX-License-Identifier: MIT */
/*
 * What: boot, in the order in which mistakes are cheapest to report: header, limits, plan, memory,
 * vocabulary, weights. Each failure is one log line and an exit status of its own.
 * Owner: the keeper, before it forks.
 */
#include "appliance/boot/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "appliance/boot/advice.h"
#include "config/base/assert.h"
#include "appliance/log.h"
#include "appliance/loop.h"
#include "appliance/boot/plan.h"
#include "kernels/cuda/plan.h"

#define LOUD_BYTES (64u << 20)      /* a model this large logs the progress of its loading */

extern const uint8_t embedded_model[], embedded_model_end[];

static enum boot_exit fail(enum boot_exit exit_status, const struct config_error *error)
{
    log_event(LOG_ERROR, "boot failed: %s", error->text);
    return exit_status;
}

static enum status open_source(struct boot *boot, struct config_error *error)
{
    const char *path = boot->options.model_path.text;
    if (path[0] == '\0') {
        gguf_source_memory(&boot->source, embedded_model,
                           (uint64_t)(embedded_model_end - embedded_model), "embedded model");
        return STATUS_OK;
    }
    return config_error_of("model.path", gguf_source_open(&boot->source, path, error), error);
}

/* Access rules. Keys are read only where clients must have one. */
static enum status read_access(struct boot *boot, struct config_error *error)
{
    static struct config_keys keys;
    boot->keys = &keys;
    TRY(config_access_fill(&boot->access, &boot->options, (uint32_t)geteuid(), error));
    if (!boot->access.tcp_needs_key) {
        if (boot->options.auth_keys.text[0] != '\0') {
            log_event(LOG_WARN, "auth.keys is not read: auth.tcp is not psk, so no client needs a "
                      "key");
        }
        return STATUS_OK;
    }
    enum status status = config_keys_load_file(&keys, boot->options.auth_keys.text, error);
    return config_error_of("auth.keys", status, error);
}

/* `scratch` is overwritten. */
static enum status read_predictor(struct boot *boot, struct gguf *scratch,
                                  struct config_error *error)
{
    const char *path = boot->options.sched_predictor.text;
    if (path[0] == '\0') {
        return STATUS_OK;
    }
    TRY(config_error_of("sched.predictor",
                        gguf_source_open(&boot->predictor_source, path, error), error));
    return predictor_measure(&boot->predictor, &boot->predictor_source, scratch, error);
}

/* ---- the kind of engine ---- */

static enum status check_device_memory(struct boot *boot, struct config_error *error)
{
    uint64_t needed = memory_plan_bytes(&boot->plan, MEMORY_DEVICE);
    if (needed <= boot->gpu.free_bytes) {
        return STATUS_OK;
    }
    if (boot->devices.count == 1) {
        snprintf(error->text, sizeof error->text,
                 "the plan needs %.1f MiB of the GPU, %.1f of %.1f MiB are free", plan_mib(needed),
                 plan_mib(boot->gpu.free_bytes), plan_mib(boot->gpu.memory_bytes));
    } else {
        snprintf(error->text, sizeof error->text, "the plan needs %.1f MiB of each GPU, which has "
                 "the whole model; of GPU %u, %.1f of %.1f MiB are free", plan_mib(needed),
                 boot->gpu.device, plan_mib(boot->gpu.free_bytes),
                 plan_mib(boot->gpu.memory_bytes));
    }
    return STATUS_CONFIG_MEMORY;
}

static void log_gpu(const struct boot *boot, const struct gpu *gpu)
{
    char device[24] = "";
    if (boot->devices.count > 1) {
        snprintf(device, sizeof device, "device=%u ", gpu->device);
    }
    log_event(LOG_INFO, "gpu %sname=\"%s\" arch=%s driver=%u.%u processors=%u free_mib=%.0f",
              device, gpu->name, gpu->arch, gpu->driver_version / 1000,
              gpu->driver_version % 1000 / 10, gpu->processors, plan_mib(gpu->free_bytes));
}

/* cuBLAS chooses its algorithms by the chip: on another one, a call could have other tokens. */
static enum status check_likeness(const struct gpu *gpu, const struct gpu *first,
                                  struct config_error *error)
{
    if (strcmp(gpu->arch, first->arch) == 0 && gpu->processors == first->processors &&
        gpu->shared_bytes_max == first->shared_bytes_max) {
        return STATUS_OK;
    }
    snprintf(error->text, sizeof error->text, "engine.devices: GPU %u (%s, %s, %u processors) is "
             "not like GPU %u (%s, %s, %u): a call's tokens must not depend on where it runs",
             gpu->device, gpu->name, gpu->arch, gpu->processors, first->device, first->name,
             first->arch, first->processors);
    return STATUS_CONFIG_ENGINE;
}

/* `error` names the device, where there are several. */
static enum status probe_device(struct boot *boot, struct gpu *gpu, struct config_error *error)
{
    struct config_error reason = {.text = ""};
    enum status status = gpu_probe(gpu, &boot->gpu_binary, &boot->options, &reason);
    if (status != STATUS_OK) {
        *error = reason;
        if (boot->devices.count > 1) {
            snprintf(error->text, sizeof error->text, "GPU %u: %.490s", gpu->device, reason.text);
        }
        return status;
    }
    log_gpu(boot, gpu);
    return STATUS_OK;
}

static enum status probe_devices(struct boot *boot, struct config_error *error)
{
    TRY(config_devices_fill(&boot->devices, &boot->options, error));
    for (uint32_t i = 0; i < boot->devices.count; i++) {
        struct gpu gpu = {.device = boot->devices.numbers[i]};
        TRY(probe_device(boot, &gpu, error));
        if (i > 0) {
            TRY(check_likeness(&gpu, &boot->gpu, error));
        }
        if (i == 0 || gpu.free_bytes < boot->gpu.free_bytes) {
            boot->gpu = gpu;
        }
    }
    return STATUS_OK;
}

/* OK when the GPU can serve; a refusal says why not. */
static enum status choose_gpu(struct boot *boot, struct config_error *error)
{
    if (!gpu_binary_open(&boot->gpu_binary)) {
        snprintf(error->text, sizeof error->text, "the GPU worker cannot be started: memfd: %s",
                 strerror(errno));
        return STATUS_CONFIG_ENGINE;
    }
    TRY(probe_devices(boot, error));
    boot->serves_by_gpu = true;
    TRY(plan_limits(boot, error));
    TRY(gpu_plan_check(boot->gguf, &boot->engine, boot->gpu.shared_bytes_max, boot->source.name,
                       error));
    TRY(plan_make(boot, error));
    return check_device_memory(boot, error);
}

/* Applies engine.kind. */
static enum boot_exit choose_engine(struct boot *boot)
{
    enum option_engine_kind kind = option_engine_kind(&boot->options);
    struct config_error error = {.text = ""};
    if (kind == OPTION_ENGINE_KIND_CPU) {
        return BOOT_EXIT_OK;
    }
    enum status status = choose_gpu(boot, &error);
    if (status == STATUS_OK) {
        return BOOT_EXIT_OK;
    }
    gpu_binary_close(&boot->gpu_binary);
    if (kind == OPTION_ENGINE_KIND_CUDA) {
        log_event(LOG_ERROR, "boot failed: engine.kind = cuda: %s", error.text);
        if (status == STATUS_CONFIG_MEMORY) {
            advice_print(boot);
        }
        return BOOT_EXIT_ENGINE;
    }
    boot->serves_by_gpu = false;
    log_event(LOG_WARN, "engine.kind = auto: the CPU serves: %s", error.text);
    return BOOT_EXIT_OK;
}

static void refuse_simd(const struct boot *boot, struct config_error *error)
{
    int used = snprintf(error->text, sizeof error->text,
                        "engine.simd = %s: this CPU lacks what that takes, allowed: auto",
                        kernels_simd_name(boot->engine.simd));
    for (enum kernels_simd simd = KERNELS_PLAIN; simd <= kernels_simd_best(); simd++) {
        used += snprintf(error->text + used, sizeof error->text - (size_t)used, ", %s",
                         kernels_simd_name(simd));
    }
}

/* The plan, once the model is known. */
static enum boot_exit plan(struct boot *boot)
{
    struct config_error error = {.text = "unknown"};
    boot->machine.cpus = cpus_read(&boot->cpus) ? cpus_count(&boot->cpus) : 1;
    boot->simd_best = kernels_simd_best();
    memory_bounds_read(&boot->bounds, option_memory_lock(&boot->options) == OPTION_MEMORY_LOCK_YES);
    if (plan_limits(boot, &error) != STATUS_OK ||
        config_prefixes_measure(&boot->prefixes, &boot->options, &boot->limits, &error) !=
            STATUS_OK) {
        return fail(BOOT_EXIT_CONFIG, &error);
    }
    if (boot->engine.simd > boot->simd_best) {
        refuse_simd(boot, &error);
        return fail(BOOT_EXIT_CONFIG, &error);
    }
    enum boot_exit exit_status = choose_engine(boot);
    if (exit_status == BOOT_EXIT_OK && !boot->serves_by_gpu &&
        plan_make(boot, &error) != STATUS_OK) {
        return fail(BOOT_EXIT_CONFIG, &error);
    }
    return exit_status;
}

enum boot_exit boot_measure(struct boot *boot)
{
    static struct gguf gguf;
    struct config_error error = {.text = "unknown"};
    boot->gguf = &gguf;
    if (read_access(boot, &error) != STATUS_OK ||
        read_predictor(boot, &gguf, &error) != STATUS_OK) {
        return fail(BOOT_EXIT_CONFIG, &error);
    }
    if (open_source(boot, &error) != STATUS_OK ||
        gguf_scan(boot->gguf, &boot->source, boot->options.limits_vocabulary_bytes.number,
                  &error) != STATUS_OK) {
        return fail(BOOT_EXIT_MODEL, &error);
    }
    if (!boot->gguf->has_model) {
        snprintf(error.text, sizeof error.text, "%s: holds a vocabulary and no model",
                 boot->source.name);
        return fail(BOOT_EXIT_MODEL, &error);
    }
    return plan(boot);
}

enum boot_exit boot_check_memory(struct boot *boot)
{
    const struct memory_bounds *bounds = &boot->bounds;
    uint64_t needed = plan_total_bytes(boot), process = plan_process_bytes(boot);
    if (plan_fits(boot)) {
        return BOOT_EXIT_OK;
    }
    if (needed > plan_available_bytes(boot)) {
        log_event(LOG_ERROR, "boot failed: the memory plan needs %.1f MiB and %.1f MiB are %s",
                  plan_mib(needed), plan_mib(plan_available_bytes(boot)),
                  bounds->group < bounds->machine ? "left in the control group" : "available");
    } else {
        log_event(LOG_ERROR, "boot failed: one process has %.1f MiB of the memory plan, and "
                  "memory.lock = yes may lock %.1f MiB (ulimit -l)", plan_mib(process),
                  plan_mib(bounds->locked));
    }
    if (memory_plan_bytes(&boot->plan, MEMORY_SELFTEST) == 0) {
        advice_print(boot);
    }
    return BOOT_EXIT_MEMORY;
}

static enum boot_exit fail_kind(const struct boot *boot, enum memory_kind kind)
{
    log_event(LOG_ERROR, "boot failed: cannot reserve %.1f MiB for tier %s: %s",
              plan_mib(memory_plan_bytes(&boot->plan, kind)), memory_kind_name(kind),
              strerror(errno));
    return BOOT_EXIT_MEMORY;
}

static enum boot_exit map_kind(struct boot *boot, struct arena *arena, enum memory_kind kind)
{
    return arena_map(arena, memory_plan_bytes(&boot->plan, kind), false) == STATUS_OK
               ? BOOT_EXIT_OK
               : fail_kind(boot, kind);
}

/* An upgrade has that of the appliance before it. */
static enum boot_exit reserve_kept(struct boot *boot)
{
    uint64_t bytes = memory_plan_bytes(&boot->plan, MEMORY_KEPT);
    if (boot->kept_handle == 0) {
        boot->kept_handle = arena_share("agentix-kept", bytes);
    }
    return boot->kept_handle > 0 &&
                   arena_map_shared(&boot->kept_arena, boot->kept_handle, bytes) == STATUS_OK
               ? BOOT_EXIT_OK
               : fail_kind(boot, MEMORY_KEPT);
}

static enum boot_exit reserve_shared(struct boot *boot)
{
    uint64_t bytes = memory_plan_bytes(&boot->plan, MEMORY_SHARED);
    boot->shared_handle = arena_share("agentix-shared", bytes);
    if (boot->shared_handle < 0 ||
        arena_map_shared(&boot->shared_arena, boot->shared_handle, bytes) != STATUS_OK) {
        return fail_kind(boot, MEMORY_SHARED);
    }
    uint32_t engines = boot->limits.engines;
    boot->shared.control = arena_take(&boot->shared_arena, 1, control_bytes(engines));
    boot->shared.control->engines_count = engines;
    boot->step.base = arena_take(&boot->shared_arena, engines, boot->step.layout.total_bytes);
    arena_seal(&boot->shared_arena);
    boot->shared.engine_bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    boot->shared.control_bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (boot->shared.engine_bell < 0 || boot->shared.control_bell < 0 ||
        pipe2(boot->shared.admission_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        log_event(LOG_ERROR, "boot failed: eventfd or pipe: %s", strerror(errno));
        return BOOT_EXIT_SYSTEM;
    }
    /* The system gives a user with many pipes shorter ones. */
    int room = fcntl(boot->shared.admission_pipe[1], F_GETPIPE_SZ);
    if (room < (int)sizeof(struct config_admission)) {
        log_event(LOG_ERROR, "boot failed: a pipe has room for %d bytes, %zu are needed "
                  "(fs.pipe-user-pages-soft)", room, sizeof(struct config_admission));
        return BOOT_EXIT_SYSTEM;
    }
    return BOOT_EXIT_OK;
}

/* Keeps or closes the descriptors that a GPU worker gets. */
static enum boot_exit prepare_worker(struct boot *boot)
{
    struct gguf_source *source = &boot->source;
    if (!boot->serves_by_gpu) {
        close(boot->shared_handle);
        return BOOT_EXIT_OK;
    }
    if (source->fd < 0) {
        source->fd = gpu_memory_open("agentix-model", source->memory, source->size_bytes, 0);
    }
    if (source->fd < 0) {
        log_event(LOG_ERROR, "boot failed: memfd: %s", strerror(errno));
        return BOOT_EXIT_SYSTEM;
    }
    return BOOT_EXIT_OK;
}

void boot_forget_worker(struct boot *boot)
{
    if (boot->weights_arena.base != NULL) {
        munmap(boot->weights_arena.base, boot->weights_arena.size_bytes);
        boot->weights_arena = (struct arena){.base = NULL};
    }
    gguf_source_close(&boot->source);
    if (boot->serves_by_gpu) {
        gpu_binary_close(&boot->gpu_binary);
        close(boot->shared_handle);
    }
}

void boot_forget_core(struct boot *boot)
{
    munmap(boot->kept_arena.base, boot->kept_arena.size_bytes);
    boot->kept_arena = (struct arena){.base = NULL};
    close(boot->kept_handle);
}

enum boot_exit boot_reserve(struct boot *boot)
{
    struct config_error error = {.text = "unknown"};
    enum boot_exit exit_status = reserve_shared(boot);
    if (exit_status == BOOT_EXIT_OK) {
        exit_status = reserve_kept(boot);
    }
    if (exit_status == BOOT_EXIT_OK) {
        exit_status = map_kind(boot, &boot->model_arena, MEMORY_MODEL);
    }
    if (exit_status != BOOT_EXIT_OK) {
        return exit_status;
    }
    if (vocab_load(&boot->vocab, boot->gguf, &boot->source, &boot->model_arena, &error) !=
        STATUS_OK) {
        return fail(BOOT_EXIT_MODEL, &error);
    }
    if (config_prefixes_load(&boot->prefixes, &boot->options, &boot->limits, &boot->model_arena,
                             &error) != STATUS_OK ||
        predictor_load(&boot->predictor, &boot->predictor_source, &boot->model_arena, &error) !=
            STATUS_OK) {
        return fail(BOOT_EXIT_CONFIG, &error);
    }
    if (boot->predictor.count > 0) {
        gguf_source_close(&boot->predictor_source);
    }
    ASSERT(boot->model_arena.used_bytes == memory_plan_bytes(&boot->plan, MEMORY_MODEL));
    arena_seal(&boot->model_arena);
    mprotect(boot->model_arena.base, boot->model_arena.size_bytes, PROT_READ);
    return prepare_worker(boot);
}

/* A small model is loaded before its progress could be read. */
static void say_progress(struct boot_load *load)
{
    const struct kernels_loading *loading = &load->loading;
    uint32_t tenths = (uint32_t)(loading->done_bytes * 10 / loading->total_bytes);
    if (loading->total_bytes >= LOUD_BYTES && tenths != load->said_tenths) {
        log_event(LOG_INFO, "loading percent=%u", tenths * 10);
        load->said_tenths = tenths;
    }
}

enum boot_exit boot_load_begin(struct boot *boot, struct boot_load *load)
{
    enum boot_exit exit_status = map_kind(boot, &boot->weights_arena, MEMORY_WEIGHTS);
    load->said_tenths = 0;
    if (exit_status == BOOT_EXIT_OK) {
        kernels_loading_begin(&load->loading, boot->gguf, &boot->source,
                              boot->engine.weights_as_bfloats, &boot->weights_arena);
    }
    return exit_status;
}

bool boot_load_is_done(const struct boot_load *load)
{
    return load->loading.done_bytes == load->loading.total_bytes;
}

enum boot_exit boot_load_next(struct boot_load *load, volatile uint32_t *progress)
{
    struct config_error error = {.text = "unknown"};
    if (kernels_loading_next(&load->loading, progress, &error) != STATUS_OK) {
        return fail(BOOT_EXIT_MODEL, &error);
    }
    say_progress(load);
    return BOOT_EXIT_OK;
}

void boot_load_end(struct boot *boot, const struct boot_load *load)
{
    ASSERT(boot_load_is_done(load));
    ASSERT(boot->weights_arena.used_bytes == memory_plan_bytes(&boot->plan, MEMORY_WEIGHTS));
    boot->weights = load->loading.weights;
    arena_seal(&boot->weights_arena);
    mprotect(boot->weights_arena.base, boot->weights_arena.size_bytes, PROT_READ);
}

bool boot_load_again(struct boot *boot, struct boot_load *load)
{
    struct arena *arena = &boot->weights_arena;
    munlock(arena->base, arena->size_bytes);
    if (mprotect(arena->base, arena->size_bytes, PROT_READ | PROT_WRITE) != 0 ||
        madvise(arena->base, arena->size_bytes, MADV_DONTNEED) != 0) {
        return false;
    }
    arena_init(arena, arena->base, arena->size_bytes);
    kernels_loading_begin(&load->loading, boot->gguf, &boot->source,
                          boot->engine.weights_as_bfloats, arena);
    return true;
}

void boot_loop_settings(const struct boot *boot, struct loop_settings *settings)
{
    *settings = (struct loop_settings){
        .options = &boot->options,
        .limits = &boot->limits,
        .vocab = &boot->vocab,
        .model_name = boot->gguf->model_name,
        .version = boot->version,
        .chat = {.verdict = boot->gguf->chat.verdict, .format = boot->gguf->chat.format,
                 .template_bytes = boot->gguf->chat.template_bytes},
        .access = boot->access,
        .keys = boot->keys,
        .prefixes = &boot->prefixes,
        .predictor = &boot->predictor,
        .step = boot->step,
        .can_doubt = !boot->serves_by_gpu,
        .drain_us = boot->options.limits_drain.number,
    };
}

enum boot_exit boot_lock_memory(const struct boot *boot)
{
    enum option_memory_lock choice = option_memory_lock(&boot->options);
    if (choice == OPTION_MEMORY_LOCK_NO || mlockall(MCL_CURRENT) == 0) {
        return BOOT_EXIT_OK;
    }
    if (choice == OPTION_MEMORY_LOCK_AUTO) {
        log_event(LOG_WARN, "memory is not locked: %s: raise the memlock limit (ulimit -l) to keep "
                  "pages in memory", strerror(errno));
        return BOOT_EXIT_OK;
    }
    log_event(LOG_ERROR, "memory.lock = yes: mlockall: %s: raise the memlock limit (ulimit -l)",
              strerror(errno));
    return BOOT_EXIT_MEMORY;
}
