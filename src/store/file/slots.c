/*
 * Finding the current slot of a register.
 *
 * What everything here rests on:
 *
 *  S1  Slot n+1 is linked only by one who has seen slot n as the highest.
 *  S2  Slots are removed from the lowest up, never one of the highest eight,
 *      and never one that was not seen superseded for the whole retention.
 *
 * So, as long as slot n is there, no slot above it has ever been removed, and
 * the slots above it are there without a gap.  "Slot m is not there", and after
 * that "slot n below it, the very one that I know by its nonce, still is": then
 * m-1 or lower was the highest at that moment.  No clock is needed for it.
 *
 * The nonce matters.  One who saw slot n as the highest, slept, and linked slot
 * n+1 long after both were removed, leaves a slot that is not connected to
 * anything.  It is never taken for the current one, because the anchor of a
 * search is either a slot with a known nonce, or the highest of a listing, and
 * is looked at after what was found above it has been read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fs.h"
#include "store/file/file.h"

#define LOCATE_TRIES 32

bool tn_file_list_slots(int dir, struct tn_file_listing *listing)
{
    struct tn_file_listing l = {0};
    _Alignas(struct dirent64) char buffer[32768];
    ssize_t n;

    if (lseek(dir, 0, SEEK_SET) < 0)
        return false;
    while ((n = getdents64(dir, buffer, sizeof buffer)) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(buffer + at);
            uint64_t number = tn_slot_number(entry->d_name);

            at += entry->d_reclen;
            if (number == 0)
                continue;
            l.count++;
            if (number > l.max)
                l.max = number;
            if (l.min == 0 || number < l.min)
                l.min = number;
        }
    }
    if (n < 0)
        return false;
    *listing = l;
    return true;
}

int tn_file_has_slot(int dir, uint64_t number)
{
    char name[TN_SLOT_NAME + 1];
    struct stat st;

    if (number > TN_SLOT_LIMIT)
        return 0;
    tn_slot_name(number, name);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 1;
    return errno == ENOENT ? 0 : -1;
}

/* ---- One slot ------------------------------------------------------------ */

