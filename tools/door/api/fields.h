/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: the fields of a body that all APIs have in some form. Each function reads one field,
 * leaves the value as it is where the field is absent or null, and refuses one that is wrong.
 */
#include "tools/door/door.h"

struct fields {
    struct request *request;
    const json_t *body;
};

bool field_number(const struct fields *fields, const char *name, double min, double max,
                  double *value);
bool field_count(const struct fields *fields, const char *name, uint64_t min, uint64_t max,
                 uint64_t *value);
bool field_flag(const struct fields *fields, const char *name, bool *value);
/* The text stays the body's. */
bool field_text(const struct fields *fields, const char *name, const char **value);
/* Refuses a field of a list, which ends with NULL, that is there and says something: null, false, 0
 * and what is empty say nothing. */
bool fields_refuse(const struct fields *fields, const char *const *names);
/* Refuses a field that asks by being there, whatever it says: only null says nothing. */
bool field_refuse_given(const struct fields *fields, const char *name);
/* Refuses a form of the answer that decoding would have to be held to: all but text. */
bool field_format(const struct fields *fields, const json_t *format, const char *name);

/* How a choice is sampled and where it ends; the call of every choice is a copy of this one. */
struct wish {
    struct agx_call call;
    uint64_t choices;
    bool has_seed;
    struct agx_bias biases[AGX_BIASES_MAX];
    uint32_t biases_count;
    char stops[AGX_STOP_TEXTS_MAX][DOOR_STOP_BYTES];
    uint32_t stops_count, own_stops_count;      /* with and without that of the model's form */
    const char *prompt_name, *max_name;         /* the fields of the prompt and its max_tokens */
    bool is_listed;                             /* the prompt is one of a list */
    uint64_t max_tokens, call_id;               /* of choices.c */
};
/* The defaults, where the API says nothing else. */
void wish_begin(struct wish *wish, const struct door *door);
/* temperature, top_p, top_k, min_p, seed, repeat_penalty, ignore_eos. */
bool wish_read_sampling(struct wish *wish, const struct fields *fields, double temperature_max);
/* A text, or a list of texts. */
bool wish_read_stops(struct wish *wish, const struct fields *fields, const char *name);
