/* tenure state: look at what the next leader will load, and repair it. */
#include "cli/state/state.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tenure/lease.h"

static const char help[] =
    "usage: tenure state show   --name NAME [COLLECTION] [--json]\n"
    "       tenure state get    --name NAME COLLECTION/ID\n"
    "       tenure state put    --name NAME COLLECTION/ID [FILE] [--force]\n"
    "       tenure state delete --name NAME COLLECTION/ID [--force] [--yes]\n"
    "       tenure state repair --name NAME COLLECTION[/ID] [FILE | --delete]\n"
    "                           [--force] [--yes]\n"
    "       tenure state export --name NAME [FILE]\n"
    "       tenure state import --name NAME FILE [--force]\n"
    "\n"
    "Shows and repairs the state of an election: collections of documents that only\n"
    "the leader with the highest epoch can change.  FILE '-' or omitted: standard\n"
    "input or output.  Also takes --store URL and --timeout 5s; TENURE_STORE and\n"
    "TENURE_NAME set the defaults.\n"
    "\n"
    "  --force  change a document although a leader holds the lease: its next commit\n"
    "           of that document fails with 'conflict', and it loads yours\n"
    "  --delete repair: leave no document in its place\n"
    "  --yes    delete, repair: do not ask; at a terminal they do\n"
    "  --lease URL  the store of the lease, if it is not the state's\n"
    "\n"
    "put, delete and import keep the stored epoch, so they never fence the leader.\n"
    "export writes one line of JSON per document, which import restores byte for\n"
    "byte.  Damaged documents are listed and left unchanged until repair replaces\n"
    "them; the damaged bytes are kept in COLLECTION.damaged/ID@VERSION.  show lists a\n"
    "damaged collection root under the collection's name alone.  Only put and import\n"
    "create a store that does not exist yet.\n"
    "\n"
    "Exit: 0 done, 1 refused or failed, 2 usage error or no such store, 3 get: no\n"
    "      such document.\n";

enum { OPT_FORCE = CLI_OPT_OWN, OPT_DELETE, OPT_LEASE, OPT_YES };

/* ---- Pieces -------------------------------------------------------------- */

bool cli_state_split(const char *where, char *collection, size_t size, const char **id)
{
    const char *slash = where ? strchr(where, '/') : NULL;

    if (!slash || slash == where || !slash[1] || (size_t)(slash - where) >= size)
        return false;
    memcpy(collection, where, (size_t)(slash - where));
    collection[slash - where] = '\0';
    *id = slash + 1;
    return true;
}

char *cli_state_slurp(const struct cli_state_call *c, const char *path, size_t *len)
{
    FILE *in = !path || strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t cap = 65536, n = 0;
    char *text = malloc(cap + 1), *grown;

    if (!in || !text) {
        cli_fail(c->verb, 0, "cannot read %s: %s", path, strerror(errno));
        free(text);
        return NULL;
    }
    for (;;) {
        size_t got = fread(text + n, 1, cap - n, in);

        n += got;
        if (n < cap)
            break;
        grown = realloc(text, 2 * cap + 1);
        if (!grown)
            break;
        text = grown;
        cap *= 2;
    }
    bool failed = ferror(in) || !feof(in);
    if (in != stdin)
        fclose(in);
    if (failed) {
        cli_fail(c->verb, 0, "cannot read %s", path ? path : "standard input");
        free(text);
        return NULL;
    }
    text[n] = '\0';
    *len = n;
    return text;
}

bool cli_state_lease(struct cli_state_call *c, struct tenure_lease_view *view)
{
    struct cli_common common = c->common;
    struct tenure_error err;
    tenure_store *store;
    enum tenure_status status;

    if (c->lease)
        common.store = c->lease;
    common.absent = CLI_REFUSE;
    store = cli_open(c->verb, &common, &c->code);
    if (!store)
        return false;
    c->code = CLI_FAILED;
    status = tenure_lease_look(store, c->common.name, view, c->deadline, &err);
    if (status)
        cli_fail(c->verb, 0, "%s", err.text);
    tenure_store_close(store);
    return !status;
}

bool cli_state_unheld(struct cli_state_call *c, const struct tenure_lease_view *view)
{
    if (c->force || view->state != TENURE_LEASE_HELD)
        return true;
    cli_fail(c->verb, 0,
             "%s is led by %s, which may be using this; --force changes it all the same, and the "
             "leader's next commit conflicts",
             c->common.name, view->holder);
    return false;
}

/* An edit over a leader's head wants --force. */
static bool may_edit(struct cli_state_call *c)
{
    struct tenure_lease_view view = TENURE_LEASE_VIEW;

    return c->force || (cli_state_lease(c, &view) && cli_state_unheld(c, &view));
}

