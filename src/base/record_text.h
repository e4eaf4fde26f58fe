/* base/record_text.h - texts of records in JSON, which others may have written. */
#ifndef TN_BASE_RECORD_TEXT_H
#define TN_BASE_RECORD_TEXT_H

#include <jansson.h>
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

#endif
