/* Signature Version 4.  libcurl has it, but each version in its own way: here it is whole. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hex.h"
#include "store/object/aws.h"

#define HASH 32 /* bytes of SHA-256 */

static void hash_hex(const void *data, size_t n, char out[TN_AWS_HASH])
{
    uint8_t hash[HASH] = {0};

    EVP_Digest(n ? data : "", n, hash, NULL, EVP_sha256(), NULL);
    tn_hex_encode(hash, HASH, out);
}

static void mac(const uint8_t *key, size_t key_len, const char *text, uint8_t out[HASH])
{
    unsigned n = 0;

    HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, strlen(text), out, &n);
}

void tn_aws_request_init(struct tn_aws_request *rq, const void *body, size_t len)
{
    time_t now = time(NULL);
    struct tm parts;

    gmtime_r(&now, &parts);
    strftime(rq->date, sizeof rq->date, "%Y%m%dT%H%M%SZ", &parts);
    hash_hex(body, len, rq->hash);
}

/* The request as both sides write it down; *names: which headers are signed. */
static char *canonical(const struct tn_aws_request *rq, char *names, size_t size)
{
    char *text = NULL;
    size_t len = 0, used = (size_t)snprintf(names, size, "host");
    FILE *to = open_memstream(&text, &len);

    if (!to)
        return NULL;
    fprintf(to, "%s\n%s\n%s\nhost:%s\n", rq->method, rq->path, rq->query, rq->host);
    for (size_t i = 0; rq->headers[i]; i++) {
        size_t n = strcspn(rq->headers[i], ":");

        fprintf(to, "%s\n", rq->headers[i]);
        used += (size_t)snprintf(names + used, size - used, ";%.*s", (int)n, rq->headers[i]);
    }
    fprintf(to, "\n%s\n%s", names, rq->hash);
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

/* The key of a day, a region and a service. */
static bool derive(const struct tn_aws_keys *keys, const struct tn_aws_request *rq,
                   uint8_t key[HASH])
{
    char day[9], *first = NULL;
    int n = asprintf(&first, "AWS4%s", keys->secret);

    if (n < 0)
        return false;
    snprintf(day, sizeof day, "%.8s", rq->date);
    mac((const uint8_t *)first, (size_t)n, day, key);
    mac(key, HASH, rq->region, key);
    mac(key, HASH, rq->service, key);
    mac(key, HASH, "aws4_request", key);
    tn_secret_free(first);
    return true;
}

char *tn_aws_sign(const struct tn_aws_keys *keys, const struct tn_aws_request *rq)
{
    char names[256] = "", hash[TN_AWS_HASH], signature[TN_AWS_HASH], scope[128];
    char *request = canonical(rq, names, sizeof names), *text = NULL, *value = NULL;
    uint8_t key[HASH];

    if (!request || !derive(keys, rq, key)) {
        free(request);
        return NULL;
    }
    hash_hex(request, strlen(request), hash);
    tn_secret_free(request); /* it holds the session's token */
    snprintf(scope, sizeof scope, "%.8s/%s/%s/aws4_request", rq->date, rq->region, rq->service);
    if (asprintf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", rq->date, scope, hash) >= 0) {
        mac(key, HASH, text, key);
        tn_hex_encode(key, HASH, signature);
        if (asprintf(&value, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
                     keys->id, scope, names, signature) < 0)
            value = NULL;
        free(text);
    }
    explicit_bzero(key, sizeof key);
    return value;
}
