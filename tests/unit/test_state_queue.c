/* The commit queue: deadlines behind somebody else's commit, and reads beside it. */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "state/calls.h"
#include "state_script.h"

/* Every change of one key stops inside the store until it is let go. */
static sem_t inside, go_on;

static void hold(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    (void)plan;
    for (size_t i = 0; i < event->n; i++) {
        if ((event->call == TN_CALL_SWAP || event->call == TN_CALL_BATCH) &&
            strcmp(event->swaps[i].key, arg) == 0) {
            sem_post(&inside);
            sem_wait(&go_on);
        }
    }
}

struct caller {
    pthread_t thread;
    tenure_state *s;
    const char *id, *text;
    int64_t deadline;
    enum tenure_status status;
    _Atomic bool ended;
};

static void *call_put(void *arg)
{
    struct caller *c = arg;

    c->status = put_by(c->s, c->id, c->text, c->deadline);
    c->ended = true;
    return NULL;
}

static void start(struct caller *c)
{
    assert_int_equal(pthread_create(&c->thread, NULL, call_put, c), 0);
}

static enum tenure_status finish(struct caller *c)
{
    pthread_join(c->thread, NULL);
    return c->status;
}

/* A leader of a sealed collection with x and y in it; from now on changes of key are held. */
static tenure_state *lead_and_hold(char *key)
{
    tenure_state *s = lead("fault:f", 10);

    seal(s);
    assert_int_equal(put(s, "x", "old"), TENURE_OK);
    assert_int_equal(put(s, "y", "old"), TENURE_OK);
    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    tn_fault_hook(fault, hold, key);
    return s;
}

static void close_held(tenure_state *s)
{
    tn_fault_hook(fault, NULL, NULL);
    tenure_state_close(s);
    sem_destroy(&inside);
    sem_destroy(&go_on);
}

static bool count(void *arg, const char *id, const struct tenure_document *d, const char *damage)
{
    (void)id;
    (void)d;
    (void)damage;
    ++*(unsigned *)arg;
    return true;
}

static bool count_name(void *arg, const char *name)
{
    (void)name;
    ++*(unsigned *)arg;
    return true;
}

/* While a commit is under way everything can be read, also what it is about to replace. */
static void reads_do_not_wait_for_a_commit(void **state)
{
    char key[] = X;
    tenure_state *s = lead_and_hold(key);
    struct caller slow = {.s = s, .id = "x", .text = "new", .deadline = soon()};
    struct tenure_error err = {0};
    unsigned n = 0;

    (void)state;
    start(&slow);
    sem_wait(&inside);
    expect(s, "y", "old");
    expect(s, "x", "old");
    assert_int_equal(tenure_state_list(s, "docs", count, &n, soon(), &err), TENURE_OK);
    assert_int_equal(n, 2);
    assert_int_equal(tenure_state_collections(s, count_name, &n, soon(), &err), TENURE_OK);
    assert_int_equal(n, 3);
    sem_post(&go_on);
    assert_int_equal(finish(&slow), TENURE_OK);
    expect(s, "x", "new");
    close_held(s);
}

static tenure_store *shown_at;

/* The store shows a swap before it answers it, and is held in between. */
static void show_and_hold(void *arg, const struct tn_fault_event *event, struct tn_fault_plan *plan)
{
    struct tenure_error err;

    if (event->call == TN_CALL_SWAP && strcmp(event->key, arg) == 0) {
        struct tenure_swap swap = event->swaps[0];

        assert_int_equal(tenure_store_swap(shown_at, &swap, soon(), &err), TENURE_OK);
    }
    hold(arg, event, plan);
}

/* It may not be on the disk yet: a power cut would take back what was shown. */
static void nothing_is_shown_before_the_store_has_answered(void **state)
{
    char key[] = X;
    tenure_state *s = lead_and_hold(key);
    struct caller slow = {.s = s, .id = "x", .text = "new", .deadline = soon()};
    struct tenure_document d = {0};
    struct tenure_error err = {0};

    assert_int_equal(tenure_store_open(*state, soon(), &shown_at, &err), TENURE_OK);
    tn_fault_hook(fault, show_and_hold, key);
    start(&slow);
    sem_wait(&inside);
    assert_int_equal(tenure_state_load(s, "docs", "x", &d, within_ms(20), &err), TENURE_TIMEOUT);
    expect(s, "y", "old");
    sem_post(&go_on);
    assert_int_equal(finish(&slow), TENURE_OK);
    expect(s, "x", "new");
    close_held(s);
    tenure_store_close(shown_at);
}

