/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the store of /v1/responses: what was said until an answer, so that a later request may go
 * on from there by previous_response_id. A ring: the oldest yields.
 */
#include "tools/door/door.h"

struct response {
    char id[DOOR_ID_BYTES];         /* of the request; empty: free */
    uint32_t domain;
    uint8_t program[AGX_ID_BYTES];
    json_t *input;                  /* the items of the conversation, the answer's included */
    json_t *answer;                 /* as the client got it */
};
struct responses {
    uint32_t count, next;           /* next: the place of the next one */
    uint32_t kept;                  /* places before `next` that may be in use */
    struct response *ring;
};

MUST_CHECK enum status responses_begin(struct door *door);
/* NULL: it is not kept. `id` as clients see it, with `resp_` before it. */
struct response *responses_find(struct door *door, const struct domain *domain, const char *id);
/* Keeps an answer; both values are taken over. */
void responses_keep(struct request *request, json_t *input, json_t *answer);
void responses_forget(struct response *response);
/* Where memory is scarce, the oldest answers yield to what is being asked now. */
void responses_yield(struct door *door);
