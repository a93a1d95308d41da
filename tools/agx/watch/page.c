/* SPDX-License-Identifier: MIT */
#include "tools/agx/watch/page.h"

#include <stdlib.h>
#include <string.h>

#include "tools/agx/printable.h"

/* Cuts the next line into words; returns how many. 0 at the end of the page. */
static uint32_t cut_line(struct page *page, char *words[PAGE_WORDS_MAX])
{
    char *line = page->next, *rest = NULL;
    uint32_t count = 0;
    size_t bytes = strcspn(line, "\n");
    if (line[bytes] == '\0' || strncmp(line, "end\n", 4) == 0) {
        return 0;
    }
    line[bytes] = '\0';
    page->next = line + bytes + 1;
    printable_line(line, line, bytes + 1);
    for (char *word = strtok_r(line, " ", &rest); word != NULL && count < PAGE_WORDS_MAX;
         word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    return count;
}

void page_begin(struct page *page, char *text)
{
    page->next = text;
    page->titles_count = cut_line(page, page->titles);
}

bool page_next(struct page *page)
{
    page->words_count = cut_line(page, page->words);
    return page->words_count > 0;
}

const char *page_word(const struct page *page, const char *title)
{
    for (uint32_t i = 0; i < page->titles_count && i < page->words_count; i++) {
        if (strcmp(page->titles[i], title) == 0) {
            return page->words[i];
        }
    }
    return "-";
}

uint64_t page_number(const struct page *page, const char *title)
{
    const char *word = page_word(page, title);
    return strcmp(word, "-") == 0 ? UINT64_MAX : strtoull(word, NULL, 10);
}

const char *page_field(const struct page *page, const char *name)
{
    size_t bytes = strlen(name);
    for (uint32_t i = 0; i < page->words_count; i++) {
        if (strncmp(page->words[i], name, bytes) == 0 && page->words[i][bytes] == '=') {
            return page->words[i] + bytes + 1;
        }
    }
    return "";
}

uint64_t page_value(const char *text, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, bytes) == 0 && line[bytes] == ' ') {
            return strtoull(line + bytes + 1, NULL, 10);
        }
    }
    return 0;
}
