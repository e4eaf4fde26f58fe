#include "config/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- Memory -------------------------------------------------------------- */

struct tn_arena_block {
    struct tn_arena_block *next;
    size_t size;
    max_align_t data[];
};

void *tn_arena_alloc(struct tn_arena *arena, size_t size)
{
    struct tn_arena_block *block = calloc(1, sizeof *block + size);

    if (!block)
        return NULL;
    block->next = arena->first;
    block->size = size;
    arena->first = block;
    return block->data;
}

char *tn_arena_copy(struct tn_arena *arena, const char *text, size_t len)
{
    char *copy = tn_arena_alloc(arena, len + 1);

    if (copy)
        memcpy(copy, text, len);
    return copy;
}

/* Overwritten first: it holds secrets. */
void tn_arena_free(struct tn_arena *arena)
{
    while (arena->first) {
        struct tn_arena_block *block = arena->first;

        arena->first = block->next;
        explicit_bzero(block->data, block->size);
        free(block);
    }
}

/* ---- Complaints ---------------------------------------------------------- */

/* In the order of the file, in which they are repaired. */
static void insert_complaint(struct tn_reader *r, unsigned line, const char *text)
{
    unsigned at = r->n_complaints;
    char *copy = at < TN_CONFIG_COMPLAINTS ? tn_arena_copy(r->arena, text, strlen(text)) : NULL;

    if (at >= TN_CONFIG_COMPLAINTS)
        return;
    r->no_memory |= !copy;
    for (; at > 0 && r->lines[at - 1] > line; at--) {
        r->lines[at] = r->lines[at - 1];
        r->complaints[at] = r->complaints[at - 1];
    }
    r->lines[at] = line;
    r->complaints[at] = copy;
}

void tn_complain(struct tn_reader *r, unsigned line, const char *format, ...)
{
    char text[768];
    va_list args;
    int n = line ? snprintf(text, sizeof text, "%.200s:%u: ", r->file, line)
                 : snprintf(text, sizeof text, "%.200s: ", r->file);

    va_start(args, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    /* One line, whatever was quoted in it. */
    tn_text_tame(text, '?');
    insert_complaint(r, line, text);
    r->n_complaints++;
}
