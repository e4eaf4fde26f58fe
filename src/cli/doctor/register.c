/* The promises about one register: conditions, tombstones, deadlines, rights. */
#include <stdio.h>
#include <string.h>

#include "cli/doctor/doctor.h"

#define TRIES 8 /* of a swap whose answers are unknown */

int64_t doctor_by(const struct doctor *d)
{
    return tenure_now() + d->common.timeout_ns;
}

const char *doctor_key(struct doctor *d, const char *name)
{
    char key[sizeof d->keys[0]];

    snprintf(key, sizeof key, "%s%s", d->prefix, name);
    for (unsigned i = 0; i < d->n_keys; i++) {
        if (strcmp(d->keys[i], key) == 0)
            return d->keys[i];
    }
    strcpy(d->keys[d->n_keys], key);
    return d->keys[d->n_keys++];
}

enum tenure_status doctor_read(struct doctor *d, const char *key)
{
    d->err.text[0] = '\0';
    return tenure_store_read(d->store, key, &d->value, doctor_by(d), &d->err);
}

static enum tenure_status swap(struct doctor *d, const char *key, const struct tenure_token *expect,
                               const char *text, bool tombstone, struct tenure_swap *out)
{
    enum tenure_status status;

    *out = (struct tenure_swap){
        .key = key, .expect = *expect, .data = text, .len = strlen(text), .tombstone = tombstone};
    d->err.text[0] = '\0';
    status = tenure_nonce(out->nonce, &d->err);
    return status ? status : tenure_store_swap(d->store, out, doctor_by(d), &d->err);
}

enum tenure_status doctor_put(struct doctor *d, const char *key, struct tenure_token *token,
                              const char *text, bool tombstone)
{
    uint8_t sent[TRIES][TENURE_NONCE_SIZE];
    struct tenure_swap s;

    for (unsigned i = 0; i < TRIES; i++) {
        enum tenure_status status = swap(d, key, token, text, tombstone, &s);

        memcpy(sent[i], s.nonce, sizeof sent[i]);
        if (status == TENURE_OK)
            *token = s.token;
        /* A conflict behind an unknown answer may be with that very request (I6). */
        if (status != TENURE_UNKNOWN && !(status == TENURE_CONFLICT && i > 0))
            return status;
        status = doctor_read(d, key);
        if (status)
            return status;
        for (unsigned j = 0; j <= i; j++) {
            if (memcmp(d->value.token.nonce, sent[j], sizeof sent[j]) == 0) {
                *token = d->value.token;
                return TENURE_OK;
            }
        }
        if (!tenure_token_equal(&d->value.token, token))
            return tenure_fail(&d->err, TENURE_CONFLICT, "somebody else changed %s", key);
    }
    return TENURE_UNKNOWN;
}

/* ---- Conditions ---------------------------------------------------------- */

/* A swap that must not take effect: not answered OK, and the register is as it was. */
static bool refused(struct doctor *d, const char *key, const struct tenure_token *expect,
                    const struct tenure_token *there, const char *what)
{
    struct tenure_swap s;
    enum tenure_status status = swap(d, key, expect, "must not be seen", false, &s);

    if (status == TENURE_OK) {
        doctor_say(d, DOCTOR_BROKEN, "%s was accepted: two could lead at once", what);
        return false;
    }
    if (status != TENURE_CONFLICT && status != TENURE_UNKNOWN) {
        doctor_say_error(d, what, status);
        return false;
    }
    status = doctor_read(d, key);
    if (status) {
        doctor_say_error(d, "read", status);
        return false;
    }
    if (!tenure_token_equal(&d->value.token, there)) {
        doctor_say(d, DOCTOR_BROKEN, "%s was answered '%s', but it took effect", what,
                   tenure_status_word(s.status));
        return false;
    }
    return true;
}

