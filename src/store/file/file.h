/*
 * store/file/file.h - inside of the file: store.  docs/explanation/internals/file.md tells the
 * whole.
 *
 *   ROOT/.tenure                        format, retention and identity, written once
 *   ROOT/.tmp/NONCE-PID-SERIAL          slots that are being written
 *   ROOT/NAME/lease/@0000000000000042   slot 42 of the register NAME/lease
 *   ROOT/NAME/lease/.seen-CLOCK         when its slots were seen superseded
 *
 * Keys hold neither '@' nor a leading dot, so a register's slots and the
 * directories of keys below it never meet.
 */
#ifndef TN_STORE_FILE_FILE_H
#define TN_STORE_FILE_FILE_H

#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/options.h"
#include "store/file/format.h"

#define TN_FILE_MARKER      ".tenure"
#define TN_FILE_TMP         ".tmp"
#define TN_FILE_KEEP        8    /* slots that are never removed, whatever their age */
#define TN_FILE_HINTS       64   /* registers whose place is remembered */
#define TN_FILE_BATCH       64   /* swaps that share their flushes */
#define TN_FILE_BATCH_PLACE 1000 /* the same in one journal */
#define TN_FILE_RETAIN_MIN  INT64_C(1000000000)
#define TN_FILE_RETAIN_MAX  (7 * 86400 * INT64_C(1000000000))
#define TN_FILE_IDENTITY    48 /* bytes of an identity, at most */

/* Where a register was last found, and how far its old slots are cleaned up.
 * A hint: the store is right without it, only slower. */
struct tn_file_hint {
    char key[TENURE_KEY_MAX + 1]; /* "": unused */
    uint64_t number;              /* a slot that was current; 0: unknown */
    uint8_t nonce[TENURE_NONCE_SIZE];
    int64_t listed_ns; /* not 0: the nonce is not known yet, a listing begun then showed it */

    uint64_t low;         /* no slot below this is left; 0: unknown */
    uint64_t seen_number; /* this slot was current at seen_ns: those below are superseded */
    int64_t seen_ns;      /* 0: not noted yet */
};

/* What the inotify descriptor of a handle listens to. */
struct tn_file_watches {
    int fd; /* -1: none yet, or the system has no more */
    int *wds;
    size_t n;
};

/* What ROOT/.tenure says. */
struct tn_file_marker {
    int64_t retain_ns; /* 0: there is none */
    bool place;
    char identity[TN_FILE_IDENTITY];
    struct stat st; /* of the file that was read */
};

struct tn_journal;

struct tn_file {
    char root[PATH_MAX]; /* absolute, without a slash at its end */
    struct tn_file_marker marker;
    int64_t poll_ns;
    mode_t dir_mode, file_mode;
    bool exact_mode; /* the mode was asked for: the umask has no say */
    bool network;    /* caches may be stale, and inotify does not see everybody */
    uint64_t serial; /* of temporary names */
    bool clock_asked;
    char clock[17];         /* the name of CLOCK_BOOTTIME (os/boot.h); "": unknown, or not asked */
    unsigned char *scratch; /* the slot that was read last */
    size_t scratch_cap;
    bool made;   /* by us: the directory was not there */
    bool repair; /* a damaged register is read as it is, and may be replaced */
    struct tn_journal *journals;
    struct tn_file_watches watches;
    struct tn_file_hint hints[TN_FILE_HINTS];
};

/* ---- error.c ------------------------------------------------------------- */

/*
 * The status and the sentence for an errno: what failed ("cannot write"), where
 * ("ROOT" and, if not "", what is below), and what to do.
 */
enum tenure_status tn_file_fail(struct tenure_error *err, int error, const char *what,
                                const char *root, const char *below);

/* ---- marker.c ------------------------------------------------------------ */

/* What the marker in the directory says; all zero and OK if there is none. */
enum tenure_status tn_file_marker_read(struct tn_file *f, int dir, struct tn_file_marker *marker,
                                       struct tenure_error *err);
/* Make one, under a fresh identity.  OK also if somebody else was first. */
enum tenure_status tn_file_marker_write(struct tn_file *f, bool place, int64_t retain_ns,
                                        struct tenure_error *err);
/* UNAVAILABLE, because a store that is not mounted is not an empty one (C1); and because another
 * one tells nothing about ours. */
enum tenure_status tn_file_gone(const struct tn_file *f, struct tenure_error *err);
enum tenure_status tn_file_other(const struct tn_file *f, struct tenure_error *err);
/* Open the directory of the store, if it is still the one that was opened at first. */
enum tenure_status tn_file_open_root(struct tn_file *f, int *fd, struct tenure_error *err);
/* Is it?  For who finds a directory missing below it. */
enum tenure_status tn_file_present(struct tn_file *f, struct tenure_error *err);

/* ---- open.c -------------------------------------------------------------- */

extern const struct tn_option tn_file_options[];
/* Fill f from the URL; make the directory and its marker if need be. */
enum tenure_status tn_file_setup(struct tn_file *f, const char *url, struct tenure_error *err);

/* ---- dir.c: directories and temporary files ------------------------------ */

/* The path of a key's directory; false if it is too long. */
bool tn_file_path(const struct tn_file *f, const char *below, char path[PATH_MAX]);
/*
 * Open the directory of a key (or of a prefix without its slash, or of "").
 * *fd is -1 and the status OK if there is none.  Caches are refreshed.
 */
enum tenure_status tn_file_open_dir(struct tn_file *f, const char *below, int *fd,
                                    struct tenure_error *err);
