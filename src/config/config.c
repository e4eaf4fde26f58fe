#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/draft.h"
#include "os/secret.h"

/* ---- The world ----------------------------------------------------------- */

static const char *variable(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

static char *first_line(void *arg, const char *path, struct tenure_error *err)
{
    struct tn_secret secret = {.file = path};

    (void)arg;
    return tn_secret_load(&secret, err);
}

const struct tn_config_world tn_config_real_world = {.variable = variable, .file = first_line};

/* ---- Sections ------------------------------------------------------------ */

/* What stands at the top, or in an entry of `elections`. */
struct top {
    struct tn_text name;
    const struct tn_yaml *coordinate, *state, *run, *http, *log, *elections, *replication;
};

/* clang-format off */
static const struct tn_key top_keys[] = {
    {"name", "election", TN_KEY_TEXT, offsetof(struct top, name)},
    {"coordinate", NULL, TN_KEY_TREE, offsetof(struct top, coordinate)},
    {"state", NULL, TN_KEY_TREE, offsetof(struct top, state)},
    {"run", NULL, TN_KEY_TREE, offsetof(struct top, run)},
    {"http", NULL, TN_KEY_TREE, offsetof(struct top, http)},
    {"log", NULL, TN_KEY_TREE, offsetof(struct top, log)},
    {"elections", NULL, TN_KEY_TREE, offsetof(struct top, elections)},
    {"replication", NULL, TN_KEY_TREE, offsetof(struct top, replication)},
    {0},
};
struct log {
    int format, level, time;
};
static const struct tn_key log_keys[] = {
    {"format", NULL, TN_KEY_WORD, offsetof(struct log, format), .words = tn_config_logs},
    {"level", "log_level", TN_KEY_WORD, offsetof(struct log, level), .words = tn_config_levels},
    {"time", NULL, TN_KEY_WORD, offsetof(struct log, time), .words = tn_config_stamps},
    {0},
};
/* clang-format on */

static void take_sections(struct tn_reader *r, const struct top *top, struct tn_draft *d)
{
    if (top->replication)
        tn_draft_replication(r, d, top->replication);
    if (top->coordinate)
        tn_draft_coordinate(r, d, top->coordinate);
    if (top->state)
        tn_draft_state(r, d, top->state);
    if (top->run)
        tn_draft_run(r, d, top->run);
    if (top->http)
        tn_draft_http(r, d, top->http);
}

/* An entry of `elections`. */
static void take_entry(struct tn_reader *r, const struct tn_yaml *node, const struct tn_draft *base,
                       struct tn_config *c)
{
    struct tn_draft d = *base;
    struct top top = {0};
    struct tn_seen seen = {0};

    d.line = node->line;
    d.http.listen = NULL; /* the agent's, which answers for all of them */
    tn_keys_take(r, node, "elections", top_keys, &seen, &top);
    d.line = tn_keys_line(top_keys, &seen, offsetof(struct top, name), node->line);
    d.name = top.name;
    if (r->world->only &&
        (c->n_elections || !top.name.text || strcmp(top.name.text, r->world->only) != 0))
        return;
    const struct tn_yaml *wrong = top.log ? top.log : top.elections;
    if (wrong)
        tn_complain(r, wrong->key_line,
                    "elections: '%s' applies to the whole agent: move it to the top level",
                    wrong->key);
    take_sections(r, &top, &d);
    if (top.http && !d.http.listen)
        tn_complain(r, d.http_line,
                    "http: there is no 'listen' here; what is for the agent's own address belongs "
                    "to the top level");
    if (!d.http.listen)
        d.http = (struct tn_draft_http){0}; /* what stands at the top level is judged there */
    tn_draft_settle(r, &d, c->log, &c->elections[c->n_elections++]);
}

static void check_names(struct tn_reader *r, const struct tn_config *c)
{
    for (size_t i = 0; i < c->n_elections; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct tn_config_election *a = &c->elections[j], *b = &c->elections[i];

            if (a->name.text && b->name.text && strcmp(a->name.text, b->name.text) == 0)
                tn_complain(r, b->line, "name: '%.60s' is already the election on line %u",
                            b->name.shown, a->line);
        }
    }
}

