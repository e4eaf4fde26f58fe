/*
 * commits URL COUNT KEYS SEALED [DIR] - durable, fenced commits of the state.
 *
 * Prints, in microseconds: one commit of a document; of KEYS documents one by one, and
 * together, a key; and in milliseconds how long it takes to create SEALED documents in one
 * commit, and the next leader to seal them.  DIR: where the modules are.  Medians, but for
 * the last two.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tenure/state.h>

#define ROUNDS 20
#define ALONE  25 /* commits of one document after each batch */

static const char text[] =
    "a checkpoint: 1234567890 of source/0001, some 100 bytes as they are seen "
    "in the field.......";

static int64_t soon(void)
{
    return tenure_now() + INT64_C(120000000000);
}

static void check(enum tenure_status status, const struct tenure_error *err)
{
    if (!status)
        return;
    fprintf(stderr, "commits: %s\n", err->text);
    exit(1);
}

static tenure_state *lead(const char *url, uint64_t epoch)
{
    struct tenure_grant grant = {.epoch = epoch, .id = "bench"};
    struct tenure_error err = {0};
    tenure_state *state = NULL;

    check(tenure_state_open(url, "bench", &grant, soon(), &state, &err), &err);
    return state;
}

static int by_size(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

/* The median of n times, in microseconds. */
static double median(int64_t *took, unsigned n)
{
    qsort(took, n, sizeof *took, by_size);
    return (double)took[n / 2] / 1e3;
}

static void one_by_one(tenure_state *s, unsigned count)
{
    struct tenure_commit c = {
        .collection = "one", .id = "checkpoint", .data = text, .len = sizeof text - 1};
    struct tenure_error err = {0};
    int64_t *took = calloc(count, sizeof *took);

    check(tenure_state_commit(s, &c, 1, soon(), &err), &err);
    for (unsigned i = 0; i < count; i++) {
        took[i] = tenure_now();
        check(tenure_state_commit(s, &c, 1, soon(), &err), &err);
        took[i] = tenure_now() - took[i];
    }
    printf("single %.2f\n", median(took, count));
    free(took);
}

/* The same documents by turns: a round together, a few of them one by one. */
static void together(tenure_state *s, const char *collection, unsigned keys, unsigned rounds)
{
    static int64_t all[ROUNDS], each[ROUNDS * ALONE];
    struct tenure_commit *c = calloc(keys, sizeof *c);
    char(*ids)[16] = calloc(keys, sizeof *ids);
    struct tenure_error err = {0};

    check(tenure_state_seal(s, collection, soon(), &err), &err);
    for (unsigned i = 0; i < keys; i++) {
        snprintf(ids[i], sizeof ids[i], "k%06u", i);
        c[i] = (struct tenure_commit){
            .collection = collection, .id = ids[i], .data = text, .len = sizeof text - 1};
    }
    int64_t from = tenure_now();
    check(tenure_state_commit(s, c, keys, soon(), &err), &err); /* creates them */
    if (!rounds)
        printf("create %.1f\n", (double)(tenure_now() - from) / 1e6);
    for (unsigned i = 0; i < rounds; i++) {
        all[i] = tenure_now();
        check(tenure_state_commit(s, c, keys, soon(), &err), &err);
        all[i] = tenure_now() - all[i];
        for (unsigned k = i * ALONE; k < (i + 1) * ALONE; k++) {
            each[k] = tenure_now();
            check(tenure_state_commit(s, &c[k * 37 % keys], 1, soon(), &err), &err);
            each[k] = tenure_now() - each[k];
        }
    }
    if (rounds)
        printf("each %.2f\nbatch %.3f\n", median(each, rounds * ALONE), median(all, rounds) / keys);
    free(c);
    free(ids);
}

static double seal(tenure_state *s)
{
    struct tenure_error err = {0};
    int64_t from = tenure_now();

    check(tenure_state_seal(s, "many", soon(), &err), &err);
    return (double)(tenure_now() - from) / 1e6;
}

int main(int argc, char **argv)
{
    struct tenure_error err = {0};

    if (argc < 5)
        return 2;
    if (argc > 5)
        check(tenure_store_module_dir(argv[5], &err), &err);
    tenure_state *s = lead(argv[1], 1);
    if (atoi(argv[2]) > 0)
        one_by_one(s, (unsigned)atoi(argv[2]));
    together(s, "keys", (unsigned)atoi(argv[3]), ROUNDS);
    unsigned many = (unsigned)atoi(argv[4]);
    if (many) {
        together(s, "many", many, 0);
        tenure_state *next = lead(argv[1], 2);
        printf("seal %.1f\n", seal(next));
        tenure_state_close(next);
    }
    tenure_state_close(s);
    return 0;
}
