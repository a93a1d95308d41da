/* SPDX-License-Identifier: MIT */
/*
 * What: makes a page from one line of a slot's input: a command (page.c), or an HTTP request whose
 * headers are skipped first. Malformed lines are answered too, so that a peer learns the reason.
 * Invariants: the slots here are READING or HEADERS; a page is never empty, and never larger than
 * the room (config/limits.c); no input is echoed.
 * Bounds: O(line) and one page; 514 bytes of stack for the line.
 * Why so little HTTP: probes send GET and a path; the rest of HTTP is attack surface.
 */
#include "appliance/text/request.h"

#include <string.h>
#include <strings.h>

#include "config/base/assert.h"
#include "config/base/text.h"
#include "appliance/text/page.h"

#define HTTP_HEAD_BYTES   160           /* room for the head, before the body */
#define TAIL_BYTES        32            /* kept free for the end of every answer */

STATIC_ASSERT(TEXTREQUEST_PAGE_BYTES_MIN > HTTP_HEAD_BYTES + TAIL_BYTES, "room for an error");

enum http_request { HTTP_HEALTH, HTTP_STATS, HTTP_METRICS, HTTP_NOT_FOUND, HTTP_BAD };

/* ---- answers --------------------------------------------------------------------------------- */

static void start_answer(const struct textport_turn *turn, struct textport_slot *slot,
                         uint32_t first, uint32_t end, bool closes)
{
    ASSERT(slot->state == TEXTPORT_READING || slot->state == TEXTPORT_HEADERS);
    ASSERT(first < end);
    slot->state = TEXTPORT_ANSWERING;
    slot->page_sent = first;
    slot->page_bytes = end;
    slot->closes = closes;
    slot->deadline_us = turn->now_us + TEXTPORT_ANSWER_US;
}

/* Ends a telnet answer: by `end` a script knows that it has all of it. */
static void finish_page(const struct textport_turn *turn, struct textport_slot *slot,
                        struct text *page, bool closes)
{
    page->max += TAIL_BYTES;
    text_add(page, page->cut ? "error answer cut\nend\n" : "end\n");
    start_answer(turn, slot, 0, page->length, closes);
}

static void answer_error(const struct textport_turn *turn, struct textport_slot *slot,
                         const char *error, bool closes)
{
    struct text page;
    text_init(&page, slot->page, turn->page_bytes - TAIL_BYTES);
    text_add(&page, "error ");
    text_add(&page, error);
    text_add(&page, "\n");
    finish_page(turn, slot, &page, closes);
}

static bool is_word(const char *word, const char *line, uint32_t line_bytes)
{
    return strlen(word) == line_bytes && memcmp(word, line, line_bytes) == 0;
}

/* True when the line is this command, in any case. */
static bool is_command(const char *name, const char *line, uint32_t bytes)
{
    return strlen(name) == bytes && strncasecmp(name, line, bytes) == 0;
}

static void answer_command(const struct textport_turn *turn, struct textport_slot *slot,
                           const char *line, uint32_t bytes)
{
    struct text page;
    bool is_agent = is_command(TEXTPAGE_AGENT, line, bytes);
    text_init(&page, slot->page, turn->page_bytes - TAIL_BYTES);
    if (slot->source.is_far && !is_agent && !is_command("health", line, bytes)) {
        answer_error(turn, slot, "from here only " TEXTPAGE_AGENT " and health", true);
        return;
    }
    if (!textpage_render(&page, line, bytes, turn->view, turn->now_us)) {
        answer_error(turn, slot, "unknown command, try help", false);
        return;
    }
    if (is_agent) {
        start_answer(turn, slot, 0, page.length, true);
        return;
    }
    bool quits = page.length == 0;      /* only `quit` has nothing to say */
    finish_page(turn, slot, &page, quits);
}

/* The body is rendered after the room for the head. The head has the body's length, so it is
 * written last, right before the body. */
