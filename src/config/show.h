/* config/show.h - the configuration as it takes effect, without secrets. */
#ifndef TN_CONFIG_SHOW_H
#define TN_CONFIG_SHOW_H

#include <jansson.h>
#include <stdio.h>

#include "config/config.h"

/* For people; every timing with its arithmetic. */
void tn_config_show(const struct tn_config *c, FILE *to);
/* For programs: {"file", "elections": [...], "http", "log"}, or {"file", "errors": [...]}.
 * NULL without memory. */
json_t *tn_config_json(const struct tn_config *c);

#endif
