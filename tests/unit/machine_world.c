/*
 * The supervisor's machine in scripts.  The language, a command a line:
 *
 *     chapter SETTING...       begin again at 0: program, once, warm, hooks,
 * on-exit=exit|restart|yield, on-loss=exit, stop-signal=USR1 (grace 8 s, margin 50 ms, answers 5 s,
 * hooks 10 s) at S, +S                 the time, in seconds; may stand before another command
 * deadline S what is published to the guard from now on wakes                    the time becomes
 * that of the next timer, which is stepped fail ticket|spawn|describe|hook|tree|guard       the
 * next one of these fails owes yes|no, synced yes|no                       the elector, the peer
 * sync lead EPOCH, lead-idle EPOCH, stop, lost, leads ours|other, accepted, spawned, cannot ERRNO
 * [passing], refused, exited CODE, kills, fired, hook-ended [unrun], dead, guard-died, unhealthy
 * [alone], found yes|no, asked SIGNAL, given-up CODE, reload, halted, timer
 *
 * Printed: what happens to the machine (<), what it asks for (>), where it stands then (=).
 */
#include "machine_world.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "core/timing.h"

static const char *const event_names[] = {
#define TN_X(name) #name,
    TN_MACHINE_EVENTS(TN_X)
#undef TN_X
};
static const char *const action_names[] = {
#define TN_X(name) #name,
    TN_MACHINE_ACTIONS(TN_X)
#undef TN_X
};
static const char *const state_names[] = {"none",    "serving", "requested", "starting",
                                          "running", "ending",  "stopped"};
static const char *const life_names[] = {"", ", leaving", ", halted"};
static const char *const hook_names[] = {"started", "stopped", "new-leader"};
static const char *const end_names[] = {"stopped", "shutdown", "program", "crashes"};

static void print_word(FILE *to, const char *name)
{
    for (; *name; name++)
        fputc(*name == '_' ? '-' : tolower(*name), to);
}

static void print_time(const struct world *w, const char *what, int64_t at_ns)
{
    if (at_ns == TN_NEVER)
        return;
    fprintf(w->out, " %s %.3f", what, (double)at_ns / 1e9);
}

static void fault(struct world *w, const char *text)
{
    fprintf(w->out, "!! %s\n", text);
    w->faults++;
}

/* ---- What it asks for ---------------------------------------------------- */

static bool fails(struct world *w, const char *what)
{
    bool now = strcmp(w->failing, what) == 0;

    if (now)
        w->failing[0] = '\0';
    return now;
}

static void print_action(struct world *w, const struct tn_machine_action *a)
{
    fprintf(w->out, "[%7.3f]   > ", (double)w->now_ns / 1e9);
    print_word(w->out, action_names[a->kind]);
    switch (a->kind) {
    case TN_DO_STOP:
        fprintf(w->out, " %s", sigabbrev_np(a->signal));
        print_time(w, "by", a->at_ns);
        break;
    case TN_DO_HOOK:
        fprintf(w->out, " %s", hook_names[a->hook]);
        print_time(w, "by", a->at_ns);
        break;
    case TN_DO_NO_HOOK:
        fprintf(w->out, " %s", hook_names[a->hook]);
        break;
    case TN_DO_HOLD:
    case TN_DO_KEEP_LEASE:
        print_time(w, "until", a->at_ns);
        break;
    case TN_DO_END_TERM:
        fprintf(w->out, " %" PRIu64 ": %s", a->epoch, end_names[a->end]);
        break;
    case TN_DO_BEGAN:
    case TN_DO_ENDED:
    case TN_DO_RELEASE:
        fprintf(w->out, " %" PRIu64, a->epoch);
        break;
    case TN_DO_EXITED:
        fprintf(w->out, " %u in a row", a->count);
        break;
    case TN_DO_YIELD:
        fprintf(w->out, " after %u crashes", a->count);
        print_time(w, "for", a->at_ns);
        break;
    case TN_DO_TELL_LOST:
        fputs(a->ok ? ", exits" : ", contends again", w->out);
        break;
    default:
        break;
    }
    fputc('\n', w->out);
}

/* What must hold whatever happens. */
static void check(struct world *w, const struct tn_machine_action *a)
{
    const struct tn_machine *m = &w->machine;

    if ((a->kind == TN_DO_ANSWER_STOP || a->kind == TN_DO_RELEASE) && w->program)
        fault(w, "the lease may be released while something of the program is left (I8)");
    if (a->kind == TN_DO_SPAWN && (w->program || m->orphaned))
        fault(w, "a program is started beside another, or without a guard");
    if (a->kind == TN_DO_SPAWN && m->life != TN_LIFE_ACTIVE)
        fault(w, "a program is started on the way out");
    if (a->kind == TN_DO_HOOK && a->hook != TN_HOOK_STOPPED && !tn_machine_term_runs(m))
        fault(w, "a hook of a term that does not run");
    if (a->kind == TN_DO_HOOK && a->hook == TN_HOOK_STOPPED && w->program)
        fault(w, "--on-stopped runs beside the program");
}

