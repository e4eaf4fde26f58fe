/* Export and import: a line of JSON a document, lossless. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "cli/state/state.h"

struct port {
    struct cli_state_call *call;
    FILE *out;
    const char *collection;
    unsigned count;
    unsigned damaged;
    bool failed;
};

/* Text as text, anything else in base64: both come back as the same bytes. */
static json_t *text_of(const void *bytes, size_t len, bool *encoded)
{
    json_t *text = json_stringn(bytes, len);
    char *coded;

    *encoded = !text;
    if (text || !(coded = malloc(TN_BASE64_LEN(len) + 1)))
        return text;
    tn_base64_encode(bytes, len, coded);
    text = json_string(coded);
    free(coded);
    return text;
}

const char *cli_state_id_name(const char *id)
{
    json_t *text = json_string(id);

    json_decref(text);
    return text ? "id" : "id_base64";
}

json_t *cli_state_id(const char *id)
{
    bool encoded;

    return text_of(id, strlen(id), &encoded);
}

static bool write_line(void *arg, const char *id, const struct tenure_document *d,
                       const char *damage)
{
    struct port *p = arg;
    bool encoded = false;
    json_t *o, *data;

    if (damage) {
        /* Kept where it is, told with its place; a copy would not be one. */
        if (*id)
            cli_fail(p->call->verb, 0, "%s/%s is damaged and was left out: %s", p->collection, id,
                     damage);
        else
            cli_fail(p->call->verb, 0, "the root of %s is damaged: %s", p->collection, damage);
        p->damaged++;
        return true;
    }
    data = text_of(d->value.data ? (const void *)d->value.data : "", d->value.len, &encoded);
    o = data ? json_pack("{s:s, s:o, s:I, s:I}", "collection", p->collection, cli_state_id_name(id),
                         cli_state_id(id), "epoch", (json_int_t)d->epoch, "seq", (json_int_t)d->seq)
             : NULL;
    p->failed = !o || json_object_set_new(o, encoded ? "data_base64" : "data", data) != 0 ||
                json_dumpf(o, p->out, JSON_COMPACT) != 0 || fputc('\n', p->out) == EOF;
    json_decref(o);
    p->count++;
    return !p->failed;
}

static enum tenure_status write_collection(void *arg, const char *collection,
                                           struct tenure_error *err)
{
    struct port *p = arg;

    p->collection = collection;
    return tenure_state_list(p->call->state, collection, write_line, p, p->call->deadline, err);
}

int cli_state_export(struct cli_state_call *c)
{
    bool to_stdout = !c->file || strcmp(c->file, "-") == 0;
    struct port p = {.call = c, .out = to_stdout ? stdout : fopen(c->file, "wx")};

    if (!p.out)
        return cli_fail(c->verb, CLI_FAILED, "cannot make %s: %s", c->file, strerror(errno));
    int code = cli_state_each(c, NULL, write_collection, &p);
    if (fflush(p.out) != 0 || (!to_stdout && fclose(p.out) != 0))
        p.failed = true;
    if (code == CLI_OK && p.failed)
        code = cli_fail(c->verb, CLI_FAILED, "cannot write %s", to_stdout ? "output" : c->file);
    if (code == CLI_OK)
        fprintf(stderr, "tenure state: exported %u documents\n", p.count);
    if (p.damaged)
        code = cli_fail(c->verb, CLI_FAILED, "%u damaged, left as they are; " CLI_STATE_REPAIR,
                        p.damaged);
    return code;
}

/* A string without a NUL in it; NULL if it is none. */
static const char *plain_text(const json_t *value)
{
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* The id of a line: as it is, or from base64 in `raw`. */
static const char *id_of(const json_t *o, char raw[TENURE_KEY_MAX + 1])
{
    const json_t *coded = json_object_get(o, "id_base64");
    size_t len = json_string_length(coded);

    if (!coded)
        return plain_text(json_object_get(o, "id"));
    if (!json_is_string(coded) || len / 4 * 3 > TENURE_KEY_MAX ||
        !tn_base64_decode(json_string_value(coded), len, raw, &len))
        return NULL;
    raw[len] = '\0';
    return strlen(raw) == len ? raw : NULL;
}

/* One line.  NULL on success, else what is wrong with it. */
static const char *read_line(struct cli_state_call *c, json_t *o, struct tenure_error *err)
{
    const char *collection = plain_text(json_object_get(o, "collection"));
    char raw[TENURE_KEY_MAX + 1];
    const char *id = id_of(o, raw);
    json_t *plain = json_object_get(o, "data"), *coded = json_object_get(o, "data_base64");
    struct tenure_document d = {0};
    size_t len = json_string_length(plain ? plain : coded);
    char *bytes = NULL;
    const char *wrong = NULL;

    if (!collection || !id || !json_is_string(plain ? plain : coded))
        return "it needs collection, id and data";
    bytes = malloc(len + 1);
    if (!bytes)
        return "out of memory";
    if (plain)
        memcpy(bytes, json_string_value(plain), len);
    else if (!tn_base64_decode(json_string_value(coded), len, bytes, &len))
        wrong = "data_base64 is not base64";
    if (!wrong && (tenure_state_load(c->state, collection, id, &d, c->deadline, err) ||
                   tenure_state_edit(c->state, collection, id, &d, bytes, len, c->deadline, err)))
        wrong = err->text;
    tenure_document_free(&d);
    free(bytes);
    return wrong;
}

int cli_state_import(struct cli_state_call *c)
{
    size_t len = 0;
    char *text = cli_state_slurp(c, c->file, &len);
    struct tenure_error err = {0};
    unsigned line = 0, count = 0;
    int code = CLI_OK;

    if (!text)
        return CLI_FAILED;
    for (char *at = text, *next; code == CLI_OK && at < text + len; at = next) {
        char *end = memchr(at, '\n', (size_t)(text + len - at));
        json_error_t why;
        json_t *o;

        next = end ? end + 1 : text + len;
        line++;
        if (end == at)
            continue;
        c->deadline = tenure_now() + c->common.timeout_ns; /* of a document, not of all */
        o = json_loadb(at, (size_t)((end ? end : text + len) - at), JSON_ALLOW_NUL, &why);
        const char *wrong = o ? read_line(c, o, &err) : why.text;
        json_decref(o);
        if (wrong)
            code = cli_fail(
                c->verb, CLI_FAILED, "%s:%u: %s%s", c->file ? c->file : "-", line, wrong,
                wrong == err.text && err.code == TENURE_CORRUPT ? "; " CLI_STATE_REPAIR : "");
        count += !wrong;
    }
    fprintf(stderr, "tenure state: imported %u documents\n", count);
    free(text);
    return code;
}
