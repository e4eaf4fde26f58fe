/*
 * driver/driver.h - the thread that runs the elector against a real store.
 *
 * tenure_elector (include/tenure/elector.h) is this.  The supervisor uses the
 * same handle, with the hooks below added.
 */
#ifndef TN_DRIVER_DRIVER_H
#define TN_DRIVER_DRIVER_H

#include <stdatomic.h>

#include "core/elector.h"
#include "driver/snapshot.h"

struct tn_driver_hooks {
    void *arg;
    /*
     * OPTIONAL, on the driver's thread, before anything else of a step (duty 1
     * of core/elector.h): the program must be dead at deadline_ns; 0: no grant.
     * Must not block.  false: the guard has fired on this grant.
     */
    bool (*publish)(void *arg, int64_t deadline_ns);
    /*
     * OPTIONAL, on the driver's thread, before publish(): it leads until then (0: it
     * does not), in that epoch.  Called in every step.  Must not block.
     */
    void (*lead)(void *arg, int64_t lead_until_ns, int64_t deadline_ns, uint64_t epoch);
    /*
     * OPTIONAL, where the callbacks run, before started(): seal the state
     * under (epoch, grant).  OK; FENCED with *floor set; anything else is
     * tried again until the elector gives the grant up: at once if the error is
     * permanent, else if it lasts and *gained (did this try get on?) stays false.
     */
    enum tenure_status (*seal)(void *arg, uint64_t epoch, const uint8_t grant[TENURE_NONCE_SIZE],
                               uint64_t *floor, bool *gained, struct tenure_error *err);
    /* OPTIONAL, in place of stopped(): end the work, and return.  true: it has ended; else
     * tn_driver_stopped() says when. */
    bool (*stopping)(void *arg, enum tn_stop why);
    /* OPTIONAL, where the callbacks run: nothing of a term is left, also if it never started, and
     * the lease is released when this returns.  May block. */
    void (*quiet)(void *arg);
    /*
     * OPTIONAL, on the driver's thread, around every store request but waits:
     * it ends by until_ns; 0: it has ended.  Must not block.
     */
    void (*request)(void *arg, int64_t until_ns);
    /*
     * OPTIONAL, on the driver's thread: the register NAME/control as it was read, before the
     * first claim and whenever it has changed; damage (NULL: none) says why it could not be
     * decoded.  The snapshot has it already.  Must not block, nor call the elector.  Sets what
     * tn_driver_control() would.  Until it could be read nothing is claimed: a request that
     * cannot be read may be the request not to.
     */
    void (*control)(void *arg, const struct tenure_control *control, const char *damage,
                    bool *may_claim, int64_t *delay_ns);
    /*
     * OPTIONAL, on the driver's thread (duty 6): start what makes sure that the machine of this
     * holder is off, once it was silent for prove_ns; tn_driver_proved() answers.  Its record was
     * read under that token.  Must not block.
     */
    void (*prove)(void *arg, const struct tn_lease *suspect, const struct tenure_token *token);
    int64_t prove_ns;
    /* OPTIONAL, on the driver's thread, before halted(): the store could not be opened, and is
     * not tried again. */
    void (*failed)(void *arg, enum tenure_status status, const char *text);
    /* OPTIONAL, on the driver's thread, the last thing it does, if it was ever started:
     * tenure_elector_stop() will not block any more. */
    void (*halted)(void *arg);
};

/*
 * tenure_elector_start() in two steps.  open_by_ns 0: the store is opened here, once.  Else it is
 * opened on the driver's thread while the caller does something else; a failure that may pass is
 * followed by another try until then, and failed() tells if none succeeded.  What the options name
 * must stay.  To open may make the place; no register is read or claimed before the second step.
 * On failure *elector is NULL.
 */
enum tenure_status tn_driver_prepare(const struct tenure_elector_options *options,
                                     int64_t open_by_ns, tenure_elector **elector,
                                     struct tenure_error *err);
/* Contend, as soon as the store is open; an error if the first try showed that it cannot be, within
 * a second: what takes longer goes on beside the caller, and failed() tells. hooks: may be NULL;
 * copied.  tenure_elector_stop() has to follow, whatever it answers. */
enum tenure_status tn_driver_start(tenure_elector *elector, const struct tn_driver_hooks *hooks,
                                   struct tenure_error *err);

/* The guard has fired on the grant in hand, or is gone: the grant is over. */
void tn_driver_fired(tenure_elector *elector);
/* What prove() started has ended: is the holder's machine off? */
void tn_driver_proved(tenure_elector *elector, bool off);
/* The program of that epoch has ended by itself: the lease is released; contends again. */
void tn_driver_ended(tenure_elector *elector, uint64_t epoch);
/* May this candidate claim (pause, health)?  delay_ns: let others go first by that much. */
void tn_driver_control(tenure_elector *elector, bool may_claim, int64_t delay_ns);
/*
 * Other times from now on: ttl, renew and kill of options, with its grace.  A lower ttl binds when
 * it is sent, a higher one when it is acknowledged (core/elector_plan.c).  CONFIG for times that
 * cannot be safe; then nothing has changed.  *notice_ns, the guard's (may be NULL), is lowered
 * first to what a loss leaves of the grace, if that is less; never raised: the deadline in force
 * may be one of the shorter ttl, and a guard that is told to be earlier would end the program at
 * once.
 */
enum tenure_status tn_driver_retime(tenure_elector *elector,
                                    const struct tenure_elector_options *options,
                                    _Atomic int64_t *notice_ns, struct tenure_error *err);
/* tenure_elector_dispatch(), but for the seal.  false: tn_driver_seal() has to follow, on a thread
 * that may block, and dispatch() after it. */
bool tn_driver_dispatch(tenure_elector *elector);
void tn_driver_seal(tenure_elector *elector);
/* Where the callbacks run: what stopping() began has ended. */
void tn_driver_stopped(tenure_elector *elector);
/* Ask for the shutdown and return at once; tenure_elector_stop() still has to follow. */
void tn_driver_shutdown(tenure_elector *elector);
/* It has no id of its own, and the host's name is taken by another candidate of this machine. */
bool tn_driver_is_suffixed(const tenure_elector *elector);
/* After that: is there, or may there be, a lease of ours that has to be released (owes of the
 * snapshot)?  Else nobody needs what the driver still waits for. */
bool tn_driver_owes(tenure_elector *elector);

/* What the free record that the guard's releaser leaves gives as its cause. */
#define TN_LEASE_CRASHED "crashed"

/*
 * Release the lease of (id, incarnation, grant): a read, then a swap on what
 * was read, only if all three match (I8); again while a renewal of that very
 * term comes between.  For the guard's releaser.  OK also if it is free since
 * an earlier try; CONFLICT if somebody else has it.
 */
enum tenure_status tn_driver_release_grant(tenure_store *store, const char *name, const char *id,
                                           const uint8_t incarnation[TENURE_NONCE_SIZE],
                                           const uint8_t grant[TENURE_NONCE_SIZE], int64_t deadline,
                                           struct tenure_error *err);

#endif
