/*
 * What the guard does, and when.  Every way through here ends with the whole
 * tree dead by the deadline, and only a dead tree is ever reported as such or
 * followed by a release (I8).
 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard/guard.h"

#define MS INT64_C(1000000)

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void report(uint32_t kind)
{
    tn_guard_report(&(struct tn_guard_report){.kind = kind});
}

/* ---- Stopping and killing ------------------------------------------------ */

static void start_kill(struct tn_guard *g, int64_t now)
{
    if (g->phase == TN_GUARD_IDLE || g->phase == TN_GUARD_KILLING)
        return;
    g->phase = TN_GUARD_KILLING;
    g->kill_again_ns = now;
}

/* signal now, KILL at by_ns. */
static void start_stop(struct tn_guard *g, int signal, int64_t by_ns)
{
    if (g->phase == TN_GUARD_RUNNING) {
        tn_tree_signal(&g->tree, signal, true);
        tn_hook_kill(&g->tree.hook);
        g->phase = TN_GUARD_STOPPING;
        g->stop_by_ns = by_ns;
    } else if (g->phase == TN_GUARD_STOPPING) {
        g->stop_by_ns = min64(g->stop_by_ns, by_ns);
    }
}

/* From here on this grant is not renewed.  false: the word has just changed. */
static bool fire(struct tn_guard *g, uint64_t word)
{
    if (!(word & TN_WORD_FIRED) &&
        !atomic_compare_exchange_strong(&g->page->word, &word, word | TN_WORD_FIRED))
        return false;
    if (!g->fired)
        report(TN_GUARD_FIRED); /* also if it was the tree's init's doing, while we were stopped */
    g->fired = true;
    return true;
}

static void fire_for_certain(struct tn_guard *g)
{
    while (!fire(g, atomic_load(&g->page->word)))
        continue;
}

/* ---- The deadline -------------------------------------------------------- */

/* How long before its deadline a grant ends under which something runs: TERM
 * early enough, and KILL before the deadline even if there is no grace at all. */
static int64_t notice_ns(const struct tn_guard *g)
{
    return max64(atomic_load(&g->page->grace_ns), g->page->margin_ns);
}

/* Arm it for that word.  false: the word has changed meanwhile, and tenure may have armed the timer
 * for the new one just before we did: to leave it like that would leave a grant without a timer. */
static bool arm_for(const struct tn_guard *g, uint64_t word, int64_t due)
{
    tn_guard_arm(TN_GUARD_FD_TIMER, due);
    return atomic_load(&g->page->word) == word;
}

static void check_deadline(struct tn_guard *g, int64_t now)
{
    uint64_t word;
    int64_t deadline, due;

    for (;;) {
        word = atomic_load(&g->page->word);
        deadline = (int64_t)(word & TN_WORD_DEADLINE);
        g->fired &= (word & TN_WORD_FIRED) != 0;
        if (deadline == 0) {
            if (!g->warm)
                start_kill(g, now); /* no grant: nothing may run */
            if (arm_for(g, word, TN_GUARD_NEVER))
                return;
            continue;
        }
        /* What was told to stop already, and a grant under which nothing runs,
         * has all the time until KILL. */
        due = deadline - (g->phase == TN_GUARD_RUNNING ? notice_ns(g) : g->page->margin_ns);
        if (now >= due || (word & TN_WORD_FIRED)) {
            if (fire(g, word))
                break;
        } else if (arm_for(g, word, due)) {
            return;
        }
    }

    int64_t kill_at = deadline - g->page->margin_ns;
    start_stop(g, g->page->stop_signal, kill_at);
    if (now >= kill_at)
        start_kill(g, now);
    bool waiting = g->phase == TN_GUARD_STOPPING;
    if (!arm_for(g, word | TN_WORD_FIRED, waiting ? kill_at : TN_GUARD_NEVER))
        check_deadline(g, now); /* given up already, and perhaps won again */
}

/* ---- The tree ------------------------------------------------------------ */

static void drain_tree_init(struct tn_guard *g)
{
    struct tn_tree_init_message m;

    while (g->tree.socket >= 0 &&
           recv(g->tree.socket, &m, sizeof m, MSG_DONTWAIT) == (ssize_t)sizeof m)
        tn_guard_hear(g, &m);
}

/* The program has ended, or the hook that is the tree, or the tree's init was killed: whatever is
 * left was left behind. */
static bool is_over(const struct tn_guard *g)
{
    if (g->tree.hook.alone)
        return g->tree.hook.pid == 0;
    return g->tree.tree_init == 0 || (g->phase == TN_GUARD_RUNNING && g->exited);
}

