#include "config/refs.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 128

static bool name_char(char c, bool first)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

/* "${NAME}" or "${NAME:-default}" at text: its length, or 0 if it is none. */
static size_t parse(const char *text, char name[NAME_MAX_BYTES], const char **fallback,
                    size_t *fallback_len)
{
    size_t n = 0;
    const char *p = text + 2;

    while (name_char(*p, n == 0) && n < NAME_MAX_BYTES - 1)
        name[n++] = *p++;
    name[n] = '\0';
    *fallback = NULL;
    *fallback_len = 0;
    if (p[0] == ':' && p[1] == '-') {
        *fallback = p += 2;
        *fallback_len = strcspn(p, "}");
        p += *fallback_len;
    }
    return n > 0 && *p == '}' ? (size_t)(p + 1 - text) : 0;
}

static bool put(char *out, size_t *n, const char *text, size_t len)
{
    if (*n + len > TN_CONFIG_TEXT_MAX)
        return false;
    memcpy(out + *n, text, len);
    *n += len;
    return true;
}

/* One reference at *at, into out.  0: with a complaint. */
static size_t follow(struct tn_reader *r, unsigned line, const char *path, const char *at,
                     char *out, size_t *n)
{
    char name[NAME_MAX_BYTES];
    const char *fallback;
    size_t fallback_len, len = parse(at, name, &fallback, &fallback_len);

    if (len == 0) {
        tn_complain(r, line,
                    "%s: '${' begins a reference: write ${NAME} or ${NAME:-default}, or $${ for "
                    "the characters themselves",
                    path);
        return 0;
    }
    const char *value = r->world->variable(r->world->arg, name);
    if (fallback && (!value || !*value)) {
        value = fallback;
    } else if (!value) {
        tn_complain(r, line, "%s: the variable %s is not set: set it, or write ${%s:-default}",
                    path, name, name);
        return 0;
    } else {
        fallback_len = strlen(value);
    }
    if (!put(out, n, value, fallback_len)) {
        tn_complain(r, line, "%s: longer than 4096 bytes with ${%s} put in", path, name);
        return 0;
    }
    return len;
}

bool tn_refs_expand(struct tn_reader *r, unsigned line, const char *path, const char *text,
                    struct tn_text *out)
{
    char buffer[TN_CONFIG_TEXT_MAX + 1] = "";
    size_t n = 0, i = 0, len = strlen(text);
    bool referred = false;

    while (i < len) {
        if (strncmp(text + i, "$${", 3) == 0) {
            i++;
        } else if (strncmp(text + i, "${", 2) == 0) {
            size_t used = follow(r, line, path, text + i, buffer, &n);

            if (used == 0)
                return false;
            referred = true;
            i += used;
            continue;
        }
        buffer[n++] = text[i++]; /* no longer than text itself, unless follow() saw to it */
        if (n >= TN_CONFIG_TEXT_MAX)
            break;
    }
    if (i < len) {
        tn_complain(r, line, "%s: longer than 4096 bytes with its references put in", path);
        return false;
    }
    char *copy = tn_arena_copy(r->arena, buffer, n);
    explicit_bzero(buffer, n);
    if (!copy) {
        r->no_memory = true;
        return false;
    }
    out->text = copy;
    out->shown = referred ? text : copy;
    return true;
}

bool tn_refs_secret(struct tn_reader *r, unsigned line, const char *path, const char *text,
                    struct tn_text *out)
{
    struct tn_text value;

    if (!tn_refs_expand(r, line, path, text, &value))
        return false;
    if (strncmp(value.text, "file:", 5) == 0) {
        struct tenure_error err = {0};
        char *line_text = r->world->file(r->world->arg, value.text + 5, &err);

        if (!line_text) {
            tn_complain(r, line, "%s: %s", path, err.text);
            return false;
        }
        char *copy = tn_arena_copy(r->arena, line_text, strlen(line_text));
        explicit_bzero(line_text, strlen(line_text));
        free(line_text);
        r->no_memory |= !copy;
        out->shown = value.text; /* where it is, with its references put in */
        out->text = copy;
        return copy != NULL;
    }
    out->text = value.text;
    out->shown = "***";
    return true;
}
