/*
 * config/keys.h - a section of the configuration is a table of keys; this reads
 * a mapping by such a table, and complains about everything else in it.
 *
 * Names are compared without case, '_' and '-', so that lease_duration,
 * leaseDuration, LeaseDuration and lease-duration are one key.  A duration may
 * carry its unit in its name: heartbeat_interval_seconds: 10.
 */
#ifndef TN_CONFIG_KEYS_H
#define TN_CONFIG_KEYS_H

#include "config/yaml.h"

#define TN_KEYS_MAX 48 /* of one table */

enum tn_key_type {
    TN_KEY_TEXT,    /* struct tn_text; references are followed */
    TN_KEY_SECRET,  /* struct tn_text; and file: */
    TN_KEY_COMMAND, /* struct tn_text; a shell command, whose ${} is the shell's */
    TN_KEY_MS,      /* int64_t; whole milliseconds from least to most */
    TN_KEY_NS,      /* int64_t; 0 allowed */
    TN_KEY_INT,     /* int64_t */
    TN_KEY_BOOL,    /* bool */
    TN_KEY_YES,     /* bool; only true is accepted, note says why */
    TN_KEY_WORD,    /* int: the place in words */
    TN_KEY_SIGNAL,  /* int */
    TN_KEY_PERCENT, /* uint32_t, ppm */
    TN_KEY_TREE,    /* const struct tn_yaml *: looked at by somebody else */
};

struct tn_key {
    const char *name; /* as it is documented */
    const char *also; /* other names, with spaces between; or NULL */
    enum tn_key_type type;
    size_t at; /* offset in the section's struct */
    int64_t least, most;
    const char *const *words; /* ends with NULL */
    const char *note;
};

/* Which node gave which key of a table. */
struct tn_seen {
    const struct tn_yaml *node[TN_KEYS_MAX];
};

/*
 * Read map into the struct at `into`.  path is what stands before a key in
 * messages ("coordinate").  keys ends with a NULL name.  seen may come from an
 * earlier call: then keys are added to those.
 */
void tn_keys_take(struct tn_reader *r, const struct tn_yaml *map, const char *path,
                  const struct tn_key *keys, struct tn_seen *seen, void *into);
/* The line of the key at that offset; or_line if it was not given. */
unsigned tn_keys_line(const struct tn_key *keys, const struct tn_seen *seen, size_t at,
                      unsigned or_line);
/* One value by itself; see the types.  false: with a complaint. */
bool tn_key_take(struct tn_reader *r, const struct tn_yaml *node, const char *path,
                 const struct tn_key *key, void *into);

/* Without case, '_' and '-'. */
bool tn_key_same(const char *a, const char *b);
/* " (did you mean 'x'?)" or "", for a word that is none of those in list (spaces between). */
const char *tn_did_you_mean(const char *word, const char *list, char *out, size_t size);

#endif
