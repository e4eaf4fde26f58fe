/* store/etcd/news.h - one wait on etcd: what is followed, and what is known of it. */
#ifndef TN_STORE_ETCD_NEWS_H
#define TN_STORE_ETCD_NEWS_H

#include "store/etcd/etcd.h"

struct tn_etcd_target {
    char key[TENURE_KEY_MAX + 1]; /* or a prefix */
    bool prefix;
    bool known; /* token is the register's, or news of a later one is on its way */
    struct tenure_token token;
};

struct tn_etcd_news {
    struct tn_http_stream *stream;
    bool open; /* its head has come */
    struct tn_etcd_target targets[TENURE_WATCH_MAX];
    unsigned n;
    unsigned confirmed;
    unsigned unanswered; /* the handle's when the stream began */
    int64_t heard_ns;    /* when it last said something, or was found to be right */
};

/* A stream that was silent for so long is not believed without a look. */
#define TN_ETCD_SILENCE_NS INT64_C(30000000000)

/* One wait in progress. */
struct tn_etcd_waiting {
    const struct tenure_watch *watches;
    size_t n;
    bool asked; /* what is there was compared: from now on news count */
    bool news;  /* something watched has changed */
    bool doubt; /* what is known has to be asked again */
};

/* What is known of a register or prefix that is followed; NULL if it is not. */
struct tn_etcd_target *tn_etcd_find(struct tn_etcd *h, const char *key, bool prefix);
/* Ask the cluster for what is not known, in one request; sets w->news. */
enum tenure_status tn_etcd_compare(struct tn_etcd *h, struct tn_etcd_waiting *w, int64_t deadline,
                                   struct tenure_error *err);

#endif
