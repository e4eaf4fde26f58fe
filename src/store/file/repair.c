/*
 * What an operator who repairs sees of a slot that cannot be trusted (repair=yes):
 * its whole file as it is, under a token that only these very bytes have, so
 * that it can be kept, and then replaced if it is still what was kept (C2).
 *
 * If the line in front is sound the token is the one in it, as for those who do
 * not read the data.  Otherwise it is made of the number and a sum of all bytes.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sum.h"
#include "store/file/file.h"

#define KEPT_MAX ((size_t)8 * TENURE_DATA_MAX) /* what is larger is not ours in any way */

/* All of it, into the handle. */
static enum tenure_status read_whole(struct tn_file *f, const char *key, int fd, uint64_t number,
                                     size_t *len, struct tenure_error *err)
{
    static const char other[] = "not a plain file\n";
    struct stat st = {.st_size = sizeof other - 1};

    if (fd >= 0 && fstat(fd, &st) != 0)
        return tn_file_fail(err, errno, "cannot look at a slot of", f->root, key);
    if ((uint64_t)st.st_size > KEPT_MAX)
        return tn_file_corrupt(
            f, key, number, "it is too large to be kept; copy it and cut it to 8 MiB first", err);
    if (!tn_file_scratch(f, (size_t)st.st_size + 1))
        return tenure_fail(err, TENURE_NOMEM, "out of memory for a slot");
    ssize_t got = st.st_size;
    if (fd >= 0)
        got = tn_file_read_all(fd, f->scratch, (size_t)st.st_size);
    else
        memcpy(f->scratch, other, sizeof other - 1);
    if (got < 0)
        return tn_file_fail(err, errno, "cannot read a slot of", f->root, key);
    *len = (size_t)got;
    return TENURE_OK;
}

enum tenure_status tn_file_repair(struct tn_file *f, const char *key, int fd, uint64_t number,
                                  const struct tn_slot *known, struct tn_slot *slot,
                                  struct tenure_error *err)
{
    struct tn_slot s = {.number = number};
    size_t len = 0;
    enum tenure_status status = read_whole(f, key, fd, number, &len, err);

    if (status)
        return status;
    if (known) {
        s = *known;
    } else {
        s.sum = tn_sum(TN_SUM_START, f->scratch, len);
        tn_sum_nonce(s.sum, s.nonce);
    }
    s.len = (uint32_t)len;
    s.damaged = true;
    *slot = s;
    return TENURE_OK;
}
