/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: a page of the text port, read in place: a table, whose first line names its columns, or
 * lines of a name and a number. Columns are found by name, so that a page may get new ones. Words
 * pass the filter for terminals here.
 */
#include <stdbool.h>
#include <stdint.h>

#define PAGE_WORDS_MAX 40

struct page {
    char *next;                     /* line; what lies before it is cut into words */
    char *titles[PAGE_WORDS_MAX], *words[PAGE_WORDS_MAX];
    uint32_t titles_count, words_count;
};

/* Reads the titles. `text` is the answer, which is changed. */
void page_begin(struct page *page, char *text);
/* The next line of the table; false: there is none. */
bool page_next(struct page *page);
/* The word of this line below this title; a dash where there is none. */
const char *page_word(const struct page *page, const char *title);
/* The same as a number; UINT64_MAX for a dash. */
uint64_t page_number(const struct page *page, const char *title);
/* The value of a word NAME=VALUE of this line; empty: there is none. */
const char *page_field(const struct page *page, const char *name);
/* The number behind this name in lines of both; 0: there is no such line. */
uint64_t page_value(const char *text, const char *name);
