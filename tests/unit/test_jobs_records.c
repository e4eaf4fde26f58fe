/* The records of a group of jobs: what is written is read back, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jobs/catalogue.h"
#include "jobs/history.h"

static struct tenure_error err;

#define REFUSED(call, status, words)                                                               \
    do {                                                                                           \
        assert_int_equal(call, status);                                                            \
        if (!strstr(err.text, words))                                                              \
            fail_msg("'%s' is not in: %s", words, err.text);                                       \
    } while (0)

/* ---- Jobs ---------------------------------------------------------------- */

static enum tenure_status job_of(const char *text, size_t len, struct tn_job *job)
{
    const unsigned char *checkpoint;
    size_t n;

    return tn_job_decode(text, len, job, &checkpoint, &n, &err);
}

static void job_round_trip(void **state)
{
    struct tn_job job = {.owner = {.id = "worker 1", .identity = {.number = 7}},
                         .ttl_ms = TN_TTL_MAX_MS,
                         .epoch = TN_EPOCH_MAX,
                         .seq = 12,
                         .wanted = TN_WANTED_PAUSED},
                  copy;
    unsigned char out[TN_JOB_HEADER_MAX + 3];
    const unsigned char *checkpoint;
    size_t len;

    (void)state;
    memset(job.owner.identity.incarnation, 0xab, TENURE_NONCE_SIZE);
    memset(job.grant, 0xcd, TENURE_NONCE_SIZE);
    size_t n = tn_job_put(&job, "a\n", 3, out);
    assert_int_equal(tn_job_decode(out, n, &copy, &checkpoint, &len, &err), TENURE_OK);
    assert_true(tn_owner_equal(&copy.owner, &job.owner));
    assert_int_equal(copy.ttl_ms, TN_TTL_MAX_MS);
    assert_int_equal(copy.epoch, job.epoch);
    assert_int_equal(copy.seq, 12);
    assert_int_equal(copy.wanted, TN_WANTED_PAUSED);
    assert_memory_equal(copy.grant, job.grant, TENURE_NONCE_SIZE);
    assert_int_equal(len, 3);
    assert_memory_equal(checkpoint, "a\n", 3);
    job = (struct tn_job){.epoch = 5, .wanted = TN_WANTED_REMOVED};
    n = tn_job_put(&job, NULL, 0, out);
    assert_int_equal(job_of((char *)out, n, &copy), TENURE_OK);
    assert_false(tn_job_owned(&copy));
}

#define NONE "00000000000000000000000000000000"
#define SOME "0123456789abcdef0123456789abcdef"

static void job_refused(void **state)
{
    static const char *const damaged[] = {
        "",
        "tenure-job",
        "tenure-job 1 5",
        "tenure-jib 1 5 " NONE " 0 r 0 " NONE " 0 \n",
        "tenure-job 0 5 " NONE " 0 r 0 " NONE " 0 \n",
        "tenure-job 1 05 " NONE " 0 r 0 " NONE " 0 \n",
        "tenure-job 1 9007199254740992 " NONE " 0 r 0 " NONE " 0 \n",
        "tenure-job 1 99999999999999999999 " NONE " 0 r 0 " NONE " 0 \n",
        "tenure-job 1 5 " NONE "0 0 r 0 " NONE " 0 \n",
        "tenure-job 1 5 " NONE " 0 q 0 " NONE " 0 \n",
        "tenure-job 1 5 " NONE " 0 r 0 " SOME " 0 \n",           /* nobody's incarnation */
        "tenure-job 1 5 " NONE " 0 r 7 " NONE " 0 \n",           /* nobody's number */
        "tenure-job 1 5 " NONE " 0 r 0 " NONE " 90000 a\n",      /* an owner that is nobody */
        "tenure-job 1 0 " NONE " 0 r 7 " SOME " 90000 a\n",      /* owned, and never claimed */
        "tenure-job 1 5 " NONE " 0 r 7 " SOME " 90000 a\x1b[\n", /* for a terminal */
        "tenure-job 1 5 " NONE " 0 r 7 " SOME " 90000 \xff\n",
        "tenure-job 1 5 " NONE " 0 r 7 " SOME " a\n",   /* no time of a lease */
        "tenure-job 1 5 " NONE " 0 r 7 " SOME " 0 a\n", /* too short a one */
        "tenure-job 1 5 " NONE " 0 r 7 " SOME " 999 a\n",
        "tenure-job 1 5 " NONE " 0 r 7 " SOME " 4294967296 a\n", /* too long a one */
        "tenure-job 1 5 " NONE " 0 r 0 " NONE " 90000 \n",       /* nobody's */
    };
    struct tn_job job = {.epoch = 99};

    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        if (job_of(damaged[i], strlen(damaged[i]), &job) != TENURE_CORRUPT)
            fail_msg("taken: %s", damaged[i]);
    }
    assert_int_equal(job.epoch, 99);
    const char *newer = "tenure-job 2 whatever\n";
    REFUSED(job_of(newer, strlen(newer), &job), TENURE_UNSUPPORTED, "format 2 is newer");
}

