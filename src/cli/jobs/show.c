/* tenure jobs list, workers, plan, watch. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/key.h"
#include "base/rfc3339.h"
#include "cli/jobs/jobs.h"

/* ---- What is known ------------------------------------------------------- */

void cli_jobs_view_free(struct cli_jobs_view *v)
{
    tn_catalogue_free(&v->catalogue);
    tn_members_free(&v->members);
    tn_plan_free(&v->plan);
}

enum tenure_status cli_jobs_load(const struct cli_jobs *j, struct cli_jobs_view *v,
                                 struct tenure_error *err)
{
    enum tenure_status status;

    memset(v, 0, sizeof *v);
    status = tn_jobs_plan(&j->group, &v->plan, &v->plan_token, err);
    if (status == TENURE_CORRUPT || status == TENURE_UNSUPPORTED) {
        snprintf(v->plan_damage, sizeof v->plan_damage, "%s", err->text);
        status = TENURE_OK;
    }
    if (!status)
        status = tn_members_load(&j->group, &v->members, err);
    if (!status)
        status =
            tn_catalogue_load(j->group.store, j->group.name, &v->catalogue, j->group.deadline, err);
    return status;
}

const char *cli_jobs_planned(const struct cli_jobs_view *v, uint32_t number)
{
    uint16_t slot = number < v->plan.job_count ? v->plan.slots[number] : TN_SLOT_NONE;

    return slot == TN_SLOT_NONE ? NULL : v->plan.members[slot];
}

const char *cli_jobs_state(const struct tn_member *m)
{
    static const char *const states[] = {"alive", "dead", "left"};

    if (m->mark == TN_MARK_EVICTED)
        return m->state == TN_MEMBER_ALIVE ? "evicted, not buried yet" : "evicted";
    if (m->state != TN_MEMBER_ALIVE)
        return states[m->state];
    if (m->mark == TN_MARK_PLACEHOLDER)
        return "record lost";
    return m->draining             ? "draining"
           : !tn_member_settled(m) ? "settling"
           : m->standby            ? "standby"
                                   : "alive";
}

const char *cli_jobs_wanted(enum tn_wanted wanted)
{
    static const char *const words[] = {"running", "paused", "removed"};

    return words[wanted];
}

void cli_jobs_expires(const struct tn_members *members, const struct tn_owner *owner,
                      char out[CLI_JOBS_TIME])
{
    const struct tn_listed_member *m = tn_members_find(members, owner->id);

    out[0] = '\0';
    if (m && m->record.renewed_ms)
        tn_rfc3339_format(m->record.renewed_ms + m->record.member.ttl_ms, out);
}