static void take_elections(struct tn_reader *r, const struct top *top, struct tn_draft *base,
                           struct tn_config *c)
{
    const struct tn_yaml *list = top->elections;
    size_t n = 0;

    if (list && (list->kind != TN_YAML_LIST || !list->first)) {
        tn_complain(r, list->key_line, "elections: a list belongs here, of '- name: ...' entries");
        return;
    }
    if (list && top->name.text)
        tn_complain(r, base->line, "name: each of 'elections' has its own; remove this one");
    for (const struct tn_yaml *one = list ? list->first : NULL; one; one = one->next)
        n++;
    if (n == 0 || r->world->only)
        n = 1;
    c->elections = tn_arena_alloc(r->arena, n * sizeof *c->elections);
    if (!c->elections) {
        r->no_memory = true;
        return;
    }
    if (base->http.listen || !list)
        tn_draft_settle_http(r, base, &c->api);
    if (!list) {
        struct tn_draft only = *base;

        only.http = (struct tn_draft_http){0};
        tn_draft_settle(r, &only, c->log, &c->elections[c->n_elections++]);
    }
    for (const struct tn_yaml *one = list ? list->first : NULL; one; one = one->next)
        take_entry(r, one, base, c);
    check_names(r, c);
}

static void take_file(struct tn_reader *r, const struct tn_yaml *root, struct tn_config *c)
{
    struct top top = {0};
    struct tn_seen seen = {0}, log_seen = {0};
    struct tn_draft base;
    struct log log = {.level = TN_LEVEL_INFO};

    tn_keys_take(r, root, "", top_keys, &seen, &top);
    if (root->kind != TN_YAML_MAP)
        return;
    if (top.log)
        tn_keys_take(r, top.log, "log", log_keys, &log_seen, &log);
    c->log = (enum tn_log_format)log.format;
    c->log_level = (enum tn_log_level)log.level;
    c->log_stamp = (enum tn_log_stamp)log.time;
    tn_draft_init(&base);
    base.line = tn_keys_line(top_keys, &seen, offsetof(struct top, name), root->line);
    base.name = top.name;
    take_sections(r, &top, &base);
    take_elections(r, &top, &base, c);
    for (size_t i = 0; i < c->n_elections; i++) {
        c->elections[i].run.log_level = c->log_level;
        c->elections[i].run.log_stamp = c->log_stamp;
    }
}

/* ---- Life ---------------------------------------------------------------- */

enum tenure_status tn_config_read(struct tn_config *c, const char *file, const char *text,
                                  size_t len, const struct tn_config_world *world)
{
    struct tn_reader r = {.arena = &c->arena, .file = file, .world = world};

    *c = (struct tn_config){0};
    r.file = c->file = tn_arena_copy(&c->arena, file, strlen(file));
    if (!c->file)
        return TENURE_NOMEM;
    const struct tn_yaml *root = tn_yaml_read(&r, text, len);
    if (root)
        take_file(&r, root, c);
    else if (r.n_complaints == 0 && !r.no_memory)
        tn_complain(&r, 0, "empty; an example: contrib/tenure.yaml, all keys: tenure.yaml(5)");
    if (r.no_memory) {
        tn_config_free(c);
        return TENURE_NOMEM;
    }
    memcpy(c->complaints, r.complaints, sizeof c->complaints);
    c->n_complaints = r.n_complaints;
    return c->n_complaints ? TENURE_CONFIG : TENURE_OK;
}

void tn_config_free(struct tn_config *c)
{
    tn_arena_free(&c->arena);
    *c = (struct tn_config){0};
}

const struct tn_config_election *tn_config_find(const struct tn_config *c, const char *name)
{
    for (size_t i = 0; i < c->n_elections; i++) {
        if (strcmp(c->elections[i].name.text, name) == 0)
            return &c->elections[i];
    }
    return NULL;
}