/* ---- Labels -------------------------------------------------------------- */

static void labels(void **state)
{
    char out[TN_MEMBER_LABELS_MAX + 1];

    (void)state;
    assert_int_equal(tn_labels_sort("zone=b,disk=ssd", out, &err), TENURE_OK);
    assert_string_equal(out, "disk=ssd,zone=b");
    assert_int_equal(tn_labels_sort("", out, &err), TENURE_OK);
    assert_string_equal(out, "");
    REFUSED(tn_labels_sort("zone", out, &err), TENURE_INVALID, "'zone' is not a label");
    REFUSED(tn_labels_sort("=b", out, &err), TENURE_INVALID, "not a label");
    REFUSED(tn_labels_sort("a=b,", out, &err), TENURE_INVALID, "not a label");
    REFUSED(tn_labels_sort("a=b,a=c", out, &err), TENURE_INVALID, "'a' occurs twice");
    REFUSED(tn_labels_sort("a=b c", out, &err), TENURE_INVALID, "not a label");
    assert_true(tn_labels_have("a=1,b=2", "b=2"));
    assert_true(tn_labels_have("a=1,b=2", ""));
    assert_false(tn_labels_have("a=1,b=22", "b=2"));
    assert_false(tn_labels_have("", "b=2"));
    assert_non_null(tn_jobs_id_fault(""));
    assert_non_null(tn_jobs_id_fault("a\tb"));
    assert_non_null(tn_jobs_id_fault("a "));
    assert_null(tn_jobs_id_fault("tenant/42 (eu)"));
}

/* ---- Members ------------------------------------------------------------- */

static struct tn_member_record some_member(void)
{
    struct tn_member_record r = {.member = {.identity = {.number = 12},
                                            .ttl_ms = 90000,
                                            .format = 1,
                                            .share = 3,
                                            .limit = UINT32_MAX,
                                            .labels = "zone=a",
                                            .ask_count = 2,
                                            .asks = {4, 9},
                                            .draining = true},
                                 .id = "w1",
                                 .host = "db-1",
                                 .renewed_ms = 1700000000000};

    memset(r.member.identity.incarnation, 0x11, TENURE_NONCE_SIZE);
    return r;
}

static void member_round_trip(void **state)
{
    struct tn_member_record r = some_member(), copy;
    char *text = tn_member_encode(&r);

    (void)state;
    assert_non_null(text);
    assert_non_null(strstr(text, "\"lease_expires\":\"2023-11-14T22:14:50.000Z\""));
    assert_int_equal(tn_member_decode(text, strlen(text), &copy, &err), TENURE_OK);
    assert_memory_equal(&copy.member, &r.member, sizeof r.member);
    assert_string_equal(copy.id, "w1");
    free(text);
}

