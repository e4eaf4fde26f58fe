/*
 * commit_load URL COUNT [EVERY] - commits one after the other, and says so.
 *
 * Writes "ready" when the store is set up, then "ack N" after each commit N, of
 * document N % 2 of the collection docs: what a crash must not take back.  Ends
 * with 3 and a line on stderr at the first commit that is not acknowledged.  After
 * EVERY commits a new leader, of the next epoch, takes over and goes on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure/state.h>

static void say(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        exit(4);
}

static void complain(enum tenure_status status, const struct tenure_error *err)
{
    fprintf(stderr, "%s: %s\n", tenure_status_word(status), err->text);
    exit(3);
}

static int64_t soon(void)
{
    return tenure_now() + 5000000000;
}

int main(int argc, char **argv)
{
    struct tenure_grant grant = {.epoch = 10, .id = "commit-load"};
    struct tenure_error err = {0};
    tenure_state *state = NULL;
    enum tenure_status status;
    char line[4096];

    if (argc < 3)
        return 2;
    const char *modules = getenv("TENURE_BUILD");
    if (modules && (status = tenure_store_module_dir(modules, &err)))
        complain(status, &err);
    int every = argc > 3 ? atoi(argv[3]) : 0;
    for (int i = 0; i < atoi(argv[2]) + 2; i++) {
        if (i == 0 || (every && i > 2 && i % every == 0)) {
            tenure_state_close(state);
            if ((status = tenure_state_open(argv[1], "app", &grant, soon(), &state, &err)))
                complain(status, &err);
            grant.epoch++;
        }
        struct tenure_commit c = {.collection = "docs", .id = i % 2 ? "b" : "a", .data = line};

        /* Some are longer than a block of the disk, which may be torn. */
        c.len = (size_t)snprintf(line, sizeof line, "value %-*d", i % 3 ? 1 : 3000, i);
        if ((status = tenure_state_commit(state, &c, 1, soon(), &err)))
            complain(status, &err);
        snprintf(line, sizeof line, "ack %d\n", i);
        say(line);
        if (i == 1)
            say("ready\n");
    }
    tenure_state_close(state);
    return 0;
}
