/*
 * floor_s3 ENDPOINT BUCKET USER N - N conditional writes of one object by the plainest client:
 * libcurl signs, one kept connection, 300 bytes, If-Match with the ETag of the answer before.
 * The password is in MINIO_PASSWORD.  Prints writes a second.
 */
#include "floor_http.h"

static char etag[128];

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    (void)arg;
    if (n * size > 6 && strncasecmp(line, "ETag: ", 6) == 0)
        snprintf(etag, sizeof etag, "%.*s", (int)strcspn(line + 6, "\r\n"), line + 6);
    return n * size;
}

int main(int argc, char **argv)
{
    char url[256], body[512], login[256], condition[160];
    const char *password = getenv("MINIO_PASSWORD");
    long n = argc == 5 ? atol(argv[4]) : 0;
    CURL *curl = connect_curl();

    if (n < 1 || !password) {
        fprintf(stderr, "usage: MINIO_PASSWORD=... floor_s3 ENDPOINT BUCKET USER N\n");
        return 2;
    }
    snprintf(url, sizeof url, "%s/%s/floor", argv[1], argv[2]);
    snprintf(login, sizeof login, "%s:%s", argv[3], password);
    curl_easy_setopt(curl, CURLOPT_USERPWD, login);
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3");
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    double from = 0;
    for (long i = 0; i <= n; i++) {
        struct curl_slist *headers = NULL;
        long code = 0;

        headers = curl_slist_append(headers, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
        headers = curl_slist_append(headers, "Content-Type: application/octet-stream");
        if (i > 0) {
            snprintf(condition, sizeof condition, "If-Match: %s", etag);
            headers = curl_slist_append(headers, condition);
        }
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        snprintf(body, sizeof body, "%0300ld", i);
        request(curl, "PUT", url, body);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
        if (code != 200)
            fail("floor_s3: the write was refused");
        curl_slist_free_all(headers);
        if (i == 0)
            from = now();
    }
    printf("%.0f\n", (double)n / (now() - from));
    curl_easy_cleanup(curl);
    return 0;
}