static void member_refused(void **state)
{
    static const char *const changes[][2] = {
        {"\"number\":12", "\"number\":0"},
        {"\"number\":12", "\"number\":1.5"},
        {"\"ttl_ms\":90000", "\"ttl_ms\":10"},
        {"\"ttl_ms\":90000", "\"ttl_ms\":9000000"},
        {"\"state\":\"alive\"", "\"state\":\"x\""},
        {"\"mark\":\"none\"", "\"mark\":7"},
        {"[4,9]", "[9,4]"},
        {"[4,9]", "[-1]"},
        {"zone=a", "zone"},
        {"\"share\":3", "\"share\":0"},
        {"1111", "11"},
        {"\"format\":1", "\"format\":0"},
    };
    struct tn_member_record r = some_member(), copy;
    char *text = tn_member_encode(&r), changed[2048];

    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const char *at = strstr(text, changes[i][0]);

        assert_non_null(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, changes[i][1],
                 at + strlen(changes[i][0]));
        if (tn_member_decode(changed, strlen(changed), &copy, &err) != TENURE_CORRUPT)
            fail_msg("taken: %s", changed);
    }
    REFUSED(tn_member_decode("{\"format\":2}", 12, &copy, &err), TENURE_UNSUPPORTED, "upgrade");
    free(text);
}

/* ---- The plan ------------------------------------------------------------ */

static void plan_round_trip(void **state)
{
    (void)state;
    for (uint32_t members = 0; members <= 300; members += 100) {
        uint16_t slots[1000];
        struct tn_plan_register plan = {.seq = 3,
                                        .catalogue = 9,
                                        .digest = UINT64_C(0xfedcba9876543210),
                                        .cut = members == 100,
                                        .member_count = members,
                                        .job_count = 1000,
                                        .slots = slots},
                                copy;
        size_t len;

        plan.members = calloc(members + 1, sizeof *plan.members);
        for (uint32_t i = 0; i < members; i++)
            snprintf(plan.members[i], sizeof *plan.members, "worker-%u", i);
        for (uint32_t i = 0; i < 1000; i++)
            slots[i] = i % 7 == 0 || members == 0 ? TN_SLOT_NONE : (uint16_t)(i % members);
        unsigned char *out = tn_plan_encode(&plan, &len);
        assert_true(len <= tn_plan_size(1000, members));
        assert_int_equal(tn_plan_decode(out, len, &copy, &err), TENURE_OK);
        assert_memory_equal(copy.slots, slots, sizeof slots);
        assert_true(copy.digest == plan.digest && copy.cut == plan.cut && copy.seq == 3);
        if (members)
            assert_string_equal(copy.members[members - 1], plan.members[members - 1]);
        tn_plan_free(&copy);
        REFUSED(tn_plan_decode(out, len - 1, &copy, &err), TENURE_CORRUPT, "damaged");
        out[len - 1] = out[len - 2] = 254; /* a member that is not there */
        REFUSED(tn_plan_decode(out, len, &copy, &err), TENURE_CORRUPT, "damaged");
        free(out);
        free(plan.members);
    }
}

/* ---- The catalogue ------------------------------------------------------- */

static tenure_store *store;
static int64_t soon(void)
{
    return tenure_now() + INT64_C(20000000000);
}

static int open_memory(void **state)
{
    (void)state;
    return tenure_store_open("noop:", soon(), &store, &err) != TENURE_OK;
}

static int close_memory(void **state)
{
    (void)state;
    tenure_store_close(store);
    return 0;
}

static char names[2500][16];

static enum tenure_status add_all(void *arg, struct tn_catalogue *c, struct tenure_error *e)
{
    uint32_t cursor = 0;

    for (unsigned i = 0; i < *(unsigned *)arg; i++) {
        uint32_t number;
        enum tenure_status status;

        if (tn_catalogue_find(c, names[i], &number))
            continue;
        if ((status = tn_catalogue_add(c, names[i], &cursor, e)))
            return status;
    }
    return TENURE_OK;
}

