/* store/etcd/news.h - news of changes, as one stream of watches (store/watcher.h). */
#ifndef TN_STORE_ETCD_NEWS_H
#define TN_STORE_ETCD_NEWS_H

#include "store/etcd/etcd.h"

void tn_etcd_watcher_init(struct tn_etcd *h);
/* Ask the cluster in one linearizable transaction of reads. */
enum tenure_status tn_etcd_compare(struct tn_watcher *w, const struct tenure_watch *const *watches,
                                   size_t n, int64_t by, bool *changed, struct tenure_error *err);

#endif
