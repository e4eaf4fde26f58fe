/* What the bare clients of HTTP servers share: libcurl, one kept connection, text by printf. */
#ifndef FLOOR_HTTP_H
#define FLOOR_HTTP_H

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "floor_time.h"

static char answer[65536];
static size_t answer_len;

static inline size_t on_data(char *data, size_t size, size_t n, void *arg)
{
    (void)arg;
    n *= size;
    if (n > sizeof answer - 1 - answer_len)
        return 0;
    memcpy(answer + answer_len, data, n);
    answer_len += n;
    answer[answer_len] = '\0';
    return n;
}

static inline _Noreturn void fail(const char *why)
{
    fprintf(stderr, "%s: %s\n", why, answer_len ? answer : "no answer");
    exit(1);
}

static inline CURL *connect_curl(void)
{
    CURL *curl = curl_easy_init();

    if (!curl)
        fail("no memory for libcurl");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    return curl;
}

static inline void request(CURL *curl, const char *method, const char *url, const char *body)
{
    answer_len = 0;
    answer[0] = '\0';
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    if (curl_easy_perform(curl) != CURLE_OK)
        fail(url);
}

/* What follows `name` in the answer, up to the first of `end`. */
static inline void pick(const char *name, const char *end, char *out, size_t size)
{
    const char *from = strstr(answer, name);

    if (!from)
        fail(name);
    from += strlen(name);
    snprintf(out, size, "%.*s", (int)strcspn(from, end), from);
}

#endif
