/* Requests: drafted by the vendor, sent one by one or several at once, and what became of them. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/object/object.h"

#define ANSWER_MAX (TN_DAMAGED_MAX + 4096) /* a larger object is not ours */

/* ---- Drafts -------------------------------------------------------------- */

char *tn_object_escape(const char *text, bool slash)
{
    static const char digits[] = "0123456789ABCDEF";
    char *out = malloc(3 * strlen(text) + 1), *to = out;

    for (; out && *text; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            strchr("-._~", c) || (slash && c == '/')) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    if (out)
        *to = '\0';
    return out;
}

void tn_object_header(struct tn_object_draft *draft, const char *format, ...)
{
    char *line = NULL;
    va_list args;

    va_start(args, format);
    if (draft->n_headers + 1 >= sizeof draft->headers / sizeof draft->headers[0] ||
        vasprintf(&line, format, args) < 0)
        draft->failed = true;
    else
        draft->headers[draft->n_headers++] = line;
    va_end(args);
}

static void free_draft(struct tn_object_draft *draft)
{
    for (unsigned i = 0; i < draft->n_headers; i++)
        tn_secret_free(draft->headers[i]); /* one of them may be a session's token */
    free(draft->url);
    memset(draft, 0, sizeof *draft);
}

static enum tenure_status compose(struct tn_object *h, const struct tn_object_exchange *x,
                                  struct tn_object_draft *draft, struct tn_http_request *rq,
                                  int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = h->vendor->compose(h, x, draft, err);

    if (!status && (draft->failed || !draft->url))
        status = tenure_fail(err, TENURE_NOMEM, "%s: out of memory", h->vendor->scheme);
    *rq = (struct tn_http_request){.method = draft->method,
                                   .url = draft->url,
                                   .headers = (const char *const *)draft->headers,
                                   .body = x->body,
                                   .len = x->len,
                                   .answer_max = ANSWER_MAX,
                                   .connect_by = deadline,
                                   .once = x->verb == TN_OBJECT_PUT,
                                   .part = x->verb == TN_OBJECT_PUT,
                                   .header = h->vendor->tag_header};
    return status;
}

/* ---- Answers ------------------------------------------------------------- */

static bool has_condition(const struct tn_object_exchange *x)
{
    return x->verb == TN_OBJECT_PUT && x->tag;
}

static void take_answer(struct tn_object *h, struct tn_object_exchange *x)
{
    long code = x->answer.code;

    x->status = TENURE_OK;
    x->outcome = TN_OBJECT_DONE;
    if (code == 304 && x->verb == TN_OBJECT_GET && x->tag) {
        x->outcome = TN_OBJECT_SAME;
    } else if (code == 412 && has_condition(x)) {
        x->outcome = TN_OBJECT_CONFLICT;
    } else if (code < 200 || code > 204) {
        h->vendor->explain(h, x);
        h->unready = x->status == TENURE_UNAVAILABLE;
    } else if (x->verb != TN_OBJECT_LIST && !h->vendor->tag(x->answer.header, x->found)) {
        x->status = tenure_fail(&x->err, TENURE_UNAVAILABLE, "the answer has no usable %s",
                                h->vendor->tag_header);
        x->lost = x->verb == TN_OBJECT_PUT;
    }
    if (x->status)
        tenure_fail_context(&x->err, "%s: %s", h->vendor->scheme, h->server);
}

static void take_failure(struct tn_object *h, struct tn_object_exchange *x)
{
    h->unanswered += x->status != TENURE_CANCELLED;
    x->lost = x->verb == TN_OBJECT_PUT && x->answer.sent;
    if (x->status != TENURE_CANCELLED)
        tenure_fail_context(&x->err, "%s: %s", h->vendor->scheme, h->server);
}

/* ---- Sending ------------------------------------------------------------- */

/*
 * Several at once have connections of their own, which end if one of them fails: a server that
 * hangs would have all of them.
 */
static void send_all(struct tn_object *h, struct tn_object_exchange *const *xs, size_t n,
                     int64_t deadline)
{
    struct tn_object_draft drafts[TN_OBJECT_CALLS] = {0};
    struct tn_http_exchange calls[TN_OBJECT_CALLS] = {0};
    struct tn_http **http = n > 1 ? &h->several : &h->http;
    struct tenure_error err;
    enum tenure_status status = TENURE_OK;
    bool drop = false;

    for (size_t i = 0; i < n && !status; i++)
        status = compose(h, xs[i], &drafts[i], &calls[i].request, deadline, &err);
    if (!status && !*http && !(*http = tn_http_new(&h->conf.http)))
        status = tenure_fail(&err, TENURE_NOMEM, "%s: out of memory", h->vendor->scheme);
    if (!status && n == 1)
        calls->status = tn_http_call(*http, &calls->request, deadline, &calls->answer, &calls->err);
    else if (!status)
        tn_http_call_all(*http, calls, n, deadline);
    for (size_t i = 0; i < n; i++) {
        free_draft(&drafts[i]);
        xs[i]->status = status ? status : calls[i].status;
        xs[i]->err = status ? err : calls[i].err;
        if (status)
            continue;
        xs[i]->answer = calls[i].answer;
        drop = drop || (n > 1 && xs[i]->status);
        if (xs[i]->status)
            take_failure(h, xs[i]);
        else
            take_answer(h, xs[i]);
    }
    if (drop) {
        tn_http_free(*http);
        *http = NULL;
    }
}

/* Those that were refused for their credentials are sent once more, with fresh ones. */
void tn_object_send(struct tn_object *h, struct tn_object_exchange *xs, size_t n, int64_t deadline)
{
    struct tn_object_exchange *todo[TN_OBJECT_CALLS];
    size_t left = 0;

    assert(n <= TN_OBJECT_CALLS);
    for (size_t i = 0; i < n; i++)
        todo[left++] = &xs[i];
    for (int attempt = 0; attempt < 2 && left; attempt++) {
        struct tenure_error err;
        enum tenure_status status;

        if (attempt)
            h->vendor->forget_credentials(h);
        status = h->vendor->credentials(h, deadline, &err);
        for (size_t i = 0; i < left; i++) {
            tn_object_release(todo[i], 1);
            todo[i]->lost = todo[i]->again = false;
            todo[i]->status = status;
            todo[i]->err = err;
        }
        if (!status)
            send_all(h, todo, left, deadline);
        left = 0;
        for (size_t i = 0; i < n; i++) {
            if (xs[i].again)
                todo[left++] = &xs[i];
        }
    }
}

void tn_object_release(struct tn_object_exchange *xs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(xs[i].answer.body);
        memset(&xs[i].answer, 0, sizeof xs[i].answer);
    }
}

void tn_object_name(const struct tn_object *h, const char *key, struct tn_object_exchange *x)
{
    snprintf(x->name, sizeof x->name, "%s%s" TN_OBJECT_END, h->conf.base, key);
}
