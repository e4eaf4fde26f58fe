/*
 * The language of the timelines.  A line is
 *
 *     [at SECONDS | +SECONDS] COMMAND
 *
 *   candidate NAME [ttl= renew= kill= grace= request= poll= rho=ppm notifies]
 *                  [drain= dies= priority= address= build= purges]
 *   chapter                       everything begins anew, at 0
 *   plan ttl= ...                 tn_timing_plan()
 *   wall MS | dice N              the wall clock; the jitter of the steps that follow
 *   put held NAME grant=WORD epoch=N ttl=D [as=NAME] | free epoch= | corrupt | nothing
 *       checked                   the record says that its epoch was compared with the floor
 *   put tombstone epoch= | tombstone empty   as: that candidate's incarnation; nonce=: no new one
 *   vanish | restore vN           the register is lost, or an old value comes back
 *   floor at=N | damaged          the store's floor of epochs
 *   compact                       it is raised, and the tombstone that it keeps is deleted
 *   land NAME#N                   a request of unknown outcome arrives
 *   run until SECONDS [latency=D] everybody's requests are answered
 *   freeze | thaw | cut | heal NAME   for run: a stopped process, a lost network
 *   epoch previous= wall= floor=  tn_epoch_next()
 *   texts                         tn_phase_word(), tn_stop_text(), and one beyond each
 *
 *   NAME start [floor=N] | timer | wakes | changed | restart
 *   NAME answered                 its request reaches the store, and the answer comes back
 *   NAME unknown [applied]        no answer; it was applied, or may land later
 *   NAME fails [STATUS] | conflicts   another answer, nothing applied
 *   NAME sealed [grant=] | fenced floor= [grant=] | stopped | fired
 *   NAME unsealed [gained] [final] [grant=]
 *   NAME yield [until=] | shutdown | pause | resume | delay by=D | timing ttl= ...
 *   NAME leads | writes           what is-leader says now; all that its swap would write
 *   NAME wins                     start, and answer until it leads; told in one line
 */
#include <stdlib.h>
#include <string.h>

#include "golden_words.h"

/* ---- The register, by hand ----------------------------------------------- */

static void do_put(struct words *words)
{
    struct world *w = words->w;
    struct value v = {0};
    const char *what = words_take(words);
    char when[TEXT];

    v.record.epoch = words_number(words, "epoch", 1);
    v.record.ttl_ms = (uint32_t)(words_duration(words, "ttl", 15 * TN_S) / TN_MS);
    v.record.transitions = words_number(words, "transitions", 1);
    v.record.acquired_ms = words_number(words, "acquired", 0);
    words_copy(words, "address", v.record.address, sizeof v.record.address);
    words_copy(words, "build", v.record.build, sizeof v.record.build);
    words_copy(words, "cause", v.record.cause, sizeof v.record.cause);
    v.record.checked = words_take_if(words, "checked");
    struct candidate *as = candidate_named(w, words_option(words, "as"));
    world_nonce(w, "stranger", v.record.incarnation);
    if (as)
        memcpy(v.record.incarnation, as->config.incarnation, TENURE_NONCE_SIZE);
    if (strcmp(what, "held") == 0) {
        const char *grant = words_option(words, "grant");

        world_nonce(w, grant ? grant : "g1", v.record.grant);
        snprintf(v.record.holder, sizeof v.record.holder, "%s", words_take(words));
    } else if (strcmp(what, "tombstone") == 0) {
        v.tombstone = true;
        v.bare = words_take_if(words, "empty");
    } else if (strcmp(what, "nothing") == 0) {
        v.bare = true;
    } else if (strcmp(what, "corrupt") == 0) {
        v.corrupt = true;
    } else if (strcmp(what, "free") != 0) {
        print_fault(w, "put what? \"%s\"", what);
    }
    world_put(w, &v, words_option(words, "nonce"));
    fprintf(w->out, "[%7s] store ", show_time(w->now_ns, when));
    print_value(w, &w->now);
    fputc('\n', w->out);
}

static void do_restore(struct words *words)
{
    struct world *w = words->w;
    const char *version = words_take(words);

    for (unsigned i = 0; i < w->versions; i++) {
        if (strcmp(w->past[i].token.version, version) == 0) {
            w->now = w->past[i];
            print_line(w, "store", "%s is back", version);
            return;
        }
    }
    print_fault(w, "there never was a %s", version);
}

static void do_floor(struct words *words)
{
    words->w->floor_damaged = words_take_if(words, "damaged");
    words->w->floor = words_number(words, "at", 0);
}

