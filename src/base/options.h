/*
 * base/options.h - what may stand behind the '?' of a store URL: one table a back end.
 *
 * A row says what an option is called, what it takes, within which bounds, what it is when the URL
 * does not say, and what it is for.  Reading a URL, refusing what is wrong in it and the list that
 * `tenure store options` prints all come from the rows.
 */
#ifndef TN_BASE_OPTIONS_H
#define TN_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/url.h"

enum tn_option_kind {
    TN_OPTION_TEXT,   /* const char *: as it is; lives as long as the URL */
    TN_OPTION_SWITCH, /* bool: the first of two words is false, the second true */
    TN_OPTION_WORD,   /* int: which of the words, from 0 */
    TN_OPTION_NUMBER, /* unsigned: from min to max */
    TN_OPTION_TIME,   /* int64_t: nanoseconds from min to max */
    TN_OPTION_OWN,    /* read() does it */
};

struct tn_option {
    const char *name; /* NULL: the table ends */
    enum tn_option_kind kind;
    size_t at;         /* offsetof() the member of the configuration that receives it */
    const char *words; /* "no|yes", of SWITCH and WORD */
    int64_t min, max;  /* of NUMBER and TIME */
    /* Of OWN: read the text into the configuration; false if it is not what form says. */
    bool (*read)(const char *text, void *conf);
    const char *form;  /* of OWN and TEXT, for people: "a file" */
    const char *usual; /* what it is when the URL does not say; NULL: the member stays as it is */
    const char *only;  /* it is for schemes that contain this; NULL: for all */
    const char *help;
};

/* Rows, for the members of a table. */
#define TN_TEXT_OPTION(name, at, form, only, help)                                                 \
    {                                                                                              \
        name, TN_OPTION_TEXT, at, NULL, 0, 0, NULL, form, NULL, only, help                         \
    }
#define TN_SWITCH_OPTION(name, at, words, usual, only, help)                                       \
    {                                                                                              \
        name, TN_OPTION_SWITCH, at, words, 0, 0, NULL, NULL, usual, only, help                     \
    }
#define TN_WORD_OPTION(name, at, words, usual, only, help)                                         \
    {                                                                                              \
        name, TN_OPTION_WORD, at, words, 0, 0, NULL, NULL, usual, only, help                       \
    }
#define TN_NUMBER_OPTION(name, at, min, max, usual, only, help)                                    \
    {                                                                                              \
        name, TN_OPTION_NUMBER, at, NULL, min, max, NULL, NULL, usual, only, help                  \
    }
#define TN_TIME_OPTION(name, at, min, max, usual, only, help)                                      \
    {                                                                                              \
        name, TN_OPTION_TIME, at, NULL, min, max, NULL, NULL, usual, only, help                    \
    }
#define TN_OWN_OPTION(name, read, form, usual, only, help)                                         \
    {                                                                                              \
        name, TN_OPTION_OWN, 0, NULL, 0, 0, read, form, usual, only, help                          \
    }
/* What every back end has that can show damaged registers; see store/raw.h. */
#define TN_REPAIR_OPTION(at)                                                                       \
    TN_SWITCH_OPTION("repair", at, "no|yes", "no", NULL,                                           \
                     "read damaged registers as they are, and allow replacing them")

/*
 * Read every option of url into conf.  CONFIG names the option, what it takes and what was given.
 * An option that no row knows is CONFIG, unless it has been read before (tn_url_param()).
 */
enum tenure_status tn_options_read(const struct tn_option *rows, struct tn_url *url, void *conf,
                                   struct tenure_error *err);
/* The same for one option whose text stands elsewhere in the URL. */
enum tenure_status tn_option_read(const struct tn_option *row, const char *scheme, const char *text,
                                  void *conf, struct tenure_error *err);
/* The row of that name (len bytes); NULL if there is none. */
const struct tn_option *tn_option_find(const struct tn_option *rows, const char *name, size_t len);
/* The table for people: one option a line. */
void tn_options_print(const struct tn_option *rows, const char *scheme, FILE *to);

#endif
