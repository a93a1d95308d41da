/* SPDX-License-Identifier: MIT */
/*
 * What: reads the file of a predictor with the reader of model files.
 *
 * Invariant: in a class that was read, every number is finite and in its range, so whatever a
 * prompt holds, its prediction is a number within the class's range.
 * Bounds: a file is at most FILE_BYTES_MAX long, and its classes are at most
 * BOUND_PREDICTOR_CLASSES. It is read twice, first to check it and then to keep it, so only the
 * arena has to hold it; a file that changes in between is checked again.
 */
#include "config/model/predictor.h"

#include <math.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/model/gguf_keys.h"

#define FILE_BYTES_MAX (8u << 20)
#define ARCHITECTURE   "predictor"

STATIC_ASSERT(BOUND_PREDICTOR_CLASSES * sizeof(struct predictor_class) <= FILE_BYTES_MAX * 3 / 4,
              "a file with as many classes as there can be is not too long");

/* ---- header ---------------------------------------------------------------------------------- */

struct header {
    struct predictor *predictor;
    const struct gguf *gguf;
    const struct gguf_keys *keys;
    const struct gguf_source *source;
    struct config_error *error;
};

static enum status check_number(const struct header *h, const struct gguf_count *number,
                                const char *key, uint32_t expected)
{
    if (!number->key.present) {
        return gguf_error(h->source, h->gguf->header_bytes, h->error,
                          "%s is missing, expected %u", key, expected);
    }
    if (number->value != expected) {
        return gguf_error(h->source, number->key.offset, h->error, "%s is %u, expected %u", key,
                          number->value, expected);
    }
    return STATUS_OK;
}

static enum status check_numbers(const struct header *h)
{
    const struct gguf_text *architecture = &h->keys->architecture;
    if (strcmp(architecture->value, ARCHITECTURE) != 0) {
        return gguf_error(h->source, architecture->key.offset, h->error,
                          "general.architecture is '%s', expected '" ARCHITECTURE "'",
                          architecture->key.present ? architecture->value : "missing");
    }
    TRY(check_number(h, &h->keys->predictor_version, "predictor.version", PREDICTOR_VERSION));
    TRY(check_number(h, &h->keys->predictor_buckets, "predictor.buckets", PREDICTOR_BUCKETS));
    return check_number(h, &h->keys->predictor_tokens, "predictor.tokens", PREDICTOR_TOKENS);
}

static enum status take_names(const struct header *h)
{
    const struct gguf_array *names = &h->keys->predictor_classes;
    if (names->count < 1 || names->count > BOUND_PREDICTOR_CLASSES) {
        return gguf_error(h->source, names->key.present ? names->key.offset
                                                        : h->gguf->header_bytes, h->error,
                          "predictor.classes has %u names, expected 1 to %u", names->count,
                          BOUND_PREDICTOR_CLASSES);
    }
    h->predictor->count = names->count;
    h->predictor->names_offset = names->key.offset;
    return STATUS_OK;
}

static enum status take_array(const struct header *h, const struct gguf_array *array,
                              const char *key, uint64_t *offset)
{
    if (array->count != h->predictor->count) {
        return gguf_error(h->source, array->key.present ? array->key.offset
                                                        : h->gguf->header_bytes, h->error,
                          "%s has %u elements, expected one for each of the %u classes", key,
                          array->count, h->predictor->count);
    }
    *offset = array->key.offset;
    return STATUS_OK;
}

static enum status take_arrays(const struct header *h)
{
    struct predictor *predictor = h->predictor;
    const struct gguf_keys *keys = h->keys;
    TRY(take_array(h, &keys->predictor_samples, "predictor.samples", &predictor->samples_offset));
    TRY(take_array(h, &keys->predictor_means, "predictor.means", &predictor->means_offset));
    TRY(take_array(h, &keys->predictor_lows, "predictor.lows", &predictor->lows_offset));
    return take_array(h, &keys->predictor_highs, "predictor.highs", &predictor->highs_offset);
}

