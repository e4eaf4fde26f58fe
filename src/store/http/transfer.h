/* store/http/transfer.h - one transfer of libcurl, driven by our deadlines. */
#ifndef TN_STORE_HTTP_TRANSFER_H
#define TN_STORE_HTTP_TRANSFER_H

#include <curl/curl.h>

#include "store/http/http.h"

/* One transfer in progress. */
struct tn_transfer {
    const struct tn_http_conf *conf;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    char why[CURL_ERROR_SIZE];
    char *body;
    size_t len, cap, max;
    bool once;
    bool parked; /* nobody waits for it any more, but its connection is worth keeping */
    bool copied; /* libcurl has a body of its own */
    curl_off_t body_len;
    int64_t until_ns; /* parked: for so long */
    bool too_long, no_memory;
    bool ended;
    CURLcode result;
};

/* Make the request ready and give it to the multi handle.  False: no memory. */
bool tn_transfer_set_up(struct tn_transfer *t, const struct tn_http_request *request);
/* Perform until ready() says so, or the transfer has ended (t->ended). */
enum tenure_status tn_transfer_drive(struct tn_transfer *t,
                                     bool (*ready)(const struct tn_transfer *, void *), void *arg,
                                     int64_t deadline, struct tenure_error *err);
/* Note which transfers have ended. */
void tn_transfer_collect(CURLM *multi);
/* What t->result means. */
enum tenure_status tn_transfer_explain(const struct tn_transfer *t, struct tenure_error *err);
/* Did a byte of the request reach the kernel? */
bool tn_transfer_sent(const struct tn_transfer *t);
/* May it go on behind the back of who gave it up?  A read, or a change that has left as a whole. */
bool tn_transfer_harmless(const struct tn_transfer *t);
void tn_transfer_clean_up(struct tn_transfer *t);

#endif
