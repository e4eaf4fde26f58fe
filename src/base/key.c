#include "base/key.h"

#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/sum.h"

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

/* ---- Spelling ------------------------------------------------------------ */

void tn_key_of(const char *name, const char *tail, char key[TENURE_KEY_MAX + 1])
{
    snprintf(key, TENURE_KEY_MAX + 1, "%s%s", name, tail);
}

/* Short enough for any name, also of builds that took 200 bytes of the 255 of a key. */
void tn_key_candidate(const char *name, const char *id, char key[TENURE_KEY_MAX + 1])
{
    static const uint64_t start = UINT64_C(1469598103934665603);
    char segment[48];
    size_t n = 0;
    bool same = strlen(id) <= 40;
    size_t max = same ? 40 : 24;

    for (; id[n] && n < max; n++) {
        segment[n] = is_plain(id[n]) || (id[n] == '.' && n > 0) ? id[n] : '_';
        same = same && segment[n] == id[n];
    }
    segment[n] = '\0';
    if (!same)
        snprintf(segment + (n < 24 ? n : 24), 18, "-%016llx",
                 (unsigned long long)tn_sum(start, id, strlen(id)));
    snprintf(key, TENURE_KEY_MAX + 1, "%s" TN_KEY_CANDIDATES "%s", name, segment);
}

/* Append id to key at n, escaped.  False if it does not fit. */
static bool append_id(char key[TENURE_KEY_MAX + 1], size_t n, const char *id)
{
    for (const char *p = id; *p; p++) {
        bool as_is = is_plain(*p) || (*p == '.' && p != id);

        if (n + (as_is ? 1 : 3) > TENURE_KEY_MAX)
            return false;
        if (as_is)
            key[n++] = *p;
        else
            n += (size_t)sprintf(key + n, "_%02x", (unsigned char)*p);
    }
    key[n] = '\0';
    return true;
}

enum tenure_status tn_key_collection(const char *name, const char *collection,
                                     char key[TENURE_KEY_MAX + 1], struct tenure_error *err)
{
    size_t n = strlen(name) + strlen(TN_KEY_STATE) + strlen(collection);

    if (n <= TENURE_KEY_MAX - 2)
        stpcpy(stpcpy(stpcpy(key, name), TN_KEY_STATE), collection);
    if (n > TENURE_KEY_MAX - 2 || !tenure_key_valid(key) || strchr(collection, '/'))
        return tenure_fail(err, TENURE_INVALID,
                           "'%.60s' is not a name for a collection: use letters, digits, '.', '_' "
                           "and '-'",
                           collection);
    return TENURE_OK;
}

enum tenure_status tn_key_document(const char *name, const char *collection, const char *id,
                                   char key[TENURE_KEY_MAX + 1], struct tenure_error *err)
{
    enum tenure_status status = tn_key_collection(name, collection, key, err);

    if (status)
        return status;
    size_t n = strlen(key);
    key[n++] = '/';
    if (!*id || !append_id(key, n, id))
        return tenure_fail(err, TENURE_INVALID,
                           "'%.60s' is empty or too long for the id of a document", id);
    return TENURE_OK;
}

void tn_key_holder(const char *name, unsigned place, char election[TENURE_KEY_MAX + 1])
{
    if (place <= 1)
        snprintf(election, TENURE_KEY_MAX + 1, "%s", name);
    else
        snprintf(election, TENURE_KEY_MAX + 1, "%s" TN_KEY_HOLDERS "%u", name, place);
}

enum tenure_status tn_key_item(const char *name, const char *folder, const char *id,
                               char key[TENURE_KEY_MAX + 1], struct tenure_error *err)
{
    size_t n = strlen(name) + strlen(folder);

    if (n < TENURE_KEY_MAX)
        stpcpy(stpcpy(key, name), folder);
    if (n >= TENURE_KEY_MAX || !*id || !append_id(key, n, id))
        return tenure_fail(err, TENURE_INVALID,
                           "'%.60s' is empty or too long: with the group's name a key has at most "
                           "%d bytes",
                           id, TENURE_KEY_MAX);
    return TENURE_OK;
}

void tn_key_page(const char *name, unsigned page, char key[TENURE_KEY_MAX + 1])
{
    snprintf(key, TENURE_KEY_MAX + 1, "%s" TN_KEY_CATALOGUE "/%04u", name, page);
}

/* ---- Reading ------------------------------------------------------------- */

bool tn_key_is(const char *key, const char *tail, size_t *name_len)
{
    size_t n = strlen(key), t = strlen(tail);

    if (n <= t || strcmp(key + n - t, tail) != 0)
        return false;
    if (name_len)
        *name_len = n - t;
    return true;
}

size_t tn_key_below(const char *key, const char *folder)
{
    const char *at = strstr(key, folder);

    return at ? (size_t)(at - key) : 0;
}

/* Is the segment that ends at `end` the word "state"?  Not if the key begins with it. */
static bool is_state(const char *key, const char *end)
{
    size_t n = strlen(TN_KEY_STATE) - 1;

    return (size_t)(end - key) > n && memcmp(end - n, TN_KEY_STATE, n) == 0;
}

const char *tn_key_collection_end(const char *key)
{
    const char *last = strrchr(key, '/');
    const char *middle = last ? memrchr(key, '/', (size_t)(last - key)) : NULL;

    if (middle && is_state(key, middle))
        return last;
    return last && is_state(key, last) ? key + strlen(key) : NULL;
}

bool tn_key_document_id(const char *segment, char id[TENURE_KEY_MAX + 1])
{
    char *to = id;

    for (const char *p = segment; *p; p++) {
        uint8_t byte;
        char digits[3];

        if (*p != '_') {
            *to++ = *p;
            continue;
        }
        if (!p[1] || !p[2])
            return false;
        snprintf(digits, sizeof digits, "%.2s", p + 1);
        if (!tn_hex_decode(digits, &byte, 1) || byte == 0)
            return false;
        *to++ = (char)byte;
        p += 2;
    }
    *to = '\0';
    return to != id;
}

void tn_key_pass_below(char key[TENURE_KEY_MAX + 1], size_t len)
{
    /* No key holds a byte above 'z'. */
    memset(key + len, 'z', TENURE_KEY_MAX - len);
    key[len] = '/';
    key[TENURE_KEY_MAX] = '\0';
}