/* ---- list ---------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static void print_job(const struct cli_jobs *j, const struct cli_jobs_view *v, uint32_t number,
                      const struct tn_job_now *now)
{
    const struct tn_row *row = tn_catalogue_row(&v->catalogue, number);
    const char *planned = cli_jobs_planned(v, number);
    const char *trouble = now->absent ? "its register is lost" : now->damage;
    char expires[CLI_JOBS_TIME];

    cli_jobs_expires(&v->members, &now->job.owner, expires);
    if (j->common.json) {
        json_t *object = json_pack(
            "{s:s, s:I, s:s, s:I, s:o, s:o, s:I, s:I, s:o, s:o, s:s, s:s, s:o}", "id", row->id,
            "number", (json_int_t)number, "wanted", cli_jobs_wanted(row->wanted), "weight",
            (json_int_t)row->weight, "owner", text_or_null(now->job.owner.id),
            "owner_lease_expires", text_or_null(expires), "epoch", (json_int_t)now->job.epoch,
            "commits", (json_int_t)now->job.seq, "planned_for", text_or_null(planned), "pin",
            text_or_null(row->pin), "require", row->must, "prefer", row->prefer, "trouble",
            text_or_null(trouble));

        json_dumpf(object, stdout, JSON_COMPACT);
        json_decref(object);
        putchar('\n');
        return;
    }
    printf("%s%-24s%s %-8s %6u  %-16s %-24s %s%s%s%s%s\n", cli_bold(), row->id, cli_plain(),
           cli_jobs_wanted(row->wanted), row->weight,
           tn_job_owned(&now->job) ? now->job.owner.id : "-", *expires ? expires : "-", cli_dim(),
           planned ? planned : "-", cli_plain(), *trouble ? "  " : "", trouble);
}

/* Those that the catalogue names, with what their registers say. */
static int list_jobs(struct cli_jobs *j, const struct cli_jobs_view *v)
{
    uint32_t size = tn_catalogue_size(&v->catalogue), n = 0;
    const char **ids = calloc((size_t)size + 1, sizeof *ids);
    uint32_t *numbers = calloc((size_t)size + 1, sizeof *numbers);
    struct tn_job_now *now = calloc((size_t)size + 1, sizeof *now);
    struct tenure_error err;
    bool damaged = false;
    int code = CLI_OK;

    for (uint32_t i = 0; ids && numbers && i < size; i++) {
        numbers[n] = i;
        ids[n] = tn_catalogue_row(&v->catalogue, i)->id;
        n += ids[n] != NULL;
    }
    if (!ids || !numbers || !now)
        code = cli_fail(j->verb, CLI_FAILED, "out of memory");
    else if (tn_jobs_read(&j->group, ids, n, now, &err))
        code = cli_jobs_fail(j, &err);
    if (!code && !j->common.json && n)
        printf("%s%-24s %-8s %6s  %-16s %-24s %s%s\n", cli_dim(), "job", "wanted", "weight",
               "owner", "owner_lease_expires", "planned for", cli_plain());
    for (uint32_t i = 0; !code && i < n; i++) {
        print_job(j, v, numbers[i], &now[i]);
        damaged |= now[i].absent || now[i].status;
    }
    if (damaged)
        code = cli_fail(j->verb, CLI_FAILED,
                        "some registers are lost or damaged; `tenure jobs repair` replaces them");
    if (!code && !n && !j->common.json)
        printf("%s has no jobs\n", j->group.name);
    free(ids);
    free(numbers);
    free(now);
    return code;
}

/* Load, show, free. */
static int with_view(struct cli_jobs *j,
                     int (*show)(struct cli_jobs *, const struct cli_jobs_view *))
{
    struct cli_jobs_view view;
    struct tenure_error err;
    int code = cli_jobs_load(j, &view, &err) ? cli_jobs_fail(j, &err) : CLI_OK;

    if (!code)
        code = show(j, &view);
    cli_jobs_view_free(&view);
    return code;
}

int cli_jobs_list(struct cli_jobs *j)
{
    return with_view(j, list_jobs);
}

/* ---- workers ------------------------------------------------------------- */

/* How many jobs, and how much weight, the plan has for a member. */
static void planned_load(const struct cli_jobs_view *v, const char *id, uint32_t *jobs,
                         uint64_t *weight)
{
    *jobs = 0;
    *weight = 0;
    for (uint32_t i = 0; i < v->plan.job_count && i < tn_catalogue_size(&v->catalogue); i++) {
        const char *planned = cli_jobs_planned(v, i);
        const struct tn_row *row = tn_catalogue_row(&v->catalogue, i);

        if (!planned || !row->id || strcmp(planned, id) != 0)
            continue;
        ++*jobs;
        *weight += row->weight;
    }
}

