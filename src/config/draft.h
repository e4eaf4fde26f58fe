/* config/draft.h - the sections of an election as they were written, before they are judged. */
#ifndef TN_CONFIG_DRAFT_H
#define TN_CONFIG_DRAFT_H

#include "config/config.h"
#include "config/keys.h"

/* Where registers are kept; of coordinate and of state. */
struct tn_place {
    struct tn_text type, url;
    struct tn_text path, host, user, password, database, prefix, bucket;
    struct tn_text space, kubeconfig, lock_key, retry_every;
    const struct tn_yaml *endpoints, *options;
    int64_t port;
};

struct tn_draft_coordinate {
    struct tn_place place;
    struct tn_text lease_name, id, address, build;
    int64_t ttl_ms, renew_ms, kill_ms;
    uint32_t drift_ppm;
    int64_t priority, preempt_delay_ns;
    int prefer;
    bool preempt, ignored;
};

struct tn_draft_state {
    struct tn_place place;
    const struct tn_yaml *seal;
};

struct tn_draft_probe {
    struct tn_text spec, exec;
    struct tn_text http, tcp;
    bool notify;
    int64_t delay_ns, interval_ms, timeout_ms, threshold;
};

struct tn_draft_run {
    const struct tn_yaml *command, *env, *probe, *hooks;
    struct tn_text candidate_probe;
    int64_t answer_for_ms, grace_ms, crash_limit, start_timeout_ns, orphan_grace_ns,
        release_delay_ns, hook_timeout_ms, fence_after_ns, fence_timeout_ms;
    int stop_signal, on_loss, on_exit, contain, watchdog, warm_signal;
    struct tn_text user, chdir, watchdog_device, warm_file;
    struct tn_text on_started, on_stopped, on_new_leader, fence_command;
    bool allow_duplicate_id, allow_new_privs, warm;
};

struct tn_draft_http {
    const struct tn_yaml *listen, *hosts;
    struct tn_text token, token_file, tls_cert, tls_key, tls_client_ca;
    int reads;
};

/* An election's own lines win over those at the top level, which it starts from. */
struct tn_draft {
    unsigned line;
    struct tn_text name;
    struct tn_draft_coordinate coordinate;
    struct tn_draft_state state;
    struct tn_draft_run run;
    struct tn_draft_probe probe;
    struct tn_draft_http http;
    unsigned http_line;
    unsigned ttl_line, renew_line, kill_line, grace_line, answer_line, coordinate_line, state_line,
        run_line;
};

extern const char *const tn_config_prefers[],
    *const tn_config_losses[],
        *const tn_config_exits[], *const tn_config_contains[],
                                      *const tn_config_watchdogs[],
                                          *const tn_config_logs[], *const tn_config_levels[],
                                                                       *const tn_config_stamps[],
                                                                           *const tn_config_reads[];

/* Defaults. */
void tn_draft_init(struct tn_draft *d);
/* Read one section of that name ("coordinate", "state", "run"). */
void tn_draft_coordinate(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *map);
void tn_draft_state(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *map);
void tn_draft_http(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *map);
void tn_draft_run(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *map);
/* That of other programs: before the others, whose lines win. */
void tn_draft_replication(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *map);

/*
 * The URL of a place.  path names the section in complaints.  false: with a
 * complaint.  No type and no URL: out stays as it is, and true.
 */
bool tn_place_url(struct tn_reader *r, const struct tn_place *place, unsigned line,
                  const char *path, struct tn_text *out);

/* Judge the http section at the top level, which is the agent's. */
void tn_draft_settle_http(struct tn_reader *r, const struct tn_draft *d,
                          struct tn_api_options *out);
/* Judge a draft: false with complaints. */
bool tn_draft_settle(struct tn_reader *r, const struct tn_draft *d, enum tn_log_format log,
                     struct tn_config_election *out);

#endif
