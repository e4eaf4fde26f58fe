/*
 * store/file/journal/journal.h - registers that are written in place, a group to a file.
 *
 * On a local disk the registers NAME/state/COLLECTION and NAME/state/COLLECTION/ID
 * are a group: they live in one chain of numbered journals in the directory of
 * the collection.  docs/explanation/internals/file.md tells the whole; the rules are
 *
 *   J1  A journal has one writer, the handle that linked it.  Nobody else
 *       changes a byte of it.
 *   J2  To become the writer, link the next number FIRST, then read the journal
 *       before it to its end, then write what one's own does not have of it yet,
 *       and flush.  Only then it counts.
 *   J3  A swap is written, flushed, and answered only after a look: the next
 *       number is not there, and then: our own is still where it was.  If it is
 *       not, the swap is looked for in a later journal of OUR OWN.
 *   J4  Journals are removed from the lowest up.  So one that is still there
 *       proves that none above it was ever removed, and the look needs no clock.
 *       "Still there" is the same file, held open; a number alone proves nothing,
 *       because one who slept can link a removed number again, in vain.
 *   J5  After a failed write or flush a journal is abandoned: the next swap
 *       links another.  It stays as it is: one that was whole is whole for ever.
 *       What its writer reads there may never reach the disk: it reads no more
 *       of the group before it has copied it into another, and flushed that.
 */
#ifndef TN_STORE_FILE_JOURNAL_JOURNAL_H
#define TN_STORE_FILE_JOURNAL_JOURNAL_H

#include "store/file/file.h"

#define TN_JOURNAL_NAME  17  /* "+" and 16 digits */
#define TN_JOURNAL_BLOCK 512 /* what a disk writes as a whole: frames do not share one */
#define TN_JOURNAL_KEEP  3   /* journals that stay: the newest, and two to look back at */

/* ---- file_journal_format.c: pure ----------------------------------------- */

/* "+0000000000000042"; and the number in a name, 0 if it is none. */
void tn_journal_name(uint64_t number, char name[TN_JOURNAL_NAME + 1]);
uint64_t tn_journal_number(const char *name);

/* The first block of a journal: a line of text, then zeroes. */
struct tn_journal_head {
    uint64_t number;
    uint8_t nonce[TENURE_NONCE_SIZE];
};
void tn_journal_head_encode(const struct tn_journal_head *head,
                            unsigned char block[TN_JOURNAL_BLOCK]);
/* NULL, or what is wrong with it. */
const char *tn_journal_head_decode(const unsigned char block[TN_JOURNAL_BLOCK], uint64_t number,
                                   struct tn_journal_head *head);

/* Behind it, frames: each begins at a block. */
#define TN_FRAME_HEAD     48
#define TN_FRAME_SNAPSHOT 1u /* part of what was there when the journal began */
#define TN_FRAME_WHOLE    2u /* the last part of it: from here on the journal counts */
#define TN_FRAME_MAX      (4u * TENURE_DATA_MAX)

struct tn_frame {
    uint32_t flags;
    uint32_t entries;
    uint64_t number; /* from 0, without a gap */
    uint64_t len;    /* bytes of the entries */
};
/* Fill in the head of a frame whose entries stand behind it, and its sums. */
void tn_frame_seal(const struct tn_frame *frame, const uint8_t seed[TENURE_NONCE_SIZE],
                   unsigned char *bytes);
/* Is this the head of a frame of that journal? */
bool tn_frame_decode(const unsigned char bytes[TN_FRAME_HEAD],
                     const uint8_t seed[TENURE_NONCE_SIZE], struct tn_frame *frame);
/* Do the entries belong to the head? */
bool tn_frame_verify(const unsigned char *bytes, const struct tn_frame *frame);
/* Bytes on the disk of a frame with so many bytes of entries. */
static inline uint64_t tn_frame_size(uint64_t len)
{
    return (TN_FRAME_HEAD + len + TN_JOURNAL_BLOCK - 1) / TN_JOURNAL_BLOCK * TN_JOURNAL_BLOCK;
}

/* A register as an entry of a frame.  name is the last part of its key; "" for the group's own. */
#define TN_ENTRY_HEAD 72
struct tn_journal_entry {
    const char *name; /* decode: not terminated, points into the frame */
    size_t name_len;
    uint64_t count; /* swaps of this register so far */
    uint8_t nonce[TENURE_NONCE_SIZE];
    uint8_t prev[TENURE_NONCE_SIZE];
    bool tombstone;
    bool damaged; /* its data is not what was written */
    bool doubted; /* it is, but a later swap may be lost: file_journal_repair.c */
    const void *data;
    size_t len;
    uint64_t data_sum; /* as it was read: of a damaged one it is not the data's */
};
size_t tn_entry_size(size_t name_len, size_t len);
/* Of a register's data, in whatever frame it stands. */
uint64_t tn_data_sum(const void *data, size_t len);
/* Write e at bytes; returns its size. */
size_t tn_entry_encode(const struct tn_journal_entry *e, unsigned char *bytes);
/* Read one of at most `room` bytes; returns its size, 0 if its head is damaged. */
size_t tn_entry_decode(const unsigned char *bytes, size_t room, struct tn_journal_entry *e);

