/*
 * Random histories of leaders with rising epochs, operators and a store that
 * loses, delays, fails and rots, checked against what the store really went through.
 *
 * The registers are looked at before every request and after every call, so
 * that no change is missed.  Checked:
 *   - the stored epoch of a document never falls, and nothing older changes or
 *     creates what a leader has sealed (I3, I4); an operator's repair may, but
 *     then no leader of before gets in by it
 *   - OK: at that moment it is what is stored; a definite no: it never is
 *   - FENCED: never after that; and final
 *   - what load() returns is what is stored (so acknowledged commits are loaded), or was until an
 *     operator came
 *   - no commit is OK over an edit that its leader has not seen
 *
 *   test_state_history [SEED [HISTORIES [URL]]]
 *
 * URL: a real store below the faults instead of rot:, each '#' in it the number of the history,
 * so that each begins with nothing.
 */
#include "state_kit.h"

#include "rot_store.h"
#include "state/document.h"

enum { DOCS = 4, LEADERS = 3, STEPS = 60, COMMITS = 1024 };

enum fate { OPEN, TAKEN, REFUSED, FENCED }; /* what the caller was told of a commit */

struct doc {
    uint64_t epoch, sealed; /* stored; the highest that sealed it */
    uint64_t seq;
    unsigned edits;
    char now[24]; /* "" if it does not exist */
    char was[24]; /* before it changed last */
};

struct leader {
    tenure_state *s;
    uint64_t epoch;
    bool fenced;
    bool known[DOCS], edited[DOCS];
};

struct world {
    char inner[400], id[24];
    tn_fault *fault;
    struct tn_fault_odds odds;
    tenure_store *eye;
    tenure_state *op, *repairer;
    struct doc docs[DOCS];
    struct leader leaders[LEADERS];
    enum fate fates[COMMITS];
    bool seen[COMMITS];
    unsigned commits;
    uint64_t epoch, seed, random;
    unsigned acknowledged, refused, unknown;
    bool quiet;       /* inside an operator's call */
    char repairs[16]; /* what a repair under way writes */
    unsigned repaired, overtaken;
};

static struct world w;

static uint64_t roll(uint64_t n)
{
    w.random ^= w.random << 13;
    w.random ^= w.random >> 7;
    w.random ^= w.random << 17;
    return w.random % n;
}

#define CHECK(what, ...)                                                                           \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("seed %llu: ", (unsigned long long)w.seed);                                     \
            printf(__VA_ARGS__);                                                                   \
            printf("\n");                                                                          \
            fflush(stdout);                                                                        \
            fail_msg("%s", #what);                                                                 \
        }                                                                                          \
    } while (0)

/* ---- The eye ------------------------------------------------------------- */

static void appeared(int i, const struct tn_document *doc, const char *text)
{
    struct doc *d = &w.docs[i];
    unsigned number;

    if (sscanf(text, "c%u", &number) != 1)
        return;
    CHECK(!w.seen[number], "d%d: commit %u took effect twice", i, number);
    CHECK(w.fates[number] == OPEN, "d%d: commit %u of epoch %llu took effect after it was told %d",
          i, number, (unsigned long long)doc->fence.epoch, w.fates[number]);
    CHECK(doc->seq == d->seq + 1, "d%d: seq %llu after %llu", i, (unsigned long long)doc->seq,
          (unsigned long long)d->seq);
    w.seen[number] = true;
}

