/* core/elector_inner.h - what elector.c and elector_plan.c share. */
#ifndef TN_CORE_ELECTOR_INNER_H
#define TN_CORE_ELECTOR_INNER_H

#include "core/elector.h"

#define TN_FOREVER (INT64_MAX / 2)

/* Holds a grant, or still did a moment ago, and the program may be alive. */
static inline bool tn_holding(const struct tn_elector *e)
{
    return e->phase == TN_PHASE_SEALING || e->phase == TN_PHASE_LEADING ||
           e->phase == TN_PHASE_STOPPING;
}

/* The register shows the grant in hand. */
bool tn_sees_own_grant(const struct tn_elector *e);
/* The register shows a grant of this process, in hand or not. */
bool tn_sees_own_process(const struct tn_elector *e);

/* Decide the one request or wait that follows.  Does nothing while a request is out. */
void tn_elector_plan(struct tn_elector *e, const struct tn_event *ev, struct tn_actions *out);

#endif
