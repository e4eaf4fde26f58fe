/* What the elections' processes answered, as one answer for the visitor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/hub_inner.h"
#include "state/http/http.h"

/* Three digits of an answer, which has no NUL at its end; 0 if they are none. */
static unsigned code_of(const char *text)
{
    unsigned code = 0;

    for (int i = 0; i < 3; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        code = code * 10 + (unsigned)(text[i] - '0');
    }
    return code;
}

const char *tn_leg_body(const struct tn_leg *leg, unsigned *status, size_t *len)
{
    const char *end = leg->whole ? memmem(leg->in.data, leg->in.len, "\r\n\r\n", 4) : NULL;

    if (!end || leg->in.len < 12 || memcmp(leg->in.data, "HTTP/1.", 7) != 0)
        return NULL;
    *status = code_of(leg->in.data + 9);
    if (*status < 200 || *status > 599)
        return NULL;
    *len = leg->in.len - (size_t)(end + 4 - leg->in.data);
    return end + 4;
}

/* A header of the answer; "" if it is not there. */
static void header_of(const struct tn_leg *leg, const char *body, const char *name, char *out,
                      size_t size)
{
    size_t n = strlen(name);

    *out = '\0';
    for (const char *at = leg->in.data; at < body;) {
        const char *end = memchr(at, '\r', (size_t)(body - at));

        if (!end)
            return;
        if ((size_t)(end - at) > n + 1 && strncasecmp(at, name, n) == 0 && at[n] == ':') {
            at += n + 1;
            while (at < end && *at == ' ')
                at++;
            snprintf(out, size, "%.*s", (int)(end - at), at);
            return;
        }
        at = end + 2;
    }
}

static void no_answer(const struct tn_far *f, struct tn_http_reply *reply)
{
    char detail[400];

    pthread_mutex_lock(&f->hub->lock);
    if (!f->there)
        snprintf(detail, sizeof detail, "%.100s: %s", f->name, f->fate);
    else
        snprintf(detail, sizeof detail,
                 "%.100s: its process has not answered; if this was a change it may still be "
                 "made: look before you try again",
                 f->name);
    pthread_mutex_unlock(&f->hub->lock);
    tn_http_answer_error(reply, 503, "unavailable", detail);
}

/* What the process answered is what the visitor is answered. */
static void pass_on(struct tn_call *c, struct tn_http_reply *reply)
{
    static const char *const names[] = {"Tenure-Epoch", "Tenure-Seq", "Tenure-Edited",
                                        "Cache-Control"};
    struct tn_leg *leg = &c->legs[0];
    unsigned status = 0;
    size_t len = 0;
    const char *body = tn_leg_body(leg, &status, &len);
    char *copy = body ? malloc(len + 1) : NULL;

    if (!copy) {
        no_answer(leg->far, reply);
        return;
    }
    memcpy(copy, body, len);
    header_of(leg, body, "Content-Type", c->type, sizeof c->type);
    *reply = (struct tn_http_reply){.status = status,
                                    .type = c->type[0] ? c->type : NULL,
                                    .body = copy,
                                    .len = len,
                                    .owned = true};
    for (size_t i = 0, k = 0; i < sizeof names / sizeof names[0]; i++) {
        header_of(leg, body, names[i], c->values[i], sizeof c->values[i]);
        if (!c->values[i][0])
            continue;
        reply->headers[k].name = names[i];
        reply->headers[k++].value = c->values[i];
    }
}

/* Well if all are. */
static void health(const struct tn_call *c, struct tn_http_reply *reply)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, &reply->len);
    bool well = true;

    for (size_t i = 0; out && i < c->n; i++) {
        const struct tn_far *f = c->legs[i].far;
        unsigned status = 0;
        size_t len = 0;
        const char *body = tn_leg_body(&c->legs[i], &status, &len);

        if (body && status == 200)
            continue;
        well = false;
        if (body)
            fprintf(out, "%.*s", (int)len, body);
        else
            fprintf(out, "%s: its process does not answer\n", f->name);
    }
    if (out && well)
        fputs("ok\n", out);
    reply->status = out && fclose(out) == 0 && well ? 200 : 503;
    reply->type = "text/plain; charset=utf-8";
    reply->body = text;
    reply->owned = text != NULL;
    reply->len = text ? reply->len : 0;
    reply->headers[0].name = "Cache-Control";
    reply->headers[0].value = "no-store";
}

static void metrics(struct tn_call *c, struct tn_http_reply *reply)
{
    struct tn_http_counts counts;

    tn_api_count(c->hub->api, &counts);
    reply->body = tn_hub_metrics(c, &counts, &reply->len);
    reply->owned = reply->body != NULL;
    reply->status = reply->body ? 200 : 500;
    reply->type = c->open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                          : "text/plain; version=0.0.4; charset=utf-8";
    reply->headers[0].name = "Cache-Control";
    reply->headers[0].value = "no-store";
}

void tn_call_answer(struct tn_call *c, struct tn_http_reply *reply)
{
    if (c->kind == TN_CALL_ORDER)
        pass_on(c, reply);
    else if (c->kind == TN_CALL_HEALTH)
        health(c, reply);
    else
        metrics(c, reply);
}
