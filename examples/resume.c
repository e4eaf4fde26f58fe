/*
 * resume STORE EPOCH UNTIL - counts to UNTIL, from where the last one stopped.
 *
 * Notes every number, and commits every tenth.  In a program of your own the
 * epoch and the grant are those of the term (tenure_term, TENURE_EPOCH).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tenure/checkpoint.h>

static int64_t soon(void)
{
    return tenure_now() + INT64_C(10000000000);
}

int main(int argc, char **argv)
{
    struct tenure_checkpoint_options options = TENURE_CHECKPOINT_OPTIONS;
    struct tenure_grant grant = {.id = "an example"};
    struct tenure_error err = {0};
    tenure_state *state = NULL;
    tenure_checkpoint *done = NULL;
    enum tenure_status status;

    if (argc != 4) {
        fprintf(stderr, "usage: resume STORE EPOCH UNTIL\n");
        return 2;
    }
    grant.epoch = strtoull(argv[2], NULL, 10);
    options.every = 10;
    status = tenure_state_open(argv[1], "resume", &grant, soon(), &state, &err);
    if (!status)
        status = tenure_checkpoint_open(state, "work", "count", &options, soon(), &done, &err);
    if (!status)
        printf("from %" PRIu64 "\n", tenure_checkpoint_position(done));
    while (!status && tenure_checkpoint_position(done) < strtoull(argv[3], NULL, 10))
        status = tenure_checkpoint_note(done, tenure_checkpoint_position(done) + 1, soon(), &err);
    if (!status)
        printf("durable %" PRIu64 "\n", tenure_checkpoint_durable(done));
    if (status)
        fprintf(stderr, "resume: %s\n", err.text);
    tenure_checkpoint_close(done);
    tenure_state_close(state);
    return status ? 1 : 0;
}
