/*
 * floor_etcd ENDPOINT N - N transactions on one key of etcd by the plainest
 * client: libcurl, one kept connection, text put together by printf.  The same
 * comparison and the same two puts that a renewal of etcd: makes, 300 bytes.
 * Prints transactions a second.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* base64 of "/floor/one", "/floor/one#nonce", 32 digits, and 373 bytes */
#define KEY   "L2Zsb29yL29uZQ=="
#define NONCE "L2Zsb29yL29uZSNub25jZQ=="
#define HEX   "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

static char answer[65536];
static size_t answer_len;

static size_t on_data(char *data, size_t size, size_t n, void *arg)
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

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Returns the revision of the answer. */
static long post(CURL *curl, const char *body)
{
    answer_len = 0;
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    if (curl_easy_perform(curl) != CURLE_OK || !strstr(answer, "\"revision\":\"")) {
        fprintf(stderr, "floor_etcd: %s\n", answer_len ? answer : "no answer");
        exit(1);
    }
    return atol(strstr(answer, "\"revision\":\"") + strlen("\"revision\":\""));
}

int main(int argc, char **argv)
{
    char url[256], value[501], body[2048];
    long n = argc == 3 ? atol(argv[2]) : 0;
    CURL *curl = curl_easy_init();

    if (n < 1 || !curl) {
        fprintf(stderr, "usage: floor_etcd ENDPOINT N\n");
        return 2;
    }
    memset(value, 'A', 500);
    value[500] = '\0';
    snprintf(url, sizeof url, "%s/v3/kv/txn", argv[1]);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    snprintf(body, sizeof body,
             "{\"success\":[{\"requestPut\":{\"key\":\"" KEY "\",\"value\":\"%s\"}},"
             "{\"requestPut\":{\"key\":\"" NONCE "\",\"value\":\"" HEX "\"}}]}",
             value);
    long revision = post(curl, body);
    double from = now();
    for (long i = 0; i < n; i++) {
        snprintf(body, sizeof body,
                 "{\"compare\":[{\"key\":\"" KEY "\",\"target\":\"MOD\",\"result\":\"EQUAL\","
                 "\"mod_revision\":\"%ld\"},{\"key\":\"" NONCE "\",\"target\":\"VALUE\","
                 "\"result\":\"EQUAL\",\"value\":\"" HEX "\"}],"
                 "\"success\":[{\"requestPut\":{\"key\":\"" KEY "\",\"value\":\"%s\"}},"
                 "{\"requestPut\":{\"key\":\"" NONCE "\",\"value\":\"" HEX "\"}}]}",
                 revision, value);
        revision = post(curl, body);
        if (!strstr(answer, "\"succeeded\":true")) {
            fprintf(stderr, "floor_etcd: the comparison failed: %s\n", answer);
            return 1;
        }
    }
    printf("%.0f\n", (double)n / (now() - from));
    curl_easy_cleanup(curl);
    return 0;
}
