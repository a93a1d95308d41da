/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the table of endpoints: which method and path is answered by what. */
#include "tools/door/door.h"

struct endpoint {
    const char *method, *path;
    bool has_rest;                      /* the path goes on: an id */
    bool is_open;                       /* no bearer token is needed */
    const struct dialect *dialect;      /* NULL: `answer` is called */
    void (*answer)(struct request *request, const json_t *body);    /* body NULL: there is none */
};

/* The endpoint; NULL: there is none. Then `methods` are those that the path has ("GET, HEAD"): none
 * if no endpoint has the path. */
const struct endpoint *endpoint_find(const char *method, const char *path,
                                     char methods[DOOR_METHODS_BYTES]);

extern const struct dialect openai_chat, openai_completion, openai_response, anthropic_message;
void plain_health(struct request *request, const json_t *body);
void plain_metrics(struct request *request, const json_t *body);
void plain_models(struct request *request, const json_t *body);
void plain_model(struct request *request, const json_t *body);
void plain_tokenize(struct request *request, const json_t *body);
void plain_detokenize(struct request *request, const json_t *body);
void plain_end_program(struct request *request, const json_t *body);
void response_get(struct request *request, const json_t *body);
void response_delete(struct request *request, const json_t *body);
void anthropic_count_tokens(struct request *request, const json_t *body);
