/* What the requests of an election cost where each of them has its price. */
#include "base/duration.h"
#include "cli/doctor/doctor.h"

#define HOUR_NS  (3600.0 * (double)TN_S)
#define THOUSAND 1e3
#define BILLION  1e9

void doctor_check_price(struct doctor *d)
{
    double swap = (double)d->info.swap_price / BILLION, read = (double)d->info.read_price / BILLION;
    double renewals = HOUR_NS / (double)d->timing.renew_ns;
    double questions = d->info.poll_ms ? HOUR_NS / ((double)d->info.poll_ms * (double)TN_MS) : 0;
    char ttl[TN_DURATION_TEXT];

    tn_duration_format(d->timing.ttl_ns, ttl);
    json_object_set_new(d->facts, "price",
                        json_pack("{s:f, s:f, s:f}", "leader_usd_an_hour", renewals * swap,
                                  "standby_usd_an_hour", questions * read, "write_usd", swap));
    doctor_say(d, DOCTOR_OK,
               "about $%.4f an hour for the leader (%.0f renewals at ttl %s) and $%.4f for each "
               "standby (%.0f questions); a thousand writes of state $%.4f; list prices of one "
               "region in 2025: look up yours",
               renewals * swap, renewals, ttl, questions * read, questions, swap * THOUSAND);
}
