/* A file: store in a fresh directory, for the tests of its inside. */
#ifndef TN_FILE_BED_H
#define TN_FILE_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/format.h"
#include "tenure/store.h"

#define S   INT64_C(1000000000)
#define KEY "web/lease"

struct bed {
    char dir[64];  /* a directory of its own */
    char root[96]; /* the store in it */
    tenure_store *store;
    struct tenure_value value;
    struct tenure_error err;
};

static inline int bed_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* Far enough for a machine that is busy with other things. */
static inline int64_t soon(void)
{
    return tenure_now() + 60 * S;
}

static inline tenure_store *bed_open(struct bed *bed, const char *params)
{
    tenure_store *store = NULL;
    char url[256];

    snprintf(url, sizeof url, "file:%s%s", bed->root, params);
    enum tenure_status status = tenure_store_open(url, soon(), &store, &bed->err);
    if (status)
        fail_msg("%s: %s", url, bed->err.text);
    return store;
}

static inline void bed_setup(struct bed *bed, const char *params)
{
    memset(bed, 0, sizeof *bed);
    /* Where flushing costs nothing, if there is such a place. */
    strcpy(bed->dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/tenure-file-XXXXXX"
                                                   : "/tmp/tenure-file-XXXXXX");
    assert_non_null(mkdtemp(bed->dir));
    snprintf(bed->root, sizeof bed->root, "%s/store", bed->dir);
    bed->store = bed_open(bed, params);
}

static inline void bed_teardown(struct bed *bed)
{
    tenure_store_close(bed->store);
    tenure_value_free(&bed->value);
    nftw(bed->dir, bed_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* One swap with text as its data; the answer is in bed->err too. */
static inline struct tenure_swap swap_on(tenure_store *store, struct bed *bed, const char *key,
                                         const struct tenure_token *expect, const char *text)
{
    struct tenure_swap swap = {.key = key, .data = text, .len = strlen(text)};

    if (expect)
        swap.expect = *expect;
    assert_int_equal(tenure_nonce(swap.nonce, NULL), TENURE_OK);
    bed->err.text[0] = '\0';
    tenure_store_swap(store, &swap, soon(), &bed->err);
    return swap;
}

/* Swap from *token, which must succeed and moves on. */
static inline void must_swap(tenure_store *store, struct bed *bed, const char *key,
                             struct tenure_token *token, const char *text)
{
    struct tenure_swap swap = swap_on(store, bed, key, token, text);

    if (swap.status)
        fail_msg("swap of %s: %s", key, bed->err.text);
    *token = swap.token;
}

static inline void must_read(tenure_store *store, struct bed *bed, const char *key)
{
    if (tenure_store_read(store, key, &bed->value, soon(), &bed->err))
        fail_msg("read of %s: %s", key, bed->err.text);
}

/* The register holds text. */
static inline void must_hold(tenure_store *store, struct bed *bed, const char *key,
                             const char *text)
{
    must_read(store, bed, key);
    assert_false(tenure_token_absent(&bed->value.token));
    assert_int_equal(bed->value.len, strlen(text));
    assert_string_equal((char *)bed->value.data, text);
}

static inline void slot_path(const struct bed *bed, const char *key, uint64_t number,
                             char path[256])
{
    char name[TN_SLOT_NAME + 1];

    tn_slot_name(number, name);
    snprintf(path, 256, "%s/%s/%s", bed->root, key, name);
}

static inline bool slot_there(const struct bed *bed, const char *key, uint64_t number)
{
    char path[256];
    struct stat st;

    slot_path(bed, key, number, path);
    return lstat(path, &st) == 0;
}

static inline void slot_remove(const struct bed *bed, const char *key, uint64_t number)
{
    char path[256];

    slot_path(bed, key, number, path);
    assert_int_equal(unlink(path), 0);
}

static inline void write_file(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

/* A slot that nothing leads to: what a candidate leaves that slept over a clean-up. */
static inline void slot_forge(const struct bed *bed, const char *key, uint64_t number,
                              const char *text)
{
    struct tn_slot slot = {.number = number, .base = 7, .len = (uint32_t)strlen(text)};
    char bytes[TN_SLOT_HEADER + 256], path[256];

    assert_int_equal(tenure_nonce(slot.nonce, NULL), TENURE_OK);
    tn_slot_encode(&slot, text, bytes);
    strcpy(bytes + TN_SLOT_HEADER, text);
    slot_path(bed, key, number, path);
    write_file(path, bytes, TN_SLOT_HEADER + strlen(text));
}

/* How many names in a directory below the root begin with prefix. */
static inline int count_names(const struct bed *bed, const char *below, const char *prefix)
{
    char path[256];
    int n = 0;

    snprintf(path, sizeof path, "%s/%s", bed->root, below);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
             strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    closedir(d);
    return n;
}

#define assert_says(bed, what)                                                                     \
    do {                                                                                           \
        if (!strstr((bed)->err.text, what))                                                        \
            fail_msg("'%s' does not say '%s'", (bed)->err.text, what);                             \
    } while (0)

#endif