static enum tenure_status drop_some(void *arg, struct tn_catalogue *c, struct tenure_error *e)
{
    (void)arg;
    (void)e;
    for (uint32_t i = 0; i < 2500; i += 100) {
        uint32_t number;

        if (tn_catalogue_find(c, names[i], &number))
            tn_catalogue_drop(c, number);
    }
    return TENURE_OK;
}

static void pages(void **state)
{
    struct tn_catalogue c;
    unsigned n = 2500;
    uint32_t number;

    (void)state;
    for (unsigned i = 0; i < n; i++)
        snprintf(names[i], sizeof names[i], "job-%u", i);
    assert_int_equal(tn_catalogue_edit(store, "g", add_all, &n, NULL, soon(), &err), TENURE_OK);
    assert_int_equal(tn_catalogue_load(store, "g", &c, soon(), &err), TENURE_OK);
    assert_int_equal(c.page_count, 3);
    assert_int_equal(tn_catalogue_size(&c), 2500);
    assert_true(tn_catalogue_find(&c, "job-1999", &number));
    assert_int_equal(number, 1999);
    assert_false(tn_catalogue_find(&c, "job-2500", &number));
    assert_false(c.unfinished);
    uint64_t revision = c.revision;
    tn_catalogue_free(&c);
    /* The same again changes nothing. */
    assert_int_equal(tn_catalogue_edit(store, "g", add_all, &n, &c, soon(), &err), TENURE_OK);
    assert_int_equal(c.revision, revision);
    tn_catalogue_free(&c);
    /* Numbers are stable, and free ones are used again. */
    assert_int_equal(tn_catalogue_edit(store, "g", drop_some, NULL, &c, soon(), &err), TENURE_OK);
    assert_false(tn_catalogue_find(&c, "job-100", &number));
    assert_true(tn_catalogue_find(&c, "job-101", &number));
    assert_int_equal(number, 101);
    tn_catalogue_free(&c);
    assert_int_equal(tn_catalogue_edit(store, "g", add_all, &n, &c, soon(), &err), TENURE_OK);
    assert_int_equal(tn_catalogue_size(&c), 2500);
    tn_catalogue_free(&c);
}

static void put(const char *key, const char *text)
{
    struct tenure_value value = {0};
    struct tenure_swap swap = {.key = key, .data = text, .len = strlen(text)};

    assert_int_equal(tenure_store_read(store, key, &value, soon(), &err), TENURE_OK);
    swap.expect = value.token;
    assert_int_equal(tenure_nonce(swap.nonce, &err), TENURE_OK);
    assert_int_equal(tenure_store_swap(store, &swap, soon(), &err), TENURE_OK);
    tenure_value_free(&value);
}

static enum tenure_status nothing(void *arg, struct tn_catalogue *c, struct tenure_error *e)
{
    (void)arg;
    (void)c;
    (void)e;
    return TENURE_OK;
}

/* An operator died between the pages and the root: whoever edits next completes it. */
static void half_written(void **state)
{
    struct tn_catalogue c;
    uint32_t number;

    (void)state;
    put("g/catalogue/0000", "tenure-page 1 0 1 1\na\t1\tr\t-\t\t\t\n");
    assert_int_equal(tn_catalogue_load(store, "g", &c, soon(), &err), TENURE_OK);
    assert_true(c.unfinished);
    tn_catalogue_free(&c);
    assert_int_equal(tn_catalogue_edit(store, "g", nothing, NULL, NULL, soon(), &err), TENURE_OK);
    assert_int_equal(tn_catalogue_load(store, "g", &c, soon(), &err), TENURE_OK);
    assert_true(!c.unfinished && c.revision == 2 && tn_catalogue_find(&c, "a", &number));
    tn_catalogue_free(&c);
    put("g/catalogue/0000", "tenure-page 1 0 7 2\na\t5\tp\ts\tw1\tzone=a\t\nb\t1\tr\t-\t\t\t\n");
    assert_int_equal(tn_catalogue_edit(store, "g", nothing, NULL, &c, soon(), &err), TENURE_OK);
    assert_true(c.revision == 8 && tn_catalogue_find(&c, "b", &number));
    const struct tn_row *row = tn_catalogue_row(&c, 0);
    assert_true(row->weight == 5 && row->wanted == TN_WANTED_PAUSED && row->spec);
    assert_string_equal(row->pin, "w1");
    assert_string_equal(row->must, "zone=a");
    tn_catalogue_free(&c);
}