void doctor_check_conditions(struct doctor *d)
{
    static const struct tenure_token absent;
    const char *key = doctor_key(d, "conditions");
    const char *never = doctor_key(d, "never");
    struct tenure_token first = {0}, second, mixed;
    enum tenure_status status = doctor_put(d, key, &first, "one", false);

    second = first;
    if (!status)
        status = doctor_put(d, key, &second, "two", false);
    if (status) {
        doctor_say_error(d, "a plain swap", status);
        return;
    }
    if (strcmp(first.version, second.version) == 0)
        doctor_say(d, DOCTOR_BROKEN, "two values in a row have one version, %s", first.version);
    bool well = refused(d, key, &first, &second, "a swap on a stale version");
    mixed = second;
    memcpy(mixed.nonce, first.nonce, sizeof mixed.nonce);
    well = well && refused(d, key, &mixed, &second, "the right version with a wrong nonce");
    mixed = second;
    strcpy(mixed.version, first.version);
    well = well && refused(d, key, &mixed, &second, "the right nonce with a stale version");
    well = well && refused(d, key, &absent, &second, "a create over what exists");
    well = well && refused(d, never, &second, &absent, "a change of what never existed");
    if (well)
        doctor_say(d, DOCTOR_OK,
                   "refused, each of them: a stale version; the right version with a wrong nonce; "
                   "the right nonce with a stale version; a create over what exists; a change of "
                   "what does not");
}

/* ---- Tombstones ---------------------------------------------------------- */

/* Is the register what was written last, and a tombstone or not? */
static bool holds(struct doctor *d, const char *key, const struct tenure_token *token,
                  bool tombstone, const char *text)
{
    enum tenure_status status = doctor_read(d, key);

    if (status) {
        doctor_say_error(d, "read", status);
        return false;
    }
    if (tenure_token_absent(&d->value.token))
        doctor_say(d, DOCTOR_BROKEN,
                   "an erased register leaves no tombstone: a late write can "
                   "bring an old epoch back");
    else if (!tenure_token_equal(&d->value.token, token) || d->value.tombstone != tombstone)
        doctor_say(d, DOCTOR_BROKEN, "an erased register does not read as what was written");
    else if (d->value.len != strlen(text) ||
             (d->value.len && memcmp(d->value.data, text, d->value.len) != 0))
        doctor_say(d, DOCTOR_BROKEN, "a tombstone does not keep what was written into it");
    return doctor_well(d);
}

void doctor_check_tombstones(struct doctor *d)
{
    static const struct tenure_token absent;
    const char *key = doctor_key(d, "tombstone");
    struct tenure_token seen[6] = {0};
    unsigned n = 0;

    /* Written, erased, written again, erased: every version is new. */
    for (; n + 1 < 6; n++) {
        bool erase = n % 2;
        enum tenure_status status;

        seen[n + 1] = seen[n];
        status = doctor_put(d, key, &seen[n + 1], erase ? "epoch 7" : "value", erase);
        if (status) {
            doctor_say_error(d, erase ? "an erase" : "a write over a tombstone", status);
            return;
        }
        if (!holds(d, key, &seen[n + 1], erase, erase ? "epoch 7" : "value"))
            return;
        if (erase && !refused(d, key, &absent, &seen[n + 1], "a create over a tombstone"))
            return;
        for (unsigned i = 0; i <= n; i++) {
            if (strcmp(seen[i].version, seen[n + 1].version) == 0)
                doctor_say(d, DOCTOR_BROKEN, "version %s came twice", seen[i].version);
        }
    }
    if (refused(d, key, &seen[1], &seen[n], "a swap on a version from before an erase"))
        doctor_say(d, DOCTOR_OK,
                   "erased and written in turn: versions go on, a create over a tombstone and a "
                   "swap on a version from before are refused");
}

/* ---- Deadlines ----------------------------------------------------------- */

