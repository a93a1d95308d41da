/* SPDX-License-Identifier: MIT */
#include "selftest/post/fault.h"

#include <stdarg.h>
#include <stdio.h>

bool post_pair_differs(struct post_pair *pair)
{
    const volatile uint64_t *found = pair->found;
    for (uint64_t i = pair->next; i < pair->count; i++) {
        uint64_t read = found[i];
        if (read != pair->expected[i]) {
            pair->read = read;
            pair->next = i + 1;
            return true;
        }
    }
    return false;
}

uint32_t post_fault_bit(const struct post_fault *fault)
{
    return (uint32_t)__builtin_ctzll(fault->expected ^ fault->found);
}

/* The place for one more fault, or NULL when it is only counted. */
static struct post_fault *next_kept(struct post_faults *faults)
{
    uint64_t at = faults->count++;
    return at < POST_FAULTS_KEPT ? &faults->kept[at] : NULL;
}

void post_fault_word(struct post_faults *faults, const struct post_pair *pair, const char *where,
                     ...)
{
    struct post_fault *fault = next_kept(faults);
    if (fault == NULL) {
        return;
    }
    uint64_t at = post_pair_at(pair);
    *fault = (struct post_fault){
        .word = &pair->found[at], .expected = pair->expected[at], .found = pair->read};
    va_list arguments;
    va_start(arguments, where);
    vsnprintf(fault->where, sizeof fault->where, where, arguments);
    va_end(arguments);
}

void post_fault_at(struct post_faults *faults, const struct post_fault *found, const char *where,
                   ...)
{
    struct post_fault *fault = next_kept(faults);
    if (fault == NULL) {
        return;
    }
    *fault = *found;
    va_list arguments;
    va_start(arguments, where);
    vsnprintf(fault->where, sizeof fault->where, where, arguments);
    va_end(arguments);
}

void post_fault_say(struct post_faults *faults, const char *sentence, ...)
{
    struct post_fault *fault = next_kept(faults);
    if (fault == NULL) {
        return;
    }
    *fault = (struct post_fault){.word = NULL};
    va_list arguments;
    va_start(arguments, sentence);
    vsnprintf(fault->where, sizeof fault->where, sentence, arguments);
    va_end(arguments);
}

void post_faults_add(struct post_faults *faults, const struct post_faults *more)
{
    for (uint64_t i = 0; i < more->count; i++) {
        struct post_fault *fault = next_kept(faults);
        if (fault != NULL && i < POST_FAULTS_KEPT) {
            *fault = more->kept[i];
        }
    }
}

static void print_fault(const struct post_fault *fault, const char *check)
{
    if (fault->word == NULL) {
        printf("  %s: %s\n", check, fault->where);
        return;
    }
    printf("  %s: %s: address %p, bit %u: expected %016llx, found %016llx\n", check, fault->where,
           (const void *)fault->word, post_fault_bit(fault), (unsigned long long)fault->expected,
           (unsigned long long)fault->found);
}

void post_faults_print(const struct post_faults *faults, const char *check)
{
    uint64_t kept = faults->count < POST_FAULTS_KEPT ? faults->count : POST_FAULTS_KEPT;
    for (uint64_t i = 0; i < kept; i++) {
        print_fault(&faults->kept[i], check);
    }
    if (faults->count > kept) {
        printf("  %s: and %llu more\n", check, (unsigned long long)(faults->count - kept));
    }
}
