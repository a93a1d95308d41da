/* SPDX-License-Identifier: MIT */
/*
 * What: reads the tensor descriptions of a header and proves that each tensor lies inside the file,
 * aligned, under a name of its own, and shares no byte with another.
 *
 * Invariants: dims, sizes and offsets are checked with overflow before they are stored; what is in
 * gguf->tensors afterwards can be read without another check.
 *
 * Bounds: duplicates and overlaps are found by sorting an index, O(n^1.5) at worst for at most
 * GGUF_TENSORS_MAX tensors.
 */
#include <stddef.h>
#include <string.h>

#include "config/base/assert.h"
#include "config/model/gguf_keys.h"

STATIC_ASSERT(GGUF_TENSORS_MAX <= UINT16_MAX, "an index of tensors is 16 bits");

#define VALUES_MAX (UINT64_C(1) << 40)      /* of one tensor: far above any, far below overflow */

/* A name is printable ASCII without spaces: it goes into messages and is compared as a string. */
static enum status read_name(struct gguf_tensor *tensor, struct gguf_cursor *cursor)
{
    uint64_t offset = cursor->offset, bytes = 0;
    TRY(gguf_cursor_u64(cursor, &bytes, "the length of a tensor's name"));
    if (bytes == 0 || bytes >= GGUF_NAME_BYTES) {
        return gguf_error(cursor->source, offset, cursor->error,
                          "a tensor's name has %llu bytes, expected 1 to %d",
                          (unsigned long long)bytes, GGUF_NAME_BYTES - 1);
    }
    TRY(gguf_cursor_bytes(cursor, tensor->name, bytes, "a tensor's name"));
    tensor->name[bytes] = '\0';
    for (uint64_t i = 0; i < bytes; i++) {
        if (tensor->name[i] <= ' ' || tensor->name[i] > '~') {
            return gguf_error(cursor->source, offset, cursor->error,
                              "a tensor's name holds the byte 0x%02x, expected printable ASCII",
                              (unsigned char)tensor->name[i]);
        }
    }
    return STATUS_OK;
}

static enum status read_dims(struct gguf_tensor *tensor, struct gguf_cursor *cursor)
{
    uint64_t offset = cursor->offset, values = 1;
    TRY(gguf_cursor_u32(cursor, &tensor->dims_count, tensor->name));
    if (tensor->dims_count < 1 || tensor->dims_count > 4) {
        return gguf_error(cursor->source, offset, cursor->error,
                          "tensor %s has %u dimensions, expected 1 to 4", tensor->name,
                          tensor->dims_count);
    }
    for (uint32_t i = 0; i < 4; i++) {
        tensor->dims[i] = 1;
        if (i < tensor->dims_count) {
            TRY(gguf_cursor_u64(cursor, &tensor->dims[i], tensor->name));
        }
        if (tensor->dims[i] == 0 || __builtin_mul_overflow(values, tensor->dims[i], &values) ||
            values > VALUES_MAX) {
            return gguf_error(cursor->source, offset, cursor->error,
                              "dimension %u of tensor %s is %llu, expected at least 1 and a "
                              "product of at most %llu",
                              i, tensor->name, (unsigned long long)tensor->dims[i],
                              (unsigned long long)VALUES_MAX);
        }
    }
    return STATUS_OK;
}

#define GGUF_TYPE(name, number, values, bytes) " " #name
#define TYPE_NAMES GGUF_TYPES

static enum status read_type(struct gguf_tensor *tensor, struct gguf_cursor *cursor)
{
    uint64_t offset = cursor->offset;
    TRY(gguf_cursor_u32(cursor, &tensor->type, tensor->name));
    struct gguf_block block = gguf_type_block(tensor->type);
    if (block.values == 0) {
        return gguf_error(cursor->source, offset, cursor->error,
                          "tensor %s has type %s (%u), expected one of" TYPE_NAMES, tensor->name,
                          gguf_type_name(tensor->type), tensor->type);
    }
    if (tensor->dims[0] % block.values != 0) {
        return gguf_error(cursor->source, offset, cursor->error,
                          "rows of tensor %s have %llu values of type %s, expected a multiple "
                          "of %u",
                          tensor->name, (unsigned long long)tensor->dims[0],
                          gguf_type_name(tensor->type), block.values);
    }
    uint64_t rows = tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
    tensor->bytes = rows * gguf_row_bytes((enum gguf_type)tensor->type, tensor->dims[0]);
    ASSERT(tensor->bytes > 0 && tensor->bytes <= VALUES_MAX * sizeof(float));
    return STATUS_OK;
}
#undef GGUF_TYPE

