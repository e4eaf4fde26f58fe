/* What `tenure jobs import` reads: YAML, JSON, or a JSON object a line. */
#include <ctype.h>
#include <string.h>
#include <yaml.h>

#include "cli/jobs/jobs.h"

#define DEPTH_MAX 8

/* ---- JSON ---------------------------------------------------------------- */

/* One document, or several that follow each other: those are a list. */
static json_t *parse_json(const char *text, size_t len, struct tenure_error *err)
{
    json_error_t why = {0};
    json_t *all = NULL, *one;

    for (size_t at = 0; at < len; at += (size_t)why.position) {
        while (at < len && isspace((unsigned char)text[at]))
            at++;
        if (at == len)
            break;
        one =
            json_loadb(text + at, len - at, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &why);
        if (!one) {
            json_decref(all);
            tenure_fail(err, TENURE_INVALID, "line %d: %s", why.line, why.text);
            return NULL;
        }
        if (!all && !json_is_object(one)) {
            all = one;
            continue;
        }
        if (!all)
            all = json_array();
        json_array_append_new(all, one);
    }
    /* {"jobs": [...]} alone. */
    one = json_array_size(all) == 1 ? json_object_get(json_array_get(all, 0), "jobs") : NULL;
    if (one) {
        json_incref(one);
        json_decref(all);
        all = one;
    }
    return all ? all : json_array();
}

/* ---- YAML ---------------------------------------------------------------- */

/* What is open on the way down, and the keys that wait for their values. */
struct builder {
    json_t *root;
    json_t *open[DEPTH_MAX];
    char *key[DEPTH_MAX];
    unsigned depth;
    const char *fault;
};

static void put(struct builder *b, json_t *value)
{
    json_t *parent = b->depth ? b->open[b->depth - 1] : NULL;

    if (!value) {
        b->fault = "a value is not UTF-8";
    } else if (!parent) {
        b->root = value;
    } else if (json_is_array(parent)) {
        json_array_append_new(parent, value);
    } else if (!b->key[b->depth - 1]) {
        b->fault = "a key must be a plain word";
        json_decref(value);
    } else {
        if (json_object_get(parent, b->key[b->depth - 1]))
            b->fault = "a key occurs twice";
        json_object_set_new(parent, b->key[b->depth - 1], value);
        free(b->key[b->depth - 1]);
        b->key[b->depth - 1] = NULL;
    }
}

static void take_scalar(struct builder *b, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    json_t *parent = b->depth ? b->open[b->depth - 1] : NULL;

    if (event->data.scalar.anchor || event->data.scalar.tag)
        b->fault = "anchors and tags are not used here";
    else if (strlen(text) != event->data.scalar.length)
        b->fault = "a value has a NUL byte in it";
    else if (json_is_object(parent) && !b->key[b->depth - 1])
        b->key[b->depth - 1] = strdup(text);
    else
        put(b, json_string(text));
}

static void descend(struct builder *b, json_t *value, bool extras)
{
    if (b->depth == DEPTH_MAX || extras) {
        b->fault = extras ? "anchors and tags are not used here" : "nested too deep";
        json_decref(value);
        return;
    }
    put(b, value);
    if (!b->fault) {
        b->key[b->depth] = NULL;
        b->open[b->depth++] = value;
    }
}

static bool take_event(struct builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        take_scalar(b, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        descend(b, json_array(),
                event->data.sequence_start.anchor || event->data.sequence_start.tag);
        break;
    case YAML_MAPPING_START_EVENT:
        descend(b, json_object(),
                event->data.mapping_start.anchor || event->data.mapping_start.tag);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        free(b->key[--b->depth]);
        b->key[b->depth] = NULL;
        break;
    case YAML_ALIAS_EVENT:
        b->fault = "aliases are not used here";
        break;
    case YAML_DOCUMENT_START_EVENT:
        if (b->root)
            b->fault = "one document is enough";
        break;
    case YAML_STREAM_END_EVENT:
        return false;
    default:
        break;
    }
    return !b->fault;
}

static json_t *parse_yaml(const char *text, size_t len, struct tenure_error *err)
{
    struct builder b = {0};
    yaml_parser_t parser;
    yaml_event_t event;
    bool more = true;

    if (!yaml_parser_initialize(&parser)) {
        tenure_fail(err, TENURE_NOMEM, "out of memory");
        return NULL;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    while (more) {
        if (!yaml_parser_parse(&parser, &event)) {
            b.fault = parser.problem ? parser.problem : "it is not YAML";
            tenure_fail(err, TENURE_INVALID, "line %zu: %s", parser.problem_mark.line + 1, b.fault);
            break;
        }
        more = take_event(&b, &event);
        if (b.fault)
            tenure_fail(err, TENURE_INVALID, "line %zu: %s", event.start_mark.line + 1, b.fault);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    while (b.depth)
        free(b.key[--b.depth]);
    if (!b.fault)
        return b.root ? b.root : json_array();
    json_decref(b.root);
    return NULL;
}

json_t *cli_jobs_parse(const char *text, size_t len, struct tenure_error *err)
{
    size_t at = 0;
    json_t *root, *jobs;

    while (at < len && isspace((unsigned char)text[at]))
        at++;
    root = at < len && strchr("{[", text[at]) ? parse_json(text, len, err)
                                              : parse_yaml(text, len, err);
    jobs = json_is_object(root) ? json_object_get(root, "jobs") : NULL;
    if (jobs) {
        json_incref(jobs);
        json_decref(root);
        root = jobs;
    }
    if (!root || json_is_array(root))
        return root;
    json_decref(root);
    tenure_fail(err, TENURE_INVALID, "write a list of jobs, or a list under the key 'jobs'");
    return NULL;
}
