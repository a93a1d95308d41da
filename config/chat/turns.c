/* SPDX-License-Identifier: MIT */
/*
 * What: formats that write each message the same way: what comes before it, the message, what comes
 * after it. A format is a row of the table.
 */
#include "config/chat/render.h"

enum default_system { SAID_IF_FIRST_IS_OTHER, SAID_IF_THERE_IS_NONE };

struct row {
    const char *before[3], *after[3];   /* of the system, the user, the assistant */
    const char *answer;                 /* before the answer */
    const char *stop;
    bool strips;                        /* messages are stripped */
    enum default_system rule;
};

static const struct row rows[CHAT_FORMATS] = {
    [CHAT_PLAIN] = {.before = {"", "User: ", "Bot: "}, .after = {"\n", "\n", "\n"},
                    .answer = "Bot:", .stop = "\nUser:", .strips = true},
    [CHAT_CHATML] = {.before = {"<|im_start|>system\n", "<|im_start|>user\n",
                                "<|im_start|>assistant\n"},
                     .after = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"},
                     .answer = "<|im_start|>assistant\n"},
    [CHAT_CHATML_BOS] = {.before = {"<|im_start|>system\n", "<|im_start|>user\n",
                                    "<|im_start|>assistant\n"},
                         .after = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"},
                         .answer = "<|im_start|>assistant\n"},
    [CHAT_LLAMA3] = {.before = {"<|start_header_id|>system<|end_header_id|>\n\n",
                                "<|start_header_id|>user<|end_header_id|>\n\n",
                                "<|start_header_id|>assistant<|end_header_id|>\n\n"},
                     .after = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
                     .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n",
                     .strips = true},
    [CHAT_MISTRAL_V7] = {.before = {"[SYSTEM_PROMPT] ", "[INST] ", " "},
                         .after = {"[/SYSTEM_PROMPT]", "[/INST]", CHAT_EOS}, .answer = ""},
    [CHAT_MISTRAL_V7T] = {.before = {"[SYSTEM_PROMPT]", "[INST]", ""},
                          .after = {"[/SYSTEM_PROMPT]", "[/INST]", CHAT_EOS}, .answer = ""},
    [CHAT_ZEPHYR] = {.before = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
                     .after = {CHAT_EOS "\n", CHAT_EOS "\n", CHAT_EOS "\n"},
                     .answer = "<|assistant|>\n"},
    [CHAT_TULU] = {.before = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
                   .after = {"\n", "\n", CHAT_EOS "\n"}, .answer = "<|assistant|>\n"},
    [CHAT_DEEPSEEK] = {.before = {"", "User: ", "Assistant: "}, .after = {"\n\n", "\n\n", CHAT_EOS},
                       .answer = "Assistant:"},
    [CHAT_DEEPSEEK_CODER] = {.before = {"", "### Instruction:\n", "### Response:\n"},
                             .after = {"", "\n", "\n<|EOT|>\n"}, .answer = "### Response:\n",
                             .rule = SAID_IF_THERE_IS_NONE},
};

const char *chat_format_stop(enum chat_id id)
{
    return rows[id].stop;
}

static bool says_default(const struct chat *chat, enum default_system rule)
{
    uint32_t looked_at = rule == SAID_IF_THERE_IS_NONE ? chat->messages_count : 1;
    for (uint32_t i = 0; i < looked_at; i++) {
        if (chat->messages[i].role == CHAT_SYSTEM) {
            return false;
        }
    }
    return true;
}

enum chat_result chat_render_turns(struct chat_work *work)
{
    const struct chat *chat = work->chat;
    const struct row *row = &rows[work->format->id];
    if ((chat_format_traits(work->format->id) & CHAT_TRAIT_BOS) != 0) {
        chat_say(work, CHAT_BOS);
    }
    if (work->format->system[0] != '\0' && says_default(chat, row->rule)) {
        chat_say(work, row->before[CHAT_SYSTEM]);
        chat_say(work, work->format->system);
        chat_say(work, row->after[CHAT_SYSTEM]);
    }
    for (uint32_t i = 0; i < chat->messages_count; i++) {
        const struct chat_message *message = &chat->messages[i];
        chat_say(work, row->before[message->role]);
        chat_put(work, row->strips ? chat_text_strip(message->content) : message->content);
        chat_say(work, row->after[message->role]);
    }
    chat_say(work, row->answer);
    return CHAT_OK;
}