/* Returns what comes of it. */
static bool perform(struct world *w, const struct tn_machine_action *a,
                    struct tn_machine_event *then)
{
    check(w, a);
    then->ok = true;
    switch (a->kind) {
    case TN_DO_TICKET:
        then->kind = TN_ON_TICKET;
        then->ok = !fails(w, "ticket");
        return true;
    case TN_DO_SPAWN:
        then->kind = fails(w, "describe") ? TN_ON_SPAWN_INVALID : TN_ON_SPAWN_FAILED;
        w->program = then->kind != TN_ON_SPAWN_INVALID && !fails(w, "spawn");
        return !w->program;
    case TN_DO_HOOK:
        then->kind = TN_ON_HOOK_FAILED;
        return fails(w, "hook");
    case TN_DO_KILL_TREE:
        then->kind = fails(w, "tree") ? TN_ON_TREE_LEFT : TN_ON_TREE_GONE;
        w->program = w->program && then->kind == TN_ON_TREE_LEFT;
        return true;
    case TN_DO_START_GUARD:
        then->kind = TN_ON_GUARD_STARTED;
        then->ok = !fails(w, "guard");
        return true;
    default:
        return false;
    }
}

/* ---- What happens to it -------------------------------------------------- */

static void print_state(struct world *w, const struct tn_machine *before)
{
    const struct tn_machine *m = &w->machine;
    int64_t next = tn_machine_next(m, w->now_ns);
    bool over = tn_machine_is_over(m, w->now_ns, w->synced);

    if (next == tn_machine_next(before, w->now_ns) && m->state == before->state &&
        m->life == before->life && !over)
        return;
    fprintf(w->out, "[%7.3f]   = %s%s", (double)w->now_ns / 1e9, state_names[m->state],
            life_names[m->life]);
    print_time(w, "until", next);
    if (over)
        fprintf(w->out, ", over: code %d", m->exit_code);
    fputc('\n', w->out);
}

static void happens(struct world *w, struct tn_machine_event ev)
{
    struct tn_machine before = w->machine;
    bool more = true;

    while (more) {
        struct tn_machine_event then = {0};
        struct tn_machine_actions todo;

        ev.now_ns = w->now_ns;
        ev.at_ns = w->now_ns;
        ev.deadline_ns = w->deadline_ns;
        ev.owes = w->owes;
        if (ev.kind == TN_ON_DEAD || ev.kind == TN_ON_REFUSED)
            w->program =
                w->program && w->machine.state == TN_PROGRAM_REQUESTED && ev.kind == TN_ON_DEAD;
        fprintf(w->out, "[%7.3f] < ", (double)w->now_ns / 1e9);
        print_word(w->out, event_names[ev.kind]);
        fputc('\n', w->out);
        tn_machine_step(&w->machine, &ev, &todo);
        more = false;
        for (unsigned i = 0; i < todo.n; i++) {
            if (more)
                fault(w, "an action behind one that is answered");
            print_action(w, &todo.list[i]);
            more = perform(w, &todo.list[i], &then);
        }
        ev = then;
    }
    print_state(w, &before);
}

/* ---- Commands ------------------------------------------------------------ */

