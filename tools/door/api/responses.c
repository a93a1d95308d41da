/* SPDX-License-Identifier: MIT */
/* What: the store of /v1/responses (tools/door/api/responses.h). */
#include "tools/door/api/responses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/door/program.h"

#define PREFIX       "resp_"
#define PREFIX_BYTES 5

enum status responses_begin(struct door *door)
{
    struct responses *responses = calloc(1, sizeof *responses);
    if (responses == NULL) {
        return STATUS_CONFIG_MEMORY;
    }
    responses->count = (uint32_t)door->options.door_responses.number;
    responses->ring = calloc(responses->count + 1, sizeof *responses->ring);
    door->responses = responses;
    return responses->ring != NULL ? STATUS_OK : STATUS_CONFIG_MEMORY;
}

struct response *responses_find(struct door *door, const struct domain *domain, const char *id)
{
    struct responses *responses = door->responses;
    if (strncmp(id, PREFIX, PREFIX_BYTES) != 0 || id[PREFIX_BYTES] == '\0') {
        return NULL;
    }
    for (uint32_t i = 0; i < responses->count; i++) {
        struct response *at = &responses->ring[i];
        if (at->domain == domain->index && strcmp(at->id, id + PREFIX_BYTES) == 0) {
            return at;
        }
    }
    return NULL;
}

void responses_forget(struct response *response)
{
    json_decref(response->input);
    json_decref(response->answer);
    *response = (struct response){0};
}

/* A place from which nothing was kept is passed over, so a place is looked at once for each answer
 * that was kept in it. */
void responses_yield(struct door *door)
{
    struct responses *responses = door->responses;
    uint64_t most = memory_allowance_bytes() / 2;
    while (responses->kept > 0 && memory_taken_bytes() > most) {
        uint32_t oldest = (responses->next + responses->count - responses->kept) %
                          responses->count;
        responses_forget(&responses->ring[oldest]);
        responses->kept--;
    }
}

void responses_keep(struct request *request, json_t *input, json_t *answer)
{
    struct responses *responses = request->door->responses;
    if (responses->count == 0 || request->program == NULL) {
        json_decref(input);
        json_decref(answer);
        return;
    }
    struct response *at = &responses->ring[responses->next];
    responses->next = (responses->next + 1) % responses->count;
    responses->kept += responses->kept < responses->count;
    responses_forget(at);
    *at = (struct response){.domain = request->domain->index, .input = input, .answer = answer};
    snprintf(at->id, sizeof at->id, "%s", request->id);
    memcpy(at->program, request->program->id, AGX_ID_BYTES);
}
