/* base/grow.h - an array in memory of its own, which doubles when it is full. */
#ifndef TN_BASE_GROW_H
#define TN_BASE_GROW_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Make room for one more than the n that the array has.  items is the address of the pointer to it,
 * size that of one of them.  False: no memory, and nothing has changed.
 */
static inline bool tn_grow(void *items, size_t *room, size_t n, size_t size)
{
    size_t more = *room ? 2 * *room : 16;
    void *array;

    if (n < *room)
        return true;
    memcpy(&array, items, sizeof array);
    array = realloc(array, more * size);
    if (!array)
        return false;
    memcpy(items, &array, sizeof array);
    *room = more;
    return true;
}

#endif
