/*
 * floor_consul ENDPOINT N - N compare-and-swaps on one key of Consul by the plainest client: a
 * transaction of one "cas", 300 bytes, on one kept connection.  Prints swaps a second.
 */
#include "floor_http.h"

int main(int argc, char **argv)
{
    char url[256], body[1024], index[32] = "0";
    long n = argc == 3 ? atol(argv[2]) : 0;
    CURL *curl = connect_curl();

    if (n < 1) {
        fprintf(stderr, "usage: floor_consul ENDPOINT N\n");
        return 2;
    }
    snprintf(url, sizeof url, "%s/v1/kv/floor", argv[1]);
    request(curl, "DELETE", url, "");
    snprintf(url, sizeof url, "%s/v1/txn", argv[1]);
    double from = 0;
    for (long i = 0; i <= n; i++) { /* equal bytes would not move the index */
        snprintf(
            body, sizeof body,
            "[{\"KV\":{\"Verb\":\"cas\",\"Key\":\"floor\",\"Index\":%s,\"Value\":\"%0400ld\"}}]",
            index, i);
        request(curl, "PUT", url, body);
        pick("\"ModifyIndex\":", ",}", index, sizeof index);
        if (i == 0)
            from = now();
    }
    printf("%.0f\n", (double)n / (now() - from));
    curl_easy_cleanup(curl);
    return 0;
}