static void look(void)
{
    struct tenure_value value = {0};

    for (int i = 0; i < DOCS; i++) {
        struct tn_document doc;
        struct doc *d = &w.docs[i];
        char key[40], text[24] = "";

        snprintf(key, sizeof key, "app/state/docs/d%d", i);
        assert_int_equal(tenure_store_read(w.eye, key, &value, soon(), NULL), TENURE_OK);
        if (tenure_token_absent(&value.token))
            continue;
        assert_int_equal(tn_document_decode(&value, &doc, NULL), TENURE_OK);
        if (!doc.deleted)
            snprintf(text, sizeof text, "%.*s", (int)doc.len, (const char *)doc.data);
        bool changed =
            doc.fence.epoch != d->epoch || doc.seq != d->seq || strcmp(text, d->now) != 0;
        /* A repair takes the fence of the root of some time before, and an edit the one it finds.
         */
        bool repaired = w.repairs[0] && strcmp(text, w.repairs) == 0 && strcmp(text, d->now) != 0;
        bool edited = doc.edited && doc.fence.epoch == d->epoch;
        CHECK(repaired || doc.fence.epoch >= d->epoch, "d%d: the epoch fell", i);
        CHECK(!changed || repaired || edited || doc.fence.epoch >= d->sealed,
              "d%d: epoch %llu wrote after %llu sealed", i, (unsigned long long)doc.fence.epoch,
              (unsigned long long)d->sealed);
        w.overtaken += repaired && doc.fence.epoch < d->sealed;
        if (strcmp(text, d->now) != 0) {
            appeared(i, &doc, text);
            strcpy(d->was, d->now);
        }
        d->epoch = doc.fence.epoch;
        d->seq = doc.seq;
        strcpy(d->now, text);
    }
    tenure_value_free(&value);
}

/* ---- Those who act ------------------------------------------------------- */

static void operate(void)
{
    int i = (int)roll(DOCS);
    char id[8], text[16];

    w.quiet = true;
    look();
    snprintf(id, sizeof id, "d%d", i);
    snprintf(text, sizeof text, "op%llu", (unsigned long long)roll(1000000));
    if (edit(w.op, id, roll(5) ? text : NULL) == TENURE_OK) {
        w.docs[i].edits++;
        for (int l = 0; l < LEADERS; l++)
            w.leaders[l].edited[i] = w.leaders[l].known[i];
    }
    look();
    w.quiet = false;
}

static void on_call(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    (void)arg;
    look();
    if (!w.quiet && event->call != TN_CALL_OPEN && roll(60) == 0)
        operate();
    if (event->call != TN_CALL_OPEN)
        tn_fault_random(&w.odds, event, plan);
}

static void told_fenced(struct leader *l, enum tenure_status status)
{
    CHECK(!l->fenced || status == TENURE_FENCED, "fenced is final, but %s was told",
          tenure_status_word(status));
    if (status == TENURE_FENCED)
        CHECK(tenure_state_floor(l->s) >= l->epoch, "the floor is below the epoch");
    l->fenced |= status == TENURE_FENCED;
}

static const char *below; /* NULL: rot: */

/* A real store is given its time: what it does after its deadline happens when nobody looks. */
static int64_t limit(void)
{
    return below || roll(4) ? soon() : within_ms((int64_t)roll(3));
}

static void load(struct leader *l, int i)
{
    struct tenure_document d = {0};
    char id[8], text[24] = "";
    enum tenure_status status;
    unsigned edits = w.docs[i].edits;

    snprintf(id, sizeof id, "d%d", i);
    status = tenure_state_load(l->s, "docs", id, &d, limit(), NULL);
    look();
    told_fenced(l, status);
    CHECK(status != TENURE_UNKNOWN, "a load is never unknown");
    if (status == TENURE_OK) {
        if (d.exists)
            snprintf(text, sizeof text, "%.*s", (int)d.value.len, (char *)d.value.data);
        bool stored = strcmp(text, w.docs[i].now) == 0;
        /* Or an operator came after it was read, while the root was: that is an edit like any
         * other, which this leader has not seen. */
        CHECK(stored || (w.docs[i].edits != edits && strcmp(text, w.docs[i].was) == 0),
              "d%d: loaded '%s', stored '%s'", i, text, w.docs[i].now);
        l->known[i] = true;
        l->edited[i] = !stored;
        w.docs[i].sealed = l->epoch > w.docs[i].sealed ? l->epoch : w.docs[i].sealed;
    }
    tenure_document_free(&d);
}