static enum status take_weights(const struct header *h)
{
    const struct gguf_tensor *tensor = &h->gguf->tensors[0];
    uint32_t count = h->predictor->count;
    if (h->gguf->tensors_count != 1 || strcmp(tensor->name, "predictor.weights") != 0) {
        return gguf_error(h->source, h->gguf->header_bytes, h->error,
                          "has %u tensors, the first of them '%s', expected "
                          "predictor.weights alone",
                          h->gguf->tensors_count,
                          h->gguf->tensors_count > 0 ? tensor->name : "");
    }
    if (tensor->type != GGUF_F32 || tensor->dims[0] != PREDICTOR_WEIGHTS ||
        tensor->dims[1] != count || tensor->dims[2] != 1 || tensor->dims[3] != 1) {
        return gguf_error(h->source, tensor->offset, h->error,
                          "predictor.weights is %llu x %llu x %llu x %llu of %s, expected %u x %u "
                          "of F32, a row for each class",
                          (unsigned long long)tensor->dims[0], (unsigned long long)tensor->dims[1],
                          (unsigned long long)tensor->dims[2], (unsigned long long)tensor->dims[3],
                          gguf_type_name(tensor->type), PREDICTOR_WEIGHTS, count);
    }
    h->predictor->weights_offset = tensor->offset;
    return STATUS_OK;
}

static enum status read_header(struct predictor *predictor, const struct gguf_source *source,
                               struct gguf *scratch, struct config_error *error)
{
    struct gguf_keys keys;
    const struct header h = {.predictor = predictor, .gguf = scratch, .keys = &keys,
                             .source = source, .error = error};
    if (source->size_bytes > FILE_BYTES_MAX) {
        return gguf_error(source, FILE_BYTES_MAX, error,
                          "the file has %llu bytes, expected at most %u",
                          (unsigned long long)source->size_bytes, FILE_BYTES_MAX);
    }
    TRY(gguf_header_read(scratch, &keys, source, source->size_bytes, error));
    TRY(check_numbers(&h));
    TRY(take_names(&h));
    TRY(take_arrays(&h));
    return take_weights(&h);
}

/* ---- classes --------------------------------------------------------------------------------- */

struct reading {
    const struct predictor *predictor;
    const struct gguf_source *source;
    struct config_error *error;
    struct gguf_cursor names;       /* at the next class's */
    char last_name[CALL_CLASS_BYTES];
    uint32_t last_bytes;            /* of it; 0: there was none */
};

/* Offset of the element of an array of numbers, four bytes each. */
static uint64_t element(uint64_t offset, uint32_t index)
{
    return offset + (uint64_t)index * sizeof(float);
}

/* Names are what tensors' names are: printable ASCII without blanks. */
static enum status read_name(struct reading *r, uint32_t index, struct predictor_class *class)
{
    uint64_t offset = r->names.offset, bytes = 0;
    TRY(gguf_cursor_u64(&r->names, &bytes, "predictor.classes"));
    if (bytes < 1 || bytes > CALL_CLASS_BYTES) {
        return gguf_error(r->source, offset, r->error,
                          "predictor.classes[%u] has %llu bytes, expected 1 to %u", index,
                          (unsigned long long)bytes, CALL_CLASS_BYTES);
    }
    class->name_bytes = (uint32_t)bytes;
    TRY(gguf_cursor_bytes(&r->names, class->name, bytes, "predictor.classes"));
    for (uint32_t i = 0; i < class->name_bytes; i++) {
        if (class->name[i] <= ' ' || class->name[i] > '~') {
            return gguf_error(r->source, offset, r->error,
                              "predictor.classes[%u] holds the byte 0x%02x, expected printable "
                              "ASCII without blanks", index, (unsigned char)class->name[i]);
        }
    }
    if (predictor_order(class->name, class->name_bytes, r->last_name, r->last_bytes) <= 0) {
        return gguf_error(r->source, offset, r->error,
                          "predictor.classes[%u] is '%.*s', expected each name once, in ascending "
                          "order", index, (int)class->name_bytes, class->name);
    }
    memcpy(r->last_name, class->name, class->name_bytes);
    r->last_bytes = class->name_bytes;
    return STATUS_OK;
}

