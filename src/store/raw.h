/*
 * store/raw.h - registers that are not what the store writes: how they are read and replaced.
 *
 * Every caller gets CORRUPT, but an operator who repairs (repair=yes) reads such a register as it
 * is, under a token that only these very bytes have (store/damaged.h), and replaces it if it is
 * still what was read (C2).  A back end says how it reads all of a register, what that is, and how
 * it replaces just that; the rest is here.
 */
#ifndef TN_STORE_RAW_H
#define TN_STORE_RAW_H

#include "store/damaged.h"
#include "store/watcher.h"

struct tn_raw_ops {
    /* All of a register as the server has it; *raw is NULL if nothing is there. */
    enum tenure_status (*read)(void *impl, const char *key, int64_t deadline, void **raw,
                               struct tenure_error *err);
    void (*free)(void *raw);
    /* What it holds.  CORRUPT if it is not what this store writes. */
    enum tenure_status (*decode)(void *impl, const char *key, const void *raw,
                                 struct tenure_value *value, struct tenure_error *err);
    /* One that is CORRUPT, by tn_damaged_value(); err says why it is.  CORRUPT: it cannot be kept.
     */
    enum tenure_status (*take_damaged)(void *impl, const char *key, const void *raw,
                                       struct tenure_value *value, struct tenure_error *err);
    /* Carry out the swap if the register is still just that. */
    enum tenure_status (*replace)(void *impl, struct tenure_swap *swap, const void *raw,
                                  int64_t deadline, struct tenure_error *err);
};

/* Read a register; a damaged one as it is, if repair is set. */
enum tenure_status tn_raw_read(const struct tn_raw_ops *ops, void *impl, const char *key,
                               bool repair, struct tenure_value *value, int64_t deadline,
                               struct tenure_error *err);
/* The same of a back end that has a watcher, which then knows what was read. */
enum tenure_status tn_raw_read_known(const struct tn_raw_ops *ops, struct tn_watcher *watcher,
                                     const char *key, bool repair, struct tenure_value *value,
                                     int64_t deadline, struct tenure_error *err);
/* A swap that expects what tn_raw_read() has shown of a damaged register. */
enum tenure_status tn_raw_swap(const struct tn_raw_ops *ops, void *impl, struct tenure_swap *swap,
                               int64_t deadline, struct tenure_error *err);

#endif
