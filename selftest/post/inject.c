/* SPDX-License-Identifier: MIT */
/*
 * What: the test of the self-test. It flips single bits at random places that the checks cover, one
 * at a time. The functions that the checks call must report exactly one fault for each flip, with
 * the word's address and the bit; before the flip they must report none.
 * Bounds: small buffers, so that thousands of flips take seconds.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "selftest/post/memory.h"
#include "selftest/post/product.h"
#include "selftest/post/swap.h"
#include "selftest/post/weights.h"

#define AREA_BYTES       65536u
#define SWAP_BLOCKS      8u         /* of each tier */
#define FLIPS_OF_A_SLAB  64u        /* then another slab: its reference costs more than a flip */

struct inject {
    struct post_area *area;
    struct post_swap *swap;
    struct post_burn *burn;
    struct post_reader *reader;
    uint32_t tensors_count;
    uint64_t seed, drawn;
    uint64_t *word;                 /* of the last flip */
    uint32_t bit;
    struct post_faults faults;      /* of one trial */
};

static uint64_t draw(struct inject *inject, uint64_t below)
{
    return splitmix_at(inject->seed, inject->drawn++) % below;
}

static void flip(struct inject *inject)
{
    *inject->word ^= UINT64_C(1) << inject->bit;
}

static void flip_in(struct inject *inject, uint64_t *words, uint64_t count)
{
    inject->word = &words[draw(inject, count)];
    inject->bit = (uint32_t)draw(inject, 64);
    flip(inject);
}

/* ---- trials: prepare a place, check, flip, check again; true: clean before the flip ---- */

static bool is_clean(const struct inject *inject)
{
    return inject->faults.count == 0;
}

/* A flip between two steps of a pattern. */
static bool trial_memory(struct inject *inject)
{
    struct post_area *area = inject->area;
    struct post_pass pass = {
        .pattern = (enum post_pattern)draw(inject, POST_PATTERNS), .round = draw(inject, 64)};
    enum post_step last = (enum post_step)(1 + draw(inject, POST_STEPS - 1));
    for (pass.step = POST_STEP_WRITE; pass.step < last; pass.step++) {
        post_area_pass(area, &pass, &inject->faults);
    }
    bool clean = is_clean(inject);
    flip_in(inject, area->words, area->count);
    post_area_pass(area, &pass, &inject->faults);
    return clean;
}

/* A flip in one of the listed blocks, undone after the trial. */
static bool trial_blocks(struct inject *inject, const uint32_t *list, uint32_t count)
{
    post_swap_compare(inject->swap, list, count, &inject->faults);
    bool clean = is_clean(inject);
    uint32_t block = list[draw(inject, count)];
    uint32_t piece = (uint32_t)draw(inject, kernels_pieces(inject->swap->kernels));
    struct post_words words = post_swap_piece(inject->swap, block, piece);
    flip_in(inject, words.at, words.count);
    post_swap_compare(inject->swap, list, count, &inject->faults);
    flip(inject);
    return clean;
}

/* A flip on the host (`staged`), or after the blocks have come back. */
static bool trial_swap(struct inject *inject, bool staged)
{
    struct post_swap *swap = inject->swap;
    uint32_t count = 1 + (uint32_t)draw(inject, swap->lists_max);
    post_swap_list(swap, count, (enum post_order)draw(inject, POST_ORDERS),
                   (enum post_order)draw(inject, POST_ORDERS));
    post_swap_out(swap, count);
    if (staged) {
        return trial_blocks(inject, swap->host_list, count);
    }
    post_swap_scrub(swap, count);
    post_swap_in(swap, count);
    return trial_blocks(inject, swap->device_list, count);
}

static void draw_tensor(struct inject *inject, struct post_tensor *tensor)
{
    uint32_t index = (uint32_t)draw(inject, inject->tensors_count);
    bool found = post_tensor_at(inject->reader->weights, index, tensor);
    ASSERT(found);
}

static void draw_slab(struct inject *inject)
{
    struct post_tensor tensor;
    do {
        draw_tensor(inject, &tensor);
    } while (tensor.matrix == NULL);
    post_burn_choose(inject->burn, &tensor, (uint32_t)draw(inject, post_slabs_count(&tensor)));
}

static bool trial_product(struct inject *inject, uint64_t trial)
{
    struct post_burn *burn = inject->burn;
    struct post_result *result = &burn->results[0];
    if (trial % FLIPS_OF_A_SLAB == 0) {
        draw_slab(inject);
    }
    post_burn_compute(burn, result, POST_SLAB_ROWS);
    post_burn_compare(burn, result, POST_SLAB_ROWS, 0, &inject->faults);
    bool clean = is_clean(inject);
    float *row = result->y + draw(inject, POST_SLAB_ROWS) * burn->y_stride;
    flip_in(inject, (uint64_t *)(void *)row, burn->slab.matrix.outputs / 2);
    post_burn_compare(burn, result, POST_SLAB_ROWS, 0, &inject->faults);
    return clean;
}