static void settle(struct leader *l, int i, const struct tenure_commit *c, unsigned number,
                   bool edited, bool last, unsigned edits)
{
    bool stored = strcmp(w.docs[i].now, c->remove ? "" : (const char *)c->data) == 0;

    switch (c->status) {
    case TENURE_OK:
        CHECK(w.seen[number] || c->remove, "d%d: commit %u is acknowledged and not there", i,
              number);
        CHECK(!last || stored || w.docs[i].edits != edits,
              "d%d: commit %u is not what is stored, '%s'", i, number, w.docs[i].now);
        CHECK(!edited, "d%d: commit %u went over an edit that nobody saw", i, number);
        w.fates[number] = TAKEN;
        l->known[i] = true;
        l->edited[i] |= last && !stored; /* by an operator, on top of it */
        w.acknowledged++;
        break;
    case TENURE_FENCED:
        w.fates[number] = FENCED;
        w.refused++;
        break;
    case TENURE_UNKNOWN:
        w.unknown++;
        break;
    default:
        CHECK(!w.seen[number], "d%d: commit %u took effect and was told '%s'", i, number,
              tenure_status_word(c->status));
        w.fates[number] = REFUSED;
        w.refused++;
    }
}

static void commit(struct leader *l)
{
    struct tenure_commit c[4] = {0};
    char texts[4][16], ids[4][8];
    int which[4];
    unsigned edits[4];
    bool edited[4];
    size_t n = 1 + roll(4);
    unsigned first = w.commits;

    for (size_t k = 0; k < n; k++) {
        which[k] = (int)roll(DOCS);
        edited[k] = l->edited[which[k]];
        edits[k] = w.docs[which[k]].edits;
        snprintf(ids[k], sizeof ids[k], "d%d", which[k]);
        snprintf(texts[k], sizeof texts[k], "c%u", w.commits++);
        c[k] = (struct tenure_commit){.collection = "docs",
                                      .id = ids[k],
                                      .data = texts[k],
                                      .len = strlen(texts[k]),
                                      .remove = roll(8) == 0};
    }
    bool fenced = l->fenced, now = false;

    tenure_state_commit(l->s, c, n, limit(), NULL);
    look();
    for (size_t k = 0; k < n; k++) {
        bool last = true;

        for (size_t m = k + 1; m < n; m++)
            last &= which[m] != which[k];
        l->fenced = fenced; /* a batch is not one moment */
        told_fenced(l, c[k].status);
        now |= l->fenced;
        settle(l, which[k], &c[k], first + (unsigned)k, edited[k], last, edits[k]);
    }
    l->fenced = now;
}

static void seal_all(struct leader *l)
{
    enum tenure_status status = tenure_state_seal(l->s, "docs", limit(), NULL);

    look();
    told_fenced(l, status);
    for (int i = 0; status == TENURE_OK && i < DOCS; i++)
        w.docs[i].sealed = l->epoch > w.docs[i].sealed ? l->epoch : w.docs[i].sealed;
}

static void succeed(struct leader *l)
{
    tenure_state_close(l->s);
    memset(l, 0, sizeof *l);
    l->epoch = ++w.epoch;
    l->s = lead(w.id, l->epoch);
}

static void step(void)
{
    struct leader *l = &w.leaders[roll(LEADERS)];
    uint64_t what = roll(20);

    if (what < 11)
        commit(l);
    else if (what < 16)
        load(l, (int)roll(DOCS));
    else if (what < 18)
        seal_all(l);
    else if (what < 19)
        succeed(l);
    else
        tn_fault_flush(w.fault);
    look();
}

/* ---- Rot ----------------------------------------------------------------- */

/* Something that is there rots. */
static void spoil(void)
{
    struct tenure_value value = {0};
    char key[40];

    snprintf(key, sizeof key, "app/state/docs/d%d", (int)roll(DOCS));
    assert_int_equal(tenure_store_read(w.eye, key, &value, soon(), NULL), TENURE_OK);
    if (!tenure_token_absent(&value.token))
        strcpy(rot_key, key);
    tenure_value_free(&value);
}

/* The operator is stopped in front of its last swap, and life goes on. */
static void meanwhile(void)
{
    struct leader *l = &w.leaders[roll(LEADERS)];

    if (roll(2)) {
        succeed(l);
        seal_all(l);
    }
    for (uint64_t n = roll(6); n && w.commits < COMMITS - 4; n--)
        step();
}

