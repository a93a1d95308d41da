/* SPDX-License-Identifier: MIT */
#include "tools/agx/refusal.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "config/base/status.h"

/*
 * What: fields of CALL and PROGRAM_START are options of agx, and a user knows them by these names.
 * Fields of other frames, which no option sets, keep the names of the protocol.
 */

static const struct {
    const char *field, *option;
    const char *rule;           /* in place of an interval that only the protocol explains */
} options[] = {
    {"class", "--class", "a name of at most 32 printable ASCII characters, without blanks"},
    {"stop_texts", "--stop", "a text of 1 to 64 bytes of UTF-8; at most four of them"},
    {"stop_ids", "--stop-id", NULL},
    {"prompt", "the prompt", NULL},
    {"max_tokens", "--max-tokens", NULL},
    {"temperature", "--temperature", "0, for the most likely token always, or 0.01 to 100"},
    {"top_k", "--top-k", NULL},
    {"top_p", "--top-p", NULL},
    {"min_p", "--min-p", NULL},
    {"repeat_penalty", "--repeat-penalty", NULL},
    {"presence_penalty", "--presence-penalty", NULL},
    {"frequency_penalty", "--frequency-penalty", NULL},
    {"logit_bias", "--logit-bias", NULL},
    {"bias", "--logit-bias", NULL},
    {"top_logprobs", "--logprobs", NULL},
    {"seed", "--seed", NULL},
    {"deadline", "--deadline-ms", NULL},
};
#define OPTIONS_COUNT (sizeof options / sizeof options[0])

/* OPTIONS_COUNT: no option sets this field. */
static size_t find_option(const struct agx_fault *fault)
{
    bool is_ours = strcmp(fault->frame, "CALL") == 0 || strcmp(fault->frame, "PROGRAM_START") == 0;
    size_t at = 0;
    while (at < OPTIONS_COUNT && (!is_ours || strcmp(options[at].field, fault->field) != 0)) {
        at++;
    }
    return at;
}

static void write_bound(const struct agx_fault *fault, uint64_t value, FILE *out)
{
    if (fault->in_thousandths) {
        fprintf(out, "%.3f", (double)(int64_t)value / 1000);
    } else {
        fprintf(out, "%" PRIu64, value);
    }
}

static void write_interval(const struct agx_fault *fault, FILE *out)
{
    if (fault->min != 0 || fault->max != 0) {
        fprintf(out, " (found ");
        write_bound(fault, fault->found, out);
        fprintf(out, ", allowed ");
        write_bound(fault, fault->min, out);
        fprintf(out, " to ");
        write_bound(fault, fault->max, out);
        fprintf(out, ")");
    }
}

void refusal_write(const struct agx_fault *fault, FILE *out)
{
    size_t at = find_option(fault);
    bool is_length = status_from_wire(fault->code) == STATUS_BAD_PROMPT_LENGTH;
    if (at < OPTIONS_COUNT && !is_length) {
        fprintf(out, "%s: ", options[at].option);
    } else if (strcmp(fault->field, "none") != 0 && !is_length) {
        fprintf(out, "%s, field %s: ", fault->frame, fault->field);
    }
    if (at < OPTIONS_COUNT && options[at].rule != NULL) {
        fprintf(out, "expected %s", options[at].rule);
    } else if (is_length) {
        /* Of a text the appliance counts no more tokens than it takes to refuse it. */
        bool is_flow = strcmp(fault->frame, "FLOW_OPEN") == 0;
        fprintf(out, "%s not fit the context: %" PRIu64 " tokens%s, allowed %" PRIu64 " to %"
                PRIu64, is_flow ? "max= of an llm does" : "the prompt and --max-tokens do",
                fault->found, is_flow ? "" : " or more", fault->min, fault->max);
    } else {
        fprintf(out, "%s", fault->text);
        write_interval(fault, out);
    }
    if (fault->retry_ms != 0) {
        fprintf(out, "; try again in %" PRIu32 " ms", fault->retry_ms);
    }
    fprintf(out, "\n");
}
