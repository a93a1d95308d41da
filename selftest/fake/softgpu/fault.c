/* SPDX-License-Identifier: MIT */
/*
 * What: injected faults, and errors that stay. A counter counts down to the event that fails.
 */
#include "selftest/fake/softgpu/softgpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "selftest/fake/softgpu/device.h"

pthread_mutex_t soft_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t soft_moved = PTHREAD_COND_INITIALIZER;

static struct {
    uint64_t left[FAULTS];          /* events until the one that fails; 0: none fails */
    bool is_stuck;
    uint64_t hangs;                 /* the newest hang that is not cleared; 0: none */
    uint64_t hangs_count;
    unsigned error;
} state;

unsigned soft_refuse(unsigned result, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "softgpu: %s\n", text);
    return result;
}

uint64_t soft_environment(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text == NULL || text[0] == '\0' ? fallback : strtoull(text, NULL, 10);
}

uint64_t soft_environment_of(const char *name, uint32_t device, uint64_t fallback)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') {
        return fallback;
    }
    for (; device > 0 && strchr(text, ',') != NULL; device--) {
        text = strchr(text, ',') + 1;
    }
    return strtoull(text, NULL, 10);
}

/* ---- faults ---- */

static void take_fault(const char *word)
{
    static const char *const names[FAULTS] = {
        [FAULT_ALLOC] = "alloc",   [FAULT_LAUNCH] = "launch", [FAULT_STICKY] = "sticky",
        [FAULT_LOST] = "lost",     [FAULT_HANG] = "hang",     [FAULT_CORRUPT] = "corrupt",
        [FAULT_STUCK] = "stuck",   [FAULT_ACT] = "act"};
    for (uint32_t i = 0; i < FAULTS; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(word, names[i], length) == 0 && word[length] == ':') {
            state.left[i] = strtoull(word + length + 1, NULL, 10);
            return;
        }
    }
    soft_refuse(0, "no such fault: %s", word);
    abort();                        /* otherwise a test that injects nothing would pass */
}

/* Those of every device, or those of one: DEVICE:KIND:N. */
static void take_faults(const char *text, const uint32_t *device)
{
    while (text[0] != '\0') {
        char *kind = NULL;
        uint64_t number = strtoull(text, &kind, 10);
        bool is_of_one = kind != text;
        if (device == NULL ? !is_of_one : is_of_one && number == *device) {
            take_fault(is_of_one ? kind + 1 : text);
        }
        text += strcspn(text, ",");
        text += text[0] == ',' ? 1 : 0;
    }
}

EXPORTED void softgpu_faults(const char *text)
{
    pthread_mutex_lock(&soft_lock);
    memset(state.left, 0, sizeof state.left);
    state.is_stuck = false;
    state.hangs = 0;
    state.error = 0;
    take_faults(text, NULL);
    pthread_cond_broadcast(&soft_moved);
    pthread_mutex_unlock(&soft_lock);
}

static void take_file(const char *path)
{
    char text[256] = {0};
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        text[strcspn(fgets(text, sizeof text, file) == NULL ? "" : text, "\n")] = '\0';
        fclose(file);
        unlink(path);
    }
    softgpu_faults(text);
}

void soft_faults_init(void)
{
    const char *text = getenv("SOFTGPU_FAULTS");
    if (text != NULL && text[0] == '@') {
        take_file(text + 1);
    } else {
        softgpu_faults(text == NULL ? "" : text);
    }
}

void soft_faults_of(uint32_t device)
{
    const char *text = getenv("SOFTGPU_FAULTS");
    take_faults(text == NULL || text[0] == '@' ? "" : text, &device);
}

bool soft_fault_strikes(enum soft_fault fault)
{
    return state.left[fault] > 0 && --state.left[fault] == 0;
}

bool soft_is_stuck(void)
{
    state.is_stuck |= soft_fault_strikes(FAULT_STUCK);
    return state.is_stuck;
}

uint64_t soft_hang(void)
{
    if (!soft_fault_strikes(FAULT_HANG)) {
        return 0;
    }
    state.hangs = ++state.hangs_count;
    return state.hangs;
}

bool soft_is_hung(uint64_t hang)
{
    return hang != 0 && hang == state.hangs;
}

/* ---- errors that stay ---- */

unsigned soft_error(void)
{
    return state.error;
}

void soft_fail(unsigned result)
{
    state.error = state.error == 0 ? result : state.error;
    pthread_cond_broadcast(&soft_moved);
}