static int list_workers(struct cli_jobs *j, const struct cli_jobs_view *v)
{
    if (!v->members.count && !j->common.json)
        printf("%s has no workers\n", j->group.name);
    for (uint32_t i = 0; i < v->members.count; i++) {
        const struct tn_listed_member *one = &v->members.list[i];
        const struct tn_member *m = &one->record.member;
        const char *state = one->damage[0] ? "damaged" : cli_jobs_state(m);
        struct tn_owner self = {0};
        char expires[CLI_JOBS_TIME];
        uint64_t weight;
        uint32_t jobs;

        snprintf(self.id, sizeof self.id, "%s", one->record.id);
        cli_jobs_expires(&v->members, &self, expires);
        planned_load(v, one->record.id, &jobs, &weight);
        if (j->common.json) {
            json_t *object = json_pack(
                "{s:s, s:s, s:I, s:I, s:I, s:s, s:o, s:o, s:I}", "id", one->record.id, "state",
                state, "jobs", (json_int_t)jobs, "weight", (json_int_t)weight, "share",
                (json_int_t)m->share, "labels", m->labels, "lease_expires", text_or_null(expires),
                "trouble", text_or_null(one->damage), "plan_applied", (json_int_t)m->applied);

            json_dumpf(object, stdout, JSON_COMPACT);
            json_decref(object);
            putchar('\n');
        } else {
            printf("%s%-24s%s %-10s %6u jobs, weight %-6" PRIu64 " share %-3u %-24s %s%s\n",
                   cli_bold(), one->record.id, cli_plain(), state, jobs, weight, m->share,
                   *expires ? expires : "-", m->labels, one->damage);
        }
    }
    return CLI_OK;
}

int cli_jobs_workers(struct cli_jobs *j)
{
    return with_view(j, list_workers);
}

/* ---- plan ---------------------------------------------------------------- */

static void print_move(const struct cli_jobs *j, const char *id, const char *from, const char *to,
                       json_t *moves)
{
    if (moves)
        json_array_append_new(moves, json_pack("{s:s, s:o, s:o}", "job", id, "from",
                                               text_or_null(from), "to", text_or_null(to)));
    else
        printf("  %-24s %s -> %s\n", id, from ? from : "-", to ? to : "nobody");
    (void)j;
}

static int show_plan(struct cli_jobs *j, const struct cli_jobs_view *v)
{
    json_t *moves = j->common.json ? json_array() : NULL;
    struct tn_preview preview;
    struct tenure_error err;
    unsigned shown = 0;

    if (j->if_leaves && !tn_members_find(&v->members, j->if_leaves)) {
        json_decref(moves);
        return cli_misuse(j->verb, "there is no worker '%.127s'", j->if_leaves);
    }
    if (tn_jobs_preview(&v->catalogue, &v->members, &v->plan, j->if_leaves, &preview, &err)) {
        json_decref(moves);
        return cli_jobs_fail(j, &err);
    }
    if (!moves && v->plan_damage[0])
        printf("the plan cannot be read: %s\n", v->plan_damage);
    if (!moves)
        printf("plan %" PRIu64 " of catalogue %" PRIu64 ": %u workers, %u jobs%s\n", v->plan.seq,
               v->plan.catalogue, v->plan.member_count, v->plan.job_count,
               v->plan.cut ? "; rebalancing goes on" : "");
    for (uint32_t i = 0; i < tn_catalogue_size(&v->catalogue); i++) {
        const struct tn_row *row = tn_catalogue_row(&v->catalogue, i);
        const char *from = cli_jobs_planned(v, i);
        const char *to =
            preview.slots[i] == TN_SLOT_NONE ? NULL : preview.members[preview.slots[i]];

        if (!row->id || (from && to && strcmp(from, to) == 0) || (!from && !to))
            continue;
        if (!moves && shown++ == 0)
            printf(j->if_leaves ? "if %s leaves:\n" : "the next plan%.0s:\n",
                   j->if_leaves ? j->if_leaves : "");
        print_move(j, row->id, from, to, moves);
    }
    if (!moves)
        printf("%u move, %u placed, %u without a worker\n", preview.moved, preview.placed,
               preview.unplaced);
    if (moves) {
        json_t *object = json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "seq", (json_int_t)v->plan.seq,
                                   "catalogue", (json_int_t)v->plan.catalogue, "moved",
                                   (json_int_t)preview.moved, "placed", (json_int_t)preview.placed,
                                   "unplaced", (json_int_t)preview.unplaced, "moves", moves);

        json_dumpf(object, stdout, JSON_COMPACT);
        json_decref(object);
        putchar('\n');
    }
    tn_preview_free(&preview);
    return CLI_OK;
}

