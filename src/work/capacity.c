#include "work/capacity.h"

#include "core/timing.h"

uint32_t tn_work_capacity(int64_t kill_ns)
{
    int64_t left_ms = kill_ns / TN_MS - TN_WORK_KILL_BASE_MS;

    return left_ms > 0 ? (uint32_t)(left_ms / TN_WORK_KILL_EACH_MS) : 0;
}

int64_t tn_work_kill_ns(uint32_t programs)
{
    return (TN_WORK_KILL_BASE_MS + (int64_t)programs * TN_WORK_KILL_EACH_MS) * TN_MS;
}
