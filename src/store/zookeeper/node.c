/* Registers as nodes: their paths, and what they hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/zookeeper/zookeeper.h"

/* ---- Paths --------------------------------------------------------------- */

void tn_zk_path(const struct tn_zk *h, const char *key, char path[TN_ZK_PATH])
{
    snprintf(path, TN_ZK_PATH, "%s/%s#", h->conf.base, key);
}

void tn_zk_nonce_path(const struct tn_zk *h, const char *key,
                      const uint8_t nonce[TENURE_NONCE_SIZE], char path[TN_ZK_PATH])
{
    char hex[TN_NONCE_HEX + 1];

    tn_hex_encode(nonce, TENURE_NONCE_SIZE, hex);
    snprintf(path, TN_ZK_PATH, "%s/%s#/%s", h->conf.base, key, hex);
}

void tn_zk_folder(const struct tn_zk *h, const char *prefix, char path[TN_ZK_PATH])
{
    const char *end = prefix, *slash;

    for (unsigned depth = 1; depth < TN_ZK_FOLDERS && (slash = strchr(end, '/')); depth++)
        end = slash + 1;
    /* Without its last slash, if it has one. */
    snprintf(path, TN_ZK_PATH, "%s%s%.*s", h->conf.base, end > prefix ? "/" : "",
             end > prefix ? (int)(end - prefix - 1) : 0, prefix);
}

/* ---- Values -------------------------------------------------------------- */

enum tenure_status tn_zk_decode(const struct tn_zk *h, const char *key,
                                const struct tn_zk_call *node, struct tenure_value *value,
                                struct tenure_error *err)
{
    struct tn_frame frame;
    char version[TENURE_VERSION_MAX + 1];

    if (!tn_frame_parse(node->data ? node->data : "", node->len, &frame))
        return tenure_fail(err, TENURE_CORRUPT,
                           "zookeeper: %s/%s#: the node holds something that tenure did not "
                           "write; it was not touched",
                           h->conf.base, key);
    if (node->stat.numChildren != 1)
        return tenure_fail(err, TENURE_CORRUPT,
                           "zookeeper: %s/%s#: it has %d children instead of the one that is "
                           "named like its nonce; nothing was touched",
                           h->conf.base, key, (int)node->stat.numChildren);
    snprintf(version, sizeof version, "%d", (int)node->stat.version);
    return tn_frame_value(&frame, version, value, err);
}

void tn_zk_mark(const struct tn_zk_call *folder, char mark[TENURE_VERSION_MAX + 1])
{
    size_t n = folder->len < TN_NONCE_HEX ? folder->len : TN_NONCE_HEX;

    if (folder->rc == ZNONODE)
        snprintf(mark, TENURE_VERSION_MAX + 1, "none");
    else /* transaction numbers repeat after a restore, nonces do not */
        snprintf(mark, TENURE_VERSION_MAX + 1, "%llx.%.*s", (unsigned long long)folder->stat.mzxid,
                 (int)n, folder->data ? folder->data : "");
}
