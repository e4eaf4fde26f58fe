/* toy.h - a small store for the suite's own tests; see toy.c. */
#ifndef TOY_H
#define TOY_H

#include <tenure/store.h>

extern const struct tenure_store_ops toy_store;

/*
 * Bugs that can be planted by name, toy:FILE?bug=NAME, and the check that must
 * notice: X(name, check).
 */
#define TOY_BUGS(X)                                                                                \
    X(no_nonce, "swap-wrong-nonce")                                                                \
    X(no_version, "swap-wrong-version")                                                            \
    X(no_compare, "swap-stale")                                                                    \
    X(create_overwrites, "create-twice")                                                           \
    X(late_compare, "contest-processes")                                                           \
    X(late_compare_threads, "contest-threads")                                                     \
    X(version_repeats, "versions-unique")                                                          \
    X(erase_removes, "tombstone")                                                                  \
    X(create_over_tombstone, "tombstone")                                                          \
    X(tombstone_loses_data, "tombstone-data")                                                      \
    X(no_prev, "swap-current")                                                                     \
    X(data_is_text, "data-binary")                                                                 \
    X(key_cut, "key-long")                                                                         \
    X(key_folded, "key-case")                                                                      \
    X(read_cached, "two-handles")                                                                  \
    X(read_sometimes_stale, "linear-threads")                                                      \
    X(absent_on_error, "linear-processes")                                                         \
    X(list_unsorted, "list-order")                                                                 \
    X(list_by_segment, "list-prefix")                                                              \
    X(list_inclusive, "list-cursor")                                                               \
    X(list_never_stops, "list-cursor")                                                             \
    X(list_no_tombstones, "list-tombstones")                                                       \
    X(list_one_page, "list-many")                                                                  \
    X(list_skips_changed, "list-while-changing")                                                   \
    X(wait_no_compare, "wait-already")                                                             \
    X(wait_late_subscribe, "wait-race-threads")                                                    \
    X(wait_late_in_processes, "wait-race-processes")                                               \
    X(wait_late_ping, "ping-pong-threads")                                                         \
    X(wait_not_cancelled, "wait-woken")                                                            \
    X(wait_drains, "wait-woken")                                                                   \
    X(wait_times_out_early, "wait-quiet")                                                          \
    X(wait_never_sleeps, "wait-quiet")                                                             \
    X(wait_first_only, "wait-several")                                                             \
    X(wait_no_prefix, "wait-prefix-already")                                                       \
    X(wait_own_process, "wait-other-process")                                                      \
    X(conflict_applied, "linear-threads")                                                          \
    X(conflict_invented, "linear-threads")                                                         \
    X(ok_not_applied, "linear-processes")                                                          \
    X(torn, "linear-processes")                                                                    \
    X(timeout_applied, "deadline-past")                                                            \
    X(hangs, "deadline-past")                                                                      \
    X(lock_outlives, "killed-process")                                                             \
    X(batch_all_ok, "batch-mixed")                                                                 \
    X(batch_claims_the_rest, "batch-large")                                                        \
    X(reads_in_another_order, "reads-mixed")                                                       \
    X(reads_keep_the_absent, "reads-again")                                                        \
    X(reads_stop_short, "reads-many")                                                              \
    X(purge_by_version, "purge-refused")                                                           \
    X(purge_not_applied, "purge-deletes")                                                          \
    X(purge_neighbours, "purge-deletes")                                                           \
    X(leaks_descriptor, "open-close")                                                              \
    X(forgets, "reopen")

enum toy_bug {
    TOY_SOUND,
    TOY_often_unknown, /* no bug: answers UNKNOWN, truly, at every seventh swap */
#define X(name, check) TOY_##name,
    TOY_BUGS(X)
#undef X
};

#endif
