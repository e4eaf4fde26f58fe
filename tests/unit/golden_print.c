/* What a step asked for, as lines that people read, and what no step may ever ask for. */
#include "golden_world.h"

#include <stdarg.h>
#include <string.h>

#include "base/duration.h"
#include "core/elector_inner.h"

/* Seconds, with as many digits as it takes. */
const char *show_time(int64_t ns, char text[TEXT])
{
    long long s = ns / TN_S, rest = ns % TN_S;

    if (rest % TN_MS == 0)
        snprintf(text, TEXT, "%lld.%03lld", s, rest / TN_MS);
    else if (rest % 1000 == 0)
        snprintf(text, TEXT, "%lld.%06lld", s, rest / 1000);
    else
        snprintf(text, TEXT, "%lld.%09lld", s, rest);
    return text;
}

const char *show_nonce(struct world *w, const uint8_t nonce[TENURE_NONCE_SIZE])
{
    for (unsigned i = 0; i < w->n_names; i++) {
        if (memcmp(w->names[i].nonce, nonce, TENURE_NONCE_SIZE) == 0)
            return w->names[i].name;
    }
    return "?";
}

TENURE_PRINTF(3, 0)
static void say(struct world *w, const char *who, const char *format, va_list args)
{
    char when[TEXT];

    fprintf(w->out, "[%7s] %s ", show_time(w->now_ns, when), who);
    vfprintf(w->out, format, args);
}

void print_line(struct world *w, const char *who, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(w, who, format, args);
    va_end(args);
    fputc('\n', w->out);
}

void print_fault(struct world *w, const char *format, ...)
{
    va_list args;

    w->faults++;
    fputs("!! ", w->out);
    va_start(args, format);
    vfprintf(w->out, format, args);
    va_end(args);
    fputc('\n', w->out);
}

static const char *show_version(const struct tenure_token *token)
{
    return token->version[0] ? token->version : "absent";
}

void print_value(struct world *w, const struct value *v)
{
    char ttl[TN_DURATION_TEXT];
    const struct tn_lease *r = &v->record;

    fputs(show_version(&v->token), w->out);
    if (tenure_token_absent(&v->token))
        return;
    tn_duration_format((int64_t)r->ttl_ms * TN_MS, ttl);
    if (v->corrupt)
        fputs(" corrupt", w->out);
    else if (v->bare)
        fputs(v->tombstone ? " tombstone" : " without a record", w->out);
    else if (v->tombstone)
        fprintf(w->out, " tombstone epoch %llu", (unsigned long long)r->epoch);
    else if (r->holder[0])
        fprintf(w->out, " held by %s grant %s epoch %llu ttl %s", r->holder,
                show_nonce(w, r->grant), (unsigned long long)r->epoch, ttl);
    else
        fprintf(w->out, " free epoch %llu", (unsigned long long)r->epoch);
}

/* ---- Actions, in the order of the duties --------------------------------- */

static void print_leader(struct world *w, const struct candidate *c)
{
    const struct tn_elector *e = &c->elector;

    if (e->seen == TN_SEEN_HELD)
        print_line(w, c->name, "> leader %s epoch %llu", e->lease.holder,
                   (unsigned long long)e->lease.epoch);
    else if (e->seen == TN_SEEN_REFUSED)
        print_line(w, c->name, "> leader unknown: the record is refused");
    else
        print_line(w, c->name, "> leader nobody");
}

static void print_swap(struct world *w, const struct candidate *c, const struct tn_actions *out)
{
    static const char *const words[] = {"none", "claim", "renew", "release", "regrant"};
    char by[TEXT], ttl[TN_DURATION_TEXT];
    const struct tn_lease *r = &out->record;

    tn_duration_format((int64_t)r->ttl_ms * TN_MS, ttl);
    print_line(w, c->name, "> %s %s over %s: epoch %llu ttl %s (%s%s) by %s", words[out->purpose],
               show_nonce(w, out->nonce), show_version(&out->expect), (unsigned long long)r->epoch,
               ttl, r->cause, r->checked ? ", checked" : "", show_time(out->request_by_ns, by));
}

static void print_wait(struct world *w, const struct candidate *c, const struct tn_actions *out)
{
    char until[TEXT];
    const char *word = out->watch ? "wait" : "sleep";

    if (out->wait_until_ns >= TN_FOREVER)
        print_line(w, c->name, "> %s", word);
    else
        print_line(w, c->name, "> %s until %s", word, show_time(out->wait_until_ns, until));
}