/* ---- One group as a handle knows it --------------------------------------- */

struct tn_journal_reg {
    struct tn_journal_reg *next;
    uint64_t count;
    uint8_t nonce[TENURE_NONCE_SIZE], prev[TENURE_NONCE_SIZE];
    uint64_t at;       /* of its data in the journal */
    uint64_t moved_to; /* and in the draft; 0: not copied yet */
    uint32_t len;
    bool tombstone, damaged, doubted;
    uint64_t data_sum;
    uint16_t name_len;
    char name[];
};

/* The journal that a handle would like to write next: see file_journal_draft.c. */
struct tn_journal_draft {
    struct tn_file *f;
    uint64_t low, top; /* the numbers that were there when it was begun */
    int top_fd;        /* top itself, held open so that its inode is nobody else's */
    struct stat seen;
    struct tn_journal_head head;
    struct tn_file_temp temp;
    int fd;               /* where to write: the temporary file, and after the link the journal */
    unsigned char *bytes; /* the frame under way */
    size_t cap, used;
    uint64_t at; /* where it goes */
    bool synced; /* all that was copied is on the disk, with zeroes behind it */
    struct tn_frame frame;
};

struct tn_journal {
    struct tn_journal *next;
    char group[TENURE_KEY_MAX + 1];

    uint64_t number; /* of the journal that the rest is about; 0: none is known */
    int fd;
    dev_t dev;
    ino_t ino;
    bool owner;    /* we are its writer (J1) */
    bool whole;    /* it has all that was there before it */
    bool loading;  /* it was not read to its end yet: the deadline passed */
    bool salvaged; /* it cannot be read; what is left of it is in fd, which is no journal */
    uint8_t seed[TENURE_NONCE_SIZE];
    uint64_t frames, tail, end;  /* frames read; where the next one goes; bytes in the file */
    uint64_t live;               /* bytes that a snapshot would take */
    struct timespec salvaged_at; /* the file's own time then */
    uint64_t given_up;           /* the newest, which was not filled: number is below it; or 0 */
    int64_t stalled_ns; /* not whole: since when its writer has got no further; 0: unknown */
    struct tn_journal_draft *draft; /* or NULL */
    bool unflushed; /* a swap of ours is unknown: what is read may not be on the disk (J5) */

    struct tn_journal_reg **buckets;
    size_t n_buckets, n;
    unsigned char *buffer;
    size_t cap;
};

/* A root or a document of the state, however it is written here. */
bool tn_journal_state(const char *key);

/* The group of a key, if it belongs to one, and the name in it. */
bool tn_journal_group(const struct tn_file *f, const char *key, char group[TENURE_KEY_MAX + 1],
                      const char **name);
/* The journals of a handle.  NULL: out of memory. */
struct tn_journal *tn_journal_get(struct tn_file *f, const char *group);
void tn_journal_end(struct tn_file *f);

/* ---- file_journal_table.c ------------------------------------------------- */

struct tn_journal_reg *tn_journal_find(const struct tn_journal *j, const char *name, size_t len);
/* Take over what an entry says; at is where its data is.  false: out of memory. */
bool tn_journal_take(struct tn_journal *j, const struct tn_journal_entry *e, uint64_t at);
/* Forget all of it, but that something is unflushed, and close the file. */
void tn_journal_forget(struct tn_journal *j);
/* The same, and free what it has allocated. */
void tn_journal_clear(struct tn_journal *j);
/* Make the buffer hold so much.  false: out of memory. */
bool tn_journal_room(struct tn_journal *j, size_t size);
void tn_journal_token(const struct tn_journal_reg *reg, struct tenure_token *token);

/* ---- file_journal_read.c --------------------------------------------------- */

/* The path of journal `number` of the group; false if it is too long. */
bool tn_journal_path(const struct tn_file *f, const struct tn_journal *j, uint64_t number,
                     char path[PATH_MAX]);
