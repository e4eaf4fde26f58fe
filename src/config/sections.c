/* The keys of each section, and the names that other programs have for them. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "config/draft.h"

const char *const tn_config_prefers[] = {"none", "oldest-build", "newest-build", NULL};
const char *const tn_config_losses[] = {"standby", "exit", "restart-program", NULL};
const char *const tn_config_exits[] = {"exit", "restart", "yield", NULL};
const char *const tn_config_contains[] = {"auto", "group", "cgroup", "pidns", "userns", NULL};
const char *const tn_config_watchdogs[] = {"off", "auto", "required", NULL};
const char *const tn_config_reads[] = {"open", "token", NULL};
const char *const tn_config_logs[] = {"auto", "text", "json", "none", NULL};
const char *const tn_config_stamps[] = {"auto", "always", "never", NULL};
const char *const tn_config_levels[] = {"error", "warn", "info", "debug", NULL};

/* ---- Places -------------------------------------------------------------- */

/* clang-format off */
#define PLACE(S)                                                                                   \
    {"path", "directory dir file", TN_KEY_TEXT, offsetof(S, place.path)},                          \
    {"endpoints", "hosts addresses", TN_KEY_TREE, offsetof(S, place.endpoints)},                   \
    {"host", NULL, TN_KEY_TEXT, offsetof(S, place.host)},                                          \
    {"port", NULL, TN_KEY_INT, offsetof(S, place.port), 1, 65535},                                 \
    {"user", "username", TN_KEY_TEXT, offsetof(S, place.user)},                                    \
    {"password", NULL, TN_KEY_SECRET, offsetof(S, place.password)},                                \
    {"database", "dbname db", TN_KEY_TEXT, offsetof(S, place.database)},                           \
    {"prefix", NULL, TN_KEY_TEXT, offsetof(S, place.prefix)},                                      \
    {"bucket", NULL, TN_KEY_TEXT, offsetof(S, place.bucket)},                                      \
    {"namespace", NULL, TN_KEY_TEXT, offsetof(S, place.space)},                                    \
    {"kubeconfig", NULL, TN_KEY_TEXT, offsetof(S, place.kubeconfig)},                              \
    {"options", "params", TN_KEY_TREE, offsetof(S, place.options)}

#define C struct tn_draft_coordinate
static const struct tn_key coordinate_keys[] = {
    {"type", NULL, TN_KEY_TEXT, offsetof(C, place.type)},
    {"store", "url lease_store", TN_KEY_TEXT, offsetof(C, place.url)},
    PLACE(C),
    {"lock_key", "leader_lock_key", TN_KEY_TEXT, offsetof(C, place.lock_key)},
    {"retry_every", NULL, TN_KEY_TEXT, offsetof(C, place.retry_every)},
    {"name", "lease_name", TN_KEY_TEXT, offsetof(C, lease_name)},
    {"holder_id", "id identity candidate_id worker_id", TN_KEY_TEXT, offsetof(C, id)},
    {"address", NULL, TN_KEY_TEXT, offsetof(C, address)},
    {"build", "version", TN_KEY_TEXT, offsetof(C, build)},
    {"ttl", "lease_duration lease_ttl failover_timeout", TN_KEY_MS, offsetof(C, ttl_ms)},
    {"renew_interval", "renew retry_period heartbeat_interval", TN_KEY_MS, offsetof(C, renew_ms)},
    {"kill_time", "kill", TN_KEY_MS, offsetof(C, kill_ms)},
    {"clock_drift", "rho", TN_KEY_PERCENT, offsetof(C, drift_ppm)},
    {"priority", NULL, TN_KEY_INT, offsetof(C, priority), -1000000, 1000000},
    {"prefer", NULL, TN_KEY_WORD, offsetof(C, prefer), .words = tn_config_prefers},
    {"preempt", NULL, TN_KEY_BOOL, offsetof(C, preempt)},
    {"preempt_delay", NULL, TN_KEY_NS, offsetof(C, preempt_delay_ns)},
    {"release_on_cancel", NULL, TN_KEY_YES, offsetof(C, ignored),
     .note = "a lease is always released once the program has ended"},
    {"require_lease", NULL, TN_KEY_YES, offsetof(C, ignored),
     .note = "fail-over by pings alone lets two lead at once"},
    {0},
};
#undef C

