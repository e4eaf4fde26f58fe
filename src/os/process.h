/* os/process.h - what this process costs, as /proc has it. */
#ifndef TN_OS_PROCESS_H
#define TN_OS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct tn_process {
    double cpu_s;   /* user and system */
    double start_s; /* Unix time, to a hundredth */
    uint64_t virtual_bytes, resident_bytes;
    uint64_t open_fds, max_fds; /* max_fds UINT64_MAX: no limit */
};

/* false: /proc is not there. */
bool tn_process_read(struct tn_process *process);

#endif
