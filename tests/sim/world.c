#include "world.h"

#include <stdarg.h>
#include <string.h>

#include "body.h"
#include "check.h"
#include "net.h"
#include "node.h"
#include "ops.h"
#include "prover.h"
#include "state.h"
#include "store.h"
#include "term.h"

const struct sim_family *const sim_families[] = {
    &sim_family_register,
    &sim_family_stale,
    &sim_family_failover,
    &sim_family_advisory,
    &sim_family_slots,
    &sim_family_jobs,
    NULL,
};

const struct sim_family *sim_family_find(const char *name)
{
    for (unsigned i = 0; sim_families[i]; i++) {
        if (strcmp(sim_families[i]->name, name) == 0)
            return sim_families[i];
    }
    return NULL;
}

/* ---- Faults, failures, the trace ----------------------------------------- */

static bool kept(const struct sim_keep *k, uint64_t id)
{
    for (unsigned i = 0; i < k->n; i++) {
        if (k->ids[i] == id)
            return true;
    }
    return false;
}

bool sim_fault(struct sim_world *w, enum sim_stream stream, unsigned node, uint64_t number)
{
    struct sim_keep *k = &w->keep;
    uint64_t id = (uint64_t)stream << 56 | (uint64_t)node << 48 | number;

    if (w->quiet || (k->only && !kept(k, id)))
        return false;
    w->counts.faults++;
    if (k->record && k->n_fired < SIM_FIRED_MAX &&
        (k->n_fired == 0 || k->fired[k->n_fired - 1] != id))
        k->fired[k->n_fired++] = id;
    return true;
}

void sim_fail(struct sim_world *w, const char *invariant, const char *format, ...)
{
    char name[16];
    va_list args;

    snprintf(name, sizeof name, ",%s,", invariant);
    if (w->failed || (w->keep.ignore && strstr(w->keep.ignore, name)))
        return;
    w->failed = true;
    snprintf(w->invariant, sizeof w->invariant, "%s", invariant);
    va_start(args, format);
    vsnprintf(w->why, sizeof w->why, format, args);
    va_end(args);
    sim_say(w, -1, "BROKEN %s: %s", w->invariant, w->why);
}

void sim_say_at(struct sim_world *w, int node, const char *format, ...)
{
    va_list args;

    fprintf(w->trace.to, "[%12.6f] ", (double)w->now_ns / 1e9);
    if (node >= 0)
        fprintf(w->trace.to, "n%d  ", node);
    else
        fprintf(w->trace.to, "--  ");
    va_start(args, format);
    vfprintf(w->trace.to, format, args);
    va_end(args);
    fputc('\n', w->trace.to);
}

/* ---- One history --------------------------------------------------------- */

static void reset(struct sim_world *w)
{
    const struct sim_plan *p = &w->plan;

    sim_queue_clear(&w->queue);
    sim_net_clear(w);
    sim_store_clear(w);
    sim_state_clear(w);
    sim_docs_clear(w);
    w->now_ns = 0;
    w->quiet = w->done = w->failed = false;
    w->n_grants = w->exempt_serial = w->edited_serial = 0;
    w->top_epoch = w->age_epoch = 0;
    memset(&w->calm, 0, sizeof w->calm);
    memset(&w->counts, 0, sizeof w->counts);
    w->trace.hash = p->seed;
    w->keep.n_fired = 0;
    w->invariant[0] = w->why[0] = '\0';
    for (unsigned i = 0; i < p->nodes; i++) {
        struct sim_node *n = &w->nodes[i];

        memset(n, 0, sizeof *n);
        n->index = (uint8_t)i;
        n->ppm = p->ppm[i];
        n->timing = &p->timing[i];
        n->wall_off_ms = p->wall_off_ms[i];
        sim_clock_init(&n->clock, 0, (1 + i) * 1000 * TN_S, n->ppm);
        sim_at(w, (int64_t)(sim_key(p->seed, SIM_RND_PLAN, i, 1) % (uint64_t)TN_S), SIM_Q_BOOT, i,
               0, 0);
        if (p->noisy)
            sim_at(w, TN_S, SIM_Q_CLOCK, i, 0, 1);
    }
    for (unsigned i = 0; i < p->n_ops; i++)
        sim_at(w, p->ops[i].at_ns, SIM_Q_OP, p->ops[i].node, 0, i);
    sim_at(w, p->hostile_ns, SIM_Q_CALM, 0, 0, 0);
}

