/* SPDX-License-Identifier: MIT */
/*
 * What: the keeper's weights (appliance/keeper/weights.h).
 * Invariants: they are written before the first worker starts, and then only while there is no
 * worker; what is read again must have the digests of the boot, to the bit.
 * Bounds: a slice a second while all is well.
 */
#include "appliance/keeper/weights.h"

#include "appliance/clock.h"
#include "appliance/log.h"
#include "config/base/assert.h"

#define SLICE_EVERY_US UINT64_C(1000000)

static struct control *control_of(const struct weights *weights)
{
    return weights->boot->shared.control;
}

/* ---- boot ------------------------------------------------------------------------------------ */

static void log_model(const struct boot *boot)
{
    const struct gguf_chat *chat = &boot->gguf->chat;
    log_event(LOG_INFO, "loading model=%s name=\"%s\" bytes=%llu", boot->source.name,
              boot->gguf->model_name, (unsigned long long)boot->source.size_bytes);
    if (chat->verdict == CHAT_UNKNOWN) {
        log_event(LOG_WARN, "chat template of %u bytes is not one that is known: clients choose a "
                  "format (docs/chat.md)", chat->template_bytes);
    } else {
        log_event(LOG_INFO, "chat format=%s", chat_format_name(chat->format.id));
    }
}

enum boot_exit weights_begin(struct weights *weights, struct boot *boot)
{
    weights->boot = boot;
    weights->state = WEIGHTS_WHOLE;
    log_model(boot);
    if (boot->serves_by_gpu) {          /* its workers read the file themselves */
        boot->shared.control->load_permille = 1000;
        return BOOT_EXIT_OK;
    }
    return boot_load_begin(boot, &weights->load);
}

bool weights_are_read(const struct weights *weights)
{
    return weights->boot->serves_by_gpu || boot_load_is_done(&weights->load);
}

enum boot_exit weights_next(struct weights *weights)
{
    return boot_load_next(&weights->load, &control_of(weights)->load_permille);
}

void weights_end(struct weights *weights)
{
    struct boot *boot = weights->boot;
    uint64_t slice_bytes = boot->options.engine_scrub.number;
    if (boot->serves_by_gpu) {
        return;
    }
    boot_load_end(boot, &weights->load);
    weights->digest = weights->load.loading.digest;
    log_event(LOG_INFO, "loaded digest=%016llx", (unsigned long long)weights->digest);
    weights->is_scrubbed = slice_bytes > 0;
    if (weights->is_scrubbed) {
        scrub_learn(&weights->scrub, boot->weights_arena.base, boot->weights_arena.size_bytes,
                    slice_bytes);
    }
}

/* ---- scrubbing ------------------------------------------------------------------------------- */

static bool look(struct weights *weights)
{
    const struct scrub *scrub = &weights->scrub;
    atomic_fetch_add(&control_of(weights)->slices, 1);
    if (scrub_next(&weights->scrub)) {
        return true;
    }
    log_event(LOG_ERROR,
              "weights are damaged: slice %u of %u, %llu bytes each: they are read again",
              scrub_last(scrub), scrub->count, (unsigned long long)scrub->slice_bytes);
    atomic_fetch_add(&control_of(weights)->damages, 1);
    weights->state = WEIGHTS_DAMAGED;
    return false;
}

static void look_at_times(struct weights *weights, uint64_t now_us)
{
    if (weights->is_scrubbed && now_us - weights->scrubbed_us >= SLICE_EVERY_US) {
        weights->scrubbed_us = now_us;
        (void)look(weights);
    }
}

void weights_suspect(struct weights *weights)
{
    if (weights->state == WEIGHTS_WHOLE && weights->is_scrubbed) {
        weights->state = WEIGHTS_SUSPECTED;
        weights->unseen = weights->scrub.count;
    }
}

static void look_at_all(struct weights *weights, uint64_t until_us)
{
    while (weights->unseen > 0 && clock_us(CLOCK_MONOTONIC) < until_us) {
        if (!look(weights)) {
            return;
        }
        weights->unseen--;
    }
    weights->state = weights->unseen > 0 ? WEIGHTS_SUSPECTED : WEIGHTS_WHOLE;
}

/* ---- reading again --------------------------------------------------------------------------- */

static void lose(struct weights *weights, const char *why)
{
    log_event(LOG_ERROR, "weights cannot be read again: %s", why);
    weights->state = WEIGHTS_LOST;
}

static void read_again(struct weights *weights)
{
    if (boot_load_again(weights->boot, &weights->load)) {
        weights->state = WEIGHTS_LOADING;
    } else {
        lose(weights, "their memory cannot be given back");
    }
}

/* True when every slice is what it was at boot. */
static bool are_the_same(struct weights *weights)
{
    for (uint32_t i = 0; i < weights->scrub.count; i++) {
        if (!scrub_next(&weights->scrub)) {
            return false;
        }
    }
    return true;
}

static void load_on(struct weights *weights, uint64_t until_us)
{
    struct config_error error = {.text = "unknown"};
    while (!boot_load_is_done(&weights->load)) {
        if (clock_us(CLOCK_MONOTONIC) >= until_us) {
            return;
        }
        if (kernels_loading_next(&weights->load.loading, NULL, &error) != STATUS_OK) {
            lose(weights, error.text);
            return;
        }
    }
    boot_load_end(weights->boot, &weights->load);
    if (!are_the_same(weights)) {
        lose(weights, "they are not those of the boot: the file was changed, or memory fails");
        return;
    }
    (void)boot_lock_memory(weights->boot);
    log_event(LOG_INFO, "weights are read again digest=%016llx",
              (unsigned long long)weights->load.loading.digest);
    weights->state = WEIGHTS_WHOLE;
}

void weights_tick(struct weights *weights, bool are_used, uint64_t now_us)
{
    uint64_t until_us = now_us + WEIGHTS_BUDGET_US;
    if (weights->state == WEIGHTS_WHOLE) {
        look_at_times(weights, now_us);
    } else if (weights->state == WEIGHTS_SUSPECTED) {
        look_at_all(weights, until_us);
    } else if (weights->state == WEIGHTS_DAMAGED && !are_used) {
        read_again(weights);
    } else if (weights->state == WEIGHTS_LOADING) {
        load_on(weights, until_us);
    }
}