/* Make the directory of a key, and those above it. */
enum tenure_status tn_file_make_dirs(struct tn_file *f, const char *key, struct tenure_error *err);
/* Flush the directories above a key's own, and the marker's name with them.  Before its first
 * slot is linked: then whoever sees a slot, whoever made it, finds it again after a crash. */
enum tenure_status tn_file_sync_above(struct tn_file *f, const char *key, struct tenure_error *err);
/* fsync() of a directory, where file systems that know no such thing count as done. */
bool tn_file_sync_dir(int fd);

/* A temporary file being written: its name below the root, and its descriptor. */
struct tn_file_temp {
    int fd; /* -1: none, or closed */
    char name[sizeof TN_FILE_TMP + 2 * TENURE_NONCE_SIZE + 40];
};
/* Create one and write two pieces to it; not flushed yet.  On failure nothing is left. */
enum tenure_status tn_file_temp_write(struct tn_file *f, const uint8_t nonce[TENURE_NONCE_SIZE],
                                      const void *head, size_t head_len, const void *data,
                                      size_t len, struct tn_file_temp *temp,
                                      struct tenure_error *err);
/* Flush and close it.  On failure it is removed. */
enum tenure_status tn_file_temp_sync(struct tn_file *f, struct tn_file_temp *temp,
                                     struct tenure_error *err);
/* Close and remove it.  Accepts one that was never made. */
void tn_file_temp_remove(struct tn_file *f, struct tn_file_temp *temp);

/* ---- slots.c: finding the current slot ----------------------------------- */

struct tn_file_listing {
    uint64_t min, max, count; /* 0: no slot */
};
/* Read the whole directory once.  false with errno on failure. */
bool tn_file_list_slots(int dir, struct tn_file_listing *listing);
/* Is the slot there?  1, 0, or -1 with errno. */
int tn_file_has_slot(int dir, uint64_t number);
/*
 * Read one slot; with data set, its data too, verified, into the handle.
 * *found is false and the status OK if it is not there.  CORRUPT names the file.
 */
enum tenure_status tn_file_read_slot(struct tn_file *f, const char *key, int dir, uint64_t number,
                                     bool data, struct tn_slot *slot, bool *found,
                                     struct tenure_error *err);
/* The first len bytes of a descriptor; less if it ends before.  -1 with errno. */
ssize_t tn_file_read_all(int fd, unsigned char *buffer, size_t len);
/* Make the handle's buffer hold so much.  false: out of memory. */
bool tn_file_scratch(struct tn_file *f, size_t size);
/* CORRUPT, with the place of the slot and why. */
enum tenure_status tn_file_corrupt(const struct tn_file *f, const char *key, uint64_t number,
                                   const char *why, struct tenure_error *err);
/* Copy the slot whose data was read last into a value.  Number 0 is absence. */
enum tenure_status tn_file_deliver(struct tn_file *f, const struct tn_slot *slot,
                                   struct tenure_value *value, struct tenure_error *err);
/* The hint for a key: its own, or an empty one that takes another's place. */
struct tn_file_hint *tn_file_hint(struct tn_file *f, const char *key);
/* This slot was current just now. */
void tn_file_hint_set(struct tn_file_hint *hint, const struct tn_slot *slot);
/*
 * The current slot of the register hint->key, whose directory is open; with data
 * set, its data too.  slot->number is 0 if the register is absent.
 */
enum tenure_status tn_file_locate(struct tn_file *f, struct tn_file_hint *hint, int dir, bool data,
                                  struct tn_slot *slot, int64_t deadline, struct tenure_error *err);
/* The same by key, for those who need no directory. */
enum tenure_status tn_file_find(struct tn_file *f, const char *key, bool data, struct tn_slot *slot,
                                int64_t deadline, struct tenure_error *err);

/* ---- repair.c -------------------------------------------------------------- */

/*
 * What stands for a slot that cannot be trusted, with all of its bytes in the
 * handle: fd is -1 if it is not even a file.  known: its own line is sound.
 */
enum tenure_status tn_file_repair(struct tn_file *f, const char *key, int fd, uint64_t number,
                                  const struct tn_slot *known, struct tn_slot *slot,
                                  struct tenure_error *err);

/* ---- swap.c -------------------------------------------------------------- */

enum tenure_status tn_file_swap(void *impl, struct tenure_swap *swap, int64_t deadline,
                                struct tenure_error *err);
enum tenure_status tn_file_swap_many(void *impl, struct tenure_swap *swaps, size_t n,
                                     int64_t deadline, struct tenure_error *err);

/* ---- clean.c ------------------------------------------------------------- */

/* Remove a few old slots of a register whose current slot is `current`, if any are due. */
void tn_file_clean(struct tn_file *f, struct tn_file_hint *hint, int dir, uint64_t current);
/* Remove temporary files that nobody can still be writing. */
void tn_file_clean_temps(struct tn_file *f);

/* ---- list.c -------------------------------------------------------------- */

/* visit may be NULL, if only the mark is wanted. */
enum tenure_status tn_file_list(void *impl, const char *prefix, const char *after,
                                tenure_visit_fn visit, void *arg, char mark[TENURE_VERSION_MAX + 1],
                                int64_t deadline, struct tenure_error *err);

/* ---- wait.c -------------------------------------------------------------- */

enum tenure_status tn_file_wait(void *impl, const struct tenure_watch *watches, size_t n,
                                int wake_fd, int64_t deadline, struct tenure_error *err);
void tn_file_wait_end(struct tn_file *f);

#endif
