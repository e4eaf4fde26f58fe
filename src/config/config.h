/*
 * config/config.h - tenure.yaml: what it says, and everything that is wrong with it.
 *
 *     coordinate: {type: file_lease, path: /srv/shared/web, ttl: 15s}
 *     state:      {store: same}
 *     run:        {command: [/usr/bin/web, --port, "80"]}
 *     http:       {listen: 127.0.0.1:8080, token: file:/etc/tenure/token}
 *     log:        {format: json}
 *
 * With `elections:`, a list, each entry has a name and sections of its own; what
 * stands at the top level is what they have in common.  tenure.yaml(5) has all keys.
 */
#ifndef TN_CONFIG_CONFIG_H
#define TN_CONFIG_CONFIG_H

#include "config/reader.h"
#include "core/timing.h"
#include "supervise/supervisor.h"

struct tn_config_election {
    unsigned line;
    struct tn_text name;
    struct tn_text store;      /* URL; shown is without secrets */
    struct tn_text state;      /* the same; text NULL: none */
    struct tn_run_options run; /* as tn_run() takes it, but for program.env and .mask;
                                * program.args is NULL for an election without a program */
    struct tn_text *command;   /* n_command words, for showing */
    size_t n_command;
    const char *const *env;  /* "NAME=value" for the program; ends with NULL; may be NULL */
    struct tn_timing timing; /* what follows from its times */
};

struct tn_config {
    struct tn_arena arena;
    const char *file;
    struct tn_config_election *elections;
    size_t n_elections;
    enum tn_log_format log;
    enum tn_log_level log_level;
    enum tn_log_stamp log_stamp;
    struct tn_api_options api; /* one listener for all of them; listen[0] NULL: none */
    char *complaints[TN_CONFIG_COMPLAINTS];
    unsigned n_complaints; /* 0: it can be used; may be more than are kept */
};

/*
 * Read text.  OK; CONFIG with complaints in c (never both); NOMEM.  file is a
 * name for messages.  c is the caller's; free it in any case.
 */
enum tenure_status tn_config_read(struct tn_config *c, const char *file, const char *text,
                                  size_t len, const struct tn_config_world *world);
/* Accepts a zeroed struct. */
void tn_config_free(struct tn_config *c);
const struct tn_config_election *tn_config_find(const struct tn_config *c, const char *name);

/* The environment and the files of this process. */
extern const struct tn_config_world tn_config_real_world;

#endif
