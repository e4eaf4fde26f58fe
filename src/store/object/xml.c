#include "store/object/xml.h"

#include <stdlib.h>
#include <string.h>

/* The next "<NAME" or "</NAME" that is all of a tag's name. */
static const char *find_tag(const struct tn_xml *in, const char *name, bool closing)
{
    size_t n = strlen(name);
    const char *p = in->at;

    while (p < in->end && (p = memchr(p, '<', (size_t)(in->end - p)))) {
        const char *word = p + 1;

        if (closing && word < in->end && *word == '/')
            word++;
        else if (closing)
            word = in->end;
        if ((size_t)(in->end - word) > n && strncmp(word, name, n) == 0 &&
            strchr("> \t\r\n/", word[n]))
            return p;
        p++;
    }
    return NULL;
}

bool tn_xml_next(struct tn_xml *rest, const char *name, struct tn_xml *inside)
{
    const char *tag = find_tag(rest, name, false);
    const char *body = tag ? memchr(tag, '>', (size_t)(rest->end - tag)) : NULL;

    if (!body)
        return false;
    *inside = (struct tn_xml){body + 1, body + 1};
    if (body[-1] != '/') {
        struct tn_xml behind = {body + 1, rest->end};
        const char *close = find_tag(&behind, name, true);

        if (!close)
            return false;
        inside->end = close;
    }
    rest->at = inside->end;
    return true;
}

/* One character of text at *p, which goes on behind it.  -1: a name may not hold it. */
static int next_char(const char **p, const char *end)
{
    static const struct {
        const char *name;
        char c;
    } names[] = {{"&quot;", '"'}, {"&apos;", '\''}, {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}};
    const char *at = *p;

    *p = at + 1;
    if (*at != '&')
        return (unsigned char)*at;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i].name);

        if ((size_t)(end - at) >= n && strncmp(at, names[i].name, n) == 0) {
            *p = at + n;
            return names[i].c;
        }
    }
    if (end - at > 3 && at[1] == '#') {
        char digits[8] = "", *rest;
        const char *close = memchr(at, ';', (size_t)(end - at));
        size_t n = close ? (size_t)(close - at - 2) : sizeof digits;
        long code;

        if (n == 0 || n >= sizeof digits)
            return -1;
        memcpy(digits, at + 2, n);
        code = strtol(digits + (*digits == 'x'), &rest, *digits == 'x' ? 16 : 10);
        *p = close + 1;
        return *rest == '\0' && code > 0 && code < 128 ? (int)code : -1;
    }
    return -1;
}

bool tn_xml_text(struct tn_xml in, const char *name, char *out, size_t size)
{
    struct tn_xml inside;
    size_t n = 0;

    if (!tn_xml_next(&in, name, &inside))
        return false;
    for (const char *p = inside.at; p < inside.end;) {
        int c = next_char(&p, inside.end);

        if (c <= 0 || n + 1 >= size) {
            out[n] = '\0';
            return false;
        }
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return true;
}
