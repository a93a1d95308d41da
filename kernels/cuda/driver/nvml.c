/* SPDX-License-Identifier: MIT */
/* What: reads NVML; see nvml.h. */
#include "kernels/cuda/driver/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void find_entries(struct nvml *nvml)
{
    void *address;
#define ENTRY(name, parameters)                   \
    address = dlsym(nvml->library, #name);        \
    memcpy(&nvml->name, &address, sizeof address);
#include "kernels/cuda/driver/nvml.def"
#undef ENTRY
}

static enum status open_device(struct nvml *nvml, const char *library, const char *bus,
                               struct config_error *error)
{
    find_entries(nvml);
    if (nvml->nvmlInit_v2 == NULL || nvml->nvmlDeviceGetHandleByPciBusId_v2 == NULL) {
        snprintf(error->text, sizeof error->text, "%s: is no NVML", library);
        return STATUS_CONFIG_GPU_ENTRY;
    }
    unsigned result = nvml->nvmlInit_v2();
    if (result == 0) {
        result = nvml->nvmlDeviceGetHandleByPciBusId_v2(bus, &nvml->device);
    }
    if (result != 0) {
        snprintf(error->text, sizeof error->text, "NVML error %u for %s", result, bus);
        return STATUS_CONFIG_GPU_DRIVER;
    }
    return STATUS_OK;
}

enum status nvml_open(struct nvml *nvml, const char *library, const char *bus,
                      struct config_error *error)
{
    *nvml = (struct nvml){.library = dlopen(library, RTLD_NOW | RTLD_LOCAL)};
    if (nvml->library == NULL) {
        snprintf(error->text, sizeof error->text, "no %s", library);
        return STATUS_CONFIG_GPU_DRIVER;
    }
    enum status status = open_device(nvml, library, bus, error);
    if (status != STATUS_OK) {
        nvml_close(nvml);
    }
    return status;
}

void nvml_close(struct nvml *nvml)
{
    if (nvml->library != NULL) {
        dlclose(nvml->library);
    }
    *nvml = (struct nvml){.library = NULL};
}

/* ---- readings ---- */

/* Sets `figure` to the `value` that the entry gives, or to NVML_UNKNOWN. */
#define FIGURE(figure, value, entry, ...)                                                     \
    (figure) = nvml->entry != NULL && nvml->entry(nvml->device, __VA_ARGS__) == 0 ? (value)    \
                                                                                  : NVML_UNKNOWN

static void read_state(const struct nvml *nvml, struct nvml_reading *r)
{
    unsigned value = 0;
    unsigned long long reasons = 0;
    FIGURE(r->temperature_c, value, nvmlDeviceGetTemperature, NVML_SENSOR_GPU, &value);
    FIGURE(r->slowdown_c, value, nvmlDeviceGetTemperatureThreshold, NVML_THRESHOLD_SLOWDOWN,
           &value);
    FIGURE(r->sm_mhz, value, nvmlDeviceGetClockInfo, NVML_SM_CLOCK, &value);
    FIGURE(r->memory_mhz, value, nvmlDeviceGetClockInfo, NVML_MEMORY_CLOCK, &value);
    FIGURE(r->power_mw, value, nvmlDeviceGetPowerUsage, &value);
    FIGURE(r->held_by, reasons, nvmlDeviceGetCurrentClocksEventReasons, &reasons);
}

static void read_errors(const struct nvml *nvml, struct nvml_reading *r)
{
    unsigned long long count = 0;
    FIGURE(r->corrected, count, nvmlDeviceGetTotalEccErrors, NVML_ERROR_CORRECTED,
           NVML_COUNTER_VOLATILE, &count);
    FIGURE(r->uncorrected, count, nvmlDeviceGetTotalEccErrors, NVML_ERROR_UNCORRECTED,
           NVML_COUNTER_VOLATILE, &count);
    FIGURE(r->corrected_ever, count, nvmlDeviceGetTotalEccErrors, NVML_ERROR_CORRECTED,
           NVML_COUNTER_AGGREGATE, &count);
    FIGURE(r->uncorrected_ever, count, nvmlDeviceGetTotalEccErrors, NVML_ERROR_UNCORRECTED,
           NVML_COUNTER_AGGREGATE, &count);
}

static void read_repairs(const struct nvml *nvml, struct nvml_reading *r)
{
    unsigned corrected = 0, uncorrected = 0, is_pending = 0, has_failed = 0;
    FIGURE(r->remaps_pending, is_pending, nvmlDeviceGetRemappedRows, &corrected, &uncorrected,
           &is_pending, &has_failed);
    r->remap_failed = r->remaps_pending == NVML_UNKNOWN ? NVML_UNKNOWN : has_failed;
    FIGURE(r->pages_pending, is_pending, nvmlDeviceGetRetiredPagesPendingStatus, &is_pending);
}

void nvml_read(const struct nvml *nvml, struct nvml_reading *reading)
{
    memset(reading, 0xff, sizeof *reading);         /* NVML_UNKNOWN */
    if (nvml->library != NULL) {
        read_state(nvml, reading);
        read_errors(nvml, reading);
        read_repairs(nvml, reading);
    }
}
