/*
 * floor_etcd ENDPOINT N - N transactions on one key of etcd by the plainest
 * client: libcurl, one kept connection, text put together by printf.  The same
 * comparison and the same two puts that a renewal of etcd: makes, 300 bytes.
 * Prints transactions a second.
 */
#include "floor_http.h"

/* base64 of "/floor/one", "/floor/one#nonce", 32 digits, and 373 bytes */
#define KEY   "L2Zsb29yL29uZQ=="
#define NONCE "L2Zsb29yL29uZSNub25jZQ=="
#define HEX   "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

int main(int argc, char **argv)
{
    char url[256], value[501], body[2048], revision[32];
    long n = argc == 3 ? atol(argv[2]) : 0;
    CURL *curl = connect_curl();

    if (n < 1) {
        fprintf(stderr, "usage: floor_etcd ENDPOINT N\n");
        return 2;
    }
    memset(value, 'A', 500);
    value[500] = '\0';
    snprintf(url, sizeof url, "%s/v3/kv/txn", argv[1]);
    snprintf(body, sizeof body,
             "{\"success\":[{\"requestPut\":{\"key\":\"" KEY "\",\"value\":\"%s\"}},"
             "{\"requestPut\":{\"key\":\"" NONCE "\",\"value\":\"" HEX "\"}}]}",
             value);
    request(curl, "POST", url, body);
    double from = now();
    for (long i = 0; i < n; i++) {
        pick("\"revision\":\"", "\"", revision, sizeof revision);
        snprintf(body, sizeof body,
                 "{\"compare\":[{\"key\":\"" KEY "\",\"target\":\"MOD\",\"result\":\"EQUAL\","
                 "\"mod_revision\":\"%s\"},{\"key\":\"" NONCE "\",\"target\":\"VALUE\","
                 "\"result\":\"EQUAL\",\"value\":\"" HEX "\"}],"
                 "\"success\":[{\"requestPut\":{\"key\":\"" KEY "\",\"value\":\"%s\"}},"
                 "{\"requestPut\":{\"key\":\"" NONCE "\",\"value\":\"" HEX "\"}}]}",
                 revision, value);
        request(curl, "POST", url, body);
        if (!strstr(answer, "\"succeeded\":true"))
            fail("floor_etcd: the comparison failed");
    }
    printf("%.0f\n", (double)n / (now() - from));
    curl_easy_cleanup(curl);
    return 0;
}
