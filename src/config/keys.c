#include "config/keys.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "config/refs.h"

/* ---- Names --------------------------------------------------------------- */

static const char *skip(const char *p)
{
    while (*p == '_' || *p == '-')
        p++;
    return p;
}

/* Does word begin with the n bytes of name, and where does that end?  NULL: no. */
static const char *begins(const char *word, const char *name, size_t n)
{
    const char *end = name + n;

    for (;;) {
        word = skip(word);
        while (name < end && (*name == '_' || *name == '-'))
            name++;
        if (name == end)
            return word;
        if (tolower((unsigned char)*word) != tolower((unsigned char)*name))
            return NULL;
        word++;
        name++;
    }
}

bool tn_key_same(const char *a, const char *b)
{
    const char *rest = begins(a, b, strlen(b));

    return rest && !*rest;
}

/* The unit that a duration's name may end with; NULL: it is not this key. */
static const char *unit_of(const char *word, const char *name, size_t n, bool timed)
{
    static const struct {
        const char *end, *unit;
    } ends[] = {{"seconds", "s"}, {"secs", "s"}, {"ms", "ms"}, {"millis", "ms"}, {"minutes", "m"}};
    const char *rest = begins(word, name, n);

    if (!rest)
        return NULL;
    if (!*rest)
        return "";
    for (size_t i = 0; timed && i < sizeof ends / sizeof ends[0]; i++) {
        if (tn_key_same(rest, ends[i].end))
            return ends[i].unit;
    }
    return NULL;
}

static const char *match(const struct tn_key *key, const char *word)
{
    bool timed = key->type == TN_KEY_MS || key->type == TN_KEY_NS;
    const char *unit = unit_of(word, key->name, strlen(key->name), timed);

    for (const char *p = key->also; !unit && p && *p;) {
        size_t n = strcspn(p, " ");

        unit = unit_of(word, p, n, timed);
        p += n + (p[n] == ' ');
    }
    return unit;
}

/* ---- Did you mean? ------------------------------------------------------- */

#define WORD_MAX_BYTES 40

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;

    return least < c ? least : c;
}

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* How many letters to change, add or drop, or neighbours to exchange. */
static unsigned distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned d[WORD_MAX_BYTES + 1][WORD_MAX_BYTES + 1];

    if (a_len > WORD_MAX_BYTES || b_len > WORD_MAX_BYTES)
        return WORD_MAX_BYTES;
    for (unsigned i = 0; i <= a_len; i++) {
        for (unsigned j = 0; j <= b_len; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] =
                min3(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + !same(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]) &&
                d[i][j] > d[i - 2][j - 2] + 1)
                d[i][j] = d[i - 2][j - 2] + 1;
        }
    }
    return d[a_len][b_len];
}

const char *tn_did_you_mean(const char *word, const char *list, char *out, size_t size)
{
    size_t len = strlen(word), best_len = 0;
    unsigned best = len < 5 ? 1 : len < 10 ? 2 : 3;
    const char *found = NULL;

    for (const char *p = list; *p;) {
        size_t n = strcspn(p, " ");
        unsigned far = distance(word, len, p, n);

        if (far <= best && (!found || far < best)) {
            best = far;
            found = p;
            best_len = n;
        }
        p += n + (p[n] == ' ');
    }
    out[0] = '\0';
    if (found)
        snprintf(out, size, " (did you mean '%.*s'?)", (int)best_len, found);
    return out;
}

static void unknown(struct tn_reader *r, const struct tn_yaml *node, const char *path,
                    const struct tn_key *keys)
{
    char names[1600] = "", canon[700] = "", hint[96];

    for (const struct tn_key *k = keys; k->name; k++) {
        size_t n = strlen(names), c = strlen(canon);

        snprintf(names + n, sizeof names - n, "%s%s%s%s", n ? " " : "", k->name, k->also ? " " : "",
                 k->also ? k->also : "");
        snprintf(canon + c, sizeof canon - c, "%s%s", c ? ", " : "", k->name);
    }
    tn_did_you_mean(node->key, names, hint, sizeof hint);
    bool few = strlen(canon) < 120; /* a list that can be taken in at a glance */
    tn_complain(r, node->key_line, "%s%s'%.60s' is not a key here%s%s", path, *path ? ": " : "",
                node->key,
                hint[0] ? hint
                : few   ? "; there are: "
                        : "; tenure.yaml(5) lists them",
                !hint[0] && few ? canon : "");
}

/* ---- Values -------------------------------------------------------------- */