/* Is our journal the newest (J3, J4)?  1, 0, or -1 with errno. */
int tn_journal_newest(const struct tn_file *f, const struct tn_journal *j);
/* The lowest and the highest number there is, 0 if none. */
enum tenure_status tn_journal_list(struct tn_file *f, const struct tn_journal *j, uint64_t *low,
                                   uint64_t *high, size_t *count, struct tenure_error *err);
/* Read journal `number` from its beginning.  *found is false if it is not there. */
enum tenure_status tn_journal_load(struct tn_file *f, struct tn_journal *j, uint64_t number,
                                   bool *found, int64_t deadline, struct tenure_error *err);
/* Was it filled, or cannot that be ruled out?  Reads little of it; false if it is not there. */
enum tenure_status tn_journal_filled(struct tn_file *f, const struct tn_journal *j, uint64_t number,
                                     bool *filled, struct tenure_error *err);
/* Read on behind what was read, at least one frame; TIMEOUT leaves j as far as it came. */
enum tenure_status tn_journal_follow(struct tn_file *f, struct tn_journal *j, bool thorough,
                                     int64_t deadline, struct tenure_error *err);
/*
 * Bring what we know up to date: afterwards j was all of the group at one moment
 * of this call.  j->number is 0 if nothing was ever written.
 */
enum tenure_status tn_journal_sync(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                   struct tenure_error *err);
/* Copy a register into value; reg NULL: absent. */
enum tenure_status tn_journal_deliver(struct tn_file *f, struct tn_journal *j,
                                      const struct tn_journal_reg *reg, struct tenure_value *value,
                                      struct tenure_error *err);
/* The register of a key, up to date; NULL: absent. */
enum tenure_status tn_journal_look(struct tn_file *f, const char *group, const char *name,
                                   struct tn_journal **journal, struct tn_journal_reg **reg,
                                   int64_t deadline, struct tenure_error *err);

/* ---- file_journal_repair.c ---------------------------------------------------- */

/* Journals that could not be read keep their content under such a name. */
#define TN_JOURNAL_ASIDE ".damaged-"

/*
 * Journal `number` cannot be read, which err tells: what is left of the group, and
 * nothing of it believed.  The same error if that is not enough to go on.
 */
enum tenure_status tn_journal_salvage(struct tn_file *f, struct tn_journal *j, uint64_t number,
                                      struct tenure_error *err);
/* Has nobody written into it since, as far as the file system tells?  For who reads; whoever
 * becomes the writer salvages again. */
bool tn_journal_untouched(const struct tn_file *f, const struct tn_journal *j);
/* Give the journals from low to top another name, under which they stay. */
enum tenure_status tn_journal_set_aside(struct tn_file *f, const struct tn_journal *j, uint64_t low,
                                        uint64_t top, struct tenure_error *err);

/* ---- file_journal_draft.c --------------------------------------------------- */

/* Begin one that follows `top`; on failure it is for the caller to drop. */
enum tenure_status tn_journal_draft_begin(struct tn_file *f, struct tn_journal *j, uint64_t low,
                                          uint64_t top, struct tenure_error *err);
/* Copy what j knows and the draft does not. */
enum tenure_status tn_journal_draft_copy(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                         struct tenure_error *err);
/* Zeroes behind it, which commits will overwrite so that a flush has no new blocks to write down;
 * and all of it on the disk. */
enum tenure_status tn_journal_draft_sync(struct tn_file *f, struct tn_journal *j,
                                         struct tenure_error *err);
/* After the link: the rest, into fd, and the mark that it is whole. */
enum tenure_status tn_journal_draft_end(struct tn_file *f, struct tn_journal *j, int fd,
                                        int64_t deadline, struct tenure_error *err);
/* Remove it, if there is one. */
void tn_journal_draft_drop(struct tn_journal *j);

/* ---- file_journal_own.c ----------------------------------------------------- */

/*
 * One try to become the writer (J2); also to begin a new file, when the old one is
 * long or abandoned.  OK with j->owner false: somebody else was faster, look again.
 * TIMEOUT: nothing has changed, what was copied is kept for the next try, and who
 * was the writer still is.  Otherwise j is forgotten on failure.
 */
enum tenure_status tn_journal_own(struct tn_file *f, struct tn_journal *j, int64_t deadline,
                                  struct tenure_error *err);
/* Between tries, when several want to write: longer each time, and never the same. */
void tn_journal_pause(unsigned tries);
/* Is it time for a new file? */
bool tn_journal_long(const struct tn_journal *j);

/* ---- file_journal_swap.c ---------------------------------------------------- */

/* Swaps of one group.  Each gets a status of its own; the first that is not OK is explained. */
void tn_journal_swap(struct tn_file *f, const char *group, struct tenure_swap *swaps, size_t n,
                     int64_t deadline, struct tenure_error *err);

#endif
