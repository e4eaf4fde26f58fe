/* golden_words.h - a line of a script, cut into words. */
#ifndef GOLDEN_WORDS_H
#define GOLDEN_WORDS_H

#include "golden_world.h"

#define WORDS 16

struct words {
    char text[512];
    char *word[WORDS];
    unsigned n, at; /* at: the first one that was not taken yet */
    struct world *w;
};

void words_split(struct words *words, const char *line);
/* The next word, or "". */
const char *words_take(struct words *words);
bool words_take_if(struct words *words, const char *word);
/* The value of NAME=value, wherever it stands, taken; NULL if it does not. */
const char *words_option(struct words *words, const char *name);
/* The same, copied to where it belongs; untouched if it does not stand there. */
void words_copy(struct words *words, const char *name, char *to, size_t size);
/* Seconds, as in "11.5". */
int64_t words_time(struct words *words, const char *text);
/* The duration or the number of NAME=..., or the other one.  "max-2" is 2^53 - 3. */
int64_t words_duration(struct words *words, const char *name, int64_t other);
uint64_t words_number(struct words *words, const char *name, uint64_t other);
/* Plan the timing that ttl=, renew= ... ask for, and tell it unless it is the
 * usual one.  False, and the reason told, if it is refused. */
bool words_timing(struct words *words, struct tn_timing *timing);

/* golden_candidate.c */
void candidate_add(struct words *words);
/* NULL if there is none, or no name. */
struct candidate *candidate_named(struct world *w, const char *name);
void candidate_obey(struct words *words, struct candidate *c);

#endif