static bool trial_weights(struct inject *inject)
{
    struct post_tensor tensor;
    uint64_t words_count = 0;
    draw_tensor(inject, &tensor);
    uint32_t panel = (uint32_t)draw(inject, post_panels_count(&tensor));
    uint64_t *words = post_panel_words(&tensor, panel, &words_count);
    post_panel_compare(inject->reader, &tensor, panel, &inject->faults);
    bool clean = is_clean(inject);
    flip_in(inject, words, words_count);
    post_panel_compare(inject->reader, &tensor, panel, &inject->faults);
    flip(inject);
    return clean;
}

static bool run_trial(struct inject *inject, enum post_place place, uint64_t trial)
{
    switch (place) {
    case POST_PLACE_MEMORY:
        return trial_memory(inject);
    case POST_PLACE_STAGED:
        return trial_swap(inject, true);
    case POST_PLACE_SWAPPED:
        return trial_swap(inject, false);
    case POST_PLACE_PRODUCT:
        return trial_product(inject, trial);
    case POST_PLACE_WEIGHTS:
        return trial_weights(inject);
    case POST_PLACES:
        break;
    }
    ASSERT(!"a place");
    return false;
}

/* ---- the check of one place ---- */

static struct kernels_settings settings_of(const struct post *post)
{
    struct kernels_settings settings = post->boot->engine;
    settings.threads = 1;
    settings.kv_blocks = SWAP_BLOCKS;
    settings.kv_host_blocks = SWAP_BLOCKS;
    return settings;
}

static void plan_inject(const struct post *post, struct memory_plan *plan)
{
    const struct model_shape *shape = &post->boot->gguf->shape;
    struct kernels_settings settings = settings_of(post);
    memory_plan_add(plan, MEMORY_SELFTEST, "inject", 1, sizeof(struct inject));
    post_area_plan_memory(plan, AREA_BYTES, true);
    post_swap_plan_memory(plan, &settings, shape);
    post_burn_plan_memory(plan, shape, true);
    post_reader_plan_memory(plan, shape);
}

static void *init_inject(const struct post *post, struct arena *arena)
{
    struct boot *boot = post->boot;
    struct kernels_settings settings = settings_of(post);
    struct inject *inject = arena_take(arena, 1, sizeof *inject);
    inject->seed = post->settings.seed;
    inject->tensors_count = post_tensors_count(boot->weights);
    inject->area = post_area_init(arena, AREA_BYTES, true, inject->seed);
    inject->swap = post_swap_init(arena, &settings, boot->weights, inject->seed);
    inject->burn = post_burn_init(arena, &boot->gguf->shape, boot->engine.simd, true);
    inject->reader = post_reader_init(arena, boot->weights, boot->gguf, &post->source);
    if (inject->area == NULL || inject->swap == NULL || inject->burn == NULL) {
        return NULL;
    }
    post_swap_fill(inject->swap);
    /* The mapping is private: only this process's weights change. */
    bool writable = mprotect(boot->weights_arena.base, boot->weights_arena.size_bytes,
                             PROT_READ | PROT_WRITE) == 0;
    return writable ? inject : NULL;
}

/* True when the only fault is the flip. */
static bool is_found(const struct inject *inject)
{
    const struct post_fault *fault = &inject->faults.kept[0];
    return inject->faults.count == 1 && fault->word == inject->word &&
           (fault->expected ^ fault->found) == UINT64_C(1) << inject->bit;
}

/* Each place gets the same share of the flips. */
static uint64_t flips_of(const struct post *post, uint32_t place)
{
    uint64_t flips = post->settings.flips;
    return flips / POST_PLACES + (place < flips % POST_PLACES);
}

static void run_inject(void *state, const struct post *post, uint32_t variant,
                       struct post_outcome *outcome)
{
    struct inject *inject = state;
    uint64_t flips = flips_of(post, variant);
    inject->seed = splitmix_at(post->settings.seed, variant);
    for (uint64_t trial = 0; trial < flips; trial++) {
        memset(&inject->faults, 0, sizeof inject->faults);
        bool clean = run_trial(inject, (enum post_place)variant, trial);
        bool found = is_found(inject);
        outcome->planted++;
        outcome->found += found;
        if (!found) {
            post_fault_say(&outcome->faults, "flip %llu: bit %u of %p: %s",
                           (unsigned long long)trial, inject->bit, (void *)inject->word,
                           clean ? "missed" : "a fault was found before it");
        }
    }
    snprintf(outcome->amount, sizeof outcome->amount, "%llu of %llu found",
             (unsigned long long)outcome->found, (unsigned long long)outcome->planted);
}

const struct post_check post_inject = {plan_inject, init_inject, run_inject};
