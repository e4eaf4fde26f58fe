/* The calls that checks make, with keys, nonces and deadlines filled in. */
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include "harness.h"

const char *cf_key(struct cf *c, const char *format, ...)
{
    char *key = c->keys[c->n_keys++ % CF_KEYS_MAX];
    int used = snprintf(key, TENURE_KEY_MAX + 1, "%s/%02u/", c->base, c->number);
    va_list args;

    va_start(args, format);
    vsnprintf(key + used, TENURE_KEY_MAX + 1 - (size_t)used, format, args);
    va_end(args);
    return key;
}

int64_t cf_after_ms(int64_t ms)
{
    return tenure_now() + ms * 1000000;
}

int64_t cf_call_ns(const struct cf *c)
{
    return (int64_t)c->opts.call_ms * 1000000;
}

int64_t cf_deadline(const struct cf *c)
{
    return cf_after_ms(c->opts.call_ms);
}

int64_t cf_until(const struct cf *c)
{
    return cf_after_ms((int64_t)c->opts.seconds * 1000);
}

bool cf_more(const struct cf *c, unsigned done, int64_t until)
{
    return done < c->opts.rounds && (done < 20 || tenure_now() < until);
}

void cf_nonce(uint8_t nonce[TENURE_NONCE_SIZE])
{
    if (tenure_nonce(nonce, NULL) != TENURE_OK)
        abort();
}

#define SETTLE_TRIES 8

/* What was read is the swap under this nonce, or has replaced it; then its version is lost. */
static bool recognise(const struct tenure_value *value, const uint8_t nonce[TENURE_NONCE_SIZE],
                      struct tenure_swap *swap)
{
    bool current = memcmp(value->token.nonce, nonce, TENURE_NONCE_SIZE) == 0;

    if (!current && memcmp(value->prev, nonce, TENURE_NONCE_SIZE) != 0)
        return false;
    memset(&swap->token, 0, sizeof swap->token);
    if (current)
        swap->token = value->token;
    memcpy(swap->token.nonce, nonce, TENURE_NONCE_SIZE);
    memcpy(swap->nonce, nonce, TENURE_NONCE_SIZE);
    swap->status = TENURE_OK;
    return true;
}

enum tenure_status cf_settle(tenure_store *store, struct tenure_swap *swap, int64_t call_ns,
                             struct tenure_error *err)
{
    uint8_t tried[SETTLE_TRIES][TENURE_NONCE_SIZE];
    struct tenure_value value = {0};

    for (unsigned n = 0; n < SETTLE_TRIES && swap->status == TENURE_UNKNOWN; n++) {
        memcpy(tried[n], swap->nonce, TENURE_NONCE_SIZE);
        enum tenure_status status =
            tenure_store_read(store, swap->key, &value, tenure_now() + call_ns, err);
        for (unsigned i = 0; i <= n && status == TENURE_OK; i++) {
            if (recognise(&value, tried[i], swap))
                goto done;
        }
        if (status != TENURE_OK)
            break;
        cf_nonce(swap->nonce);
        tenure_store_swap(store, swap, tenure_now() + call_ns, err);
        /* The first one may have landed in between, and be the conflict. */
        if (swap->status == TENURE_CONFLICT && tenure_token_equal(&value.token, &swap->expect))
            swap->status = TENURE_UNKNOWN;
    }
done:
    tenure_value_free(&value);
    return swap->status;
}

enum tenure_status cf_swap(tenure_store *store, struct tenure_swap *swap, int64_t call_ns,
                           struct tenure_error *err)
{
    enum tenure_status status = tenure_store_swap(store, swap, tenure_now() + call_ns, err);

    return status == TENURE_UNKNOWN ? cf_settle(store, swap, call_ns, err) : status;
}

enum tenure_status cf_read(struct cf *c, tenure_store *store, const char *key)
{
    return tenure_store_read(store, key, &c->v, cf_deadline(c), &c->err);
}

enum tenure_status cf_put(struct cf *c, tenure_store *store, const char *key,
                          const struct tenure_token *expect, const void *data, size_t len,
                          struct tenure_token *token)
{
    struct tenure_swap swap = {.key = key, .data = data, .len = len};

    if (expect)
        swap.expect = *expect;
    cf_nonce(swap.nonce);
    enum tenure_status status = cf_swap(store, &swap, cf_call_ns(c), &c->err);
    if (status != swap.status)
        cf_fail(c, "swap returned '%s' but left '%s' in its status", tenure_status_word(status),
                tenure_status_word(swap.status));
    if (status != TENURE_OK)
        return status;
    if (memcmp(swap.token.nonce, swap.nonce, TENURE_NONCE_SIZE) != 0)
        cf_fail(c, "the new token does not carry the nonce of the swap");
    if (token)
        *token = swap.token;
    return status;
}

enum tenure_status cf_erase(struct cf *c, tenure_store *store, const char *key,
                            const struct tenure_token *expect, struct tenure_token *token)
{
    static const struct tenure_token absent;
    struct tenure_swap swap = {.key = key, .expect = expect ? *expect : absent, .tombstone = true};

    cf_nonce(swap.nonce);
    swap.status = tenure_store_erase(store, key, &swap.expect, swap.nonce, &swap.token,
                                     cf_deadline(c), &c->err);
    if (swap.status == TENURE_UNKNOWN)
        cf_settle(store, &swap, cf_call_ns(c), &c->err);
    if (swap.status == TENURE_OK && token)
        *token = swap.token;
    return swap.status;
}

bool cf_value_is(struct cf *c, const char *what, const struct tenure_token *token, const void *data,
                 size_t len, bool tombstone)
{
    const struct tenure_value *v = &c->v;

    if (!tenure_token_equal(&v->token, token))
        cf_fail(c, "%s: expected version '%s' with its nonce, saw version '%s'%s", what,
                token->version, v->token.version,
                strcmp(v->token.version, token->version) ? "" : " with another nonce");
    else if (v->tombstone != tombstone)
        cf_fail(c, "%s: expected %s tombstone, saw %s", what, tombstone ? "a" : "no",
                v->tombstone ? "one" : "none");
    else if (v->len != len)
        cf_fail(c, "%s: expected %zu bytes, saw %zu", what, len, v->len);
    else if (len && memcmp(v->data, data, len) != 0)
        cf_fail(c, "%s: the bytes are not those written", what);
    else if (v->data && v->data[len] != '\0')
        cf_fail(c, "%s: no NUL behind the data", what);
    else
        return true;
    return false;
}

struct tenure_watch cf_watch(const char *key, const struct tenure_token *seen)
{
    struct tenure_watch watch = {.key = key};

    if (seen)
        watch.seen = *seen;
    return watch;
}

enum tenure_status cf_wait(struct cf *c, const char *key, const struct tenure_token *seen,
                           int wake_fd, int64_t deadline)
{
    struct tenure_watch watch = cf_watch(key, seen);

    return tenure_store_wait(c->a, &watch, 1, wake_fd, deadline, &c->err);
}

void cf_sleep_us(unsigned us)
{
    struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};

    nanosleep(&ts, NULL);
}

uint32_t cf_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}
