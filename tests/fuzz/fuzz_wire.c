/*
 * What an agent and an election's process send each other.  The first byte chooses: a snapshot or
 * an answer, as the agent reads them, or a request, as the election's process does.  Whatever
 * arrives, it is refused or what is printed of it is JSON and text of our own making.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/proxy_inner.h"
#include "check.h"
#include "status/metrics.h"
#include "tenure/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t max);

/* The listener and the proxy's thread are not there. */
void tn_proxy_wake(struct tn_proxy *proxy)
{
    (void)proxy;
}

void tn_api_wake(struct tn_api *api)
{
    (void)api;
}

void tn_api_notify(void *api)
{
    (void)api;
}

void *tn_election_remote(const struct tn_election *e)
{
    (void)e;
    return NULL;
}

/* Most of it zeros, and of the size that its lists say: else hardly any would be read. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t max, unsigned seed)
{
    struct tn_election_snapshot *s;
    size_t want = 1 + tn_snapshot_size(seed % 3, seed / 3 % 3);

    if (size == 0 || bytes[0] % 3 != 0 || seed % 4 == 0 || want > max)
        return LLVMFuzzerMutate(bytes, size, max);
    if (size < want)
        memset(bytes + size, 0, want - size);
    LLVMFuzzerMutate(bytes + 1, want - 1, want - 1);
    s = malloc(sizeof *s);
    assert(s);
    memcpy(s, bytes + 1, sizeof *s);
    s->n_listed = seed % 3;
    s->n_terms = seed / 3 % 3;
    s->driver.phase = seed % (TN_PHASE_HALTED + 1);
    s->driver.seen = seed / 7 % (TN_SEEN_REFUSED + 1);
    s->record.cause %= TN_CAUSES;
    s->record.recent_n %= TN_RECENT + 1;
    s->record.recent_at %= TN_RECENT;
    s->record.last_n %= TN_COMMITS + 1;
    s->record.last_at %= TN_COMMITS;
    s->record.n_collections %= TN_COLLECTIONS + 1;
    memcpy(bytes + 1, s, sizeof *s);
    free(s);
    return want;
}

static void check_json(json_t *json)
{
    char *text = json_dumps(json, 0);

    assert(text && json_is_string(json_object_get(json, "role")));
    assert(json_is_string(json_object_get(json, "reason")));
    assert(json_is_boolean(json_object_get(json, "leading")));
    free(text);
    json_decref(json);
}

static void check_shown(struct tn_upstream *u, bool lists)
{
    struct tn_election_snapshot *s = tn_remote_table.snapshot(u, lists, 0);
    struct tn_http_counts counts = {0};
    char reason[512];
    size_t len = 0;

    assert(s);
    check_json(tn_snapshot_json(s));
    check_json(tn_snapshot_json_leadership(s));
    tn_snapshot_reason(s, reason, sizeof reason);
    for (const char *p = reason; *p; p += tn_text_char(p))
        assert(tn_text_char(p));
    tn_snapshot_is_healthy(s, reason, sizeof reason);
    char *text = tn_metrics_text(&s, 1, &counts, true, &len);
    assert(text && len >= 6 && memcmp(text + len - 6, "# EOF\n", 6) == 0);
    free(text);
    free(s);
}

static void check_snapshot(struct tn_upstream *u, const uint8_t *bytes, size_t size)
{
    union tn_wire_buffer *b = malloc(sizeof *b); /* aligned, as what is received */

    assert(b && size <= sizeof *b);
    memcpy(b, bytes, size);
    if (tn_remote_snapshot(u, 0, (void *)b, size)) {
        check_shown(u, true);
        check_shown(u, false);
    }
    free(b);
    free(u->last);
}

/* To somebody who waits for it. */
static void check_answer(struct tn_upstream *u, const uint8_t *bytes, size_t size)
{
    struct tn_forward *c = calloc(1, sizeof *c);
    struct tn_http_reply reply = {0};

    assert(c);
    c->proxy = u->proxy;
    c->upstream = u;
    c->number = 1;
    u->proxy->calls = c;
    u->proxy->n_calls = 1;
    if (!tn_proxy_answered(u, 1, bytes, size, -1))
        tn_proxy_calls_end(u->proxy);
    assert(tn_proxy_requests.collect(c, &reply));
    assert(reply.status >= 200 && reply.status <= 599 && (reply.body || reply.len == 0));
    if (reply.owned)
        free(reply.body);
    tn_proxy_requests.forget(c);
}

static void check_request(const uint8_t *bytes, size_t size)
{
    struct tn_wire_request r;
    char *path = NULL;

    if (!tn_wire_read_request(bytes, size, &r, &path))
        return;
    assert(r.kind >= TN_REQUEST_HANDOVER && r.kind <= TN_REQUEST_STATE);
    assert(strlen(r.method) < sizeof r.method && strlen(r.epoch) < sizeof r.epoch);
    assert(strlen(path) == size - sizeof r);
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct tn_proxy proxy = {.lock = PTHREAD_MUTEX_INITIALIZER};
    static struct tn_leader_page *page;
    static int page_fd = -1, life[2];
    struct tn_upstream u = {.proxy = &proxy, .name = "job", .there = true, .watched = true};

    if (!page && (!(page = tn_leader_page_new(&page_fd)) || pipe(life) != 0))
        abort();
    if (size == 0 || size > TN_WIRE_MAX)
        return 0;
    u.page = page;
    u.life_fd = life[0];
    if (bytes[0] % 3 == 0)
        check_snapshot(&u, bytes + 1, size - 1);
    else if (bytes[0] % 3 == 1)
        check_answer(&u, bytes + 1, size - 1);
    else
        check_request(bytes + 1, size - 1);
    return 0;
}
