/*
 * floor_kube SERVER CA_FILE TOKEN N - N updates of one Lease by the plainest
 * client: libcurl, one kept connection, text put together by printf.  The same
 * PUT that a renewal of kube: makes, with as much in its annotations.  Prints
 * updates a second.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* The text behind "name":" in the answer, up to the next quote. */
static void pick(const char *name, char *out, size_t size)
{
    char wanted[64];
    const char *from;

    snprintf(wanted, sizeof wanted, "\"%s\":\"", name);
    from = strstr(answer, wanted);
    if (!from) {
        fprintf(stderr, "floor_kube: %s\n", answer_len ? answer : "no answer");
        exit(1);
    }
    from += strlen(wanted);
    snprintf(out, size, "%.*s", (int)strcspn(from, "\""), from);
}

static void ask(CURL *curl, const char *method, const char *url, const char *body)
{
    answer_len = 0;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    if (curl_easy_perform(curl) != CURLE_OK) {
        fprintf(stderr, "floor_kube: no answer\n");
        exit(1);
    }
}

#define HEX "0123456789abcdef0123456789abcdef"

static void compose(char *body, size_t size, long i, const char *version, const char *uid)
{
    char filler[301], time[40];

    memset(filler, 'x', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    snprintf(time, sizeof time, "2026-01-31T%02ld:%02ld:%02ld.250000Z", i / 3600 % 24, i / 60 % 60,
             i % 60);
    snprintf(body, size,
             "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{"
             "\"name\":\"floor\",%s%s%s%s%s\"labels\":{\"app.kubernetes.io/managed-by\":\"floor\","
             "\"floor/scope\":\"" HEX "\"},\"annotations\":{\"floor/key\":\"bench/lease\","
             "\"floor/nonce\":\"%032ld\",\"floor/prev\":\"%032ld\",\"floor/holder\":\"bench\","
             "\"floor/renewed\":\"%s\",\"floor/epoch\":\"1794795325090\",\"floor/grant\":\"" HEX
             "\",\"floor/incarnation\":\"" HEX "\",\"floor/text\":\"%s\"}},"
             "\"spec\":{\"holderIdentity\":\"bench\",\"leaseDurationSeconds\":15,"
             "\"acquireTime\":\"2026-01-31T12:00:00.250000Z\",\"renewTime\":\"%s\","
             "\"leaseTransitions\":1}}",
             version ? "\"resourceVersion\":\"" : "", version ? version : "",
             version ? "\",\"uid\":\"" : "", version ? uid : "", version ? "\"," : "", i, i - 1,
             time, filler, time);
}

int main(int argc, char **argv)
{
    char url[512], one[600], who[512], body[4096], version[64], uid[64];
    long n = argc == 5 ? atol(argv[4]) : 0;
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");

    if (n < 1 || !curl) {
        fprintf(stderr, "usage: floor_kube SERVER CA_FILE TOKEN N\n");
        return 2;
    }
    snprintf(who, sizeof who, "Authorization: Bearer %s", argv[3]);
    headers = curl_slist_append(headers, who);
    snprintf(url, sizeof url, "%s/apis/coordination.k8s.io/v1/namespaces/default/leases", argv[1]);
    snprintf(one, sizeof one, "%s/floor", url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_CAINFO, argv[2]);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    ask(curl, "DELETE", one, "");
    compose(body, sizeof body, 0, NULL, NULL);
    ask(curl, "POST", url, body);
    pick("uid", uid, sizeof uid);
    double from = now();
    for (long i = 1; i <= n; i++) {
        pick("resourceVersion", version, sizeof version);
        compose(body, sizeof body, i, version, uid);
        ask(curl, "PUT", one, body);
    }
    printf("%.0f\n", (double)n / (now() - from));
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return 0;
}
