/* base/record_text.h - members of records in JSON, which others may have written. */
#ifndef TN_BASE_RECORD_TEXT_H
#define TN_BASE_RECORD_TEXT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* For people and terminals: one line of UTF-8, cut to size.  "" if it is not a string. */
static inline void tn_record_text(const json_t *object, const char *member, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(object, member));

    snprintf(out, size, "%s", text ? text : "");
    tn_text_tame(out, '?');
    memset(out + strlen(out), 0, size - strlen(out)); /* of a character that was cut */
}

/* The text of the same name in a struct. */
#define TN_RECORD_TEXT(object, s, member)                                                          \
    tn_record_text(object, #member, (s)->member, sizeof(s)->member)

/* A number from 1 to max; 0 if it is none. */
static inline uint64_t tn_record_number(const json_t *object, const char *member, int64_t max)
{
    json_int_t n = json_integer_value(json_object_get(object, member));

    return n > 0 && n <= max ? (uint64_t)n : 0;
}

#endif
