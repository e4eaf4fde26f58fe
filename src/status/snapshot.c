/* One election at one moment: what it is called, why, and whether what was received is one. */
#include "status/snapshot.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/timing.h"
#include "tenure/store.h"

const int64_t tn_buckets_ns[TN_BUCKETS] = {
    500000,    1000000,   2500000,   5000000,    10000000,   25000000,   50000000,
    100000000, 250000000, 500000000, 1000000000, 2500000000, 5000000000,
};

const char *tn_cause_word(enum tn_cause cause)
{
    static const char *const words[] = {"first",     "handover", "released",  "expired",
                                        "reclaimed", "crashed",  "step-down", "proved"};

    return words[cause];
}

const char *tn_cause_text(enum tn_cause cause)
{
    static const char *const words[] = {
        [TN_CAUSE_FIRST] = "nobody has led before",
        [TN_CAUSE_HANDOVER] = "handed over",
        [TN_CAUSE_RELEASED] = "the leader before has released",
        [TN_CAUSE_EXPIRED] = "the leader before did not renew in time",
        [TN_CAUSE_RECLAIMED] = "its own lease, claimed again",
        [TN_CAUSE_CRASHED] = "the leader before crashed, and its guard released",
        [TN_CAUSE_STEP_DOWN] = "the leader before was asked to step down",
        [TN_CAUSE_PROVED] = "the machine of the leader before was proved to be off",
    };

    return words[cause];
}

const char *tn_warning_word(enum tn_warning warning)
{
    static const char *const words[] = {
        [TN_WARNING_DUPLICATE_ID] = "duplicate-id",
        [TN_WARNING_CRASH_LOOP] = "crash-loop",
        [TN_WARNING_PROGRAM_MISSING] = "program-missing",
        [TN_WARNING_STORE_FORGOT] = "store-forgot",
        [TN_WARNING_TTL_DIFFERS] = "ttl-differs",
        [TN_WARNING_STORE_VOLATILE] = "store-volatile",
        [TN_WARNING_STORE_UNAVAILABLE] = "store-unavailable",
    };

    return words[warning];
}

const char *tn_snapshot_warning(const struct tn_election_snapshot *s, enum tn_warning warning)
{
    if (s->reach > TN_REACH_BEHIND)
        return ""; /* its process says nothing any more */
    return warning == TN_WARNING_STORE_UNAVAILABLE ? s->driver.trouble
                                                   : s->record.warnings[warning];
}

/* ---- What follows it ----------------------------------------------------- */

size_t tn_snapshot_size(uint32_t n_candidates, uint32_t n_terms)
{
    return sizeof(struct tn_election_snapshot) + n_candidates * sizeof(struct tenure_candidate) +
           n_terms * sizeof(struct tenure_term_record);
}

_Static_assert(sizeof(struct tn_election_snapshot) % _Alignof(struct tenure_candidate) == 0 &&
                   sizeof(struct tenure_candidate) % _Alignof(struct tenure_term_record) == 0,
               "candidates and terms follow the snapshot directly");

struct tenure_candidate *tn_snapshot_candidates(struct tn_election_snapshot *s)
{
    return (struct tenure_candidate *)(s + 1);
}

struct tenure_term_record *tn_snapshot_terms(struct tn_election_snapshot *s)
{
    return (struct tenure_term_record *)(tn_snapshot_candidates(s) + s->n_listed);
}

/* ---- What was received --------------------------------------------------- */

struct text {
    size_t at, size;
};

#define TEXT(type, member)                                                                         \
    {                                                                                              \
        offsetof(struct type, member), sizeof(((struct type *)0)->member)                          \
    }

static const struct text snapshot_texts[] = {
    TEXT(tn_election_snapshot, driver.name),
    TEXT(tn_election_snapshot, driver.id),
    TEXT(tn_election_snapshot, driver.lease.holder),
    TEXT(tn_election_snapshot, driver.lease.address),
    TEXT(tn_election_snapshot, driver.lease.build),
    TEXT(tn_election_snapshot, driver.lease.cause),
    TEXT(tn_election_snapshot, driver.trouble),
    TEXT(tn_election_snapshot, driver.weakness),
    TEXT(tn_election_snapshot, record.trouble),
    TEXT(tn_election_snapshot, record.end),
    TEXT(tn_election_snapshot, driver.control.paused_by),
    TEXT(tn_election_snapshot, driver.control.paused_at),
    TEXT(tn_election_snapshot, driver.control.reason),
    TEXT(tn_election_snapshot, record.unhealthy),
    TEXT(tn_election_snapshot, record.containment),
    TEXT(tn_election_snapshot, record.unsealed),
};
static const struct text candidate_texts[] = {
    TEXT(tenure_candidate, id),          TEXT(tenure_candidate, state),
    TEXT(tenure_candidate, build),       TEXT(tenure_candidate, address),
    TEXT(tenure_candidate, contain),     TEXT(tenure_candidate, since),
    TEXT(tenure_candidate, trouble),     TEXT(tenure_candidate, page),
    TEXT(tenure_candidate, incarnation),
};
static const struct text term_texts[] = {
    TEXT(tenure_term_record, holder),
    TEXT(tenure_term_record, cause),
    TEXT(tenure_term_record, end),
};