static void check_tree(struct tn_guard *g, int64_t now)
{
    if (g->phase == TN_GUARD_IDLE)
        return;
    if (g->phase == TN_GUARD_STOPPING && now >= g->stop_by_ns)
        start_kill(g, now);
    /* Again and again: a death wakes us up, and what the dead leave behind is ours. */
    if (g->phase == TN_GUARD_KILLING) {
        tn_tree_kill(&g->tree);
        if (!g->killed)
            report(TN_GUARD_KILLS);
        g->killed = true;
        g->kill_again_ns = now + 5 * MS;
    }
    if (g->tree.hook.pid && now >= g->tree.hook.by_ns)
        tn_hook_kill(&g->tree.hook);
    bool dead = tn_tree_reap(&g->tree);
    if (dead)
        drain_tree_init(g);
    bool was_hook = tn_hook_tell(&g->tree.hook, dead);
    if (dead) {
        tn_tree_forget(&g->tree);
        tn_watchdog_stop(g);
        g->phase = TN_GUARD_IDLE;
        if (!was_hook)
            report(TN_GUARD_DEAD);
    } else if (g->phase != TN_GUARD_KILLING && is_over(g)) {
        start_kill(g, now);
        check_tree(g, now);
    }
}

/* ---- Tenure -------------------------------------------------------------- */

static void kill_tenure(struct tn_guard *g, int64_t now)
{
    syscall(SYS_pidfd_send_signal, TN_GUARD_FD_TENURE, SIGKILL, NULL, 0);
    g->tenure_shot = true;
    g->hang_by_ns = now + g->page->hang_ns;
    fire_for_certain(g);
}

/* A standby frozen inside a transaction blocks everybody (SAFETY: sqlite). */
static void check_busy(struct tn_guard *g, int64_t now)
{
    uint64_t busy = atomic_load(&g->page->busy_ns);

    if (busy == 0 || (int64_t)busy > now || g->tenure_gone || g->tenure_shot)
        return;
    /* Who holds a grant keeps it until the deadline, which is looked after. */
    if ((atomic_load(&g->page->word) & TN_WORD_DEADLINE) == 0)
        kill_tenure(g, now);
}

/* It has fired and the tree is dead: tenure gives the grant up, or it hangs. */
static void check_hang(struct tn_guard *g, int64_t now)
{
    bool fired = atomic_load(&g->page->word) & TN_WORD_FIRED;

    if (g->phase != TN_GUARD_IDLE || g->tenure_gone || g->tenure_shot || !fired) {
        if (!g->tenure_shot)
            g->hang_by_ns = TN_GUARD_NEVER;
        return;
    }
    if (g->hang_by_ns == TN_GUARD_NEVER)
        g->hang_by_ns = now + g->page->hang_ns;
    g->hang_by_ns = max64(g->hang_by_ns, atomic_load(&g->page->kept_ns) + g->page->hang_ns);
    if (now >= g->hang_by_ns)
        kill_tenure(g, now);
}

static void check_end(struct tn_guard *g, int64_t now)
{
    if (g->phase != TN_GUARD_IDLE)
        return;
    if (g->quit) {
        tn_cgroup_remove(&g->tree);
        _exit(0);
    }
    if (!g->tenure_gone && !g->tenure_shot)
        return;
    /* A tenure that cannot even be killed (it hangs in the kernel) can no
     * longer renew either: its grant has fired. */
    if (!g->tenure_dead && !g->tenure_shot) {
        kill_tenure(g, now);
        return;
    }
    if (!g->tenure_dead && now < g->hang_by_ns)
        return;
    if (g->release_at_ns == TN_GUARD_NEVER)
        g->release_at_ns = now + g->page->release_delay_ns;
    if (now >= g->release_at_ns)
        tn_releaser_run(g, now);
}

void tn_guard_orphan(struct tn_guard *g, bool dead)
{
    int64_t now = tn_guard_now();

    g->tenure_dead |= dead;
    if (g->tenure_gone)
        return;
    g->tenure_gone = true;
    fire_for_certain(g);
    if (g->page->orphan_grace_ns > 0)
        start_stop(g, g->page->stop_signal, now + g->page->orphan_grace_ns);
    else
        start_kill(g, now);
}

/* ---- Commands and messages from the tree's init ----------------------------------- */

static void spawn(struct tn_guard *g, int block, int pass)
{
    struct tn_guard_block head = {0};
    enum tn_guard_stage stage = TN_STAGE_NONE;
    uint64_t word = atomic_load(&g->page->word);
    int64_t term_at = (int64_t)(word & TN_WORD_DEADLINE) - notice_ns(g);
    int error = 0;

    if (block < 0 || pread(block, &head, sizeof head, 0) != (ssize_t)sizeof head) {
        stage = TN_STAGE_BLOCK;
        error = EINVAL;
    }
    bool warm = head.flags & TN_BLOCK_WARM;
    if (g->phase != TN_GUARD_IDLE || g->tenure_gone || g->quit || (word & TN_WORD_FIRED) ||
        (!warm && tn_guard_now() >= term_at)) {
        report(TN_GUARD_REFUSED);
        return;
    }
    report(TN_GUARD_ACCEPTED);
    g->exited = g->killed = false;
    g->warm = warm;
    if (!error) {
        stage = TN_STAGE_WATCHDOG;
        error = tn_watchdog_start(g);
    }
    if (!error) {
        g->phase = TN_GUARD_RUNNING;
        error = tn_tree_start(
            &g->tree,
            (struct tn_tree_init_orders){
                .page = g->page, .block = block, .pass = pass, .warm = warm, .origin = g->origin},
            &stage);
    }
    if (error) {
        tn_guard_report(
            &(struct tn_guard_report){.kind = TN_GUARD_FAILED, .error = error, .stage = stage});
        g->phase = TN_GUARD_KILLING; /* a tree's init may be there; DEAD follows in any case */
        g->kill_again_ns = 0;
    }
}