/* As driver/compaction.c: first the floor, then what it keeps. */
static void do_compact(struct world *w)
{
    const struct tn_lease *last = &w->now.record;

    if (w->now.tombstone && tn_lease_leaves_room(last) && !tn_lease_tombstone_kept(last, w->floor))
        w->floor = last->epoch;
    bool kept = w->now.tombstone && tn_lease_tombstone_kept(last, w->floor);
    if (kept)
        memset(&w->now, 0, sizeof w->now);
    print_line(w, "store", "floor %llu, the tombstone %s", (unsigned long long)w->floor,
               kept ? "is deleted" : "stays");
}

static void do_texts(struct world *w)
{
    for (unsigned i = TN_PHASE_NEW; i <= TN_PHASE_HALTED + 1; i++)
        fprintf(w->out, "  %s\n", tn_phase_word((enum tn_phase)i));
    for (unsigned i = TN_STOP_NONE; i <= TN_STOP_PROGRAM + 1; i++)
        fprintf(w->out, "  %s\n", tn_stop_text((enum tn_stop)i));
}

static void do_epoch(struct words *words)
{
    uint64_t previous = words_number(words, "previous", 0);
    uint64_t wall = words_number(words, "wall", 0);
    uint64_t epoch = tn_epoch_next(previous, wall, words_number(words, "floor", 0));

    if (epoch > TN_EPOCH_MAX - 1000)
        fprintf(words->w->out, "  max-%llu\n", (unsigned long long)(TN_EPOCH_MAX - epoch));
    else
        fprintf(words->w->out, "  %llu\n", (unsigned long long)epoch);
}

/* ---- A line -------------------------------------------------------------- */

static void do_run(struct words *words)
{
    const char *until = words_take_if(words, "until") ? words_take(words) : "";

    world_run(words->w, words_time(words, until), words_duration(words, "latency", 10 * TN_MS));
}

static void do_to(struct words *words, const char *verb)
{
    struct candidate *c = candidate_named(words->w, words_take(words));

    if (!c) {
        print_fault(words->w, "%s whom?", verb);
        return;
    }
    if (verb[0] == 'f' || verb[0] == 't')
        c->frozen = verb[0] == 'f';
    else
        c->cut = verb[0] == 'c';
}

static void do_chapter(struct world *w)
{
    FILE *out = w->out;
    unsigned faults = w->faults;

    memset(w, 0, sizeof *w);
    w->out = out;
    w->faults = faults;
}

static void take_time(struct words *words)
{
    struct world *w = words->w;
    int64_t at = w->now_ns;

    if (words_take_if(words, "at"))
        at = words_time(words, words_take(words));
    else if (words->n && words->word[0][0] == '+')
        at += words_time(words, words_take(words) + 1);
    if (at < w->now_ns)
        print_fault(w, "time does not go back");
    else
        w->now_ns = at;
}

void world_obey(struct world *w, const char *line)
{
    struct words words = {.w = w};

    words_split(&words, line);
    take_time(&words);
    const char *verb = words_take(&words);
    struct candidate *c = candidate_named(w, verb);
    if (c)
        candidate_obey(&words, c);
    else if (strcmp(verb, "candidate") == 0)
        candidate_add(&words);
    else if (strcmp(verb, "chapter") == 0)
        do_chapter(w);
    else if (strcmp(verb, "plan") == 0)
        words_timing(&words, &(struct tn_timing){0});
    else if (strcmp(verb, "put") == 0)
        do_put(&words);
    else if (strcmp(verb, "vanish") == 0)
        memset(&w->now, 0, sizeof w->now);
    else if (strcmp(verb, "floor") == 0)
        do_floor(&words);
    else if (strcmp(verb, "compact") == 0)
        do_compact(w);
    else if (strcmp(verb, "restore") == 0)
        do_restore(&words);
    else if (strcmp(verb, "land") == 0)
        world_land(w, words_take(&words));
    else if (strcmp(verb, "run") == 0)
        do_run(&words);
    else if (strcmp(verb, "wall") == 0)
        w->wall_ms = strtoull(words_take(&words), NULL, 0);
    else if (strcmp(verb, "dice") == 0)
        w->dice = strtoull(words_take(&words), NULL, 0);
    else if (strcmp(verb, "epoch") == 0)
        do_epoch(&words);
    else if (strcmp(verb, "texts") == 0)
        do_texts(w);
    else if (strcmp(verb, "freeze") == 0 || strcmp(verb, "thaw") == 0 || strcmp(verb, "cut") == 0 ||
             strcmp(verb, "heal") == 0)
        do_to(&words, verb);
    else if (verb[0] != '#')
        print_fault(w, "what is \"%s\"?", verb);
    if (verb[0] != '#' && words.at < words.n)
        print_fault(w, "\"%s\" is too much", words.word[words.at]);
}