int cli_state_fail(const struct cli_state_call *c, enum tenure_status status,
                   const struct tenure_error *err)
{
    if (status != TENURE_CORRUPT)
        return cli_fail_with(c->verb, err);
    return cli_fail(c->verb, CLI_FAILED, "%s; " CLI_STATE_REPAIR, err->text);
}

/* ---- show ---------------------------------------------------------------- */

struct names {
    char **name;
    size_t n;
    bool lost; /* one could not be noted */
};

/* Noted first and visited later: the handle serves one walk at a time. */
static bool note_name(void *arg, const char *name)
{
    struct names *l = arg;
    char **grown = realloc(l->name, (l->n + 1) * sizeof *grown);

    if (grown)
        l->name = grown;
    l->lost = !grown || !(grown[l->n] = strdup(name));
    l->n += !l->lost;
    return !l->lost;
}

int cli_state_each(struct cli_state_call *c, const char *only,
                   enum tenure_status (*each)(void *arg, const char *collection,
                                              struct tenure_error *err),
                   void *arg)
{
    struct names l = {0};
    struct tenure_error err = {0};
    enum tenure_status status = TENURE_OK;
    int code = CLI_OK;

    if (only)
        note_name(&l, only);
    else
        status = tenure_state_collections(c->state, note_name, &l, c->deadline, &err);
    if (!status && l.lost)
        status = tenure_fail(&err, TENURE_NOMEM, "out of memory");
    if (status)
        code = cli_fail_with(c->verb, &err);
    for (size_t i = 0; i < l.n; i++) {
        /* A collection that cannot be read does not hide the others. */
        if (!status || status == TENURE_CORRUPT) {
            c->deadline = tenure_now() + c->common.timeout_ns;
            status = each(arg, l.name[i], &err);
            if (status)
                code = cli_fail_with(c->verb, &err);
        }
        free(l.name[i]);
    }
    free(l.name);
    return code;
}

struct listing {
    struct cli_state_call *call;
    const char *collection;
    unsigned damaged;
    bool lost; /* one could not be told */
};

void cli_state_print(const char *id)
{
    for (; *id; id++) {
        size_t n = tn_text_control(id);

        putchar(n ? '?' : *id);
        id += n ? n - 1 : 0;
    }
}

static bool show_document(void *arg, const char *id, const struct tenure_document *d,
                          const char *damage)
{
    struct listing *l = arg;

    l->damaged += damage != NULL;
    if (l->call->common.json) {
        json_t *o = json_pack("{s:s, s:o, s:I, s:I, s:I, s:b, s:s?}", "collection", l->collection,
                              cli_state_id_name(id), cli_state_id(id), "epoch",
                              (json_int_t)d->epoch, "seq", (json_int_t)d->seq, "bytes",
                              (json_int_t)d->value.len, "edited", d->edited, "damage", damage);
        l->lost |= !o || json_dumpf(o, stdout, JSON_COMPACT) != 0;
        json_decref(o);
        putchar('\n');
    } else {
        printf("%s%s%s", cli_bold(), l->collection, *id ? "/" : "");
        cli_state_print(id);
        if (damage)
            printf("%s  %sdamaged%s: %s\n", cli_plain(), cli_red(), cli_plain(), damage);
        else
            printf("%s  %zu bytes, commit %" PRIu64 " of epoch %" PRIu64 "%s\n", cli_plain(),
                   d->value.len, d->seq, d->epoch, d->edited ? ", edited by an operator" : "");
    }
    return !ferror(stdout);
}

static enum tenure_status show_collection(void *arg, const char *collection,
                                          struct tenure_error *err)
{
    struct listing *l = arg;

    l->collection = collection;
    return tenure_state_list(l->call->state, collection, show_document, l, l->call->deadline, err);
}

static int show(struct cli_state_call *c)
{
    struct listing l = {.call = c};
    char store[CLI_AGAIN_MAX];
    int code = cli_state_each(c, c->where, show_collection, &l);

    if (l.lost)
        code = cli_fail(c->verb, CLI_FAILED,
                        "not all documents could be shown: out of memory or disk space");
    cli_store_again(&c->common, store);
    if (l.damaged)
        code = cli_fail(c->verb, CLI_FAILED,
                        "%u damaged, left as they are; 'tenure state repair --name %s%s "
                        "COLLECTION[/ID]' keeps what is there and replaces it",
                        l.damaged, c->common.name, store);
    return code;
}

/* ---- get, put, delete ---------------------------------------------------- */

static int get(struct cli_state_call *c)
{
    struct tenure_document d = {0};
    struct tenure_error err;
    char collection[128];
    const char *id;
    int code = CLI_OK;

    if (!cli_state_split(c->where, collection, sizeof collection, &id))
        return cli_misuse(c->verb, "missing argument COLLECTION/ID");
    enum tenure_status status = tenure_state_load(c->state, collection, id, &d, c->deadline, &err);
    if (status)
        code = cli_state_fail(c, status, &err);
    else if (!d.exists)
        code = cli_fail(c->verb, CLI_NOT_HELD, "there is no document %s", c->where);
    else if (fwrite(d.value.data, 1, d.value.len, stdout) != d.value.len || fflush(stdout))
        code = cli_fail(c->verb, CLI_FAILED, "cannot write: %s", strerror(errno));
    tenure_document_free(&d);
    return code;
}

