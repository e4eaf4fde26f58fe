#include "work/listen.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "jobs/view.h"

struct tn_work_listener {
    struct tn_api *api;
    const char *group, *id;
    _Atomic(tn_jobs_driver *) driver; /* NULL: it has not started yet */
};

static bool is_ready(void *arg, char *why, size_t size)
{
    struct tn_work_listener *l = arg;
    tn_jobs_driver *driver = atomic_load(&l->driver);
    struct tn_jobs_status s;

    if (!driver) {
        snprintf(why, size, "starting");
        return false;
    }
    tn_jobs_driver_status(driver, &s);
    if (s.phase == TN_BEAT_IN && s.deadline_ns > tenure_now())
        return true;
    snprintf(why, size, "not a member: %s%s%s", tn_jobs_phase_word(s.phase),
             s.waits[0] || s.trouble[0] ? ": " : "", s.waits[0] ? s.waits : s.trouble);
    return false;
}

static json_t *view(void *arg, uint32_t limit)
{
    struct tn_work_listener *l = arg;
    tn_jobs_driver *driver = atomic_load(&l->driver);

    return driver ? tn_jobs_view(driver, limit)
                  : json_pack("{s:s, s:s, s:s}", "group", l->group, "worker", l->id, "phase",
                              "starting");
}

static json_t *find(void *arg, const char *text, uint32_t limit)
{
    tn_jobs_driver *driver = atomic_load(&((struct tn_work_listener *)arg)->driver);

    return driver ? tn_jobs_find(driver, text, limit)
                  : json_pack("{s:s, s:i, s:[]}", "search", text, "count", 0, "jobs");
}

static void metrics(void *arg, FILE *out, bool openmetrics)
{
    struct tn_work_listener *l = arg;
    tn_jobs_driver *driver = atomic_load(&l->driver);

    if (driver)
        tn_work_metrics(driver, l->group, l->id, out, openmetrics);
}

enum tenure_status tn_work_listen(const struct tn_api_options *options, const char *group,
                                  const char *id, struct tn_work_listener **listener,
                                  struct tenure_error *err)
{
    static const struct tn_api_group answers = {
        .ready = is_ready, .view = view, .find = find, .metrics = metrics};
    struct tn_api_options o = *options;
    struct tn_work_listener *l;
    enum tenure_status status;

    if (!o.listen[0])
        return TENURE_OK;
    l = calloc(1, sizeof *l);
    if (!l)
        return tenure_fail(err, TENURE_NOMEM, "out of memory");
    l->group = group;
    l->id = id;
    o.group = &answers;
    o.group_arg = l;
    status = tn_api_start(&o, NULL, 0, &l->api, err);
    if (status)
        free(l);
    else
        *listener = l;
    return status;
}

void tn_work_listen_for(struct tn_work_listener *l, tn_jobs_driver *driver)
{
    if (l)
        atomic_store(&l->driver, driver);
}

void tn_work_listen_notify(struct tn_work_listener *l)
{
    if (l)
        tn_api_notify(l->api);
}

void tn_work_listen_close(struct tn_work_listener *l)
{
    if (!l)
        return;
    tn_api_stop(l->api);
    free(l);
}
