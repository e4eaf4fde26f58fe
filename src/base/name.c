#include "base/name.h"

#include <stdbool.h>
#include <string.h>

#include "tenure/elector.h"
#include "tenure/store.h"

#define TEXT(n)   #n
#define DIGITS(n) TEXT(n)

/* Is one of the segments behind the first this word? */
static bool has_segment(const char *name, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = name; (p = strchr(p, '/'));) {
        if (strncmp(++p, word, len) == 0 && (p[len] == '/' || !p[len]))
            return true;
    }
    return false;
}

const char *tn_name_fault(const char *name)
{
    if (!name || strlen(name) > TENURE_NAME_MAX || !tenure_key_valid(name))
        return "letters, digits, '.', '_', '-' and '/' inside, at most " DIGITS(
            TENURE_NAME_MAX) " bytes";
    /* web/state/jobs/lease would be a document of web, web/candidates/lease a candidate. */
    if (has_segment(name, "state") || has_segment(name, "candidates"))
        return "no part after a '/' may be 'state' or 'candidates', which other keys use";
    return NULL;
}
