/*
 * The fenced state as a file per epoch on one disk: fast commits in place.
 *
 * The seal links the new epoch's file FIRST, then reads the old one.  A commit
 * writes into its own epoch's file, flushes, looks for a higher epoch's file,
 * and only then is acknowledged.  Each step is an instruction of its own here:
 * whoever saves may be stopped between any two of them.
 */
#include <assert.h>
#include <string.h>

#include "node.h"
#include "state.h"

enum { LINK, LOAD, FILL, FILLED, WRITE, WRITTEN, LOOK };

static void next(struct sim_world *w, struct sim_node *n, uint8_t stage)
{
    uint64_t r = sim_key(w->plan.seed, SIM_RND_STATE, n->index | 0xc0u, ++n->saver.no);

    n->saver.stage = stage;
    sim_at(w, w->now_ns + (int64_t)(r % (uint64_t)(w->plan.latency_ns + 1)), SIM_Q_FILE, n->index,
           n->saver.gen, 0);
}

/* The file of the highest epoch below this one; NULL if there is none. */
static struct sim_file *highest(struct sim_world *w, uint64_t below)
{
    struct sim_state *s = &w->state;
    struct sim_file *top = NULL;

    for (unsigned i = 0; i < s->n_files && i < SIM_FILES_MAX; i++) {
        if (s->files[i].epoch < below && (!top || s->files[i].epoch > top->epoch))
            top = &s->files[i];
    }
    return top;
}

static struct sim_file *own_file(struct sim_world *w, const struct sim_saver *s)
{
    struct sim_file *top = highest(w, s->epoch + 1);

    assert(top && top->epoch == s->epoch);
    return top;
}

/* What the epochs below this one have left.  Whoever linked its file and died
 * before it was filled has acknowledged nothing: the one before it counts. */
static uint64_t content(struct sim_world *w, uint64_t below)
{
    const struct sim_file *f = highest(w, below);

    while (f && !f->whole[0] && !f->whole[1])
        f = highest(w, f->epoch);
    if (!f)
        return 0;
    uint64_t a = f->whole[0] ? f->data[0] : 0, b = f->whole[1] ? f->data[1] : 0;
    return a > b ? a : b;
}

static void add_file(struct sim_world *w, uint64_t epoch, const uint8_t *grant)
{
    struct sim_file *f = &w->state.files[w->state.n_files++ % SIM_FILES_MAX];

    memset(f, 0, sizeof *f);
    f->epoch = epoch;
    memcpy(f->grant, grant, TENURE_NONCE_SIZE);
}

void sim_files_seal(struct sim_world *w, struct sim_node *n)
{
    next(w, n, LINK);
}

void sim_files_save(struct sim_world *w, struct sim_node *n)
{
    next(w, n, WRITE);
}

void sim_files_fence(struct sim_world *w, uint64_t pick)
{
    const struct sim_file *top = highest(w, UINT64_MAX);
    uint64_t grant[2] = {sim_mix(pick), pick | 1};

    if (!top)
        return;
    uint64_t data = content(w, UINT64_MAX);
    add_file(w, top->epoch + 1 + pick % 1000, (const uint8_t *)grant);
    struct sim_file *f = &w->state.files[(w->state.n_files - 1) % SIM_FILES_MAX];
    f->data[0] = data;
    f->whole[0] = true;
}

/* ---- Sealing ------------------------------------------------------------- */

static void link_file(struct sim_world *w, struct sim_node *n)
{
    struct sim_saver *s = &n->saver;
    const struct sim_file *top = highest(w, UINT64_MAX);

    if (top && top->epoch >= s->epoch) {
        sim_saver_fenced(w, n, top->epoch);
        return;
    }
    add_file(w, s->epoch, s->grant);
    next(w, n, LOAD);
}

static void load(struct sim_world *w, struct sim_node *n)
{
    n->saver.data[0] = content(w, n->saver.epoch);
    next(w, n, FILL);
}

/* ---- Writing ------------------------------------------------------------- */

static void write_half(struct sim_world *w, struct sim_node *n, uint8_t then)
{
    struct sim_saver *s = &n->saver;
    struct sim_file *f = own_file(w, s);

    s->turn ^= 1;
    f->whole[s->turn] = false; /* torn, should it end here */
    next(w, n, then);
}

static void write_rest(struct sim_world *w, struct sim_node *n, uint64_t data)
{
    struct sim_saver *s = &n->saver;
    struct sim_file *f = own_file(w, s);

    f->data[s->turn] = data;
    f->whole[s->turn] = true;
    s->data[0] = data;
}

static void look(struct sim_world *w, struct sim_node *n)
{
    const struct sim_file *top = highest(w, UINT64_MAX);

    if (top->epoch > n->saver.epoch)
        sim_saver_fenced(w, n, top->epoch);
    else
        sim_saver_acked(w, n);
}

void sim_files_step(struct sim_world *w, struct sim_node *n, uint32_t gen)
{
    struct sim_saver *s = &n->saver;

    if (!s->active || s->gen != gen)
        return;
    if (sim_saver_asleep(w, n)) {
        sim_at(w, n->resume_ns, SIM_Q_FILE, n->index, gen, 0);
        return;
    }
    switch (s->stage) {
    case LINK:
        link_file(w, n);
        break;
    case LOAD:
        load(w, n);
        break;
    case FILL:
        write_half(w, n, FILLED);
        break;
    case FILLED:
        write_rest(w, n, s->data[0]);
        sim_saver_sealed(w, n);
        break;
    case WRITE:
        write_half(w, n, WRITTEN);
        break;
    case WRITTEN:
        write_rest(w, n, s->data[0] + 1);
        next(w, n, LOOK);
        break;
    default:
        look(w, n);
        break;
    }
}
