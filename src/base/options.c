#include "base/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"

#define FORM_MAX 160

static bool has_scheme(const struct tn_option *row, const char *scheme)
{
    return !row->only || strstr(scheme, row->only);
}

/* Which of "one|two|three"; -1 for none. */
static int find_word(const char *words, const char *text)
{
    for (int i = 0;; i++) {
        size_t n = strcspn(words, "|");

        if (strlen(text) == n && memcmp(words, text, n) == 0)
            return i;
        if (!words[n])
            return -1;
        words += n + 1;
    }
}

static bool read_number(const char *text, int64_t *number)
{
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return !errno && !*end;
}

static bool read_value(const struct tn_option *row, const char *text, void *conf)
{
    void *to = (char *)conf + row->at;
    int64_t number = -1;

    switch (row->kind) {
    case TN_OPTION_TEXT:
        *(const char **)to = text;
        return true;
    case TN_OPTION_SWITCH:
    case TN_OPTION_WORD:
        number = find_word(row->words, text);
        if (number < 0)
            return false;
        if (row->kind == TN_OPTION_WORD)
            *(int *)to = (int)number;
        else
            *(bool *)to = number == 1;
        return true;
    case TN_OPTION_NUMBER:
        if (!read_number(text, &number) || number < row->min || number > row->max)
            return false;
        *(unsigned *)to = (unsigned)number;
        return true;
    case TN_OPTION_TIME:
        if (!tn_duration_parse(text, &number) || number < row->min || number > row->max)
            return false;
        *(int64_t *)to = number;
        return true;
    case TN_OPTION_OWN:
        return row->read(text, conf);
    }
    return false;
}

/* What an option takes, for people. */
static void describe(const struct tn_option *row, char out[FORM_MAX])
{
    char from[TN_DURATION_TEXT], to[TN_DURATION_TEXT];
    size_t used = 0;

    switch (row->kind) {
    case TN_OPTION_SWITCH:
    case TN_OPTION_WORD:
        for (const char *w = row->words; *w && used < FORM_MAX - 1;) {
            size_t n = strcspn(w, "|");

            used += (size_t)snprintf(out + used, FORM_MAX - used, "%s%.*s",
                                     w == row->words ? ""
                                     : w[n]          ? ", "
                                                     : " or ",
                                     (int)n, w);
            w += n + (w[n] == '|');
        }
        return;
    case TN_OPTION_NUMBER:
        snprintf(out, FORM_MAX, "a number from %lld to %lld", (long long)row->min,
                 (long long)row->max);
        return;
    case TN_OPTION_TIME:
        tn_duration_format(row->min, from);
        tn_duration_format(row->max, to);
        snprintf(out, FORM_MAX, "a time from %s to %s", from, to);
        return;
    default:
        snprintf(out, FORM_MAX, "%s", row->form ? row->form : "text");
    }
}

enum tenure_status tn_option_read(const struct tn_option *row, const char *scheme, const char *text,
                                  void *conf, struct tenure_error *err)
{
    char form[FORM_MAX];

    if (read_value(row, text, conf))
        return TENURE_OK;
    describe(row, form);
    return tenure_fail(err, TENURE_CONFIG, "%s: %s must be %s; the URL says %s=%.40s", scheme,
                       row->name, form, row->name, text);
}

const struct tn_option *tn_option_find(const struct tn_option *rows, const char *name, size_t len)
{
    for (; rows->name; rows++) {
        if (strlen(rows->name) == len && memcmp(rows->name, name, len) == 0)
            return rows;
    }
    return NULL;
}

/* "a, b, c; with etcds: d, e" */
static void list_names(const struct tn_option *rows, const char *scheme, FILE *to)
{
    const char *last = NULL;
    bool some = false;

    for (const struct tn_option *row = rows; row->name; row++) {
        if (!has_scheme(row, scheme))
            continue;
        fprintf(to, "%s%s", some ? ", " : "", row->name);
        some = true;
    }
    for (const struct tn_option *row = rows; row->name; row++) {
        if (has_scheme(row, scheme))
            continue;
        if (!last || strcmp(last, row->only) != 0)
            fprintf(to, "; with %s: %s", row->only, row->name);
        else
            fprintf(to, ", %s", row->name);
        last = row->only;
    }
    if (!some && !last)
        fputs("none", to);
}

static enum tenure_status refuse_unknown(const struct tn_option *rows, const struct tn_url *url,
                                         struct tenure_error *err)
{
    for (unsigned i = 0; i < url->n_params; i++) {
        if (url->params[i].used)
            continue;
        char names[TENURE_ERROR_TEXT_MAX + 1] = "";
        FILE *to = fmemopen(names, sizeof names, "w");

        if (to) {
            list_names(rows, url->scheme, to);
            fclose(to);
        }
        return tenure_fail(err, TENURE_CONFIG,
                           "%s: does not know the parameter '%.40s'; it knows: %s", url->scheme,
                           url->params[i].name, names);
    }
    return TENURE_OK;
}

enum tenure_status tn_options_read(const struct tn_option *rows, struct tn_url *url, void *conf,
                                   struct tenure_error *err)
{
    for (const struct tn_option *row = rows; row->name; row++) {
        const char *given = has_scheme(row, url->scheme) ? tn_url_param(url, row->name) : NULL;
        const char *text = given ? given : row->usual;
        enum tenure_status status =
            text ? tn_option_read(row, url->scheme, text, conf, err) : TENURE_OK;

        if (status)
            return status;
    }
    return refuse_unknown(rows, url, err);
}

void tn_options_print(const struct tn_option *rows, const char *scheme, FILE *to)
{
    for (const struct tn_option *row = rows; row->name; row++) {
        char form[FORM_MAX];

        if (!has_scheme(row, scheme))
            continue;
        describe(row, form);
        fprintf(to, "  %-24s%s", row->name, form);
        if (row->usual)
            fprintf(to, "; default: %s", row->usual);
        fprintf(to, "\n%26s%s\n", "", row->help);
    }
}
