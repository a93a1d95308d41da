/* SPDX-License-Identifier: MIT */
/* What: the table of endpoints (tools/door/endpoint.h). To add one, add a row. */
#include "tools/door/endpoint.h"

#include <stdio.h>
#include <string.h>

static const struct endpoint endpoints[] = {
    {"POST", "/v1/chat/completions", .dialect = &openai_chat},
    {"POST", "/v1/completions", .dialect = &openai_completion},
    {"POST", "/v1/responses", .dialect = &openai_response},
    {"GET", "/v1/responses/", .has_rest = true, .answer = response_get},
    {"DELETE", "/v1/responses/", .has_rest = true, .answer = response_delete},
    {"POST", "/v1/messages", .dialect = &anthropic_message},
    {"POST", "/v1/messages/count_tokens", .answer = anthropic_count_tokens},
    {"GET", "/v1/models", .answer = plain_models},
    {"GET", "/v1/models/", .has_rest = true, .answer = plain_model},
    {"DELETE", "/v1/programs/", .has_rest = true, .answer = plain_end_program},
    {"POST", "/tokenize", .answer = plain_tokenize},
    {"POST", "/detokenize", .answer = plain_detokenize},
    {"GET", "/health", .is_open = true, .answer = plain_health},
    {"GET", "/metrics", .is_open = true, .answer = plain_metrics},
};

static bool is_at(const struct endpoint *endpoint, const char *path)
{
    size_t bytes = strlen(endpoint->path);
    return endpoint->has_rest ? strncmp(path, endpoint->path, bytes) == 0 && path[bytes] != '\0'
                              : strcmp(path, endpoint->path) == 0;
}

const struct endpoint *endpoint_find(const char *method, const char *path,
                                     char methods[DOOR_METHODS_BYTES])
{
    size_t bytes = 0;
    methods[0] = '\0';
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        if (is_at(&endpoints[i], path)) {
            bool is_get = strcmp(endpoints[i].method, "GET") == 0;
            bool is_head = is_get && strcmp(method, "HEAD") == 0;
            if (is_head || strcmp(method, endpoints[i].method) == 0) {
                return &endpoints[i];
            }
            bytes += (size_t)snprintf(methods + bytes, DOOR_METHODS_BYTES - bytes, "%s%s%s",
                                      bytes > 0 ? ", " : "", endpoints[i].method,
                                      is_get ? ", HEAD" : "");
        }
    }
    return NULL;
}
