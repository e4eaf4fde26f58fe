/*
 * What the guard may use here: how far a program's processes can be held
 * together, and the machine's watchdog.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "supervise/guard/link.h"

#define DEVICE "/dev/watchdog"

/* Start a guard with that wish, and end it.  OK, or why not. */
static enum tenure_status try(struct doctor *d, enum tn_contain wish, enum tn_contain *got,
                              bool *punctual)
{
    const struct tn_guard_wish what = {.contain = wish,
                                       .grace_ns = d->timing.grace_ns,
                                       .kill_ns = d->timing.kill_ns,
                                       .stop_signal = SIGTERM};
    struct tn_guard_link link;
    enum tenure_status status = tn_guard_link_open(&link, &what, &d->err);

    if (!status)
        status = tn_guard_link_start(&link, &d->err);
    if (!status)
        status = tn_guard_link_wait_ready(&link, &d->err);
    if (!status) {
        *got = link.contain;
        d->margin_ns = link.page->margin_ns;
        *punctual = (sched_getscheduler(link.pid) & ~SCHED_RESET_ON_FORK) == SCHED_RR;
        tn_guard_link_quit(&link);
    }
    tn_guard_link_close(&link);
    return status;
}

static const char *weakness_of(enum tn_contain contain)
{
    if (contain == TN_CONTAIN_GROUP)
        return "; daemons outlive it if tenure, guard and init are all killed at once";
    if (contain == TN_CONTAIN_PIDNS_HOST)
        return "; ps and the like show other processes under the program's numbers, because /proc "
               "cannot be mounted or a part of it is hidden here";
    return "";
}

/* What another user may do, this one does not know. */
static const char *watchdog_text(bool armed)
{
    if (armed)
        return DEVICE " can be armed";
    return access(DEVICE, F_OK) == 0 ? DEVICE " may not be opened by this user" : "no " DEVICE;
}

void doctor_check_guard(struct doctor *d)
{
    static const struct {
        enum tn_contain contain;
        const char *word;
    } wishes[] = {
        {TN_CONTAIN_PIDNS, "pidns"}, {TN_CONTAIN_CGROUP, "cgroup"}, {TN_CONTAIN_USERNS, "userns"}};
    enum tn_contain got = TN_CONTAIN_GROUP, some;
    bool punctual = false, unused, armed = access(DEVICE, W_OK) == 0;
    json_t *able = json_array();
    char list[40] = "";

    json_array_append_new(able, json_string("group"));
    for (unsigned i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        if (try(d, wishes[i].contain, &some, &unused) != TENURE_OK)
            continue;
        json_array_append_new(able, json_string(wishes[i].word));
        snprintf(list + strlen(list), sizeof list - strlen(list), ", %s", wishes[i].word);
    }
    if (try(d, TN_CONTAIN_AUTO, &got, &punctual) != TENURE_OK) {
        doctor_say(d, DOCTOR_BROKEN, "tenure run cannot work here: %s", d->err.text);
        json_decref(able);
        return;
    }
    json_object_set_new(d->facts, "guard",
                        json_pack("{s:s, s:o, s:b, s:b, s:f}", "contain", tn_contain_text(got),
                                  "able", able, "realtime", (int)punctual, "watchdog", (int)armed,
                                  "margin_ms", (double)d->margin_ns / 1e6));
    doctor_say(d, weakness_of(got)[0] ? DOCTOR_WEAK : DOCTOR_OK,
               "containment: %s (available%s: group%s)%s; %s; %s", tn_contain_text(got),
               geteuid() ? " to this user" : "", list, weakness_of(got),
               punctual ? "real-time scheduling" : "no real-time scheduling", watchdog_text(armed));
}
