/*
 * floor_kube SERVER CA_FILE TOKEN N - N updates of one Lease by the plainest
 * client: libcurl, one kept connection, text put together by printf.  The same
 * PUT that a renewal of kube: makes, with as much in its annotations.  Prints
 * updates a second.
 */
#include "floor_http.h"

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
    CURL *curl = connect_curl();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");

    if (n < 1) {
        fprintf(stderr, "usage: floor_kube SERVER CA_FILE TOKEN N\n");
        return 2;
    }
    snprintf(who, sizeof who, "Authorization: Bearer %s", argv[3]);
    headers = curl_slist_append(headers, who);
    snprintf(url, sizeof url, "%s/apis/coordination.k8s.io/v1/namespaces/default/leases", argv[1]);
    snprintf(one, sizeof one, "%s/floor", url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_CAINFO, argv[2]);
    request(curl, "DELETE", one, "");
    compose(body, sizeof body, 0, NULL, NULL);
    request(curl, "POST", url, body);
    pick("\"uid\":\"", "\"", uid, sizeof uid);
    double from = now();
    for (long i = 1; i <= n; i++) {
        pick("\"resourceVersion\":\"", "\"", version, sizeof version);
        compose(body, sizeof body, i, version, uid);
        request(curl, "PUT", one, body);
    }
    printf("%.0f\n", (double)n / (now() - from));
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return 0;
}