#define S struct tn_draft_state
static const struct tn_key state_keys[] = {
    {"store", "type url", TN_KEY_TEXT, offsetof(S, place.url)},
    PLACE(S),
    {"seal", "collections", TN_KEY_TREE, offsetof(S, seal)},
    {0},
};
#undef S

#define R struct tn_draft_run
static const struct tn_key run_keys[] = {
    {"command", "program", TN_KEY_TREE, offsetof(R, command)},
    {"env", "environment", TN_KEY_TREE, offsetof(R, env)},
    {"user", NULL, TN_KEY_TEXT, offsetof(R, user)},
    {"chdir", "working_directory cwd", TN_KEY_TEXT, offsetof(R, chdir)},
    {"grace", "shutdown_grace stop_timeout", TN_KEY_MS, offsetof(R, grace_ms)},
    {"answer_for", NULL, TN_KEY_MS, offsetof(R, answer_for_ms)},
    {"stop_signal", NULL, TN_KEY_SIGNAL, offsetof(R, stop_signal)},
    {"on_loss", NULL, TN_KEY_WORD, offsetof(R, on_loss), .words = tn_config_losses},
    {"on_exit", NULL, TN_KEY_WORD, offsetof(R, on_exit), .words = tn_config_exits},
    {"crash_limit", NULL, TN_KEY_INT, offsetof(R, crash_limit), 1, 1000000},
    {"probe", NULL, TN_KEY_TREE, offsetof(R, probe)},
    {"candidate_probe", NULL, TN_KEY_COMMAND, offsetof(R, candidate_probe)},
    {"hooks", NULL, TN_KEY_TREE, offsetof(R, hooks)},
    {"on_started", "on_started_leading", TN_KEY_COMMAND, offsetof(R, on_started)},
    {"on_stopped", "on_stopped_leading", TN_KEY_COMMAND, offsetof(R, on_stopped)},
    {"on_new_leader", NULL, TN_KEY_COMMAND, offsetof(R, on_new_leader)},
    {"hook_timeout", NULL, TN_KEY_MS, offsetof(R, hook_timeout_ms)},
    {"fence_command", NULL, TN_KEY_COMMAND, offsetof(R, fence_command)},
    {"fence_after", NULL, TN_KEY_NS, offsetof(R, fence_after_ns)},
    {"fence_timeout", NULL, TN_KEY_MS, offsetof(R, fence_timeout_ms)},
    {"warm", NULL, TN_KEY_BOOL, offsetof(R, warm)},
    {"warm_file", NULL, TN_KEY_TEXT, offsetof(R, warm_file)},
    {"warm_signal", NULL, TN_KEY_SIGNAL, offsetof(R, warm_signal)},
    {"allow_duplicate_id", NULL, TN_KEY_BOOL, offsetof(R, allow_duplicate_id)},
    {"allow_new_privs", NULL, TN_KEY_BOOL, offsetof(R, allow_new_privs)},
    {"start_timeout", NULL, TN_KEY_NS, offsetof(R, start_timeout_ns)},
    {"contain", NULL, TN_KEY_WORD, offsetof(R, contain), .words = tn_config_contains},
    {"orphan_grace", NULL, TN_KEY_NS, offsetof(R, orphan_grace_ns)},
    {"release_delay", NULL, TN_KEY_NS, offsetof(R, release_delay_ns)},
    {"watchdog", NULL, TN_KEY_WORD, offsetof(R, watchdog), .words = tn_config_watchdogs},
    {"watchdog_device", NULL, TN_KEY_TEXT, offsetof(R, watchdog_device)},
    {0},
};
static const struct tn_key hook_keys[] = {
    {"on_started", "started on_started_leading", TN_KEY_COMMAND, offsetof(R, on_started)},
    {"on_stopped", "stopped on_stopped_leading", TN_KEY_COMMAND, offsetof(R, on_stopped)},
    {"on_new_leader", "new_leader", TN_KEY_COMMAND, offsetof(R, on_new_leader)},
    {"timeout", NULL, TN_KEY_MS, offsetof(R, hook_timeout_ms)},
    {0},
};
#undef R

