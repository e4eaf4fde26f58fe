/* api/page.h - files that are built in: the page (api/page) and docs/reference/openapi.yaml. */
#ifndef TN_API_PAGE_H
#define TN_API_PAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Plain and compressed; each form has an ETag of its own. */
struct tn_page_file {
    const char *type;
    const unsigned char *plain, *gzip;
    size_t plain_len, gzip_len;
    const char *etag, *etag_gzip; /* in quotes */
    const char *policy;           /* Content-Security-Policy */
};

extern const struct tn_page_file tn_page_html, tn_page_jobs, tn_page_openapi;

/* Does the value of Accept-Encoding allow gzip?  NULL: it does not. */
bool tn_page_accepts_gzip(const char *accept);

/* Does the value of If-None-Match name this tag, or any?  NULL: it does not. */
bool tn_page_is_known(const char *tags, const char *etag);

#endif
