/*
 * batches URL NAME SECONDS KEYS [DIR] - commits of KEYS documents each, one after the other.
 *
 * Prints how many the state of election NAME took in that time.  DIR: where the modules are.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tenure/state.h>

#define KEYS_MAX 1000
#define S        INT64_C(1000000000)

static void check(enum tenure_status status, const struct tenure_error *err)
{
    if (!status)
        return;
    fprintf(stderr, "batches: %s\n", err->text);
    exit(1);
}

int main(int argc, char **argv)
{
    static struct tenure_commit commits[KEYS_MAX];
    static char ids[KEYS_MAX][8];
    struct tenure_grant grant = {.epoch = 1, .id = "bench"};
    struct tenure_error err = {0};
    tenure_state *state = NULL;
    unsigned keys = argc > 4 ? (unsigned)atoi(argv[4]) : 0, count = 0;

    if (keys == 0 || keys > KEYS_MAX) {
        fputs("usage: batches URL NAME SECONDS KEYS [DIR], with at most 1000 KEYS\n", stderr);
        return 2;
    }
    if (argc > 5)
        check(tenure_store_module_dir(argv[5], &err), &err);
    check(tenure_state_open(argv[1], argv[2], &grant, tenure_now() + 60 * S, &state, &err), &err);
    for (unsigned i = 0; i < keys; i++) {
        snprintf(ids[i], sizeof ids[i], "k%u", i);
        commits[i] = (struct tenure_commit){
            .collection = "keys", .id = ids[i], .data = "a checkpoint", .len = 12};
    }
    check(tenure_state_commit(state, commits, keys, tenure_now() + 60 * S, &err), &err);
    for (int64_t end = tenure_now() + atoi(argv[3]) * S; tenure_now() < end; count++)
        check(tenure_state_commit(state, commits, keys, tenure_now() + 60 * S, &err), &err);
    printf("%u\n", count);
    tenure_state_close(state);
    return 0;
}
