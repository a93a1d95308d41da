/* SPDX-License-Identifier: MIT */
/* What: twice the room each time, so that an element costs O(1) on average. */
#include "tools/trace/array.h"

#include <stdlib.h>

#define ROOM_MIN 1024

void *array_grown(void *array, uint32_t count, uint32_t *room, size_t element_bytes)
{
    if (count < *room) {
        return array;
    }
    uint32_t larger = *room == 0 ? ROOM_MIN : *room * 2;
    void *moved = larger > *room ? realloc(array, larger * element_bytes) : NULL;
    if (moved != NULL) {
        *room = larger;
    }
    return moved;
}