#define P struct tn_draft_probe
static const struct tn_key probe_keys[] = {
    {"exec", NULL, TN_KEY_COMMAND, offsetof(P, exec)},
    {"http", NULL, TN_KEY_TEXT, offsetof(P, http)},
    {"tcp", NULL, TN_KEY_TEXT, offsetof(P, tcp)},
    {"notify", NULL, TN_KEY_BOOL, offsetof(P, notify)},
    {"delay", "initial_delay", TN_KEY_NS, offsetof(P, delay_ns)},
    {"interval", "period", TN_KEY_MS, offsetof(P, interval_ms)},
    {"timeout", NULL, TN_KEY_MS, offsetof(P, timeout_ms)},
    {"threshold", "failure_threshold", TN_KEY_INT, offsetof(P, threshold), 1, 1000},
    {0},
};
#undef P

#define H struct tn_draft_http
static const struct tn_key http_keys[] = {
    {"listen", NULL, TN_KEY_TREE, offsetof(H, listen)},
    {"token", NULL, TN_KEY_TEXT, offsetof(H, token)},
    {"token_file", NULL, TN_KEY_TEXT, offsetof(H, token_file)},
    {"reads", "listen_reads", TN_KEY_WORD, offsetof(H, reads), .words = tn_config_reads},
    {"hosts", "listen_host listen_hosts", TN_KEY_TREE, offsetof(H, hosts)},
    {"tls_cert", NULL, TN_KEY_TEXT, offsetof(H, tls_cert)},
    {"tls_key", NULL, TN_KEY_TEXT, offsetof(H, tls_key)},
    {"tls_client_ca", NULL, TN_KEY_TEXT, offsetof(H, tls_client_ca)},
    {0},
};
#undef H
/* clang-format on */

_Static_assert(sizeof coordinate_keys / sizeof coordinate_keys[0] <= TN_KEYS_MAX, "keys.h");
_Static_assert(sizeof run_keys / sizeof run_keys[0] <= TN_KEYS_MAX, "keys.h");

void tn_draft_init(struct tn_draft *d)
{
    *d = (struct tn_draft){
        .coordinate.preempt_delay_ns = 5 * TN_S,
        .run = {.stop_signal = SIGTERM,
                .on_exit = TN_EXIT_RESTART, /* an agent outlives its programs */
                .crash_limit = 5,
                .hook_timeout_ms = 10000,
                .fence_timeout_ms = 30000},
        .probe = {.interval_ms = 5000, .timeout_ms = 2000, .threshold = 3},
    };
}

/* Who names a store of its own wants nothing of the common one. */
static void renounce(const struct tn_yaml *map, struct tn_place *place)
{
    for (const struct tn_yaml *node = map->kind == TN_YAML_MAP ? map->first : NULL; node;
         node = node->next) {
        if (tn_key_same(node->key, "type") || tn_key_same(node->key, "store") ||
            tn_key_same(node->key, "url"))
            *place = (struct tn_place){0};
    }
}

/* ---- coordinate ---------------------------------------------------------- */

/* Blocks that are named like a type hold keys of that type. */
static const char *const blocks[] = {
    "file_lease", "k8s_lease", "kubernetes_lease", "lease_config", "postgres", "postgres_advisory",
    "redis",      "etcd",      "sqlite",           "zookeeper",    "consul",   "nats",
    "mongodb",    "s3",        "azblob",           "gcs",          NULL};

static bool is_block(const char *key)
{
    for (int i = 0; blocks[i]; i++) {
        if (tn_key_same(key, blocks[i]))
            return true;
    }
    return false;
}

/* Of the type that was chosen; what belongs to others is checked, and left aside. */
static bool is_chosen(const char *key, const char *type)
{
    if (!type)
        return true;
    return tn_key_same(key, type) || tn_key_same(key, "lease_config") ||
           (tn_key_same(key, "kubernetes_lease") && tn_key_same(type, "k8s_lease"));
}

