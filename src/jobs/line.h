/*
 * jobs/line.h - the first line of a record: its kind, its format, and fields between single spaces.
 *
 *     tenure-KIND FORMAT FIELD FIELD ...\n<the rest>
 *
 * A reader of format 1 refuses a higher one with words, and everything else as CORRUPT.
 */
#ifndef TN_JOBS_LINE_H
#define TN_JOBS_LINE_H

#include "tenure/store.h"

#define TN_JOBS_FORMAT 1 /* the highest that this build reads, and writes */
#define TN_LINE_MAX    512

struct tn_line {
    char text[TN_LINE_MAX + 1];
    const char *at;             /* what is not taken yet */
    bool bad;                   /* a field was not what was asked for */
    const unsigned char *after; /* behind the line: points into the value */
    size_t after_len;
};

/* Take the line apart.  UNSUPPORTED: a higher format.  CORRUPT: not a record of this kind. */
enum tenure_status tn_line_begin(const void *data, size_t len, const char *kind,
                                 struct tn_line *line, struct tenure_error *err);
/* The next field: a number up to max; n bytes in hex; one of the letters; all that is left. */
uint64_t tn_line_number(struct tn_line *line, uint64_t max);
void tn_line_hex(struct tn_line *line, uint8_t *bytes, size_t n);
char tn_line_letter(struct tn_line *line, const char *letters);
void tn_line_rest(struct tn_line *line, char *out, size_t size);
/* Nothing is left, and every field was what it should be: else CORRUPT, with words. */
enum tenure_status tn_line_end(const struct tn_line *line, const char *kind,
                               struct tenure_error *err);

#endif