/* A whole number, and nothing behind it. */
static bool whole(const char *text, int64_t *out)
{
    char *end;

    if (!isdigit((unsigned char)text[text[0] == '-' || text[0] == '+']))
        return false;
    long long n = strtoll(text, &end, 10);
    *out = n;
    return !*end && n < INT64_MAX && n > INT64_MIN;
}

static bool duration(struct tn_reader *r, unsigned line, const char *path, const char *text,
                     const char *unit, int64_t *ns)
{
    char joined[64];
    int64_t n;
    bool bare = whole(text, &n);

    if (bare && n < 0) {
        tn_complain(r, line, "%s: '%.40s': a duration cannot be negative", path, text);
        return false;
    }
    if (bare && !*unit && n != 0) {
        tn_complain(r, line, "%s: '%.40s' has no unit: write %.40ss if seconds are meant", path,
                    text, text);
        return false;
    }
    snprintf(joined, sizeof joined, "%.40s%s", text, bare && n != 0 ? unit : "");
    if (strlen(text) > 40 || !tn_duration_parse(joined, ns)) {
        tn_complain(r, line,
                    "%s: '%.40s' is not a duration: write a number and ms, s, m, h or d, as in "
                    "15s, 500ms or 2m",
                    path, text);
        return false;
    }
    return true;
}

static bool take_duration(struct tn_reader *r, unsigned line, const char *path, const char *text,
                          const char *unit, const struct tn_key *key, void *at)
{
    int64_t ns, value;

    if (!duration(r, line, path, text, unit, &ns))
        return false;
    if (key->type == TN_KEY_NS) {
        value = ns;
    } else if (ns == 0 || ns % 1000000 != 0) {
        tn_complain(r, line, "%s: '%.40s': give whole milliseconds, at least 1ms", path, text);
        return false;
    } else {
        value = ns / 1000000;
    }
    memcpy(at, &value, sizeof value);
    return true;
}

static bool take_int(struct tn_reader *r, unsigned line, const char *path, const char *text,
                     const struct tn_key *key, void *at)
{
    int64_t n;

    if (!whole(text, &n) || n < key->least || n > key->most) {
        tn_complain(r, line, "%s: '%.40s': give a number from %" PRId64 " to %" PRId64, path, text,
                    key->least, key->most);
        return false;
    }
    memcpy(at, &n, sizeof n);
    return true;
}

static bool one_of(const char *text, const char *const *words)
{
    for (; *words; words++) {
        if (strcasecmp(text, *words) == 0)
            return true;
    }
    return false;
}

static bool take_bool(struct tn_reader *r, unsigned line, const char *path, const char *text,
                      const struct tn_key *key, void *at)
{
    static const char *const yes[] = {"true", "yes", "on", NULL};
    static const char *const no[] = {"false", "no", "off", NULL};
    bool value = one_of(text, yes);

    if (!value && !one_of(text, no)) {
        tn_complain(r, line, "%s: '%.40s': give true or false", path, text);
        return false;
    }
    if (!value && key->type == TN_KEY_YES) {
        tn_complain(r, line, "%s: false is not supported: %s; remove the line", path, key->note);
        return false;
    }
    memcpy(at, &value, sizeof value);
    return true;
}

static bool take_word(struct tn_reader *r, unsigned line, const char *path, const char *text,
                      const struct tn_key *key, void *at)
{
    char list[200] = "", spaced[200] = "", hint[96];

    for (int i = 0; key->words[i]; i++) {
        size_t n = strlen(list);

        if (tn_key_same(text, key->words[i])) {
            memcpy(at, &i, sizeof i);
            return true;
        }
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", key->words[i]);
        n = strlen(spaced);
        snprintf(spaced + n, sizeof spaced - n, "%s%s", i ? " " : "", key->words[i]);
    }
    tn_complain(r, line, "%s: '%.40s': give one of %s%s", path, text, list,
                tn_did_you_mean(text, spaced, hint, sizeof hint));
    return false;
}

static bool take_signal(struct tn_reader *r, unsigned line, const char *path, const char *text,
                        void *at)
{
    const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;

    for (int i = 1; i < 32; i++) {
        const char *abbrev = sigabbrev_np(i);

        if (abbrev && strcmp(abbrev, name) == 0 && i != SIGKILL && i != SIGSTOP) {
            memcpy(at, &i, sizeof i);
            return true;
        }
    }
    tn_complain(r, line, "%s: '%.40s': give a name such as TERM, INT or USR1", path, text);
    return false;
}