static void repair(void)
{
    const char *id = strrchr(rot_key, '/') + 1;
    char kept[TENURE_KEEP_MAX + 1];
    int i = atoi(id + 1);

    snprintf(w.repairs, sizeof w.repairs, "m%u", ++w.repaired);
    rot_ahead = meanwhile;
    enum tenure_status status = tenure_state_repair(w.repairer, "docs", id, w.repairs,
                                                    strlen(w.repairs), NULL, kept, soon(), NULL);
    CHECK(status == TENURE_OK, "a repair: %s", tenure_status_word(status));
    w.docs[i].edits++;
    for (int l = 0; l < LEADERS; l++)
        w.leaders[l].edited[i] = w.leaders[l].known[i];
    look();
    w.repairs[0] = '\0';
}

/* ---- A history ----------------------------------------------------------- */

/* The store of this history. */
static void name_inner(uint64_t seed)
{
    size_t n = 0;

    for (const char *p = below ? below : "rot:history#"; *p && n < sizeof w.inner - 24; p++) {
        if (*p == '#')
            n += (size_t)sprintf(w.inner + n, "%llu", (unsigned long long)seed);
        else
            w.inner[n++] = *p;
    }
    w.inner[n] = '\0';
}

static void history(uint64_t seed)
{
    struct tenure_error err;
    char eye[420];

    memset(&w, 0, sizeof w);
    w.seed = seed;
    w.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    name_inner(seed);
    strcpy(w.id, "fault:h");
    if (tn_fault_new("h", w.inner, &w.fault, &err))
        fail_msg("%s", err.text);
    w.odds = (struct tn_fault_odds){.seed = seed,
                                    .drop_request = (unsigned)roll(10),
                                    .drop_answer = (unsigned)roll(10),
                                    .later = (unsigned)roll(10),
                                    .fail = (unsigned)roll(6),
                                    .later_calls = 1 + (unsigned)roll(40),
                                    .status = TENURE_UNAVAILABLE};
    rot_key[0] = '\0';
    snprintf(eye, sizeof eye, "memory:%s", w.inner + strlen("rot:"));
    assert_int_equal(tenure_store_open(below ? w.inner : eye, soon(), &w.eye, NULL), TENURE_OK);
    w.op = lead(w.inner, 0);
    w.repairer = lead(w.inner, 0);
    tn_fault_hook(w.fault, on_call, NULL);
    for (int i = 0; i < LEADERS; i++)
        succeed(&w.leaders[i]);
    for (int n = 0; n < STEPS && w.commits < COMMITS - 4; n++) {
        if (!below && !rot_key[0] && roll(10) == 0)
            spoil();
        else if (rot_key[0] && roll(5) == 0)
            repair();
        else
            step();
    }
    tn_fault_flush(w.fault);
    look();
    for (int i = 0; i < LEADERS; i++)
        tenure_state_close(w.leaders[i].s);
    tenure_state_close(w.op);
    tenure_state_close(w.repairer);
    tenure_store_close(w.eye);
    tn_fault_free(w.fault);
}

static uint64_t seed_from = 1, histories = 1000;

static void histories_hold(void **state)
{
    unsigned long acknowledged = 0, refused = 0, unknown = 0, repaired = 0, overtaken = 0;

    (void)state;
    for (uint64_t i = 0; i < histories; i++) {
        history(seed_from + i);
        acknowledged += w.acknowledged;
        refused += w.refused;
        unknown += w.unknown;
        repaired += w.repaired;
        overtaken += w.overtaken;
    }
    printf("%llu histories: %lu commits acknowledged, %lu refused, %lu unknown; %lu repairs, %lu "
           "behind a seal\n",
           (unsigned long long)histories, acknowledged, refused, unknown, repaired, overtaken);
    assert_true(acknowledged > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(histories_hold)};

    if (tenure_store_register(&rot_ops, NULL))
        return 1;
    if (argc > 1)
        seed_from = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        histories = strtoull(argv[2], NULL, 10);
    if (argc > 3)
        below = argv[3];
    const char *modules = getenv("TENURE_BUILD");
    if (below && modules && tenure_store_module_dir(modules, NULL))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
