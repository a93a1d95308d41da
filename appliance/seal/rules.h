/* SPDX-License-Identifier: MIT */
#pragma once
/* What: the words of a table of rules (filter.h), for the files that have one. */
#include <sys/syscall.h>

#include "appliance/seal/filter.h"

#define ALLOW(name, ...)    {SYS_##name, {__VA_ARGS__}, FILTER_ALLOW}
#define KILL(name, ...)     {SYS_##name, {__VA_ARGS__}, FILTER_KILL}
#define REFUSE(name, ...)   {SYS_##name, {__VA_ARGS__}, FILTER_REFUSE}
#define TRAP(name, ...)     {SYS_##name, {__VA_ARGS__}, FILTER_TRAP}
#define NO_CALL(name, ...)  {SYS_##name, {__VA_ARGS__}, FILTER_NO_CALL}
#define IS(argument, value) {FILTER_VALUE, argument, value}
#define HAS(argument, bits) {FILTER_BITS, argument, bits}
#define ON(descriptor)      {FILTER_KNOWN, 0, descriptor}
#define BETWEEN(first, end) {FILTER_FROM, 0, first}, {FILTER_BELOW, 0, end}

#define RULES(table, otherwise) {table, sizeof table / sizeof table[0], otherwise}