void doctor_check_deadlines(struct doctor *d)
{
    const char *key = doctor_key(d, "deadline");
    struct crew_order order = {.kind = CREW_SWAP, .by_ns = 1};
    struct tenure_token token = {0};
    struct crew_answer a;
    enum tenure_status status = doctor_put(d, key, &token, "one", false);

    snprintf(order.key, sizeof order.key, "%s", key);
    order.seen = token;
    if (status) {
        doctor_say_error(d, "a plain swap", status);
        return;
    }
    /* By a member of the crew: if it hangs, we do not. */
    if (!doctor_crew_ask(&d->crew, CREW_PROCESSES, &order, &a)) {
        doctor_say(d, DOCTOR_BROKEN, "a call did not return at its deadline");
        return;
    }
    status = doctor_read(d, key);
    if (status) {
        doctor_say_error(d, "read", status);
        return;
    }
    bool landed = memcmp(d->value.token.nonce, a.nonce, sizeof a.nonce) == 0;
    if (a.status != TENURE_UNKNOWN && landed != (a.status == TENURE_OK))
        doctor_say(d, DOCTOR_BROKEN, "a swap after its deadline was answered '%s', but it %s",
                   tenure_status_word((enum tenure_status)a.status),
                   landed ? "took effect" : "did not take effect");
    else
        doctor_say(d, DOCTOR_OK, "a swap after its deadline was answered correctly ('%s')",
                   tenure_status_word((enum tenure_status)a.status));
}

/* ---- Rights -------------------------------------------------------------- */

static bool count_one(void *arg, const char *key, const struct tenure_value *value)
{
    (void)key, (void)value;
    ++*(unsigned *)arg;
    return true;
}

void doctor_check_rights(struct doctor *d)
{
    const char *key = doctor_key(d, "rights");
    struct tenure_watch watch = {.key = key};
    struct tenure_token token = {0};
    enum tenure_status status[6];
    char list[200] = "";
    unsigned n = 0, denied = 0;
    static const char *const verbs[] = {"read", "create", "change", "erase", "list", "wait"};

    memset(status, 0, sizeof status);
    status[0] = doctor_read(d, key);
    status[1] = doctor_put(d, key, &token, "one", false);
    status[2] = status[1] ? status[1] : doctor_put(d, key, &token, "two", false);
    status[3] = status[1] ? status[1] : doctor_put(d, key, &token, "", true);
    struct tenure_error why = d->err;
    status[4] = tenure_store_list(d->store, d->prefix, NULL, count_one, &n, NULL, doctor_by(d),
                                  status[1] ? &d->err : &why);
    watch.seen = token;
    status[5] = tenure_store_wait(d->store, &watch, 1, -1, tenure_now() + 20 * TN_MS, &d->err);
    for (unsigned i = 0; i < 6; i++) {
        bool well = status[i] == TENURE_OK || (i == 5 && status[i] == TENURE_TIMEOUT);
        size_t used = strlen(list);

        if (well)
            continue;
        denied++;
        snprintf(list + used, sizeof list - used, "%s%s (%s)", used ? ", " : "", verbs[i],
                 tenure_status_word(status[i]));
    }
    bool reached = false;
    for (unsigned i = 0; i < 6; i++)
        reached = reached || status[i] == TENURE_DENIED || status[i] == TENURE_UNSUPPORTED;
    if (denied)
        doctor_say(d, reached ? DOCTOR_BROKEN : DOCTOR_UNTESTED, "missing permissions: %s: %s",
                   list, why.text[0] ? why.text : d->err.text);
    else
        doctor_say(d, DOCTOR_OK, "may read, create, change, erase, list and wait");
}

/* ---- The end ------------------------------------------------------------- */

void doctor_tidy(struct doctor *d)
{
    for (unsigned i = 0; i < d->n_keys; i++) {
        struct tenure_token token;

        if (doctor_read(d, d->keys[i]) || tenure_token_absent(&d->value.token))
            continue;
        d->left++;
        token = d->value.token;
        if (!d->value.tombstone)
            doctor_put(d, d->keys[i], &token, "", true);
    }
}
