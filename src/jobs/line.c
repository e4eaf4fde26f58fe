#include "jobs/line.h"

#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/hex.h"
#include "base/text.h"

enum tenure_status tn_line_begin(const void *data, size_t len, const char *kind,
                                 struct tn_line *line, struct tenure_error *err)
{
    size_t most = len < TN_LINE_MAX ? len : TN_LINE_MAX, n = strlen(kind);
    const unsigned char *end = most ? memchr(data, '\n', most) : NULL;

    line->bad = false;
    if (!end)
        return tenure_fail(err, TENURE_CORRUPT, "not a record of %s: it has no first line", kind);
    most = (size_t)(end - (const unsigned char *)data);
    memcpy(line->text, data, most);
    line->text[most] = '\0';
    line->after = end + 1;
    line->after_len = len - (size_t)(line->after - (const unsigned char *)data);
    line->at = line->text + n + 1;
    if (strncmp(line->text, kind, n) != 0 || line->text[n] != ' ' || !tn_text_is_utf8(line->text))
        return tenure_fail(err, TENURE_CORRUPT, "not a record of %s", kind);
    uint64_t format = tn_line_number(line, INT64_MAX);
    if (line->bad || format == 0)
        return tenure_fail(err, TENURE_CORRUPT, "%s: it has no format", kind);
    if (format > TN_JOBS_FORMAT)
        return tenure_fail(err, TENURE_UNSUPPORTED,
                           "%s: format %llu is newer than this build reads (%d): upgrade tenure",
                           kind, (unsigned long long)format, TN_JOBS_FORMAT);
    return TENURE_OK;
}

/* A field has been taken: one space or the end follows. */
static void step_over(struct tn_line *line)
{
    if (*line->at == ' ')
        line->at++;
    else if (*line->at)
        line->bad = true;
}

uint64_t tn_line_number(struct tn_line *line, uint64_t max)
{
    int64_t number = 0;

    if (line->bad || !tn_take_number(&line->at, &number) || (uint64_t)number > max) {
        line->bad = true;
        return 0;
    }
    step_over(line);
    return (uint64_t)number;
}

void tn_line_hex(struct tn_line *line, uint8_t *bytes, size_t n)
{
    char digits[2 * TENURE_NONCE_SIZE + 1];

    if (line->bad || 2 * n >= sizeof digits || strnlen(line->at, 2 * n) < 2 * n) {
        line->bad = true;
        return;
    }
    memcpy(digits, line->at, 2 * n);
    digits[2 * n] = '\0';
    line->bad = !tn_hex_decode(digits, bytes, n);
    line->at += 2 * n;
    step_over(line);
}

char tn_line_letter(struct tn_line *line, const char *letters)
{
    char letter = *line->at;

    if (line->bad || !letter || !strchr(letters, letter)) {
        line->bad = true;
        return '\0';
    }
    line->at++;
    step_over(line);
    return letter;
}

void tn_line_rest(struct tn_line *line, char *out, size_t size)
{
    size_t n = strlen(line->at);

    if (line->bad || n >= size) {
        line->bad = true;
        return;
    }
    memcpy(out, line->at, n + 1);
    for (const char *p = out; *p; p++)
        line->bad |= tn_text_control(p) > 0;
    line->at += n;
}

enum tenure_status tn_line_end(const struct tn_line *line, const char *kind,
                               struct tenure_error *err)
{
    return line->bad || *line->at
               ? tenure_fail(err, TENURE_CORRUPT, "%s: its first line is damaged", kind)
               : TENURE_OK;
}
