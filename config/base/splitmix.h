/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What: numbers by lot, the same ones from the same seed (Vigna's SplitMix64). Who sees one of them
 * can tell the others.
 */
#include <stdint.h>

#define SPLITMIX_STRIDE UINT64_C(0x9e3779b97f4a7c15)

/* The number at a position of the list that belongs to the seed. */
static inline uint64_t splitmix_at(uint64_t seed, uint64_t position)
{
    uint64_t mixed = seed + (position + 1) * SPLITMIX_STRIDE;
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* One after another; the state is a seed at first. */
static inline uint64_t splitmix_next(uint64_t *state)
{
    uint64_t number = splitmix_at(*state, 0);
    *state += SPLITMIX_STRIDE;
    return number;
}
