/*
 * Removing what is not needed any more.
 *
 * Slots: from the lowest up, a few at each swap, never one of the highest
 * eight, and only those that were seen superseded for the whole retention on
 * CLOCK_BOOTTIME: the hint notes that slot s was current at time t, and when
 * the retention has passed since t, everything below s may go.  File times are
 * not asked, because the wall clock may step.  The note is left in the
 * directory as well, under the name of the clock it was read from, so that
 * programs that live shorter than the retention clean up for each other.
 *
 * Temporary files: by age, as the file system's own clock tells it.  That may
 * be wrong without harm: a temporary file that is gone makes its link fail.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/boot.h"
#include "store/file/file.h"

#define STEP       4     /* slots removed at a swap, at most */
#define TEMP_AGE_S 600   /* nobody writes one slot that long */
#define NOTE_AGE_S 86400 /* a clock that has not cleaned up for a day has stopped */
#define NOTE       ".seen-"

/* ---- The note ------------------------------------------------------------ */

/* false: the clock has no name, so nobody could make use of a note. */
static bool note_name(struct tn_file *f, char name[32])
{
    if (!f->clock_asked)
        tn_boot_clock(f->clock);
    f->clock_asked = true;
    snprintf(name, 32, NOTE "%s", f->clock);
    return f->clock[0] != '\0';
}

/* What a program of this boot has noted; false if there is nothing useful. */
static bool load_note(struct tn_file *f, struct tn_file_hint *hint, int dir, uint64_t current)
{
    char name[32], text[64] = "", extra;
    uint64_t number;
    int64_t ns;

    if (!note_name(f, name))
        return false;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0 || text[n - 1] != '\n' ||
        sscanf(text, "slot %" SCNu64 " at %" SCNd64 "%c%c", &number, &ns, &extra, &extra) != 3)
        return false;
    /* A note from the future, or about slots that are not there, is about another world. */
    if (number == 0 || number > current || ns <= 0 || ns > tenure_now())
        return false;
    hint->seen_number = number;
    hint->seen_ns = ns;
    return true;
}

/* Note that `current` is the highest slot now.  Not flushed: losing it costs nothing. */
static void make_note(struct tn_file *f, struct tn_file_hint *hint, int dir, uint64_t current)
{
    struct tn_file_temp temp = {.fd = -1};
    struct tenure_error ignored;
    char name[32], text[64], path[PATH_MAX];

    hint->seen_number = current;
    hint->seen_ns = tenure_now();
    if (!note_name(f, name))
        return;
    int n =
        snprintf(text, sizeof text, "slot %" PRIu64 " at %" PRId64 "\n", current, hint->seen_ns);
    if (tn_file_temp_write(f, hint->nonce, text, (size_t)n, NULL, 0, &temp, &ignored))
        return;
    if (tn_file_path(f, temp.name, path) && renameat(AT_FDCWD, path, dir, name) == 0)
        temp.name[0] = '\0';
    tn_file_temp_remove(f, &temp);
}

/* ---- By age -------------------------------------------------------------- */

/* Remove plain files whose name begins with prefix and that were last written
 * age_s seconds before `now_s`, as the file system counts. */
static void sweep(int dir, const char *prefix, int64_t now_s, int64_t age_s)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    struct stat st;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(d))) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            now_s - (int64_t)st.st_mtime > age_s)
            unlinkat(dir, entry->d_name, 0);
    }
    closedir(d);
}

/* The file system's time: that of a file which was written just now. */
static bool fs_time(struct tn_file *f, int64_t *now_s)
{
    static const uint8_t zero[TENURE_NONCE_SIZE];
    struct tn_file_temp temp = {.fd = -1};
    struct tenure_error ignored;
    struct stat st;

    if (tn_file_temp_write(f, zero, "", 0, NULL, 0, &temp, &ignored))
        return false;
    bool told = fstat(temp.fd, &st) == 0;
    tn_file_temp_remove(f, &temp);
    *now_s = told ? (int64_t)st.st_mtime : 0;
    return told;
}

void tn_file_clean_temps(struct tn_file *f)
{
    struct tenure_error ignored;
    int64_t now_s;
    int dir;

    if (tn_file_open_dir(f, TN_FILE_TMP, &dir, &ignored) || dir < 0)
        return;
    if (fs_time(f, &now_s))
        sweep(dir, "", now_s, TEMP_AGE_S);
    close(dir);
}

/* ---- Slots --------------------------------------------------------------- */

/* The lowest slot in (low, floor) that is there, if low is not: others clean up
 * too, and all go from the lowest up. */
static uint64_t next_low(int dir, uint64_t low, uint64_t floor)
{
    while (floor - low > 1) {
        uint64_t middle = low + (floor - low) / 2;
        int there = tn_file_has_slot(dir, middle);

        if (there < 0)
            return low;
        if (there)
            floor = middle;
        else
            low = middle;
    }
    return floor;
}

/* Remove a few slots below floor.  true: none is left there. */
static bool remove_some(struct tn_file_hint *hint, int dir, uint64_t floor)
{
    char name[TN_SLOT_NAME + 1];

    for (int i = 0; i < STEP && hint->low < floor; i++) {
        tn_slot_name(hint->low, name);
        if (unlinkat(dir, name, 0) == 0)
            hint->low++;
        else if (errno == ENOENT)
            hint->low = next_low(dir, hint->low, floor);
        else
            return false; /* never the next one before this one (S2) */
    }
    return hint->low >= floor;
}

void tn_file_clean(struct tn_file *f, struct tn_file_hint *hint, int dir, uint64_t current)
{
    struct tn_file_listing listing;
    int64_t now_s;

    if (hint->low == 0 && tn_file_list_slots(dir, &listing))
        hint->low = listing.min;
    if (hint->low == 0 || current < hint->low + 2 * TN_FILE_KEEP)
        return;
    if (hint->seen_ns == 0 && !load_note(f, hint, dir, current))
        make_note(f, hint, dir, current);
    if (tenure_now() - hint->seen_ns < f->marker.retain_ns)
        return;
    uint64_t floor = current - TN_FILE_KEEP + 1;
    if (floor > hint->seen_number)
        floor = hint->seen_number;
    if (!remove_some(hint, dir, floor))
        return;
    make_note(f, hint, dir, current);
    tn_file_clean_temps(f);
    if (fs_time(f, &now_s))
        sweep(dir, NOTE, now_s, NOTE_AGE_S);
}
