/* Names: of objects by keys, of versions. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/key.h"
#include "store/kube/kube.h"

#define HEAD    "tenure-"
#define KEY_END 100 /* no more of a key than up to there */

__extension__ typedef unsigned __int128 wide;

/* FNV-1a of 128 bits.  Every object also holds its key, so a collision is told, not believed. */
void tn_kube_hash(const char *const *parts, size_t n, uint8_t out[16])
{
    const wide prime = ((wide)1 << 88) + 0x13b;
    wide sum = ((wide)0x6c62272e07bb0142u << 64) | 0x62b821756295c58du;

    for (size_t i = 0; i < n; i++) {
        for (const char *p = parts[i];; p++) {
            sum = (sum ^ (unsigned char)*p) * prime;
            if (!*p)
                break;
        }
    }
    if (!sum)
        sum = 1;
    for (int i = 15; i >= 0; i--, sum >>= 8)
        out[i] = (uint8_t)sum;
}

bool tn_kube_is_record(const char *key)
{
    size_t name;

    return tn_key_is(key, TN_KEY_LEASE, &name) && !memchr(key, '/', name);
}

bool tn_kube_name_valid(const char *name, size_t max, bool dots)
{
    size_t n = strlen(name);

    if (n == 0 || n > max)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool inner = i > 0 && i < n - 1 && name[i - 1] != '.' && name[i + 1] != '.';

        if ((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9'))
            continue;
        if (!inner || (name[i] != '-' && !(dots && name[i] == '.')))
            return false;
    }
    return true;
}

static char allowed(char c)
{
    return isalnum((unsigned char)c) ? (char)tolower((unsigned char)c) : '-';
}

bool tn_kube_name_under(const char *name, const char *prefix)
{
    size_t n = strlen(name), head = strlen(HEAD), tail = 1 + TN_KUBE_HASH;

    if (n < head + tail || strncmp(name, HEAD, head) != 0 || name[n - tail] != '-' ||
        strspn(name + n - TN_KUBE_HASH, "0123456789abcdef") != TN_KUBE_HASH)
        return false;
    for (const char *p = name + head; *prefix && p < name + n - tail; p++, prefix++) {
        if (*p != allowed(*prefix))
            return false;
    }
    return !*prefix || n - tail == KEY_END;
}

/* "tenure-", as much of the key as is allowed in a name, and what tells it from all others. */
static void derive(const struct tn_kube *h, const char *key, char name[TN_KUBE_NAME_MAX + 1])
{
    const char *parts[] = {h->lease, key};
    uint8_t hash[16];
    size_t n = (size_t)snprintf(name, TN_KUBE_NAME_MAX + 1, HEAD);

    for (const char *p = key; *p && n < KEY_END; p++)
        name[n++] = allowed(*p);
    name[n++] = '-';
    tn_kube_hash(parts, 2, hash);
    tn_hex_encode(hash, sizeof hash, name + n);
}

void tn_kube_name(const struct tn_kube *h, const char *key, char name[TN_KUBE_NAME_MAX + 1])
{
    if (tn_kube_is_record(key)) {
        snprintf(name, TN_KUBE_NAME_MAX + 1, "%.*s", (int)(strlen(key) - strlen(TN_KEY_LEASE)),
                 key);
        if (h->lease[0])
            snprintf(name, TN_KUBE_NAME_MAX + 1, "%s", h->lease);
        if (tn_kube_name_valid(name, TN_KUBE_NAME_MAX, true))
            return;
    }
    derive(h, key, name);
}

bool tn_kube_version(const char *version, char rv[TN_KUBE_RV_MAX + 1], char uid[64])
{
    size_t n = strcspn(version, ".");

    if (n == 0 || n > TN_KUBE_RV_MAX || version[n] != '.' || !version[n + 1])
        return false;
    memcpy(rv, version, n);
    rv[n] = '\0';
    snprintf(uid, 64, "%s", version + n + 1);
    return true;
}
