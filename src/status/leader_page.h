/*
 * status/leader_page.h - who leads, in a page that an election's process and its agent share.
 *
 * The election's driver writes, first of all in a step (I7); the agent reads when
 * it is asked, and compares with CLOCK_BOOTTIME itself: a process that is stopped
 * leads no longer than its deadline.  There is no lock to hang on.  The epoch is
 * written before lead_until_ns is raised and after it is lowered, and a term begins
 * only after the former one was lowered to 0, so a reader that sees the same
 * lead_until_ns before and after the epoch has a pair.  docs/adr/0014-one-listener.md.
 */
#ifndef TN_STATUS_LEADER_PAGE_H
#define TN_STATUS_LEADER_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tn_leader_page {
    _Atomic int64_t lead_until_ns; /* 0: does not lead */
    _Atomic int64_t deadline_ns;   /* 0: no grant */
    _Atomic uint64_t epoch;
    _Atomic int64_t answer_ns; /* an answer holds so long at most; 0: until the deadline */
    _Atomic bool running, stopping;
};

struct tn_leader_view {
    bool leads, running, stopping;
    int64_t grant_ns; /* what is left of the grant, whether or not it leads already */
    int64_t left_ns;  /* so long an answer holds: at most that */
    uint64_t epoch;   /* 0: does not lead */
};

/* A page of zeros and its descriptor, close-on-exec.  NULL with errno. */
struct tn_leader_page *tn_leader_page_new(int *fd);
/* In the election's process: the page behind that descriptor.  NULL with errno. */
struct tn_leader_page *tn_leader_page_map(int fd);
/* Accepts NULL. */
void tn_leader_page_unmap(struct tn_leader_page *page);
/* Nobody leads.  For the agent, once the process has ended. */
void tn_leader_page_clear(struct tn_leader_page *page);
/* On the driver's thread alone. */
void tn_leader_page_write(struct tn_leader_page *page, int64_t lead_until_ns, int64_t deadline_ns,
                          uint64_t epoch);
void tn_leader_page_read(struct tn_leader_page *page, struct tn_leader_view *view);

#endif
