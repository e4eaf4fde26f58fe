/*
 * What an election's process tells its agent.  The first byte chooses: its
 * stream of events, or its answer to an order, a look at its health or its
 * metrics.  Whatever it says, the agent answers its visitors in JSON and text
 * of its own making.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/hub_inner.h"
#include "check.h"
#include "state/http/http.h"
#include "status/metrics.h"
#include "tenure/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
const char *__asan_default_options(void);

/* What arrives has no NUL at its end, so nothing may be handed to a function that looks for one. */
const char *__asan_default_options(void)
{
    return "strict_string_checks=1";
}

/* The listener and the hub's thread are not there. */
void tn_hub_wake(struct tn_hub *hub)
{
    (void)hub;
}

void tn_api_wake(struct tn_api *api)
{
    (void)api;
}

void tn_api_poke(void *api)
{
    (void)api;
}

void tn_api_count(struct tn_api *api, struct tn_http_counts *counts)
{
    (void)api;
    memset(counts, 0, sizeof *counts);
}

bool tn_election_leads(const struct tn_election *e)
{
    (void)e;
    return false;
}

void tn_metrics_label(const char *text, char *out, size_t size)
{
    snprintf(out, size, "%zu", strlen(text));
}

void tn_metrics_agent(FILE *out, const struct tn_http_counts *http, bool openmetrics)
{
    (void)out, (void)http, (void)openmetrics;
}

static void put(struct tn_bytes *b, const uint8_t *bytes, size_t n)
{
    /* Exactly as many as there are: one too many that is read is caught. */
    char *longer = malloc(b->len + n + !(b->len + n));

    assert(longer);
    if (b->len)
        memcpy(longer, b->data, b->len);
    memcpy(longer + b->len, bytes, n);
    free(b->data);
    b->data = longer;
    b->len += n;
    b->cap = b->len;
}

static void check_told(json_t *o)
{
    char *text = json_dumps(o, 0);

    assert(text && json_is_string(json_object_get(o, "role")));
    assert(json_is_string(json_object_get(o, "reason")));
    assert(json_is_boolean(json_object_get(o, "leading")));
    free(text);
    json_decref(o);
}

/* In two pieces, as they may come. */
static void check_events(struct tn_far *f, const uint8_t *bytes, size_t size)
{
    char reason[512];
    size_t half = size ? bytes[size - 1] % size : 0;

    put(&f->in, bytes, half);
    if (tn_far_take(f)) {
        put(&f->in, bytes + half, size - half);
        tn_far_take(f);
    }
    assert(f->in.len <= size && (!f->last || json_is_object(f->last)));
    f->heard_ns -= 5 * TN_S;
    check_told(tn_far_table.json(f));
    check_told(tn_far_table.leadership(f));
    tn_far_table.reason(f, reason, sizeof reason);
    for (const char *p = reason; *p; p += tn_text_char(p))
        assert(tn_text_char(p));
    free(f->in.data);
    json_decref(f->last);
}

static void check_answer(struct tn_far *f, unsigned kind, const uint8_t *bytes, size_t size)
{
    struct tn_call *c = calloc(1, sizeof *c + sizeof c->legs[0]);
    struct tn_http_reply reply = {0};

    assert(c);
    c->hub = f->hub;
    c->kind = kind == 0 ? TN_CALL_ORDER : kind == 1 ? TN_CALL_HEALTH : TN_CALL_METRICS;
    c->open = kind == 3;
    c->n = 1;
    c->legs[0] = (struct tn_leg){.call = c, .far = f, .whole = true};
    put(&c->legs[0].in, bytes, size);
    tn_call_answer(c, &reply);
    assert(reply.status >= 200 && reply.status <= 599 && (reply.body || reply.len == 0));
    for (size_t i = 0; i < sizeof reply.headers / sizeof reply.headers[0]; i++)
        assert(!reply.headers[i].name == !reply.headers[i].value);
    if (c->open)
        assert(reply.len >= 6 && memcmp((char *)reply.body + reply.len - 6, "# EOF\n", 6) == 0);
    if (reply.owned)
        free(reply.body);
    free(c->legs[0].in.data);
    free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct tn_hub hub = {.lock = PTHREAD_MUTEX_INITIALIZER};
    static struct tn_facts *page;
    static int page_fd = -1, life[2];
    struct tn_far f = {.hub = &hub, .name = "job", .there = true};

    if (!page && (!(page = tn_facts_new(&page_fd)) || pipe(life) != 0))
        abort();
    if (size == 0)
        return 0;
    f.facts = page;
    f.life_fd = life[0];
    if (bytes[0] % 5 == 0)
        check_events(&f, bytes + 1, size - 1);
    else
        check_answer(&f, bytes[0] % 5 - 1u, bytes + 1, size - 1);
    return 0;
}
