/* cli/config.h - the configuration file as `config` and `agent` find and read it. */
#ifndef TN_CLI_CONFIG_H
#define TN_CLI_CONFIG_H

#include "config/config.h"

/* given, TENURE_CONFIG, ./tenure.yaml or /etc/tenure/tenure.yaml. */
const char *cli_config_path(const char *given);
/* The file's text, NUL-terminated, malloc'ed; at most one byte more than may be.  NULL with err. */
char *cli_config_load(const char *path, size_t *len, struct tenure_error *err);
/* Each complaint, and how many were left out. */
void cli_config_tell(const struct tn_config *c, void (*tell)(const char *line));

#endif