static enum status read_tensor(struct gguf_tensor *tensor, struct gguf_cursor *cursor,
                               uint32_t alignment)
{
    TRY(read_name(tensor, cursor));
    TRY(read_dims(tensor, cursor));
    TRY(read_type(tensor, cursor));
    uint64_t offset = cursor->offset;
    TRY(gguf_cursor_u64(cursor, &tensor->offset, tensor->name));
    if (tensor->offset % alignment != 0) {
        return gguf_error(cursor->source, offset, cursor->error,
                          "tensor %s begins at %llu of the data, expected a multiple of %u",
                          tensor->name, (unsigned long long)tensor->offset, alignment);
    }
    return STATUS_OK;
}

/* Offsets become absolute; each extent must end inside the file. */
static enum status place_tensors(struct gguf *gguf, struct gguf_cursor *cursor, uint32_t alignment)
{
    uint64_t size = cursor->source->size_bytes;
    uint64_t end = cursor->offset;
    gguf->header_bytes = end;
    gguf->data_offset = end + (alignment - end % alignment) % alignment;
    for (uint32_t i = 0; i < gguf->tensors_count; i++) {
        struct gguf_tensor *tensor = &gguf->tensors[i];
        uint64_t first = 0;
        if (__builtin_add_overflow(gguf->data_offset, tensor->offset, &first) || first > size ||
            tensor->bytes > size - first) {
            return gguf_error(cursor->source, end, cursor->error,
                              "tensor %s is %llu bytes at %llu of the data, expected an end within "
                              "the file of %llu bytes",
                              tensor->name, (unsigned long long)tensor->bytes,
                              (unsigned long long)tensor->offset, (unsigned long long)size);
        }
        tensor->offset = first;
    }
    return STATUS_OK;
}

enum order { BY_NAME, BY_OFFSET };

static bool comes_before(const struct gguf_tensor *a, const struct gguf_tensor *b, enum order order)
{
    return order == BY_NAME ? strcmp(a->name, b->name) < 0 : a->offset < b->offset;
}

/* Shell sort of an index: short, in place, and good enough for a few thousand. */
static void sort_tensors(const struct gguf *gguf, uint16_t *index, enum order order)
{
    static const uint32_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
    for (uint32_t i = 0; i < gguf->tensors_count; i++) {
        index[i] = (uint16_t)i;
    }
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
        for (uint32_t i = gaps[g]; i < gguf->tensors_count; i++) {
            uint16_t moving = index[i];
            uint32_t at = i;
            while (at >= gaps[g] && comes_before(&gguf->tensors[moving],
                                                 &gguf->tensors[index[at - gaps[g]]], order)) {
                index[at] = index[at - gaps[g]];
                at -= gaps[g];
            }
            index[at] = moving;
        }
    }
}

static enum status check_names(const struct gguf *gguf, const struct gguf_cursor *cursor)
{
    uint16_t index[GGUF_TENSORS_MAX];
    sort_tensors(gguf, index, BY_NAME);
    for (uint32_t i = 1; i < gguf->tensors_count; i++) {
        const char *name = gguf->tensors[index[i]].name;
        if (strcmp(gguf->tensors[index[i - 1]].name, name) == 0) {
            return gguf_error(cursor->source, gguf->header_bytes, cursor->error,
                              "tensor %s appears twice, expected once", name);
        }
    }
    return STATUS_OK;
}

static enum status check_overlaps(const struct gguf *gguf, const struct gguf_cursor *cursor)
{
    uint16_t index[GGUF_TENSORS_MAX];
    sort_tensors(gguf, index, BY_OFFSET);
    for (uint32_t i = 1; i < gguf->tensors_count; i++) {
        const struct gguf_tensor *before = &gguf->tensors[index[i - 1]];
        const struct gguf_tensor *after = &gguf->tensors[index[i]];
        if (before->offset + before->bytes > after->offset) {
            return gguf_error(cursor->source, after->offset, cursor->error,
                              "tensors %s and %s overlap, expected extents of their own",
                              before->name, after->name);
        }
    }
    return STATUS_OK;
}

enum status gguf_tensors_read(struct gguf *gguf, struct gguf_cursor *cursor, uint64_t count,
                              uint32_t alignment)
{
    ASSERT(count <= GGUF_TENSORS_MAX);
    ASSERT(alignment != 0 && (alignment & (alignment - 1)) == 0);
    gguf->tensors_count = (uint32_t)count;
    for (uint32_t i = 0; i < gguf->tensors_count; i++) {
        TRY(read_tensor(&gguf->tensors[i], cursor, alignment));
    }
    TRY(place_tensors(gguf, cursor, alignment));
    TRY(check_names(gguf, cursor));
    return check_overlaps(gguf, cursor);
}
