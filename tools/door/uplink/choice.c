/* SPDX-License-Identifier: MIT */
/* What: the records of choices, and the prompts that those of a request share
 * (tools/door/uplink/choice.h). */
#include "tools/door/uplink/choice.h"

#include "tools/door/answer.h"

struct choice *choices_of(const struct door *door, const struct domain *domain)
{
    return &door->choices[domain->index * door->options.door_calls.number];
}

struct choice *choice_take(struct door *door, struct request *request)
{
    struct choice *choices = choices_of(door, request->domain);
    for (uint32_t i = 0; i < door->options.door_calls.number; i++) {
        struct choice *choice = &choices[i];
        if (!choice->is_used) {
            *choice = (struct choice){.is_used = true, .request = request,
                                      .index = request->choices_count};
            return choice;
        }
    }
    return NULL;
}

void prompt_release(struct prompt *prompt)
{
    if (prompt != NULL && --prompt->holders == 0) {
        buffer_free(&prompt->text);
        memory_give(prompt->ids);
        memory_give(prompt->parts);
        memory_give(prompt);
    }
}

void choice_free(struct choice *choice)
{
    prompt_release(choice->prompt);
    answer_free(choice);
    json_decref(choice->logprobs);
    buffer_free(&choice->content);
    buffer_free(&choice->reasoning);
    for (uint32_t i = 0; i < choice->tool_calls_count; i++) {
        buffer_free(&choice->tool_calls[i].name);
        buffer_free(&choice->tool_calls[i].arguments);
    }
    choice->is_used = false;
}