int cli_jobs_plan(struct cli_jobs *j)
{
    return with_view(j, show_plan);
}

/* ---- watch --------------------------------------------------------------- */

static void print_event(const struct cli_jobs *j, const char *kind, const char *what,
                        const char *text)
{
    if (j->common.json)
        printf("{\"event\":\"%s\",\"text\":\"%s\"}\n", kind, what);
    else
        printf("%s%-9s%s %s%s\n", cli_bold(), kind, cli_plain(), what, text);
    fflush(stdout);
}

static void print_changes(const struct cli_jobs *j, const struct cli_jobs_view *before,
                          const struct cli_jobs_view *v)
{
    char text[200];

    if (before->catalogue.revision != v->catalogue.revision) {
        snprintf(text, sizeof text, "revision %" PRIu64 ", %u jobs", v->catalogue.revision,
                 tn_catalogue_size(&v->catalogue));
        print_event(j, "catalogue", text, "");
    }
    if (before->plan.seq != v->plan.seq) {
        uint32_t moved = 0;

        for (uint32_t i = 0; i < v->plan.job_count; i++) {
            const char *from = cli_jobs_planned(before, i), *to = cli_jobs_planned(v, i);

            moved += (from || to) && (!from || !to || strcmp(from, to) != 0);
        }
        snprintf(text, sizeof text, "%" PRIu64 ": %u workers, %u jobs newly planned", v->plan.seq,
                 v->plan.member_count, moved);
        print_event(j, "plan", text, "");
    }
    for (uint32_t i = 0; i < v->members.count; i++) {
        const struct tn_listed_member *m = &v->members.list[i];
        const struct tn_listed_member *was = tn_members_find(&before->members, m->record.id);
        const char *now = m->damage[0] ? "damaged" : cli_jobs_state(&m->record.member);

        if (was && strcmp(cli_jobs_state(&was->record.member), now) == 0)
            continue;
        snprintf(text, sizeof text, "%s is %s", m->record.id, now);
        print_event(j, "worker", text, "");
    }
}

/* Until somebody changes the catalogue or the plan, or a member comes or goes. */
static enum tenure_status wait_for_change(const struct cli_jobs *j, const struct cli_jobs_view *v,
                                          struct tenure_error *err)
{
    char keys[3][TENURE_KEY_MAX + 1];
    struct tenure_watch watches[3] = {{.key = keys[0], .seen = v->catalogue.token},
                                      {.key = keys[1], .seen = v->plan_token},
                                      {.key = keys[2], .prefix = true}};
    enum tenure_status status;

    tn_key_of(j->group.name, TN_KEY_CATALOGUE, keys[0]);
    tn_key_of(j->group.name, TN_KEY_PLAN, keys[1]);
    tn_key_of(j->group.name, TN_KEY_MEMBER, keys[2]);
    memcpy(watches[2].mark, v->members.mark, sizeof watches[2].mark);
    status =
        tenure_store_wait(j->group.store, watches, 3, -1, tenure_now() + INT64_C(10000000000), err);
    return status == TENURE_TIMEOUT ? TENURE_OK : status;
}

int cli_jobs_watch(struct cli_jobs *j)
{
    struct cli_jobs_view before = {0}, view;
    struct tenure_error err;
    enum tenure_status status;

    do {
        j->group.deadline = tenure_now() + j->common.timeout_ns;
        status = cli_jobs_load(j, &view, &err);
        if (!status)
            print_changes(j, &before, &view);
        cli_jobs_view_free(&before);
        before = view;
        if (!status)
            status = wait_for_change(j, &view, &err);
    } while (!status);
    cli_jobs_view_free(&before);
    return cli_jobs_fail(j, &err);
}
