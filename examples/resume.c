/*
 * resume STORE UNTIL [EPOCH] - counts to UNTIL, from where the last one stopped.
 *
 * Waits until it leads, and opens the state with the grant of its term.  Notes
 * every number, and commits every tenth.  With EPOCH it takes part in nothing
 * and claims to be of that term: the state refuses it if there was a later one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tenure/tenure.h>

static int64_t soon(void)
{
    return tenure_now() + INT64_C(10000000000);
}

static enum tenure_status count(const char *url, const struct tenure_grant *grant, uint64_t until,
                                struct tenure_error *err)
{
    struct tenure_checkpoint_options options = TENURE_CHECKPOINT_OPTIONS;
    tenure_state *state = NULL;
    tenure_checkpoint *done = NULL;
    enum tenure_status status;

    options.every = 10;
    status = tenure_state_open(url, "resume", grant, soon(), &state, err);
    if (!status)
        status = tenure_checkpoint_open(state, "work", "count", &options, soon(), &done, err);
    if (!status)
        printf("from %" PRIu64 "\n", tenure_checkpoint_position(done));
    while (!status && tenure_checkpoint_position(done) < until)
        status = tenure_checkpoint_note(done, tenure_checkpoint_position(done) + 1, soon(), err);
    if (!status)
        printf("durable %" PRIu64 "\n", tenure_checkpoint_durable(done));
    tenure_checkpoint_close(done);
    tenure_state_close(state);
    return status;
}

int main(int argc, char **argv)
{
    struct tenure_elector_options options = TENURE_ELECTOR_OPTIONS;
    struct tenure_grant grant = {0};
    struct tenure_error err = {0};
    tenure_elector *elector = NULL;
    enum tenure_status status = TENURE_OK;

    if (argc < 3) {
        fprintf(stderr, "usage: resume STORE UNTIL [EPOCH]\n");
        return 2;
    }
    options.store = argv[1];
    options.name = "resume";
    if (argc > 3)
        grant.epoch = strtoull(argv[3], NULL, 10);
    else
        status = tenure_elector_start(&options, &elector, &err);
    if (elector)
        status = tenure_elector_wait(elector, soon(), &grant, &err);
    if (!status)
        status = count(argv[1], &grant, strtoull(argv[2], NULL, 10), &err);
    if (status)
        fprintf(stderr, "resume: %s\n", err.text);
    tenure_elector_stop(elector);
    return status ? 1 : 0;
}
