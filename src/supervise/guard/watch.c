#include "supervise/guard/watch.h"

int64_t tn_guard_late_at(int64_t deadline_ns, int64_t told_ns, int64_t margin_ns)
{
    int64_t half = margin_ns / 2;
    int64_t kill = deadline_ns - margin_ns;

    if (deadline_ns == 0)
        return 0;
    return (kill > told_ns ? kill : told_ns) + half;
}