void print_actions(struct world *w, struct candidate *c, const struct tn_actions *out)
{
    char text[TEXT];

    if (out->deadline_ns != c->shown_ns) {
        print_line(w, c->name, "> deadline %s",
                   out->deadline_ns ? show_time(out->deadline_ns, text) : "none");
        c->shown_ns = out->deadline_ns;
    }
    if (out->set & TN_ACT_STOP)
        print_line(w, c->name, "> stop by %s: %s", show_time(out->stop_by_ns, text),
                   tn_stop_text(out->stop));
    if (out->set & TN_ACT_SEAL)
        print_line(w, c->name, "> seal epoch %llu grant %s", (unsigned long long)out->epoch,
                   show_nonce(w, out->grant));
    if (out->set & TN_ACT_START)
        print_line(w, c->name, "> start epoch %llu grant %s", (unsigned long long)out->epoch,
                   show_nonce(w, out->grant));
    if (out->set & TN_ACT_LEADER)
        print_leader(w, c);
    if (out->set & TN_ACT_PROVE)
        print_line(w, c->name, "> prove that %s is dead, epoch %llu", out->suspect.holder,
                   (unsigned long long)out->suspect.epoch);
    if (out->set & TN_ACT_READ)
        print_line(w, c->name, "> read%s by %s", out->with_floor ? " with the floor" : "",
                   show_time(out->request_by_ns, text));
    if (out->set & TN_ACT_SWAP)
        print_swap(w, c, out);
    if (out->set & TN_ACT_WAIT)
        print_wait(w, c, out);
    if (out->set & TN_ACT_HALT)
        print_line(w, c->name, "> halt");
}

/* ---- What must hold after every step of every script --------------------- */

static int bits(unsigned set)
{
    return __builtin_popcount(set);
}

static void check_time(struct world *w, struct candidate *c, const struct tn_actions *out)
{
    char text[TEXT];
    enum tn_phase phase = c->elector.phase;

    if ((out->set & (TN_ACT_READ | TN_ACT_SWAP)) && out->request_by_ns <= w->now_ns)
        print_fault(w, "%s: a request that ends before it begins, by %s", c->name,
                    show_time(out->request_by_ns, text));
    if ((out->set & TN_ACT_WAIT) && out->wait_until_ns <= w->now_ns)
        print_fault(w, "%s: a wait that is over already: a hot loop", c->name);
    if ((out->set & (TN_ACT_SEAL | TN_ACT_START)) && out->deadline_ns <= w->now_ns)
        print_fault(w, "%s: a grant that is over already", c->name);
    if ((phase == TN_PHASE_LEADING || phase == TN_PHASE_SEALING) && out->deadline_ns <= w->now_ns)
        print_fault(w, "%s: %s beyond its deadline", c->name, tn_phase_word(phase));
    if ((out->set & TN_ACT_STOP) && out->deadline_ns > out->stop_by_ns && !c->elector.draining)
        print_fault(w, "%s: the deadline is behind the end of the stop", c->name);
}

/* I1, as seen by the programs: nobody starts while another one may act. */
static void check_alone(struct world *w, struct candidate *c)
{
    for (unsigned i = 0; i < w->n; i++) {
        const struct candidate *other = &w->candidates[i];

        if (other != c && other->running && w->now_ns < other->last.deadline_ns)
            print_fault(w, "%s starts while the program of %s may act (I1)", c->name, other->name);
    }
}

void check_actions(struct world *w, struct candidate *c, const struct tn_actions *out)
{
    const unsigned next = TN_ACT_READ | TN_ACT_SWAP | TN_ACT_WAIT | TN_ACT_HALT;
    int want = c->request.out || c->elector.phase == TN_PHASE_NEW ? 0 : 1;

    if (bits(out->set & next) != want)
        print_fault(w, "%s: %d requests or waits instead of %d", c->name, bits(out->set & next),
                    want);
    if (bits(out->set & (TN_ACT_STOP | TN_ACT_SEAL | TN_ACT_START)) > 1)
        print_fault(w, "%s: more than one of stop, seal and start", c->name);
    if ((out->set & TN_ACT_SWAP) && strcmp(show_nonce(w, out->nonce), "?") != 0)
        print_fault(w, "%s: a nonce was used twice (I6)", c->name);
    if ((out->set & TN_ACT_SWAP) && !tn_lease_sane(&out->record))
        print_fault(w, "%s: writes a record that everybody refuses", c->name);
    if (out->set & TN_ACT_START)
        check_alone(w, c);
    check_time(w, c, out);
}
