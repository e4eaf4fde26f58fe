/* What a plan of now would be: read only, for people. */
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "jobs/operator.h"

enum tenure_status tn_jobs_plan(const struct tn_jobs *g, struct tn_plan_register *plan,
                                struct tenure_token *token, struct tenure_error *err)
{
    struct tenure_value value = {0};
    char key[TENURE_KEY_MAX + 1];
    enum tenure_status status;

    memset(plan, 0, sizeof *plan);
    tn_key_of(g->name, TN_KEY_PLAN, key);
    status = tenure_store_read(g->store, key, &value, g->deadline, err);
    if (!status && !tenure_token_absent(&value.token) && value.len > 0) {
        status = tn_plan_decode(value.data, value.len, plan, err);
        if (status)
            tenure_fail_context(err, "%s", key);
    }
    if (token)
        *token = value.token;
    tenure_value_free(&value);
    return status;
}

static bool is_unfit(const struct tn_member *m, uint32_t number)
{
    for (uint32_t i = 0; i < m->unfit_count; i++) {
        if (m->unfit[i] == number)
            return true;
    }
    return false;
}

enum tn_fit tn_jobs_fit(const struct tn_row *row, uint32_t number,
                        const struct tn_member_record *member)
{
    const char *labels = member->member.labels;

    if ((*row->pin && strcmp(row->pin, member->id) != 0) || !tn_labels_have(labels, row->must) ||
        is_unfit(&member->member, number))
        return TN_FIT_NO;
    return *row->prefer && tn_labels_have(labels, row->prefer) ? TN_FIT_PREFERRED : TN_FIT_YES;
}

/* A plan in the making. */
struct making {
    const struct tn_catalogue *catalogue;
    const struct tn_member_record **members; /* those that count */
    struct tn_plan_member *inputs;
    struct tn_plan_job *jobs;
    const struct tn_row **classes; /* a row of each class */
    uint32_t *alone; /* the number of the job that is a class by itself, or UINT32_MAX */
    uint8_t *fit;
    uint32_t member_count, class_count, class_room;
};

static bool same_wishes(const struct tn_row *a, const struct tn_row *b)
{
    return strcmp(a->pin, b->pin) == 0 && strcmp(a->must, b->must) == 0 &&
           strcmp(a->prefer, b->prefer) == 0;
}

static bool anybody_unfit(const struct making *m, uint32_t number)
{
    for (uint32_t i = 0; i < m->member_count; i++) {
        if (is_unfit(&m->members[i]->member, number))
            return true;
    }
    return false;
}

static bool add_class(struct making *m, const struct tn_row *row, uint32_t number, bool alone)
{
    if (m->class_count == m->class_room) {
        uint32_t room = m->class_room ? 2 * m->class_room : 16;
        const struct tn_row **classes = realloc(m->classes, room * sizeof *classes);
        uint32_t *numbers = realloc(m->alone, room * sizeof *numbers);
        uint8_t *fit = realloc(m->fit, (size_t)room * (m->member_count + 1));

        m->classes = classes ? classes : m->classes;
        m->alone = numbers ? numbers : m->alone;
        m->fit = fit ? fit : m->fit;
        if (!classes || !numbers || !fit)
            return false;
        m->class_room = room;
    }
    for (uint32_t i = 0; i < m->member_count; i++)
        m->fit[(size_t)m->class_count * m->member_count + i] =
            (uint8_t)tn_jobs_fit(row, number, m->members[i]);
    m->classes[m->class_count] = row;
    m->alone[m->class_count++] = alone ? number : UINT32_MAX;
    return true;
}

/* Jobs of the same wishes are one class; a job that somebody is unfit for is one alone. */
static bool class_of(struct making *m, const struct tn_row *row, uint32_t number, uint16_t *class)
{
    bool alone = anybody_unfit(m, number);
    uint32_t c = alone ? m->class_count : 0;

    while (c < m->class_count && (m->alone[c] != UINT32_MAX || !same_wishes(m->classes[c], row)))
        c++;
    if (c == UINT16_MAX || (c == m->class_count && !add_class(m, row, number, alone)))
        return false;
    *class = (uint16_t)c;
    return true;
}

/* The index, among those that count now, of each member of the last plan. */
static void map_members(const struct making *m, const struct tn_plan_register *plan, uint16_t *to)
{
    for (uint32_t i = 0; i < plan->member_count; i++) {
        to[i] = TN_SLOT_NONE;
        for (uint32_t k = 0; k < m->member_count; k++) {
            if (strcmp(m->members[k]->id, plan->members[i]) == 0)
                to[i] = (uint16_t)k;
        }
    }
}

