/*
 * config/reader.h - what every part of the configuration reader holds in its
 * hands: memory that is freed at once, complaints, and the world outside.
 */
#ifndef TN_CONFIG_READER_H
#define TN_CONFIG_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/status.h"

/* A configuration is written by people; what is larger than this is not one. */
#define TN_CONFIG_BYTES_MAX  (4 * 1024 * 1024)
#define TN_CONFIG_TEXT_MAX   4096 /* bytes of one value, with its references put in */
#define TN_CONFIG_COMPLAINTS 20   /* that are kept; the rest is counted */

/* Allocations that live as long as the configuration. */
struct tn_arena {
    struct tn_arena_block *first;
};
/* Zeroed; NULL when memory has run out. */
void *tn_arena_alloc(struct tn_arena *arena, size_t size);
char *tn_arena_copy(struct tn_arena *arena, const char *text, size_t len);
void tn_arena_free(struct tn_arena *arena);

/* A value, and what may be shown of it: for one that holds references to
 * variables or files, the references. */
struct tn_text {
    const char *text; /* NULL: not given */
    const char *shown;
};

/* Where references lead.  arg is passed on. */
struct tn_config_world {
    void *arg;
    /* A variable of the environment; NULL if there is none. */
    const char *(*variable)(void *arg, const char *name);
    /* The first line of a file, malloc'ed; NULL with err set. */
    char *(*file)(void *arg, const char *path, struct tenure_error *err);
    /* OPTIONAL: is there a store for this URL?  Else with err set. */
    enum tenure_status (*store)(void *arg, const char *url, struct tenure_error *err);
    /* OPTIONAL: this election alone is wanted; the others are neither judged nor kept. */
    const char *only;
};

struct tn_reader {
    struct tn_arena *arena;
    const char *file; /* its name, for messages */
    const struct tn_config_world *world;
    char *complaints[TN_CONFIG_COMPLAINTS]; /* "FILE:LINE: what is wrong, and the fix" */
    unsigned lines[TN_CONFIG_COMPLAINTS];   /* in rising order */
    unsigned n_complaints;                  /* may be more than are kept */
    bool store_missing; /* said once: elections without a store mostly lack the same line */
    bool no_memory;
};

/* Add "FILE:LINE: text".  line 0: of the whole file. */
void tn_complain(struct tn_reader *r, unsigned line, const char *format, ...) TENURE_PRINTF(3, 4);

#endif
