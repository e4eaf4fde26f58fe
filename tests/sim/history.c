#include "history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim_build.h"

#define MAGIC "tenure-sim trace 1"

const char *sim_build(void)
{
    return SIM_BUILD;
}

void sim_history_live(struct sim_world *w, const struct sim_history *h, FILE *trace, bool record)
{
    if (h->lasting)
        sim_plan_lasting(&w->plan, h->seed, SIM_LASTING_NS);
    else
        sim_plan_hostile(&w->plan, h->model, h->seed);
    w->keep.only = h->only;
    w->keep.ids = h->ids;
    w->keep.n = h->n_ids;
    w->keep.record = record;
    w->keep.without = h->without;
    w->keep.ignore = h->ignore;
    w->trace.to = trace;
    sim_world_run(w);
}

/* ---- Names of faults ----------------------------------------------------- */

/* Which draw of which candidate.  The node's byte holds its number and, above
 * it, which of several draws on one key it was. */
static const struct {
    enum sim_stream stream;
    char letter;
} letters[] = {
    {SIM_RND_REQUEST, 'r'}, {SIM_RND_NOTICE, 't'},   {SIM_RND_STALL, 's'}, {SIM_RND_PROGRAM, 'p'},
    {SIM_RND_STATE, 'd'},   {SIM_RND_RELEASER, 'x'}, {SIM_RND_SLOT, 'f'},
};

void sim_fault_name(uint64_t id, char *out, size_t size)
{
    enum sim_stream stream = (enum sim_stream)(id >> 56);
    unsigned node = id >> 48 & 0xf, which = id >> 52 & 0xf;
    uint64_t number = id & UINT64_C(0xffffffffffff);

    snprintf(out, size, "op%" PRIu64, number);
    for (unsigned i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if (letters[i].stream != stream)
            continue;
        if (which)
            snprintf(out, size, "n%u%c%u.%" PRIu64, node, letters[i].letter, which, number);
        else
            snprintf(out, size, "n%u%c%" PRIu64, node, letters[i].letter, number);
    }
}

bool sim_fault_parse(const char *text, uint64_t *id)
{
    unsigned node, which = 0;
    uint64_t number;
    char letter;
    int end = 0;

    if (sscanf(text, "op%" SCNu64 "%n", &number, &end) == 1 && !text[end]) {
        *id = (uint64_t)SIM_RND_OP << 56 | number;
        return true;
    }
    if (sscanf(text, "n%1u%c%u.%" SCNu64 "%n", &node, &letter, &which, &number, &end) != 4 ||
        text[end]) {
        which = 0;
        if (sscanf(text, "n%1u%c%" SCNu64 "%n", &node, &letter, &number, &end) != 3 || text[end])
            return false;
    }
    for (unsigned i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if (letters[i].letter == letter && which < 16) {
            *id = (uint64_t)letters[i].stream << 56 | (uint64_t)(which << 4 | node) << 48 | number;
            return true;
        }
    }
    return false;
}

const char *sim_history_only(struct sim_history *h, char *list)
{
    char *rest = NULL;

    h->only = true;
    h->n_ids = 0;
    for (char *p = strtok_r(list, ",", &rest); p; p = strtok_r(NULL, ",", &rest)) {
        if (strcmp(p, "none") == 0)
            continue;
        if (h->n_ids == SIM_FIRED_MAX || !sim_fault_parse(p, &h->ids[h->n_ids++]))
            return p;
    }
    return NULL;
}

void sim_history_args(const struct sim_history *h, char *out, size_t size)
{
    size_t used = 0;

#define ADD(...) used += used < size ? (size_t)snprintf(out + used, size - used, __VA_ARGS__) : 0
    if (h->model)
        ADD("--model %s ", h->model->name);
    ADD("%s--seed %" PRIu64, h->lasting ? "--long " : "", h->seed);
    if (h->without) {
        ADD(" --without ");
        for (unsigned i = 0, n = 0; i < SIM_NODES_MAX; i++) {
            if (h->without >> i & 1)
                ADD("%sn%u", n++ ? "," : "", i);
        }
    }
    if (h->only)
        ADD(" --only %s", h->n_ids ? "" : "none");
    for (unsigned i = 0; h->only && i < h->n_ids; i++) {
        char name[40];

        sim_fault_name(h->ids[i], name, sizeof name);
        ADD("%s%s", i ? "," : "", name);
    }
#undef ADD
}

/* ---- Files --------------------------------------------------------------- */

bool sim_history_save(struct sim_world *w, const struct sim_history *h, const char *path, char *err,
                      size_t size)
{
    static char args[SIM_FIRED_MAX * 16];
    FILE *f = fopen(path, "w");

    if (!f) {
        snprintf(err, size, "cannot write %s: %s", path, strerror(errno));
        return false;
    }
    sim_history_live(w, h, NULL, false);
    sim_history_args(h, args, sizeof args);
    fprintf(f, "%s\nbuild %s\nhash %016" PRIx64 "\nargs %s\n\n", MAGIC, sim_build(), w->trace.hash,
            args);
    sim_history_live(w, h, f, false);
    if (fclose(f) != 0) {
        snprintf(err, size, "cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

static bool load_args(struct sim_history *h, char *text)
{
    char *rest = NULL;
    bool ok = true;

    for (char *p = strtok_r(text, " \n", &rest); p && ok; p = strtok_r(NULL, " \n", &rest)) {
        char *value = strcmp(p, "--long") == 0 ? p : strtok_r(NULL, " \n", &rest);

        if (!value)
            return false;
        if (value == p)
            h->lasting = true;
        else if (strcmp(p, "--model") == 0)
            ok = (h->model = sim_family_find(value)) != NULL;
        else if (strcmp(p, "--seed") == 0)
            h->seed = strtoull(value, NULL, 10);
        else if (strcmp(p, "--only") == 0)
            ok = sim_history_only(h, value) == NULL;
        else if (strcmp(p, "--without") == 0)
            for (char *c = value; *c; c++)
                h->without |= (uint16_t)(*c >= '0' && *c <= '8' ? 1u << (*c - '0') : 0);
    }
    return ok;
}

bool sim_history_load(struct sim_history *h, uint64_t *hash, const char *path, char *err,
                      size_t size)
{
    static char args[SIM_FIRED_MAX * 16];
    char magic[64] = "", build[80] = "";
    FILE *f = fopen(path, "r");

    if (!f) {
        snprintf(err, size, "cannot read %s: %s", path, strerror(errno));
        return false;
    }
    memset(h, 0, sizeof *h);
    bool ok = fgets(magic, sizeof magic, f) && strncmp(magic, MAGIC "\n", sizeof MAGIC) == 0;
    if (!ok)
        snprintf(err, size, "%s is not a trace of this version (it should begin with '%s')", path,
                 MAGIC);
    else if (fscanf(f, "build %79s\nhash %" SCNx64 "\nargs ", build, hash) != 2 ||
             !fgets(args, sizeof args, f) || !load_args(h, args)) {
        snprintf(err, size, "%s is damaged: build, hash or args are missing", path);
        ok = false;
    } else if (strcmp(build, sim_build()) != 0) {
        snprintf(err, size,
                 "%s was made by build %s, this is %s: the same seed lives another history here; "
                 "check out the commit that made it",
                 path, build, sim_build());
        ok = false;
    }
    fclose(f);
    return ok;
}