static void begin_chapter(struct world *w, char *settings)
{
    struct tn_machine_config cfg = {.on_exit = TN_EXIT_EXIT,
                                    .crash_limit = 3,
                                    .stop_signal = SIGTERM,
                                    .grace_ns = 8 * TN_S,
                                    .answer_ns = 5 * TN_S,
                                    .hook_timeout_ns = 10 * TN_S,
                                    .margin_ns = 50 * TN_MS,
                                    .code_usage = 64,
                                    .code_lost = 75,
                                    .code_broken = 70,
                                    .code_cannot_run = 126,
                                    .code_not_found = 127};
    char *save, *word;

    for (word = strtok_r(settings, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        if (strcmp(word, "program") == 0)
            cfg.has_program = true;
        else if (strcmp(word, "once") == 0)
            cfg.has_program = cfg.once = true;
        else if (strcmp(word, "warm") == 0)
            cfg.has_program = cfg.warm = true;
        else if (strcmp(word, "hooks") == 0)
            cfg.hooks = (1u << TN_HOOK_KINDS) - 1;
        else if (strcmp(word, "on-exit=restart") == 0)
            cfg.on_exit = TN_EXIT_RESTART;
        else if (strcmp(word, "on-exit=yield") == 0)
            cfg.on_exit = TN_EXIT_YIELD;
        else if (strcmp(word, "on-loss=exit") == 0)
            cfg.on_loss = TN_LOSS_EXIT;
        else if (strcmp(word, "stop-signal=USR1") == 0)
            cfg.stop_signal = SIGUSR1;
        else
            fault(w, word);
    }
    cfg.warm_signal = cfg.warm ? SIGHUP : 0;
    tn_machine_init(&w->machine, &cfg);
    w->now_ns = w->deadline_ns = 0;
    w->owes = w->synced = true;
    w->program = false;
}

static int number_of(const char *text)
{
    if (strcmp(text, "ENOENT") == 0)
        return ENOENT;
    if (strcmp(text, "EAGAIN") == 0)
        return EAGAIN;
    if (strcmp(text, "TERM") == 0)
        return SIGTERM;
    if (strcmp(text, "QUIT") == 0)
        return SIGQUIT;
    return strcmp(text, "INT") == 0 ? SIGINT : atoi(text);
}

static void obey_event(struct world *w, const char *word, const char *rest)
{
    static const struct {
        const char *word;
        enum tn_machine_event_kind kind;
    } words[] = {
        {"lead", TN_ON_LEAD},
        {"stop", TN_ON_STOP},
        {"lead-idle", TN_ON_LEAD_IDLE},
        {"lost", TN_ON_STOP},
        {"leads", TN_ON_LEADER},
        {"accepted", TN_ON_ACCEPTED},
        {"spawned", TN_ON_SPAWNED},
        {"cannot", TN_ON_FAILED},
        {"refused", TN_ON_REFUSED},
        {"exited", TN_ON_EXITED},
        {"kills", TN_ON_KILLS},
        {"fired", TN_ON_FIRED},
        {"hook-ended", TN_ON_HOOK_ENDED},
        {"dead", TN_ON_DEAD},
        {"guard-died", TN_ON_GUARD_DIED},
        {"unhealthy", TN_ON_UNHEALTHY},
        {"found", TN_ON_STEP_DOWN_DONE},
        {"asked", TN_ON_ASKED_TO_GO},
        {"given-up", TN_ON_GIVEN_UP},
        {"reload", TN_ON_RELOAD},
        {"halted", TN_ON_HALTED},
        {"timer", TN_ON_TIMER},
    };
    int number = number_of(rest);

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i].word) != 0)
            continue;
        happens(w, (struct tn_machine_event){.kind = words[i].kind,
                                             .epoch = (uint64_t)number,
                                             .error = number,
                                             .code = number,
                                             .signal = number,
                                             .status = number << 8,
                                             .lost = word[0] == 'l' && word[1] == 'o',
                                             .ours = strcmp(rest, "ours") == 0,
                                             .ok = strcmp(rest, "yes") == 0 ||
                                                   (word[0] == 'u' && strcmp(rest, "alone") != 0),
                                             .passing = strstr(rest, "passing") != NULL,
                                             .could_run = strcmp(rest, "unrun") != 0});
        return;
    }
    fault(w, word);
}

void world_obey(struct world *w, const char *line)
{
    char copy[256], *save;

    if (line[0] == '#')
        return;
    snprintf(copy, sizeof copy, "%s", line);
    char *word = strtok_r(copy, " ", &save);
    if (word && (word[0] == '+' || strcmp(word, "at") == 0)) {
        bool more = word[0] == '+';
        double s = atof(more ? word + 1 : strtok_r(NULL, " ", &save));

        w->now_ns = (more ? w->now_ns : 0) + (int64_t)(s * 1e9 + 0.5);
        word = strtok_r(NULL, " ", &save);
    }
    if (!word)
        return;
    char *rest = save ? save : copy + strlen(copy);
    if (strcmp(word, "chapter") == 0) {
        begin_chapter(w, rest);
    } else if (strcmp(word, "deadline") == 0) {
        w->deadline_ns = (int64_t)(atof(rest) * 1e9 + 0.5);
    } else if (strcmp(word, "fail") == 0) {
        snprintf(w->failing, sizeof w->failing, "%s", rest);
    } else if (strcmp(word, "owes") == 0) {
        w->owes = strcmp(rest, "yes") == 0;
    } else if (strcmp(word, "synced") == 0) {
        w->synced = strcmp(rest, "yes") == 0;
    } else if (strcmp(word, "wakes") == 0) {
        int64_t next = tn_machine_next(&w->machine, w->now_ns);

        if (next == TN_NEVER)
            fault(w, "it waits for no time");
        w->now_ns = next > w->now_ns ? next : w->now_ns;
        happens(w, (struct tn_machine_event){.kind = TN_ON_TIMER});
    } else {
        obey_event(w, word, rest);
    }
}
