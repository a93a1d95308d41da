/* SPDX-License-Identifier: MIT */
#include "tools/agx/flow/lengths.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EST_MAX (1u << 20)

static struct length *find(struct lengths *lengths, const char *name)
{
    for (uint32_t i = 0; i < lengths->count; i++) {
        if (strcmp(lengths->rows[i].name, name) == 0) {
            return &lengths->rows[i];
        }
    }
    return NULL;
}

static bool read_line(struct lengths *lengths, const char *line)
{
    struct length row = {.values = 0};
    int used = 0;
    bool good = sscanf(line, "%255[^\t\n]\t%lf\t%" SCNu64 "%n", row.name, &row.tokens, &row.values,
                       &used) == 3 && (line[used] == '\n' || line[used] == '\0');
    if (!good || !(row.tokens >= 0 && row.tokens <= EST_MAX) ||
        lengths->count == AGX_FLOW_NODES_MAX || find(lengths, row.name) != NULL) {
        return false;
    }
    lengths->rows[lengths->count++] = row;
    return true;
}

bool lengths_read(struct lengths *lengths, const char *path, char fault[LENGTHS_FAULT_BYTES])
{
    char line[LENGTHS_NAME_BYTES + 64];
    FILE *file = fopen(path, "r");
    unsigned number = 0;
    bool good = file != NULL;
    lengths->count = 0;
    while (good && fgets(line, sizeof line, file) != NULL) {
        number++;
        good = read_line(lengths, line);
    }
    if (file == NULL) {
        snprintf(fault, LENGTHS_FAULT_BYTES, "%.150s: cannot be read: %.60s", path,
                 strerror(errno));
    } else if (!good) {
        snprintf(fault, LENGTHS_FAULT_BYTES,
                 "%.150s:%u: expected NAME, mean and count, separated by tabs, each name once",
                 path, number);
    }
    if (file != NULL) {
        fclose(file);
    }
    return good;
}

bool lengths_write(const struct lengths *lengths, const char *path)
{
    FILE *file = fopen(path, "w");
    for (uint32_t i = 0; file != NULL && i < lengths->count; i++) {
        const struct length *row = &lengths->rows[i];
        fprintf(file, "%s\t%.2f\t%" PRIu64 "\n", row->name, row->tokens, row->values);
    }
    bool good = file != NULL && !ferror(file);
    return file != NULL && fclose(file) == 0 && good;
}

void lengths_add(struct lengths *lengths, const char *name, uint32_t tokens)
{
    struct length *row = find(lengths, name);
    if (row == NULL) {
        if (lengths->count == AGX_FLOW_NODES_MAX || strlen(name) >= LENGTHS_NAME_BYTES) {
            return;
        }
        row = &lengths->rows[lengths->count++];
        *row = (struct length){.values = 0};
        memcpy(row->name, name, strlen(name) + 1);
    }
    row->values++;
    row->tokens += ((double)tokens - row->tokens) / (double)row->values;
}

uint32_t lengths_est(void *lengths, const char *name)
{
    const struct length *row = find(lengths, name);
    uint32_t floor = row != NULL ? (uint32_t)row->tokens : 0;
    uint32_t est = row != NULL ? floor + (row->tokens > (double)floor) : 0;
    return row != NULL && est == 0 ? 1 : est;
}