static void catalogue_refused(void **state)
{
    static const char *const damaged[] = {
        "tenure-page 1 1 7 1\na\t1\tr\t-\t\t\t\n",
        "tenure-page 1 0 7 2\na\t1\tr\t-\t\t\t\n",
        "tenure-page 1 0 7 1\na\t0\tr\t-\t\t\t\n",
        "tenure-page 1 0 7 1\na\t1\tr\t-\t\t\n",
        "tenure-page 1 0 7 1\na\t1\tr\t-\t\t\t\t\n",
        "tenure-page 1 0 7 1\na\t1\tr\t-\t\tx\t\n",
        "tenure-page 1 0 7 1001\na\t1\tr\t-\t\t\t\n",
        "tenure-page 1 0 7 1\na\t1\tr\t-\t\t\t\nb\n",
        "tenure-page 1 0 7 2\na\t1\tr\t-\t\t\t\na\t1\tr\t-\t\t\t\n",
    };
    struct tn_catalogue c;

    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        put("g/catalogue/0000", damaged[i]);
        if (tn_catalogue_load(store, "g", &c, soon(), &err) != TENURE_CORRUPT)
            fail_msg("taken: %s", damaged[i]);
        tn_catalogue_free(&c);
    }
    put("g/catalogue/0000", "tenure-page 3 0\n");
    REFUSED(tn_catalogue_load(store, "g", &c, soon(), &err), TENURE_UNSUPPORTED,
            "g/catalogue/0000");
    tn_catalogue_free(&c);
    put("g/catalogue", "tenure-catalogue 1 5 0 2\n3\n");
    REFUSED(tn_catalogue_load(store, "g", &c, soon(), &err), TENURE_CORRUPT, "damaged");
    tn_catalogue_free(&c);
    put("g/catalogue", "tenure-catalogue 1 5 0 1\n3\n");
    put("g/catalogue/0000", "tenure-page 1 0 3 0\n");
    put("h/catalogue", "tenure-catalogue 1 5 0 1\n3\n");
    assert_int_equal(tn_catalogue_load(store, "g", &c, soon(), &err), TENURE_OK);
    tn_catalogue_free(&c);
    REFUSED(tn_catalogue_load(store, "h", &c, soon(), &err), TENURE_CORRUPT, "lost");
    tn_catalogue_free(&c);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_memory, close_memory)

/* ---- History ------------------------------------------------------------- */

static void records_of_others(void **state)
{
    const char *foreign[] = {"{\"holder\":\"\",\"epoch\":1}", "{\"terms\":[]}",
                             "{\"paused\":false}", "tenure-bell 1 3\n"};
    const char *ours[] = {"", "garbage", "{}", "[1]", "{\"format\":1,\"roll\":1}", "tenure-"};

    (void)state;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        assert_true(tn_jobs_is_foreign(foreign[i], strlen(foreign[i]), ""));
        assert_true(tn_jobs_is_foreign(foreign[i], strlen(foreign[i]), TN_HISTORY_KIND " "));
    }
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        assert_false(tn_jobs_is_foreign(ours[i], strlen(ours[i]), ""));
        assert_false(tn_jobs_is_foreign(ours[i], strlen(ours[i]), TN_HISTORY_KIND " "));
    }
    assert_true(tn_jobs_is_foreign("tenure-history 1 0\n", 19, ""));
    assert_false(tn_jobs_is_foreign("tenure-history 1 x\n", 19, TN_HISTORY_KIND " "));
}