static int edit(struct cli_state_call *c, bool remove)
{
    struct tenure_document d = {0};
    struct tenure_error err;
    char collection[128];
    const char *id;
    char *text = NULL;
    size_t len = 0;
    int code;

    if (!cli_state_split(c->where, collection, sizeof collection, &id))
        return cli_misuse(c->verb, "missing argument COLLECTION/ID");
    if (!may_edit(c) || (!remove && !(text = cli_state_slurp(c, c->file, &len))))
        return c->code;
    enum tenure_status status = tenure_state_load(c->state, collection, id, &d, c->deadline, &err);
    if (!status && remove && !d.exists) {
        code = cli_fail(c->verb, CLI_NOT_HELD, "there is no document %s", c->where);
        goto done;
    }
    if (!status && remove && cli_may_ask() &&
        !cli_confirm(c->verb, c->yes, "Delete %s (%zu bytes)?", c->where, d.value.len)) {
        code = cli_fail(c->verb, CLI_FAILED, "%s was not deleted", c->where);
        goto done;
    }
    if (!status)
        status = tenure_state_edit(c->state, collection, id, &d, text, len, c->deadline, &err);
    code = status ? cli_state_fail(c, status, &err) : CLI_OK;
done:
    free(text);
    tenure_document_free(&d);
    return code;
}

static int put(struct cli_state_call *c)
{
    return edit(c, false);
}

static int delete (struct cli_state_call *c)
{
    return edit(c, true);
}

/* ---- export, import ------------------------------------------------------ */

static int export(struct cli_state_call *c)
{
    c->file = c->where;
    return cli_state_export(c);
}

static int import(struct cli_state_call *c)
{
    c->file = c->where;
    return may_edit(c) ? cli_state_import(c) : c->code;
}

/* ---- The verb ------------------------------------------------------------ */

static const struct {
    const char *word;
    int (*run)(struct cli_state_call *c);
    int most;   /* arguments behind the word */
    bool makes; /* it may be the first to leave something in the store */
} words[] = {
    {"show", show, 1},
    {"get", get, 1},
    {"put", put, 2, .makes = true},
    {"delete", delete, 1},
    {"export", export, 1},
    {"import", import, 1, .makes = true},
    {"repair", cli_state_repair, 2},
};

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS,
                                            {"force", no_argument, NULL, OPT_FORCE},
                                            {"delete", no_argument, NULL, OPT_DELETE},
                                            {"yes", no_argument, NULL, OPT_YES},
                                            {"lease", required_argument, NULL, OPT_LEASE},
                                            {0}};
    struct cli_state_call c = {.verb = verb, .code = CLI_FAILED};
    struct tenure_error err;
    size_t which = 0;
    int opt, code;

    cli_common_init(&c.common);
    while ((opt = cli_getopt(verb, argc, argv, CLI_ANY_ORDER, options)) != -1) {
        if (opt == OPT_FORCE)
            c.force = true;
        else if (opt == OPT_DELETE)
            c.remove = true;
        else if (opt == OPT_YES)
            c.yes = true;
        else if (opt == OPT_LEASE)
            c.lease = optarg;
        else
            cli_common_take(&c.common, verb, opt);
    }
    const char *word = optind < argc ? argv[optind++] : "";
    while (which < sizeof words / sizeof words[0] && strcmp(words[which].word, word) != 0)
        which++;
    if (which == sizeof words / sizeof words[0])
        return cli_no_subcommand(verb, word, "show get put delete repair export import");
    if (argc - optind > words[which].most || !c.common.name)
        return cli_misuse(verb, c.common.name ? "too many arguments: give one document or FILE"
                                              : "missing --name NAME");
    if (!cli_named(verb, c.common.name))
        return CLI_USAGE;
    c.where = optind < argc ? argv[optind] : NULL;
    c.file = optind + 1 < argc ? argv[optind + 1] : NULL;
    c.common.absent = words[which].makes ? CLI_MAKE : CLI_REFUSE;
    const char *url = cli_store_find(verb, &c.common);
    if (!url)
        return CLI_USAGE;
    c.deadline = tenure_now() + c.common.timeout_ns;
    if (tenure_state_open(url, c.common.name, NULL, c.deadline, &c.state, &err))
        return cli_fail_with(verb, &err);
    code = words[which].run(&c);
    tenure_state_close(c.state);
    return code;
}

const struct cli_verb cli_state = {"state", "show and repair fenced state", help, run};
