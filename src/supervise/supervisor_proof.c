/*
 * Proof of death (--fence-command): a leader that has been silent for so long is made sure to be
 * off by a command, and if that succeeds nobody waits for its lease to run out.
 *
 * When and on what is core/elector_plan.c's; whose turn it is, fence_turn.h's.  The command is a
 * child of ours with a time limit.  Only its exit code 0 counts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "supervise/supervisor_inner.h"

/* On the driver's thread. */
static void on_prove(void *arg, const struct tn_lease *suspect, const struct tenure_token *token)
{
    struct tn_supervisor *s = arg;
    struct tn_inbox *m = &s->inbox;

    pthread_mutex_lock(&m->lock);
    m->prove = true;
    m->suspect = *suspect;
    m->suspect_token = *token;
    pthread_mutex_unlock(&m->lock);
    tn_supervisor_wake(s);
}

void tn_supervisor_proof_hooks(struct tn_supervisor *s, struct tn_driver_hooks *hooks)
{
    s->peers.turn_limit_ns = s->options->fence_timeout_ns;
    if (!s->options->fence_command || !s->controlled)
        return;
    hooks->prove = on_prove;
    hooks->prove_ns = s->options->fence_after_ns;
}

void tn_supervisor_proof_begin(struct tn_supervisor *s, const struct tn_lease *suspect,
                               const struct tenure_token *token)
{
    s->suspect = *suspect;
    s->peers.suspect = *token;
    tn_log("suspect", "%s, epoch %" PRIu64 ", has been silent for %.1f s", suspect->holder,
           suspect->epoch, (double)s->options->fence_after_ns / 1e9);
    tn_supervisor_sync_now(s, TN_PEER_TURN);
}

static void put_hex(const uint8_t *bytes, char *to)
{
    for (unsigned i = 0; i < TENURE_NONCE_SIZE; i++)
        sprintf(to + 2 * i, "%02x", bytes[i]);
}

/* What the command gets, and nothing of the store's secrets. */
static char **environment(const struct tn_supervisor *s)
{
    char holder[TN_HOLDER_MAX + 32], address[TN_ADDRESS_MAX + 32], epoch[64];
    char incarnation[64] = "TENURE_FENCE_INCARNATION=", grant[64] = "TENURE_FENCE_GRANT=";
    const struct tn_lease *l = &s->suspect;

    snprintf(holder, sizeof holder, "TENURE_FENCE_HOLDER=%s", l->holder);
    snprintf(address, sizeof address, "TENURE_FENCE_ADDRESS=%s", l->address);
    snprintf(epoch, sizeof epoch, "TENURE_FENCE_EPOCH=%" PRIu64, l->epoch);
    put_hex(l->incarnation, incarnation + strlen(incarnation));
    put_hex(l->grant, grant + strlen(grant));
    const char *extra[] = {"TENURE_EVENT=fence", holder, address, incarnation, grant, epoch, NULL};
    struct tn_program_env_spec spec = {.name = s->options->elector.name,
                                       .id = s->id,
                                       .extra = extra,
                                       .store = s->options->elector.store,
                                       .state = s->options->state};
    return tn_program_env(s->options->program.env, &spec);
}

void tn_supervisor_proof_turn(struct tn_supervisor *s, bool ours)
{
    if (!ours) {
        tn_log("suspect",
               "%s is not fenced now: it has renewed, another candidate is at it, or the "
               "store does not answer",
               s->suspect.holder);
        tn_driver_proved(s->elector, false);
        return;
    }
    tn_log("fencing", "running the fence command for %s, epoch %" PRIu64, s->suspect.holder,
           s->suspect.epoch);
    char **env = environment(s);
    bool runs = env && tn_helpers_run(&s->helpers, TN_HELPER_FENCE, s->options->fence_command, env,
                                      s->options->fence_timeout_ns);
    tn_program_env_free(env);
    if (!runs)
        tn_supervisor_proof_ended(s, -1);
}

void tn_supervisor_proof_ended(struct tn_supervisor *s, int status)
{
    bool off = status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;

    if (off)
        tn_log("fenced", "the fence command says that the machine of %s is off", s->suspect.holder);
    else if (status < 0)
        tn_log("fencing", "the fence command could not be run; its lease has to run out");
    else if (WIFSIGNALED(status))
        tn_log("fencing",
               "the fence command was ended (signal %d, or it took too long); the lease "
               "of %s has to run out",
               WTERMSIG(status), s->suspect.holder);
    else
        tn_log("fencing", "the fence command failed (code %d); the lease of %s has to run out",
               WEXITSTATUS(status), s->suspect.holder);
    tn_driver_proved(s->elector, off);
    tn_supervisor_sync(s, TN_PEER_TURN_OVER);
}