static void noisy_clock(struct sim_world *w, struct sim_node *n, uint32_t number)
{
    uint64_t r = sim_key(w->plan.seed, SIM_RND_CLOCK, n->index, number);
    int32_t rho = (int32_t)w->plan.rho_ppm;

    if (!n->frozen) {
        n->ppm = r & 1 ? (r & 2 ? rho : -rho) : (int32_t)((r >> 8) % (uint64_t)(2 * rho + 1)) - rho;
        sim_clock_set_rate(&n->clock, w->now_ns, n->ppm);
        sim_node_rearm(w, n);
        sim_body_rearm(w, n);
    }
    if (!w->quiet)
        sim_at(w, w->now_ns + 1 + (int64_t)((r >> 32) % (uint64_t)w->plan.timing[0].ttl_ns),
               SIM_Q_CLOCK, n->index, 0, number + 1);
}

static void wake_host(struct sim_world *w, struct sim_node *n, uint32_t gen)
{
    if (gen != n->pauses || n->run != SIM_PAUSED)
        return;
    sim_node_resume(w, n);
}

static void happen(struct sim_world *w, const struct sim_item *it)
{
    struct sim_node *n = &w->nodes[it->node];

    switch ((enum sim_what)it->what) {
    case SIM_Q_OP:
        sim_ops_begin(w, it->arg);
        break;
    case SIM_Q_LATER:
        if (!w->quiet)
            sim_ops_end(w, it->arg);
        break;
    case SIM_Q_WAKE:
        sim_node_wake(w, n, it->gen);
        break;
    case SIM_Q_GIVE_UP:
        sim_node_give_up(w, n, it->gen);
        break;
    case SIM_Q_ARRIVE:
        w->plan.family->arrive(w, &w->msgs[it->arg]);
        break;
    case SIM_Q_ANSWER:
        sim_node_answer(w, n, it->gen);
        break;
    case SIM_Q_NOTICE:
        sim_node_notice(w, n, it->gen);
        break;
    case SIM_Q_RESUME:
        wake_host(w, n, it->gen);
        break;
    case SIM_Q_BOOT:
        sim_node_boot(w, n);
        break;
    case SIM_Q_GUARD:
        sim_body_alarm(w, n, it->arg, it->gen);
        break;
    case SIM_Q_DEAD:
        sim_body_dead(w, n, it->arg, it->gen);
        break;
    case SIM_Q_SAVE:
        sim_saver_save(w, n, it->gen);
        break;
    case SIM_Q_DOC:
        sim_state_arrive(w, it->arg);
        break;
    case SIM_Q_SAVED:
        sim_saver_answer(w, n, it->arg, it->gen);
        break;
    case SIM_Q_FILE:
        sim_files_step(w, n, it->gen);
        break;
    case SIM_Q_CLOCK:
        noisy_clock(w, n, it->arg);
        break;
    case SIM_Q_RECHECK:
        sim_check_exclusion_all(w);
        break;
    case SIM_Q_CALM:
        sim_check_calm(w, it->arg, it->gen);
        break;
    case SIM_Q_FAMILY:
        w->plan.family->event(w, it);
        break;
    case SIM_Q_RELEASER:
        sim_body_releaser(w, &w->msgs[it->arg]);
        break;
    case SIM_Q_PART:
        sim_docs_arrive(w, it->arg);
        break;
    case SIM_Q_PART_BACK:
        sim_docs_answer(w, it->arg);
        break;
    case SIM_Q_CLIENT:
        sim_client_timer(w, it->arg, it->gen);
        break;
    case SIM_Q_SAYS:
        sim_term_says(w, it->arg, it->gen);
        break;
    case SIM_Q_PROVER:
        sim_prover_step(w, n, it->gen, it->arg);
        break;
    case SIM_Q_COMPACT:
        sim_compaction_step(w, it->arg);
        break;
    case SIM_Q_UNSEALED:
        sim_saver_seal_again(w, n, it->gen);
        break;
    }
}

/* Time stands still, and things go on happening. */
static void check_loop(struct sim_world *w, int64_t at_ns, unsigned *same)
{
    *same = at_ns == w->now_ns ? *same + 1 : 0;
    if (*same > 100000)
        sim_fail(w, "loop", "somebody asks in a hot loop");
    w->now_ns = at_ns;
}

void sim_world_run(struct sim_world *w)
{
    struct sim_item it;
    unsigned same = 0;

    reset(w);
    if (w->plan.family->run) {
        w->plan.family->run(w);
        return;
    }
    while (!w->failed && !w->done && sim_queue_pop(&w->queue, &it)) {
        check_loop(w, it.at_ns, &same);
        w->counts.events++;
        happen(w, &it);
    }
    sim_docs_end(w);
    sim_hash(w, w->counts.events, (uint64_t)w->now_ns);
}
