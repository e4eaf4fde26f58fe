/*
 * supervise/probe_change.h - another probe, made ready on a thread of its own: to resolve the name
 * of a host may take as long as it likes, and the supervisor's loop has other duties.
 */
#ifndef TN_SUPERVISE_PROBE_CHANGE_H
#define TN_SUPERVISE_PROBE_CHANGE_H

#include "supervise/probe.h"

struct tn_probe_change;

/* Begin.  wake_fd, an eventfd, is written when it is done.  On failure *out is NULL. */
enum tenure_status tn_probe_change_begin(const struct tn_probe_options *o, int wake_fd,
                                         struct tn_probe_change **out, struct tenure_error *err);
/* Is it done?  Then *probe is that of tn_probe_open(), whose answer is *status. */
bool tn_probe_change_done(const struct tn_probe_change *c, struct tn_probe *probe,
                          enum tenure_status *status, struct tenure_error *err);
/* Free it; its thread, if it still works, is not waited for.  Accepts NULL. */
void tn_probe_change_drop(struct tn_probe_change *c);

#endif
