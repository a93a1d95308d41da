/* SPDX-License-Identifier: MIT */
/* What: the choice of a chat format, and what is said when there is none. */
#include "tools/agx/chat/format.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "net/utf8.h"

static enum agx_result ask(struct dial *dial)
{
    struct agx_event event;
    enum agx_result result = agx_chat_ask(&dial->agx, 1);
    while (result == AGX_OK) {
        result = agx_next(&dial->agx, &event, DIAL_TIMEOUT_MS);
        if (result == AGX_OK && event.kind == AGX_CHAT) {
            return AGX_OK;
        }
    }
    return result == AGX_AGAIN ? AGX_ERROR_TIMEOUT : result;
}

static int refuse(const char *what)
{
    fprintf(stderr, "agx: %s; --format chooses one, `agx chat --help` lists them\n", what);
    return EXIT_USAGE;
}

/* The appliance's words are not trusted: they become part of a prompt. */
static bool is_text(const char *text)
{
    return utf8_is_valid(text, (uint32_t)strlen(text));
}

int format_choose(struct dial *dial, const char *name, struct chat_format *format)
{
    enum agx_result result = ask(dial);
    const struct agx_chat *chat = &dial->agx.chat;
    if (result != AGX_OK) {
        return dial_fail(&dial->agx, result, "chat format");
    }
    if (!is_text(chat->bos) || !is_text(chat->eos) || !is_text(chat->system)) {
        return dial_fail(NULL, AGX_ERROR_PROTOCOL, "chat format");
    }
    memset(format, 0, sizeof *format);
    format->id = chat_format_find(name != NULL ? name : chat->format);
    snprintf(format->bos, sizeof format->bos, "%.*s", CHAT_TOKEN_BYTES - 1, chat->bos);
    snprintf(format->eos, sizeof format->eos, "%.*s", CHAT_TOKEN_BYTES - 1, chat->eos);
    if (format->id == CHAT_FORMATS) {
        return refuse(name != NULL ? "there is no chat format of this name"
                                   : "this client does not have the model's chat format");
    }
    if (name == NULL && chat->template_is == AGX_TEMPLATE_UNKNOWN) {
        return refuse("the model's chat template is not one that is known");
    }
    if (strcmp(chat->format, chat_format_name(format->id)) == 0) {
        snprintf(format->system, sizeof format->system, "%.*s", CHAT_SYSTEM_BYTES - 1,
                 chat->system);
    }
    return EXIT_COMPLETE;
}

void format_list(char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "\nformats:\n");
    for (uint32_t id = 0; id < CHAT_FORMATS && used < bytes; id++) {
        used += (size_t)snprintf(text + used, bytes - used, "  %-18s%s\n",
                                 chat_format_name((enum chat_id)id),
                                 chat_format_help((enum chat_id)id));
    }
}

void format_today(char date[16])
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now = time(NULL);
    struct tm day;
    localtime_r(&now, &day);
    snprintf(date, 16, "%02u %s %u", (unsigned)day.tm_mday % 100, months[day.tm_mon % 12],
             (unsigned)(day.tm_year + 1900) % 10000);
}