/* Tenure lowers the word as well; if it has already, or has been faster still,
 * there is only the timer left to set, which follows every command. */
static void lower(struct tn_guard *g, uint64_t expect, int64_t to_ns)
{
    if (to_ns > 0 && !(expect & TN_WORD_FIRED))
        atomic_compare_exchange_strong(&g->page->word, &expect, (uint64_t)to_ns);
}

void tn_guard_obey(struct tn_guard *g, const struct tn_guard_command *command, const int fds[2])
{
    switch (command->kind) {
    case TN_GUARD_SPAWN:
        spawn(g, fds[0], fds[1]);
        break;
    case TN_GUARD_SIGNAL:
        if (g->phase == TN_GUARD_RUNNING || g->phase == TN_GUARD_STOPPING)
            tn_tree_signal(&g->tree, command->signal, false);
        break;
    case TN_GUARD_STOP:
        if (g->phase == TN_GUARD_IDLE)
            report(TN_GUARD_DEAD);
        else
            start_stop(g, command->signal, command->by_ns);
        break;
    case TN_GUARD_LOWER:
        lower(g, command->expect, command->by_ns);
        break;
    case TN_GUARD_QUIT:
        g->quit = true;
        start_kill(g, tn_guard_now());
        break;
    case TN_GUARD_PREPARED:
        tn_releaser_take(g, fds[0]);
        break;
    case TN_GUARD_HOOK:
        tn_hook_start(g, fds[0], command->by_ns);
        break;
    default:
        break;
    }
}

void tn_guard_hear(struct tn_guard *g, const struct tn_tree_init_message *m)
{
    if (m->kind == TN_GUARD_EXITED)
        g->exited = true;
    if (m->kind == TN_GUARD_SPAWNED && m->value != 0)
        g->tree.contain = tn_tree_without_proc(g->tree.contain);
    tn_guard_report(&(struct tn_guard_report){
        .kind = m->kind,
        .pid = m->pid,
        .status = m->kind == TN_GUARD_EXITED ? m->value : 0,
        .error = m->kind == TN_GUARD_FAILED ? m->value : 0,
        .stage = m->stage,
        .contain = g->tree.contain,
    });
}

/* A warm program leads from now on: its init has to know until when. */
static void check_grant(struct tn_guard *g)
{
    bool granted = atomic_load(&g->page->word) & TN_WORD_DEADLINE;

    if (granted && !g->granted && g->tree.tree_init)
        kill(g->tree.tree_init, SIGCONT);
    g->granted = granted;
}

void tn_guard_act(struct tn_guard *g)
{
    int64_t now = tn_guard_now();
    int64_t next = TN_GUARD_NEVER;

    check_grant(g);
    check_deadline(g, now);
    check_tree(g, now);
    check_busy(g, now);
    check_hang(g, now);
    check_end(g, now);
    /* A tree that outlives its deadline is what the watchdog is there for. */
    uint64_t word = atomic_load(&g->page->word);
    int64_t deadline = (int64_t)(word & TN_WORD_DEADLINE);
    if (g->warm || now < deadline)
        tn_watchdog_pet(g, now);

    if (g->phase == TN_GUARD_STOPPING)
        next = min64(next, g->stop_by_ns);
    if (g->phase == TN_GUARD_KILLING)
        next = min64(next, g->kill_again_ns);
    if (g->tree.hook.pid && now < g->tree.hook.by_ns)
        next = min64(next, g->tree.hook.by_ns);
    if (now < g->hang_by_ns) /* else it has been acted on */
        next = min64(next, g->hang_by_ns);
    next = min64(next, g->release_at_ns);
    if (g->watchdog >= 0 && (g->warm || now < deadline))
        next = min64(next, g->ping_at_ns);
    /* Tenure's timer tells of the deadline, but it does not continue a guard that was stopped. This
     * one is not moved by renewals: it goes off once a deadline, mostly for nothing. */
    if (now < deadline - g->page->margin_ns)
        next = min64(next, deadline - g->page->margin_ns);
    tn_alarm_set(&g->alarm, next, now);
}
