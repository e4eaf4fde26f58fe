/* api/page.h - files that are built in: api/page/index.html and docs/reference/openapi.yaml. */
#ifndef TN_API_PAGE_H
#define TN_API_PAGE_H

#include <stddef.h>

extern const unsigned char tn_page_html[], tn_page_openapi[];
extern const size_t tn_page_html_len, tn_page_openapi_len;
/* Content-Security-Policy of the page. */
extern const char tn_page_policy[];

#endif