static bool take_percent(struct tn_reader *r, unsigned line, const char *path, const char *text,
                         void *at)
{
    char *end;
    double percent = isdigit((unsigned char)text[0]) ? strtod(text, &end) : -1;

    if (percent < 0.0001 || percent > 50 || strcmp(end, "%") != 0) {
        tn_complain(r, line, "%s: '%.40s': give a share such as 10%%, at most 50%%", path, text);
        return false;
    }
    uint32_t ppm = (uint32_t)(percent * 10000 + 0.5);
    memcpy(at, &ppm, sizeof ppm);
    return true;
}

static bool take_plain(struct tn_reader *r, unsigned line, const char *path, const char *text,
                       const char *unit, const struct tn_key *key, void *at)
{
    switch (key->type) {
    case TN_KEY_MS:
    case TN_KEY_NS:
        return take_duration(r, line, path, text, unit, key, at);
    case TN_KEY_INT:
        return take_int(r, line, path, text, key, at);
    case TN_KEY_BOOL:
    case TN_KEY_YES:
        return take_bool(r, line, path, text, key, at);
    case TN_KEY_WORD:
        return take_word(r, line, path, text, key, at);
    case TN_KEY_SIGNAL:
        return take_signal(r, line, path, text, at);
    case TN_KEY_PERCENT:
        return take_percent(r, line, path, text, at);
    default:
        return false;
    }
}

static bool take_value(struct tn_reader *r, const struct tn_yaml *node, const char *path,
                       const char *unit, const struct tn_key *key, void *at)
{
    struct tn_text text = {0};

    if (key->type == TN_KEY_TREE) {
        memcpy(at, &node, sizeof node);
        return true;
    }
    if (node->kind != TN_YAML_VALUE) {
        tn_complain(r, node->line, "%s: one value belongs here, not a %s", path,
                    node->kind == TN_YAML_LIST ? "list" : "mapping");
        return false;
    }
    if (!node->text[0] && !node->quoted) {
        tn_complain(r, node->line, "%s: no value; give one, or remove the line", path);
        return false;
    }
    if (key->type == TN_KEY_COMMAND)
        text = (struct tn_text){node->text, node->text};
    else if (key->type == TN_KEY_SECRET && !tn_refs_secret(r, node->line, path, node->text, &text))
        return false;
    else if (key->type != TN_KEY_SECRET && !tn_refs_expand(r, node->line, path, node->text, &text))
        return false;
    if (key->type == TN_KEY_TEXT || key->type == TN_KEY_SECRET || key->type == TN_KEY_COMMAND) {
        if (text.text[0]) /* "" is as good as nothing: the default */
            memcpy(at, &text, sizeof text);
        return true;
    }
    return take_plain(r, node->line, path, text.text, unit, key, at);
}

bool tn_key_take(struct tn_reader *r, const struct tn_yaml *node, const char *path,
                 const struct tn_key *key, void *into)
{
    return take_value(r, node, path, "", key, (char *)into + key->at);
}

/* ---- Tables -------------------------------------------------------------- */

static void take_key(struct tn_reader *r, const struct tn_yaml *node, const char *path,
                     const struct tn_key *keys, struct tn_seen *seen, void *into)
{
    char full[200];

    for (unsigned i = 0; keys[i].name; i++) {
        const char *unit = match(&keys[i], node->key);

        if (!unit)
            continue;
        snprintf(full, sizeof full, "%.100s%s%.80s", path, *path ? "." : "", node->key);
        if (seen->node[i]) {
            tn_complain(r, node->key_line, "%s: given twice, first on line %u as '%.60s'", full,
                        seen->node[i]->key_line, seen->node[i]->key);
            return;
        }
        seen->node[i] = node;
        take_value(r, node, full, unit, &keys[i], (char *)into + keys[i].at);
        return;
    }
    unknown(r, node, path, keys);
}

void tn_keys_take(struct tn_reader *r, const struct tn_yaml *map, const char *path,
                  const struct tn_key *keys, struct tn_seen *seen, void *into)
{
    if (map->kind == TN_YAML_VALUE && !map->text[0] && !map->quoted)
        return; /* a section with everything commented out */
    if (map->kind != TN_YAML_MAP) {
        tn_complain(r, map->line, "%s%skeys belong here ('key: value'), not a %s", path,
                    *path ? ": " : "", map->kind == TN_YAML_LIST ? "list" : "single value");
        return;
    }
    for (const struct tn_yaml *node = map->first; node; node = node->next)
        take_key(r, node, path, keys, seen, into);
}

unsigned tn_keys_line(const struct tn_key *keys, const struct tn_seen *seen, size_t at,
                      unsigned or_line)
{
    for (unsigned i = 0; keys[i].name; i++) {
        if (keys[i].at == at && seen->node[i])
            return seen->node[i]->key_line;
    }
    return or_line;
}