static bool list_members(struct making *m, const struct tn_members *members, uint32_t active,
                         const char *without)
{
    struct tn_member *all = calloc((size_t)members->count + 1, sizeof *all);
    const struct tn_member_record **who = calloc((size_t)members->count + 1, sizeof *who);
    bool *counts = calloc((size_t)members->count + 1, sizeof *counts);
    unsigned n = 0;

    for (uint32_t i = 0; all && who && i < members->count; i++) {
        const struct tn_listed_member *one = &members->list[i];

        if (one->damage[0] || (without && strcmp(one->record.id, without) == 0))
            continue;
        who[n] = &one->record;
        all[n++] = one->record.member;
    }
    if (all && who && counts)
        tn_members_count(all, n, active, counts);
    for (unsigned i = 0; all && who && counts && i < n; i++) {
        if (!counts[i])
            continue;
        m->inputs[m->member_count] =
            (struct tn_plan_member){all[i].share ? all[i].share : 1, all[i].limit};
        m->members[m->member_count++] = who[i];
    }
    bool well = all && who && counts;
    free(all);
    free(who);
    free(counts);
    return well;
}

static bool list_jobs(struct making *m, const struct tn_plan_register *plan, uint32_t jobs)
{
    uint16_t *to = calloc((size_t)plan->member_count + 1, sizeof *to);
    bool well = to != NULL;

    if (well)
        map_members(m, plan, to);
    for (uint32_t i = 0; i < jobs && well; i++) {
        const struct tn_row *row = tn_catalogue_row(m->catalogue, i);
        uint16_t slot = i < plan->job_count ? plan->slots[i] : TN_SLOT_NONE;
        static const struct tn_row nothing = {.pin = "", .must = "", .prefer = ""};

        m->jobs[i].weight = row->id && row->wanted == TN_WANTED_RUNNING ? row->weight : 0;
        m->jobs[i].slot = slot == TN_SLOT_NONE ? TN_SLOT_NONE : to[slot];
        well = class_of(m, row->id ? row : &nothing, i, &m->jobs[i].class);
    }
    free(to);
    return well;
}

void tn_preview_free(struct tn_preview *p)
{
    free(p->members);
    free(p->slots);
    memset(p, 0, sizeof *p);
}

static bool assign(struct making *m, uint32_t jobs, struct tn_preview *p)
{
    struct tn_plan_input in = {.members = m->inputs,
                               .jobs = m->jobs,
                               .fit = m->fit,
                               .member_count = m->member_count,
                               .job_count = jobs,
                               .class_count = m->class_count,
                               .moves_max = tn_plan_tenth(jobs)};
    struct tn_plan_result result = {0};
    void *scratch = malloc(tn_plan_scratch_size(&in) + 8);

    p->members = calloc((size_t)m->member_count + 1, sizeof *p->members);
    p->slots = malloc(((size_t)jobs + 1) * sizeof *p->slots);
    if (scratch && p->members && p->slots) {
        memset(p->slots, 0xff, (size_t)jobs * sizeof *p->slots);
        if (m->member_count && jobs)
            tn_plan_assign(&in, scratch, p->slots, &result);
        for (uint32_t i = 0; i < m->member_count; i++)
            p->members[i] = m->members[i]->id;
    }
    p->member_count = m->member_count;
    p->moved = result.moved;
    p->placed = result.placed;
    p->unplaced = result.unplaced;
    for (uint32_t i = 0; !m->member_count && i < jobs; i++)
        p->unplaced += m->jobs[i].weight > 0;
    free(scratch);
    return scratch && p->members && p->slots;
}

enum tenure_status tn_jobs_preview(const struct tn_catalogue *catalogue,
                                   const struct tn_members *members,
                                   const struct tn_plan_register *plan, const char *without,
                                   struct tn_preview *preview, struct tenure_error *err)
{
    uint32_t jobs = tn_catalogue_size(catalogue);
    struct making m = {.catalogue = catalogue,
                       .members = calloc((size_t)members->count + 1, sizeof *m.members),
                       .inputs = calloc((size_t)members->count + 1, sizeof *m.inputs),
                       .jobs = calloc((size_t)jobs + 1, sizeof *m.jobs)};
    struct tn_preview made = {0};
    bool well = m.members && m.inputs && m.jobs &&
                list_members(&m, members, catalogue->active, without) &&
                list_jobs(&m, plan, jobs) && assign(&m, jobs, &made);

    free(m.members);
    free(m.inputs);
    free(m.jobs);
    free(m.classes);
    free(m.alone);
    free(m.fit);
    if (!well) {
        tn_preview_free(&made);
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a plan");
    }
    *preview = made;
    return TENURE_OK;
}