/* Ended by a NUL, and UTF-8. */
static void settle_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    tn_text_repair(text, '?');
}

static void settle_texts(void *object, const struct text *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        settle_text((char *)object + texts[i].at, texts[i].size);
}
#define SETTLE(object, texts) settle_texts(object, texts, sizeof(texts) / sizeof(texts)[0])

/* To read a bool that is neither 0 nor 1 is not defined. */
static void settle_bool(bool *flag)
{
    unsigned char byte;

    memcpy(&byte, flag, 1);
    *flag = byte != 0;
}

static void settle_record(struct tn_election_record *r)
{
    r->healthy = r->healthy != 0;
    for (size_t i = 0; i < 2; i++)
        r->probes[i].healthy = r->probes[i].healthy != 0;
    for (size_t i = 0; i < TN_COMMITS; i++) {
        settle_text(r->last[i].collection, sizeof r->last[i].collection);
        settle_text(r->last[i].id, sizeof r->last[i].id);
    }
    for (size_t i = 0; i < TN_COLLECTIONS; i++)
        settle_text(r->collections[i], sizeof r->collections[i]);
    for (size_t i = 0; i < TN_WARNINGS; i++)
        settle_text(r->warnings[i], sizeof r->warnings[i]);
    for (size_t i = 0; i < TN_RECENT; i++) {
        if (r->recent_ns[i] < 0 || r->recent_ns[i] > INT64_MAX / 2)
            r->recent_ns[i] = 0;
    }
}

static bool is_bounded(const struct tn_election_snapshot *s, size_t len)
{
    const struct tn_election_record *r = &s->record;

    return s->n_listed <= TN_CANDIDATES && s->n_terms <= TENURE_TERMS_MAX &&
           len == tn_snapshot_size(s->n_listed, s->n_terms) &&
           (unsigned)s->driver.phase <= TN_PHASE_HALTED &&
           (unsigned)s->driver.seen <= TN_SEEN_REFUSED && r->cause < TN_CAUSES &&
           r->recent_n <= TN_RECENT && r->recent_at < TN_RECENT && r->last_n <= TN_COMMITS &&
           r->last_at < TN_COMMITS && r->n_collections <= TN_COLLECTIONS;
}

bool tn_snapshot_check(struct tn_election_snapshot *s, size_t len)
{
    if (len < sizeof *s || !is_bounded(s, len))
        return false;
    SETTLE(s, snapshot_texts);
    settle_bool(&s->driver.control.paused);
    settle_bool(&s->driver.owes);
    settle_bool(&s->driver.may_claim);
    settle_bool(&s->driver.crashed);
    settle_record(&s->record);
    for (uint32_t i = 0; i < s->n_listed; i++) {
        struct tenure_candidate *c = &tn_snapshot_candidates(s)[i];

        SETTLE(c, candidate_texts);
        settle_bool(&c->healthy);
    }
    for (uint32_t i = 0; i < s->n_terms; i++) {
        struct tenure_term_record *t = &tn_snapshot_terms(s)[i];

        SETTLE(t, term_texts);
        settle_bool(&t->estimated);
    }
    int64_t now = tenure_now();
    if (s->driver.observed_ns < 0 || s->driver.observed_ns > now)
        s->driver.observed_ns = now;
    s->leads = s->leads != 0;
    s->reach = TN_REACH_HERE;
    s->remote = 1;
    s->news = 0;
    s->fate[0] = '\0';
    return true;
}

/* ---- Its role, and why --------------------------------------------------- */

const char *tn_snapshot_role(const struct tn_election_snapshot *s)
{
    if (s->leads)
        return "leader";
    if (s->reach == TN_REACH_ENDED)
        return "ended";
    if (s->reach == TN_REACH_UNRESPONSIVE || s->reach == TN_REACH_UNKNOWN)
        return "silent";
    if (s->driver.phase == TN_PHASE_SEALING)
        return "sealing";
    if (s->stopping || s->driver.phase == TN_PHASE_LEADING ||
        s->driver.phase == TN_PHASE_STOPPING || s->driver.phase == TN_PHASE_RELEASING)
        return "stopping";
    if (s->driver.phase == TN_PHASE_HALTED)
        return "halted";
    if (s->driver.control.paused)
        return "paused";
    return s->record.healthy ? "standby" : "unhealthy";
}