static void answer_http(const struct textport_turn *turn, struct textport_slot *slot)
{
    static const struct { const char *command, *result, *type; } answers[] = {
        [HTTP_HEALTH] = {"health", "200 OK", "text/plain"},
        [HTTP_STATS] = {"stats", "200 OK", "text/plain"},
        [HTTP_METRICS] = {"metrics", "200 OK", "text/plain; version=0.0.4; charset=utf-8"},
        [HTTP_NOT_FOUND] = {NULL, "404 Not Found", "text/plain"},
        [HTTP_BAD] = {NULL, "400 Bad Request", "text/plain"}};
    ASSERT(slot->request <= HTTP_BAD);
    const char *command = answers[slot->request].command;
    const char *result = answers[slot->request].result;
    char head_bytes[HTTP_HEAD_BYTES];
    struct text head, body;
    text_init(&head, head_bytes, HTTP_HEAD_BYTES);
    text_init(&body, slot->page + HTTP_HEAD_BYTES, turn->page_bytes - HTTP_HEAD_BYTES);
    if (command == NULL) {
        text_add(&body, "only GET /health, GET /stats and GET /metrics\n");
    } else {
        ASSERT(textpage_render(&body, command, (uint32_t)strlen(command), turn->view,
                               turn->now_us));
    }
    if (slot->request == HTTP_HEALTH && !health_serves(turn->view->health)) {
        result = "503 Service Unavailable";
    }
    text_add(&head, "HTTP/1.0 ");
    text_add(&head, result);
    text_add(&head, "\r\nContent-Type: ");
    text_add(&head, answers[slot->request].type);
    text_add(&head, "\r\nContent-Length: ");
    text_add_u64(&head, body.length);
    text_add(&head, "\r\nConnection: close\r\n\r\n");
    ASSERT(!head.cut && !body.cut);
    uint32_t first = HTTP_HEAD_BYTES - head.length;
    memcpy(slot->page + first, head_bytes, head.length);
    start_answer(turn, slot, first, HTTP_HEAD_BYTES + body.length, true);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* True when the line names an HTTP version or begins with GET. */
static bool is_http(const char *line, uint32_t bytes)
{
    return (bytes >= 4 && memcmp(line, "GET ", 4) == 0) ||
           memmem(line, bytes, " HTTP/", 6) != NULL;
}

static uint32_t parse_http(const char *line, uint32_t bytes)
{
    if (bytes < 4 || memcmp(line, "GET ", 4) != 0) {
        return HTTP_BAD;
    }
    const char *target = line + 4;
    const char *space = memchr(target, ' ', bytes - 4);
    uint32_t target_bytes = space != NULL ? (uint32_t)(space - target) : bytes - 4;
    uint32_t version_bytes = bytes - 4 - target_bytes;
    if (version_bytes > 0 && !is_word(" HTTP/1.0", target + target_bytes, version_bytes) &&
        !is_word(" HTTP/1.1", target + target_bytes, version_bytes)) {
        return HTTP_BAD;
    }
    return is_word("/health", target, target_bytes)    ? HTTP_HEALTH
           : is_word("/stats", target, target_bytes)   ? HTTP_STATS
           : is_word("/metrics", target, target_bytes) ? HTTP_METRICS
                                                       : HTTP_NOT_FOUND;
}

/* A version in the request line promises headers; together they have the time of one line. */
static void take_http(const struct textport_turn *turn, struct textport_slot *slot,
                      const char *line, uint32_t bytes)
{
    slot->request = parse_http(line, bytes);
    bool is_near_only = slot->request == HTTP_STATS || slot->request == HTTP_METRICS;
    slot->request = slot->source.is_far && is_near_only ? HTTP_NOT_FOUND : slot->request;
    if (memmem(line, bytes, " HTTP/", 6) == NULL) {
        answer_http(turn, slot);
        return;
    }
    slot->state = TEXTPORT_HEADERS;
    slot->headers_count = 0;
    slot->deadline_us = turn->now_us + TEXTPORT_LINE_US;
}

static void take_request(const struct textport_turn *turn, struct textport_slot *slot,
                         const char *line, uint32_t bytes)
{
    while (bytes > 0 && (line[bytes - 1] == ' ' || line[bytes - 1] == '\t')) {
        bytes--;
    }
    while (bytes > 0 && (line[0] == ' ' || line[0] == '\t')) {
        line++;
        bytes--;
    }
    if (bytes == 0) {
        slot->deadline_us =
            turn->now_us + (textrequest_is_half_line(slot) ? TEXTPORT_LINE_US : TEXTPORT_IDLE_US);
        return;
    }
    turn->stats->text_requests++;
    if (is_http(line, bytes)) {
        take_http(turn, slot, line, bytes);
    } else {
        answer_command(turn, slot, line, bytes);
    }
}

static void take_header(const struct textport_turn *turn, struct textport_slot *slot,
                        uint32_t bytes)
{
    if (bytes == 0) {
        answer_http(turn, slot);
    } else if (++slot->headers_count > TEXTPORT_HEADERS_MAX) {
        slot->request = HTTP_BAD;
        answer_http(turn, slot);
    }
}

static void refuse_long_line(const struct textport_turn *turn, struct textport_slot *slot)
{
    if (slot->state == TEXTPORT_HEADERS) {
        slot->request = HTTP_BAD;
        answer_http(turn, slot);
    } else {
        answer_error(turn, slot, "line too long, at most 512 bytes", true);
    }
}
STATIC_ASSERT(TEXTPORT_LINE_BYTES_MAX == 512, "the text above says 512");

bool textrequest_has_line(const struct textport_slot *slot)
{
    return memchr(slot->input, '\n', slot->input_bytes) != NULL;
}

bool textrequest_is_half_line(const struct textport_slot *slot)
{
    return slot->input_bytes > 0 || slot->telnet != TELNET_DATA;
}

bool textrequest_take_line(const struct textport_turn *turn, struct textport_slot *slot)
{
    char line[TEXTPORT_INPUT_BYTES];
    const char *newline = memchr(slot->input, '\n', slot->input_bytes);
    uint32_t taken = newline != NULL ? (uint32_t)(newline - slot->input) : slot->input_bytes;
    uint32_t bytes = taken > 0 && slot->input[taken - 1] == '\r' ? taken - 1 : taken;
    ASSERT(slot->state == TEXTPORT_READING || slot->state == TEXTPORT_HEADERS);
    if (bytes > TEXTPORT_LINE_BYTES_MAX) {
        refuse_long_line(turn, slot);
        return true;
    }
    if (newline == NULL) {
        return false;
    }
    memcpy(line, slot->input, bytes);
    slot->input_bytes -= taken + 1;
    memmove(slot->input, newline + 1, slot->input_bytes);
    if (slot->state == TEXTPORT_HEADERS) {
        take_header(turn, slot, bytes);
    } else {
        take_request(turn, slot, line, bytes);
    }
    return true;
}

void textrequest_finish(const struct textport_turn *turn, struct textport_slot *slot)
{
    ASSERT(slot->state == TEXTPORT_HEADERS && slot->ended);
    answer_http(turn, slot);
}
