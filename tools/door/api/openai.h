/* SPDX-License-Identifier: MIT */
#pragma once
/* What: what OpenAI's APIs have in common. */
#include "tools/door/api/messages.h"

/* {"error": {"message", "type", "param", "code"}} */
json_t *openai_refuse(const struct refusal *refusal);
/* stream, stream_options, n, model, and the sampling that all have; refuses what is known and not
 * supported. False after request_refuse(). */
bool openai_read(struct request *request, const struct fields *fields, struct wish *wish);
/* tool_choice: whether the model may call the tools, or must. False after request_refuse(). */
bool openai_read_tool_choice(const struct fields *fields, struct talk *talk);
/* Of all choices: prompt_tokens, each prompt once, completion_tokens, total_tokens,
 * prompt_tokens_details. */
json_t *openai_usage(const struct request *request);
/* "stop", "length", "tool_calls". */
const char *openai_finish(const struct choice *choice);
/* The last event of a stream that something ended early. */
void openai_send_refusal(struct request *request);
