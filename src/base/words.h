/* base/words.h - lists of words that are known somewhere, as people read them: "name, wait". */
#ifndef TN_BASE_WORDS_H
#define TN_BASE_WORDS_H

#include <stdbool.h>
#include <string.h>

/* Is it one of them? */
static inline bool tn_words_have(const char *words, const char *word)
{
    size_t n = strlen(word);

    while (*words) {
        size_t len = strcspn(words, ",");

        if (len == n && memcmp(words, word, n) == 0)
            return true;
        words += len;
        words += strspn(words, ", ");
    }
    return false;
}

#endif