/* noop: has its registers in the handle: another one would show none. */
static void noop_is_read_in_turn(void **state)
{
    tenure_state *s = lead("noop:", 10);
    unsigned n = 0;

    (void)state;
    assert_int_equal(put(s, "x", "1"), TENURE_OK);
    assert_true(tn_turn_take(&s->turn, soon()));
    assert_int_equal(tenure_state_list(s, "docs", count, &n, within_ms(20), NULL), TENURE_TIMEOUT);
    tn_turn_give(&s->turn);
    assert_int_equal(tenure_state_list(s, "docs", count, &n, soon(), NULL), TENURE_OK);
    assert_int_equal(n, 1);
    tenure_state_close(s);
}

/* What takes the turn, behind a commit that does not end, ends at its own deadline. */
static void every_call_ends_at_its_deadline(void **state)
{
    char key[] = X;
    tenure_state *s = lead_and_hold(key);
    struct caller slow = {.s = s, .id = "x", .text = "new", .deadline = soon()};
    struct tenure_document d = {0};
    struct tenure_error err = {0};

    (void)state;
    start(&slow);
    sem_wait(&inside);
    /* What is not there has to be sealed: that is no plain read. */
    assert_int_equal(tenure_state_load(s, "docs", "z", &d, within_ms(20), &err), TENURE_TIMEOUT);
    assert_int_equal(tenure_state_seal(s, "docs", within_ms(20), &err), TENURE_TIMEOUT);
    assert_int_equal(put_by(s, "y", "never", within_ms(20)), TENURE_TIMEOUT);
    sem_post(&go_on);
    assert_int_equal(finish(&slow), TENURE_OK);
    expect(s, "y", "old");
    close_held(s);
}

static unsigned queued(tenure_state *s)
{
    unsigned n = 0;

    pthread_mutex_lock(&s->turn.lock);
    for (void **r = (void **)s->queue; r; r = *r) /* a request begins with a pointer to the next */
        n++;
    pthread_mutex_unlock(&s->turn.lock);
    return n;
}

/* One whose deadline comes first leaves the batch that another one writes, and its outcome is
 * unknown: nothing is shown of its document until the batch is written. */
static void an_early_deadline_leaves_the_batch(void **state)
{
    char key[] = X;
    tenure_state *s = lead_and_hold(key);
    struct caller early = {.s = s, .id = "y", .text = "new"};

    (void)state;
    /* On a slow machine it may have gone before it was taken along: then once more. */
    for (int ms = 200; early.status != TENURE_UNKNOWN; ms *= 2) {
        struct caller first = {.s = s, .id = "x", .text = "1", .deadline = soon()};
        struct caller writer = {.s = s, .id = "x", .text = "2", .deadline = soon() * 2};

        start(&first);
        sem_wait(&inside);
        early.deadline = within_ms(ms);
        early.ended = false;
        start(&early);
        start(&writer);
        while (queued(s) + early.ended < 2)
            usleep(1000);
        sem_post(&go_on);
        assert_int_equal(finish(&first), TENURE_OK);
        sem_wait(&inside);
        if (finish(&early) == TENURE_UNKNOWN) {
            struct tenure_document d = {0};

            assert_int_equal(tenure_state_load(s, "docs", "y", &d, within_ms(20), NULL),
                             TENURE_TIMEOUT);
        } else {
            assert_int_equal(early.status, TENURE_TIMEOUT);
        }
        sem_post(&go_on);
        assert_int_equal(finish(&writer), TENURE_OK);
    }
    expect(s, "x", "2");
    expect(s, "y", "new");
    close_held(s);
}

static void duplicates_keep_their_order(void **state)
{
    enum { N = 3000 };
    static struct tenure_commit commits[N];
    static char texts[N][8];
    tenure_state *s = lead("fault:f", 10);
    struct tenure_error err = {0};

    (void)state;
    for (int i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "%d", i);
        commits[i] = (struct tenure_commit){.collection = "docs",
                                            .id = i % 3 ? "x" : "y",
                                            .data = texts[i],
                                            .len = strlen(texts[i])};
    }
    assert_int_equal(tenure_state_commit(s, commits, N, soon(), &err), TENURE_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal(commits[i].seq, i % 3 ? (unsigned)(i - i / 3) : (unsigned)(i / 3 + 1));
    expect(s, "x", "2999");
    expect(s, "y", "2997");
    tenure_state_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(reads_do_not_wait_for_a_commit),
        T(nothing_is_shown_before_the_store_has_answered),
        T(noop_is_read_in_turn),
        T(every_call_ends_at_its_deadline),
        T(an_early_deadline_leaves_the_batch),
        T(duplicates_keep_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
