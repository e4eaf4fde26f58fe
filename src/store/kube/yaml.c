/* YAML as JSON, by libyaml's events. */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "store/kube/access.h"

#define DEPTH_MAX 16

struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    struct tenure_error *err;
};

static bool next(struct reader *r)
{
    if (yaml_parser_parse(&r->parser, &r->event))
        return true;
    tenure_fail(r->err, TENURE_CONFIG, "line %zu: %s", r->parser.problem_mark.line + 1,
                r->parser.problem ? r->parser.problem : "not YAML");
    return false;
}

static json_t *refuse(struct reader *r, const char *what)
{
    tenure_fail(r->err, TENURE_CONFIG, "line %zu: %s", r->event.start_mark.line + 1, what);
    return NULL;
}

static json_t *scalar(struct reader *r)
{
    json_t *text =
        json_stringn((const char *)r->event.data.scalar.value, r->event.data.scalar.length);

    return text ? text : refuse(r, "not UTF-8");
}

static json_t *node(struct reader *r, unsigned depth);

/* The event after the opening one, up to the closing one. */
static json_t *collection(struct reader *r, unsigned depth, bool mapping)
{
    json_t *all = mapping ? json_object() : json_array();
    yaml_event_type_t end = mapping ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    bool well = all != NULL;

    while (well) {
        char name[128] = "";
        json_t *value;

        yaml_event_delete(&r->event);
        if (!next(r))
            break;
        if (r->event.type == end)
            return all;
        if (mapping) {
            if (r->event.type != YAML_SCALAR_EVENT || r->event.data.scalar.length >= sizeof name) {
                refuse(r, "a name was expected here");
                break;
            }
            memcpy(name, r->event.data.scalar.value, r->event.data.scalar.length);
            yaml_event_delete(&r->event);
            if (!next(r))
                break;
        }
        value = node(r, depth + 1);
        well = value && !(mapping ? json_object_set_new(all, name, value)
                                  : json_array_append_new(all, value));
        if (value && !well)
            refuse(r, "a name that is not UTF-8");
    }
    json_decref(all);
    return NULL;
}

/* The node that r->event begins; afterwards r->event is its last. */
static json_t *node(struct reader *r, unsigned depth)
{
    if (depth > DEPTH_MAX)
        return refuse(r, "nested too deeply");
    switch (r->event.type) {
    case YAML_SCALAR_EVENT:
        return scalar(r);
    case YAML_SEQUENCE_START_EVENT:
        return collection(r, depth, false);
    case YAML_MAPPING_START_EVENT:
        return collection(r, depth, true);
    case YAML_ALIAS_EVENT:
        return refuse(r, "aliases (*name) are not supported");
    default:
        return refuse(r, "a value was expected here");
    }
}

json_t *tn_kube_yaml(const char *text, size_t len, struct tenure_error *err)
{
    struct reader r = {.err = err};
    json_t *root = NULL;
    bool begun = false;

    if (!yaml_parser_initialize(&r.parser)) {
        tenure_fail(err, TENURE_NOMEM, "out of memory");
        return NULL;
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    while (!root && next(&r)) {
        begun =
            r.event.type == YAML_STREAM_START_EVENT || r.event.type == YAML_DOCUMENT_START_EVENT;
        if (!begun) {
            root = node(&r, 0);
            if (!root) {
                yaml_event_delete(&r.event);
                break;
            }
        }
        yaml_event_delete(&r.event);
    }
    yaml_parser_delete(&r.parser);
    return root;
}
