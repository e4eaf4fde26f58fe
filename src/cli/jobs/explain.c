/* tenure jobs explain: why here, why nowhere, what it waits for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/jobs/jobs.h"

struct story {
    FILE *to;
    const char *answer; /* in a word */
};

static void tell_fit(const struct story *s, const struct cli_jobs_view *v, const struct tn_row *row,
                     uint32_t number)
{
    for (uint32_t i = 0; i < v->members.count; i++) {
        const struct tn_listed_member *one = &v->members.list[i];
        const struct tn_member *m = &one->record.member;
        const char *why = NULL;

        if (one->damage[0])
            why = "its record is damaged";
        else if (m->state != TN_MEMBER_ALIVE || m->mark != TN_MARK_NONE || m->draining)
            why = cli_jobs_state(m);
        else if (*row->pin && strcmp(row->pin, one->record.id) != 0)
            why = "the job is pinned to another worker";
        else if (!tn_labels_have(m->labels, row->must))
            why = "it lacks a required label";
        else if (tn_jobs_fit(row, number, &one->record) == TN_FIT_NO)
            why = "it has said that it cannot run the job";
        else if (!tn_member_settled(m))
            why = "it has just joined and has not settled";
        fprintf(s->to, "  %s: %s\n", one->record.id, why ? why : "could run it");
    }
    if (!v->members.count)
        fprintf(s->to, "  the group has no workers\n");
}

static bool is_placeable(const struct cli_jobs_view *v, const struct tn_row *row, uint32_t number)
{
    for (uint32_t i = 0; i < v->members.count; i++) {
        const struct tn_member *m = &v->members.list[i].record.member;

        if (!v->members.list[i].damage[0] && m->state == TN_MEMBER_ALIVE &&
            m->mark == TN_MARK_NONE && !m->draining &&
            tn_jobs_fit(row, number, &v->members.list[i].record) != TN_FIT_NO)
            return true;
    }
    return false;
}

/* It has an owner: what becomes of that. */
static void tell_owner(struct story *s, const struct cli_jobs_view *v, const struct tn_job *job,
                       const char *planned)
{
    const struct tn_listed_member *owner = tn_members_find(&v->members, job->owner.id);
    char expires[CLI_JOBS_TIME];

    cli_jobs_expires(&v->members, &job->owner, expires);
    fprintf(s->to, "owner %s, epoch %" PRIu64 ", lease until %s\n", job->owner.id, job->epoch,
            *expires ? expires : "unknown");
    switch (tn_owner_fate(&job->owner.identity, owner ? &owner->record.member : NULL)) {
    case TN_OWNER_GONE:
        s->answer = "free";
        fprintf(s->to, "its owner has ended: it waits for %s to claim it\n",
                planned ? planned : "a plan");
        break;
    case TN_OWNER_MISSING:
        s->answer = "waiting";
        fprintf(s->to, "the record of its owner is lost: a worker puts a placeholder there, which "
                       "is buried after its ttl\n");
        break;
    case TN_OWNER_ALIVE:
        s->answer = job->wanted == TN_WANTED_RUNNING ? "owned" : "stopping";
        if (job->wanted != TN_WANTED_RUNNING)
            fprintf(s->to, "%s: it waits for its owner to stop it\n", cli_jobs_wanted(job->wanted));
        else if (owner->record.member.mark == TN_MARK_EVICTED)
            fprintf(s->to, "its owner was evicted: it waits for that lease to run out\n");
        else if (!planned || strcmp(planned, job->owner.id) != 0)
            fprintf(s->to, "planned for %s: it waits for its owner to release it\n",
                    planned ? planned : "nobody");
        else
            fprintf(s->to, "it is where the plan wants it\n");
        break;
    }
}

static void tell(struct story *s, const struct cli_jobs_view *v, const struct tn_row *row,
                 uint32_t number, const struct tn_job_now *now)
{
    const char *planned = cli_jobs_planned(v, number);

    fprintf(s->to, "%s: number %u, weight %u, wanted %s%s%s%s%s%s%s\n", row->id, number,
            row->weight, cli_jobs_wanted(row->wanted), *row->pin ? ", pinned to " : "", row->pin,
            *row->must ? ", requires " : "", row->must, *row->prefer ? ", prefers " : "",
            row->prefer);
    if (now->absent || now->status) {
        s->answer = "damaged";
        fprintf(s->to, "its register is %s%s: `tenure jobs repair`\n",
                now->absent ? "lost" : "damaged: ", now->damage);
        return;
    }
    if (tn_job_owned(&now->job)) {
        tell_owner(s, v, &now->job, planned);
    } else if (row->wanted != TN_WANTED_RUNNING || now->job.wanted != TN_WANTED_RUNNING) {
        s->answer =
            cli_jobs_wanted(row->wanted == TN_WANTED_RUNNING ? now->job.wanted : row->wanted);
        fprintf(s->to, "nobody has it; it stays so until `tenure jobs resume`\n");
        if (row->wanted != now->job.wanted)
            fprintf(s->to, "catalogue and register differ: pause or resume it again\n");
        return;
    } else if (planned) {
        s->answer = "free";
        fprintf(s->to, "nobody has it; it waits for %s to claim it\n", planned);
    } else if (!is_placeable(v, row, number)) {
        s->answer = "unplaceable";
        fprintf(s->to, "nobody has it, and no worker can run it:\n");
        tell_fit(s, v, row, number);
        return;
    } else {
        s->answer = "unplanned";
        fprintf(s->to, "nobody has it; it waits for the next plan\n");
    }
    tell_fit(s, v, row, number);
}

int cli_jobs_explain(struct cli_jobs *j)
{
    struct cli_jobs_view view;
    struct tenure_error err;
    struct tn_job_now now;
    struct story s = {0};
    char *text = NULL;
    size_t size = 0;
    uint32_t number;
    int code = cli_jobs_load(j, &view, &err) ? cli_jobs_fail(j, &err) : CLI_OK;
    const char *id = j->args[0];

    if (!code && !tn_catalogue_find(&view.catalogue, id, &number))
        code = cli_misuse(j->verb, "there is no job '%.127s'", id);
    if (!code && tn_jobs_read(&j->group, &id, 1, &now, &err))
        code = cli_jobs_fail(j, &err);
    if (!code && !(s.to = open_memstream(&text, &size)))
        code = cli_fail(j->verb, CLI_FAILED, "out of memory");
    if (!code) {
        tell(&s, &view, tn_catalogue_row(&view.catalogue, number), number, &now);
        fclose(s.to);
        if (j->common.json) {
            json_t *object =
                json_pack("{s:s, s:s, s:s}", "id", id, "state", s.answer, "text", text);

            json_dumpf(object, stdout, JSON_COMPACT);
            json_decref(object);
            putchar('\n');
        } else {
            fputs(text, stdout);
        }
    }
    free(text);
    cli_jobs_view_free(&view);
    return code;
}