static void history_round_trip(void **state)
{
    struct tn_jobs_history h = {0}, copy = {0};
    struct tn_jobs_history_event e = {.at_ms = 5,
                                      .kind = TN_HISTORY_CLAIMED,
                                      .cause = TN_MOVE_DIED,
                                      .epoch = 9,
                                      .jobs = 6,
                                      .other = "worker 1"};

    (void)state;
    for (unsigned i = 0; i < TN_HISTORY_EVENTS_MAX + 10; i++) {
        e.at_ms++;
        e.numbers = strdup("0-3,7,9");
        assert_true(tn_jobs_history_append(&h, &e));
    }
    char *text = tn_jobs_history_text(&h, TN_HISTORY_BYTES_MAX);
    assert_non_null(text);
    assert_int_equal(tn_jobs_history_read(text, strlen(text), &copy, &err), TENURE_OK);
    assert_int_equal(copy.count, TN_HISTORY_EVENTS_MAX); /* the last ones */
    assert_int_equal(copy.events[copy.count - 1].at_ms, e.at_ms);
    assert_string_equal(copy.events[0].other, "worker 1");
    assert_int_equal(tn_jobs_history_has(copy.events[0].numbers, 2), TN_HISTORY_YES);
    assert_int_equal(tn_jobs_history_has(copy.events[0].numbers, 8), TN_HISTORY_NO);
    assert_int_equal(tn_jobs_history_has("1-5,+", 6), TN_HISTORY_MAYBE);
    tn_jobs_history_free(&copy);
    free(text);
    text = tn_jobs_history_text(&h, 300); /* a store that holds little */
    assert_true(text && strlen(text) <= 300);
    assert_int_equal(tn_jobs_history_read(text, strlen(text), &copy, &err), TENURE_OK);
    assert_in_range(copy.count, 1, 10);
    tn_jobs_history_free(&copy);
    tn_jobs_history_free(&h);
    free(text);
}

static void history_damage(void **state)
{
    static const char *const damaged[] = {
        "tenure-history 1 1\n",
        "tenure-history 1 0\nmore",
        "tenure-history 1 257\n",
        "tenure-history 1 1\n5 claimed died 9 2 0 w\n",
        "tenure-history 1 1\n5 claimed died 9 2 3-2 w\n",
        "tenure-history 1 1\n5 claimed died 9 2 1,1 w\n",
        "tenure-history 1 1\n5 claimed died 9 2 0-1,+ w\n",
        "tenure-history 1 1\n5 eaten died 9 1 0 w\n",
        "tenure-history 1 1\n5 claimed bored 9 1 0 w\n",
        "tenure-history 1 1\n5 claimed died 9 1 0\n",
    };
    struct tn_jobs_history h = {0};

    (void)state;
    for (unsigned i = 0; i < sizeof damaged / sizeof damaged[0]; i++)
        if (tn_jobs_history_read(damaged[i], strlen(damaged[i]), &h, &err) != TENURE_CORRUPT)
            fail_msg("taken: %s", damaged[i]);
    REFUSED(tn_jobs_history_read("tenure-history 2 0\n", 19, &h, &err), TENURE_UNSUPPORTED,
            "upgrade tenure");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_round_trip),
        cmocka_unit_test(job_refused),
        cmocka_unit_test(labels),
        cmocka_unit_test(member_round_trip),
        cmocka_unit_test(member_refused),
        cmocka_unit_test(plan_round_trip),
        WITH_STORE(pages),
        WITH_STORE(half_written),
        WITH_STORE(catalogue_refused),
        cmocka_unit_test(records_of_others),
        cmocka_unit_test(history_round_trip),
        cmocka_unit_test(history_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
