/* config/change.h - what a new configuration changes in an election that runs. */
#ifndef TN_CONFIG_CHANGE_H
#define TN_CONFIG_CHANGE_H

#include "config/config.h"

#define TN_CHANGE_TEXT 512

struct tn_change {
    char done[TN_CHANGE_TEXT];    /* keys that take effect; "" if none */
    char restart[TN_CHANGE_TEXT]; /* keys that need a restart of the agent; "" if none */
};

/*
 * Compare.  *effective (now's options at first) gets what can change; the rest
 * of it stays.  Strings in it are next's, which must live on.
 */
void tn_config_change(const struct tn_config_election *now, const struct tn_config_election *next,
                      struct tn_run_options *effective, struct tn_change *change);

/* Of a listener nothing changes while it runs: add to restart which keys differ.  What their files
 * hold is another matter: tokens and certificates are read again by themselves. */
void tn_config_change_http(const struct tn_api_options *now, const struct tn_api_options *next,
                           char restart[TN_CHANGE_TEXT]);

#endif