static void why_standing_by(const struct tn_election_snapshot *s, char *out, size_t size)
{
    switch (s->driver.seen) {
    case TN_SEEN_HELD:
        snprintf(out, size, "%s leads, epoch %" PRIu64 "; it was last seen to renew %.1f s ago",
                 s->driver.lease.holder, s->driver.lease.epoch,
                 (double)(s->now_ns - s->driver.observed_ns) / 1e9);
        break;
    case TN_SEEN_REFUSED:
        snprintf(out, size, "the lease record cannot be used; look at it, then `tenure reset`");
        break;
    case TN_SEEN_NOTHING:
        snprintf(out, size, "the lease has not been read yet%s%s", s->driver.trouble[0] ? ": " : "",
                 s->driver.trouble);
        break;
    default:
        if (s->driver.trouble[0])
            snprintf(out, size, "who leads is not known");
        else if (!s->driver.may_claim)
            snprintf(out, size, "nobody leads; this candidate does not contend");
        else if (s->now_ns < s->driver.not_before_ns)
            snprintf(out, size,
                     "nobody leads; this candidate stepped down and waits for %.1f s more",
                     (double)(s->driver.not_before_ns - s->now_ns) / 1e9);
        else
            snprintf(out, size, "nobody leads; this candidate is about to claim");
    }
}

/* true: its own process could say no more. */
static bool describe_reach(const struct tn_election_snapshot *s, char *out, size_t size)
{
    static const char *const words[] = {[TN_REACH_BEHIND] = "",
                                        [TN_REACH_UNKNOWN] = "its process has not answered yet",
                                        [TN_REACH_UNRESPONSIVE] = "its process does not answer"};

    if (s->reach == TN_REACH_HERE)
        return false;
    if (s->reach == TN_REACH_ENDED)
        snprintf(out, size, "%s", s->fate);
    else if (s->leads)
        snprintf(out, size, "leads, epoch %" PRIu64 "%s%s", s->epoch, *words[s->reach] ? "; " : "",
                 words[s->reach]);
    else
        snprintf(out, size, "%s", *words[s->reach] ? words[s->reach] : "does not lead any more");
    return true;
}

static void append(char *out, size_t size, const char *before, const char *text)
{
    size_t n = strlen(out);

    if (text[0] && n + 16 < size)
        snprintf(out + n, size - n, "%s%s", before, text);
}

static void describe(const struct tn_election_snapshot *s, char *out, size_t size)
{
    const struct tn_election_record *r = &s->record;
    const struct tenure_control *c = &s->driver.control;
    const char *role = tn_snapshot_role(s);

    if (strcmp(role, "leader") == 0)
        snprintf(out, size, "leads, epoch %" PRIu64 "; %s%s", s->epoch, tn_cause_text(r->cause),
                 s->running ? "" : "; its program does not run yet");
    else if (strcmp(role, "sealing") == 0)
        snprintf(out, size, "has won a term, and seals the state before its program starts");
    else if (strcmp(role, "stopping") == 0)
        snprintf(out, size, "is stopping%s%s", r->end[0] ? ": " : "", r->end);
    else if (strcmp(role, "halted") == 0)
        snprintf(out, size, "does not contend");
    else if (strcmp(role, "paused") == 0)
        snprintf(out, size, "paused%s%s%s%s: nobody takes over until `tenure resume`",
                 c->paused_by[0] ? " by " : "", c->paused_by, c->reason[0] ? ", " : "", c->reason);
    else if (strcmp(role, "unhealthy") == 0)
        snprintf(out, size, "may not lead: %s",
                 r->unhealthy[0] ? r->unhealthy : "its probe has not succeeded");
    else
        why_standing_by(s, out, size);
    append(out, size, "; the state could not be sealed: ", r->unsealed);
    for (int i = 0; i < TN_WARNINGS; i++)
        append(out, size, "; WARNING: ", r->warnings[i]);
    if (s->driver.seen != TN_SEEN_NOTHING)
        append(out, size, "; the store: ", s->driver.trouble);
}

void tn_snapshot_reason(const struct tn_election_snapshot *s, char *out, size_t size)
{
    if (!describe_reach(s, out, size))
        describe(s, out, size);
    tn_text_repair(out, '?');
}

bool tn_snapshot_is_healthy(const struct tn_election_snapshot *s, char *why, size_t size)
{
    const struct tn_election_record *r = &s->record;

    if (s->reach > TN_REACH_BEHIND)
        snprintf(why, size, "%s: its process does not answer", s->driver.name);
    else if (s->driver.trouble[0])
        snprintf(why, size, "%s: the store: %s", s->driver.name, s->driver.trouble);
    else if (!r->healthy)
        snprintf(why, size, "%s: %s", s->driver.name,
                 r->unhealthy[0] ? r->unhealthy : "its probe has not succeeded");
    else if (r->unsealed[0])
        snprintf(why, size, "%s: the state could not be sealed: %s", s->driver.name, r->unsealed);
    else if (s->driver.seen == TN_SEEN_REFUSED)
        snprintf(why, size, "%s: the lease record cannot be used", s->driver.name);
    else
        return true;
    return false;
}