static void note_lines(struct tn_draft *d, const struct tn_seen *seen)
{
#define C struct tn_draft_coordinate
    d->ttl_line = tn_keys_line(coordinate_keys, seen, offsetof(C, ttl_ms), d->ttl_line);
    d->renew_line = tn_keys_line(coordinate_keys, seen, offsetof(C, renew_ms), d->renew_line);
    d->kill_line = tn_keys_line(coordinate_keys, seen, offsetof(C, kill_ms), d->kill_line);
#undef C
}

static void take_blocks(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *list,
                        struct tn_seen *seen)
{
    for (const struct tn_yaml *block = list; block; block = block->next) {
        struct tn_draft_coordinate aside = {0};
        struct tn_seen aside_seen = {0};
        bool chosen = is_chosen(block->key, d->coordinate.place.type.text);
        char path[100];

        snprintf(path, sizeof path, "coordinate.%.60s", block->key);
        tn_keys_take(r, block, path, coordinate_keys, chosen ? seen : &aside_seen,
                     chosen ? &d->coordinate : &aside);
    }
}

void tn_draft_coordinate(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *map)
{
    struct tn_yaml plain = *map, inner = {.kind = TN_YAML_MAP};
    struct tn_seen seen = {0};

    d->coordinate_line = map->key_line;
    renounce(map, &d->coordinate.place);
    if (map->kind == TN_YAML_MAP) {
        /* Copies, so that the tree stays as it was read. */
        plain.first = plain.last = NULL;
        for (const struct tn_yaml *node = map->first; node; node = node->next) {
            struct tn_yaml *copy = tn_arena_alloc(r->arena, sizeof *copy);
            struct tn_yaml *into = is_block(node->key) ? &inner : &plain;

            if (!copy) {
                r->no_memory = true;
                return;
            }
            *copy = *node;
            copy->next = NULL;
            if (into->last)
                into->last->next = copy;
            else
                into->first = copy;
            into->last = copy;
        }
    }
    tn_keys_take(r, &plain, "coordinate", coordinate_keys, &seen, &d->coordinate);
    take_blocks(r, d, inner.first, &seen);
    note_lines(d, &seen);
}

/* ---- state, run ---------------------------------------------------------- */

void tn_draft_state(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *map)
{
    struct tn_seen seen = {0};

    d->state_line = map->key_line;
    renounce(map, &d->state.place);
    tn_keys_take(r, map, "state", state_keys, &seen, &d->state);
}

void tn_draft_http(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *map)
{
    struct tn_seen seen = {0};

    d->http_line = map->key_line;
    tn_keys_take(r, map, "http", http_keys, &seen, &d->http);
}

static void take_probe(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *node)
{
    static const struct tn_key spec = {"probe", NULL, TN_KEY_COMMAND,
                                       offsetof(struct tn_draft_probe, spec)};
    struct tn_seen seen = {0};

    d->probe.spec = d->probe.exec = d->probe.http = d->probe.tcp = (struct tn_text){0};
    d->probe.notify = false;
    if (node->kind == TN_YAML_VALUE)
        tn_key_take(r, node, "run.probe", &spec, &d->probe);
    else
        tn_keys_take(r, node, "run.probe", probe_keys, &seen, &d->probe);
}

void tn_draft_run(struct tn_reader *r, struct tn_draft *d, const struct tn_yaml *map)
{
    struct tn_seen seen = {0}, hooks_seen = {0};
    const struct tn_yaml *probe = d->run.probe, *hooks = d->run.hooks;

    d->run_line = map->key_line;
    tn_keys_take(r, map, "run", run_keys, &seen, &d->run);
    if (d->run.probe && d->run.probe != probe)
        take_probe(r, d, d->run.probe);
    if (d->run.hooks && d->run.hooks != hooks)
        tn_keys_take(r, d->run.hooks, "run.hooks", hook_keys, &hooks_seen, &d->run);
    d->answer_line =
        tn_keys_line(run_keys, &seen, offsetof(struct tn_draft_run, answer_for_ms), d->answer_line);
    d->grace_line =
        tn_keys_line(run_keys, &seen, offsetof(struct tn_draft_run, grace_ms), d->grace_line);
}