static enum status read_samples(const struct reading *r, uint32_t index,
                                struct predictor_class *class)
{
    uint64_t offset = element(r->predictor->samples_offset, index);
    int32_t samples = 0;
    TRY(gguf_read(r->source, offset, &samples, sizeof samples, r->error));
    if (samples < 1) {
        return gguf_error(r->source, offset, r->error,
                          "predictor.samples[%u] is %d, expected 1 or more", index, samples);
    }
    class->samples = (uint32_t)samples;
    return STATUS_OK;
}

/* A logarithm of a cost: `least` to `most`, which no value that is not a number is. */
static enum status read_log(const struct reading *r, uint64_t offset, const char *what,
                            const float bounds[2], float *value)
{
    TRY(gguf_read(r->source, offset, value, sizeof *value, r->error));
    if (!(*value >= bounds[0] && *value <= bounds[1])) {
        return gguf_error(r->source, offset, r->error, "%s of a class is %g, expected %g to %g",
                          what, (double)*value, (double)bounds[0], (double)bounds[1]);
    }
    return STATUS_OK;
}

static enum status read_range(const struct reading *r, uint32_t index,
                              struct predictor_class *class)
{
    const struct predictor *p = r->predictor;
    TRY(read_log(r, element(p->lows_offset, index), "predictor.lows",
                 (const float[]){0, PREDICTOR_LOG_MAX}, &class->low));
    TRY(read_log(r, element(p->highs_offset, index), "predictor.highs",
                 (const float[]){class->low, PREDICTOR_LOG_MAX}, &class->high));
    return read_log(r, element(p->means_offset, index), "predictor.means",
                    (const float[]){class->low, class->high}, &class->mean);
}

static enum status read_weights(const struct reading *r, uint32_t index,
                                struct predictor_class *class)
{
    uint64_t offset = element(r->predictor->weights_offset, index * PREDICTOR_WEIGHTS);
    TRY(gguf_read(r->source, offset, class->weights, sizeof class->weights, r->error));
    for (uint32_t i = 0; i < PREDICTOR_WEIGHTS; i++) {
        if (!isfinite(class->weights[i])) {
            return gguf_error(r->source, element(offset, i), r->error,
                              "weight %u of class %u is not a number, expected a finite one", i,
                              index);
        }
    }
    return STATUS_OK;
}

/* All classes, one after the other: into the array, or each into the same place. */
static enum status read_classes(struct predictor *predictor, const struct gguf_source *source,
                                struct predictor_class *classes, struct config_error *error)
{
    struct predictor_class scratch;
    struct reading r = {.predictor = predictor, .source = source, .error = error};
    gguf_cursor_init(&r.names, source, predictor->names_offset, source->size_bytes, error);
    predictor->samples = 0;
    for (uint32_t i = 0; i < predictor->count; i++) {
        struct predictor_class *class = classes != NULL ? &classes[i] : &scratch;
        TRY(read_name(&r, i, class));
        TRY(read_samples(&r, i, class));
        TRY(read_range(&r, i, class));
        TRY(read_weights(&r, i, class));
        if (__builtin_add_overflow(predictor->samples, class->samples, &predictor->samples)) {
            predictor->samples = UINT32_MAX;
        }
    }
    return STATUS_OK;
}

enum status predictor_measure(struct predictor *predictor, const struct gguf_source *source,
                              struct gguf *scratch, struct config_error *error)
{
    *predictor = (struct predictor){0};
    TRY(read_header(predictor, source, scratch, error));
    return read_classes(predictor, source, NULL, error);
}

void predictor_plan_memory(struct memory_plan *plan, const struct predictor *predictor)
{
    if (predictor->count > 0) {
        memory_plan_add(plan, MEMORY_MODEL, "predictor classes", predictor->count,
                        sizeof(struct predictor_class));
    }
}

enum status predictor_load(struct predictor *predictor, const struct gguf_source *source,
                           struct arena *arena, struct config_error *error)
{
    if (predictor->count == 0) {
        return STATUS_OK;
    }
    predictor->classes = arena_take(arena, predictor->count, sizeof *predictor->classes);
    return read_classes(predictor, source, predictor->classes, error);
}