ssize_t tn_file_read_all(int fd, unsigned char *buffer, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, buffer + got, len - got, (off_t)got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

enum tenure_status tn_file_corrupt(const struct tn_file *f, const char *key, uint64_t number,
                                   const char *why, struct tenure_error *err)
{
    char name[TN_SLOT_NAME + 1];

    tn_slot_name(number, name);
    return tenure_fail(err, TENURE_CORRUPT,
                       "file: %.200s/%s/%s cannot be trusted: %s; it was not touched: restore it, "
                       "or repair what it holds",
                       f->root, key, name, why);
}

bool tn_file_scratch(struct tn_file *f, size_t size)
{
    if (size <= f->scratch_cap)
        return true;
    unsigned char *grown = realloc(f->scratch, size);
    if (!grown)
        return false;
    f->scratch = grown;
    f->scratch_cap = size;
    return true;
}

/* Told to everybody but an operator who repairs it. */
static enum tenure_status untrusted(struct tn_file *f, const char *key, int fd, uint64_t number,
                                    const struct tn_slot *known, const char *why,
                                    struct tn_slot *slot, struct tenure_error *err)
{
    return f->repair ? tn_file_repair(f, key, fd, number, known, slot, err)
                     : tn_file_corrupt(f, key, number, why, err);
}

/* The slot behind an open descriptor. */
static enum tenure_status read_open(struct tn_file *f, const char *key, int fd, uint64_t number,
                                    bool data, struct tn_slot *slot, struct tenure_error *err)
{
    struct tn_slot s = {0};
    struct stat st;

    if (fstat(fd, &st) != 0)
        return tn_file_fail(err, errno, "cannot look at a slot of", f->root, key);
    if (!S_ISREG(st.st_mode))
        return untrusted(f, key, -1, number, NULL, "it is not a plain file", slot, err);
    uint64_t size = (uint64_t)st.st_size;
    size_t want = data && size <= TN_SLOT_SIZE ? (size_t)size : TN_SLOT_HEADER;
    if (want < TN_SLOT_HEADER)
        want = TN_SLOT_HEADER;
    if (!tn_file_scratch(f, want))
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a slot of %zu bytes", want);
    ssize_t got = tn_file_read_all(fd, f->scratch, want);
    if (got < 0)
        return tn_file_fail(err, errno, "cannot read a slot of", f->root, key);
    /* Less than its size says is a slot that shrinks: as damaged as one that was short. */
    if ((size_t)got < want)
        size = (uint64_t)got;
    const char *wrong = tn_slot_decode(f->scratch, size, number, &s);
    if (wrong)
        return untrusted(f, key, fd, number, NULL, wrong, slot, err);
    if (data && !tn_slot_verify(&s, f->scratch + TN_SLOT_HEADER))
        return untrusted(f, key, fd, number, &s, "its sum does not fit its data", slot, err);
    *slot = s;
    return TENURE_OK;
}

enum tenure_status tn_file_read_slot(struct tn_file *f, const char *key, int dir, uint64_t number,
                                     bool data, struct tn_slot *slot, bool *found,
                                     struct tenure_error *err)
{
    char name[TN_SLOT_NAME + 1];

    tn_slot_name(number, name);
    /* Whatever stands there, opening it neither follows a link nor hangs. */
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    *found = fd >= 0 || errno == ELOOP || errno == ENXIO;
    if (fd < 0 && (errno == ENOENT || errno == ESTALE))
        return TENURE_OK;
    if (fd < 0 && *found)
        return untrusted(f, key, -1, number, NULL, "it is not a plain file", slot, err);
    if (fd < 0)
        return tn_file_fail(err, errno, "cannot read a slot of", f->root, key);
    enum tenure_status status = read_open(f, key, fd, number, data, slot, err);
    close(fd);
    return status;
}

enum tenure_status tn_file_deliver(struct tn_file *f, const struct tn_slot *slot,
                                   struct tenure_value *value, struct tenure_error *err)
{
    size_t line = slot->damaged ? 0 : TN_SLOT_HEADER;
    enum tenure_status status =
        tenure_value_set(value, slot->len ? f->scratch + line : NULL, slot->len, err);

    if (status)
        return status;
    if (slot->number)
        tn_slot_token(slot, &value->token);
    else
        memset(&value->token, 0, sizeof value->token);
    memcpy(value->prev, slot->prev, TENURE_NONCE_SIZE);
    value->tombstone = slot->tombstone;
    return TENURE_OK;
}

/* ---- The current slot ---------------------------------------------------- */

struct tn_file_hint *tn_file_hint(struct tn_file *f, const char *key)
{
    uint32_t hash = 0;

    for (const char *p = key; *p; p++)
        hash = hash * 31 + (unsigned char)*p;
    struct tn_file_hint *hint = &f->hints[(hash ^ hash >> 16) % TN_FILE_HINTS];
    if (strcmp(hint->key, key) != 0) {
        memset(hint, 0, sizeof *hint);
        snprintf(hint->key, sizeof hint->key, "%s", key);
    }
    return hint;
}

void tn_file_hint_set(struct tn_file_hint *hint, const struct tn_slot *slot)
{
    hint->number = slot->number;
    hint->listed_ns = 0;
    memcpy(hint->nonce, slot->nonce, TENURE_NONCE_SIZE);
}

/* What was known is of no use any more: the register was cleaned up beyond it,
 * or is another one. */
static void forget(struct tn_file_hint *hint)
{
    hint->number = hint->low = hint->seen_number = 0;
    hint->listed_ns = hint->seen_ns = 0;
}

/* The highest slot that is there, from one that is taken to be: steps that
 * double, then halves.  false with errno on failure. */
static bool climb(int dir, uint64_t from, uint64_t *top)
{
    uint64_t low = from, high = from + 1;
    int there;

    for (uint64_t step = 1; (there = tn_file_has_slot(dir, high)) == 1; step *= 2) {
        low = high;
        high += 2 * step;
    }
    while (there >= 0 && high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        there = tn_file_has_slot(dir, middle);
        if (there == 1)
            low = middle;
        else
            high = middle;
    }
    *top = low;
    return there >= 0;
}

/* Anchor the search at the highest slot of a listing; hint->number stays 0 if there is none. */
static enum tenure_status anchor(struct tn_file *f, struct tn_file_hint *hint, int dir,
                                 struct tenure_error *err)
{
    struct tn_file_listing listing;
    int64_t began = tenure_now();

    if (!tn_file_list_slots(dir, &listing))
        return tn_file_fail(err, errno, "cannot list", f->root, hint->key);
    hint->number = listing.max;
    hint->low = listing.min;
    hint->listed_ns = began;
    return TENURE_OK;
}

/*
 * Was the anchor, as it was read after the search, the slot that we mean?  One
 * that was seen before is known by its nonce.  One from a listing is known by
 * its number, and by the time: a directory is not read at one instant, but a
 * slot that is there from the beginning to the end is seen, and what was the
 * highest at the beginning stays for the retention.  So what took a quarter of
 * it or more is not believed.
 */
static bool holds(const struct tn_file *f, const struct tn_file_hint *hint,
                  const struct tn_slot *base)
{
    if (hint->listed_ns)
        return tenure_now() - hint->listed_ns < f->marker.retain_ns / 4;
    return memcmp(base->nonce, hint->nonce, TENURE_NONCE_SIZE) == 0;
}

/* One search from the hint.  *slot is not touched and *again set if the hint was of no use. */
static enum tenure_status search(struct tn_file *f, struct tn_file_hint *hint, int dir, bool data,
                                 struct tn_slot *slot, bool *again, struct tenure_error *err)
{
    struct tn_slot top, base, first;
    uint64_t number;
    bool found;
    enum tenure_status status;

    *again = true;
    if (!climb(dir, hint->number, &number))
        return tn_file_fail(err, errno, "cannot look for slots in", f->root, hint->key);
    base.number = 0;
    if (number != hint->number) {
        /* The top before the anchor: with that still there it is what followed, and not the vain
         * link of a sleeper under a number that is free again. */
        status = tn_file_read_slot(f, hint->key, dir, number, false, &first, &found, err);
        if (status || !found)
            return status;
        status = tn_file_read_slot(f, hint->key, dir, hint->number, false, &base, &found, err);
        if (status == TENURE_CORRUPT)
            return TENURE_OK; /* an old slot that rots: the highest is looked for without it */
        if (status || !found)
            return status;
    }
    status = tn_file_read_slot(f, hint->key, dir, number, data, &top, &found, err);
    if (status || !found)
        return status;
    if (base.number == 0)
        base = top;
    else if (top.sum != first.sum || memcmp(top.nonce, first.nonce, TENURE_NONCE_SIZE) != 0)
        return TENURE_OK;
    /* After the search, and not before it: see the top of this file. */
    *again = !holds(f, hint, &base);
    if (*again)
        return TENURE_OK;
    *slot = top;
    tn_file_hint_set(hint, &top);
    return TENURE_OK;
}

enum tenure_status tn_file_locate(struct tn_file *f, struct tn_file_hint *hint, int dir, bool data,
                                  struct tn_slot *slot, int64_t deadline, struct tenure_error *err)
{
    enum tenure_status status = TENURE_OK;
    bool again = true;
    int empty = 0;

    for (int tries = 0; again && !status; tries++) {
        if (tries > 0 && (tries == LOCATE_TRIES || tenure_now() >= deadline)) {
            status = tries == LOCATE_TRIES ? TENURE_UNAVAILABLE : TENURE_TIMEOUT;
            return tenure_fail(err, status, "file: the slots of %.200s/%s come and go too fast",
                               f->root, hint->key);
        }
        if (hint->number == 0) {
            status = anchor(f, hint, dir, err);
            if (status)
                break;
        }
        if (hint->number == 0) {
            /* Absence is believed when it was seen twice, and in time. */
            again = tenure_now() - hint->listed_ns >= f->marker.retain_ns / 4 || ++empty < 2;
            if (again && f->network)
                tn_fs_refresh(dir);
            if (!again)
                memset(slot, 0, sizeof *slot);
            continue;
        }
        status = search(f, hint, dir, data, slot, &again, err);
        if (again)
            forget(hint);
    }
    return status;
}

enum tenure_status tn_file_find(struct tn_file *f, const char *key, bool data, struct tn_slot *slot,
                                int64_t deadline, struct tenure_error *err)
{
    struct tn_file_hint *hint = tn_file_hint(f, key);
    int dir;
    enum tenure_status status = tn_file_open_dir(f, key, &dir, err);

    if (status)
        return status;
    if (dir < 0) {
        forget(hint);
        memset(slot, 0, sizeof *slot);
        return TENURE_OK;
    }
    status = tn_file_locate(f, hint, dir, data, slot, deadline, err);
    close(dir);
    return status;
}
