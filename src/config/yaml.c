#include "config/yaml.h"

#include <string.h>
#include <yaml.h>

/* What is open on the way down to the current node. */
struct builder {
    struct tn_reader *reader;
    struct tn_yaml *root;
    struct tn_yaml *open[TN_YAML_DEPTH_MAX];
    const char *key[TN_YAML_DEPTH_MAX]; /* of a MAP: read, and waiting for its value */
    unsigned key_line[TN_YAML_DEPTH_MAX];
    unsigned depth, nodes, documents;
    bool bad;
};

static void refuse(struct builder *b, unsigned line, const char *what)
{
    if (!b->bad)
        tn_complain(b->reader, line, "%s", what);
    b->bad = true;
}

/* ---- Nodes --------------------------------------------------------------- */

static struct tn_yaml *add(struct builder *b, enum tn_yaml_kind kind, unsigned line)
{
    struct tn_yaml *parent = b->depth ? b->open[b->depth - 1] : NULL;
    struct tn_yaml *node = tn_arena_alloc(b->reader->arena, sizeof *node);

    if (!node) {
        b->reader->no_memory = b->bad = true;
        return NULL;
    }
    if (++b->nodes > TN_YAML_NODES_MAX)
        refuse(b, line, "more values than a configuration needs (131072): check what generated it");
    node->kind = kind;
    node->line = line;
    if (!parent) {
        b->root = node;
        return node;
    }
    if (parent->kind == TN_YAML_MAP) {
        unsigned at = b->depth - 1;

        if (!b->key[at]) {
            refuse(b, line, "a key must be a plain word, not a list or a mapping");
            return NULL;
        }
        node->key = b->key[at];
        node->key_line = b->key_line[at];
        b->key[at] = NULL;
    }
    if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
    return node;
}

static void begin(struct builder *b, enum tn_yaml_kind kind, unsigned line)
{
    if (b->depth == TN_YAML_DEPTH_MAX) {
        refuse(b, line, "nested more than 12 levels deep; nothing here needs that");
        return;
    }
    struct tn_yaml *node = add(b, kind, line);
    if (node) {
        b->key[b->depth] = NULL;
        b->open[b->depth++] = node;
    }
}

static void take_scalar(struct builder *b, const yaml_event_t *event, unsigned line)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    struct tn_yaml *parent = b->depth ? b->open[b->depth - 1] : NULL;

    if (len > TN_CONFIG_TEXT_MAX) {
        refuse(b, line, "a value of more than 4096 bytes; nothing here needs that");
        return;
    }
    if (memchr(text, '\0', len)) {
        refuse(b, line, "a value with a NUL byte in it cannot be used");
        return;
    }
    char *copy = tn_arena_copy(b->reader->arena, text, len);
    if (!copy) {
        b->reader->no_memory = b->bad = true;
    } else if (parent && parent->kind == TN_YAML_MAP && !b->key[b->depth - 1]) {
        if (strcmp(copy, "<<") == 0)
            refuse(b, line, "'<<' (merge) is not used here: write the keys out");
        b->key[b->depth - 1] = copy;
        b->key_line[b->depth - 1] = line;
    } else {
        struct tn_yaml *node = add(b, TN_YAML_VALUE, line);

        if (!node)
            return;
        node->text = copy;
        node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    }
}

/* ---- Events -------------------------------------------------------------- */

static bool has_extras(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return true;
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor || event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor || event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor || event->data.mapping_start.tag;
    default:
        return false;
    }
}

static void take_event(struct builder *b, const yaml_event_t *event)
{
    unsigned line = (unsigned)event->start_mark.line + 1;

    if (has_extras(event)) {
        refuse(b, line,
               "anchors (&), aliases (*) and tags (!) are not used here: write the value "
               "out, in quotes if it begins with one of these characters");
        return;
    }
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++b->documents > 1)
            refuse(b, line,
                   "a second document (---): one file is one configuration; for several "
                   "elections use 'elections:'");
        break;
    case YAML_SCALAR_EVENT:
        take_scalar(b, event, line);
        break;
    case YAML_SEQUENCE_START_EVENT:
        begin(b, TN_YAML_LIST, line);
        break;
    case YAML_MAPPING_START_EVENT:
        begin(b, TN_YAML_MAP, line);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        break;
    default:
        break;
    }
}

static void tell_problem(struct tn_reader *r, const yaml_parser_t *parser, const char *text)
{
    unsigned line = (unsigned)parser->problem_mark.line + 1;
    const char *problem = parser->problem ? parser->problem : "cannot be read";
    size_t at = parser->problem_mark.index;

    if (parser->error == YAML_MEMORY_ERROR)
        r->no_memory = true;
    else if (parser->error == YAML_READER_ERROR)
        tn_complain(r, 0, "not a text file in UTF-8 (byte %zu): %s", parser->problem_offset,
                    problem);
    else if (parser->error == YAML_SCANNER_ERROR && strstr(problem, "cannot start any token") &&
             at < strlen(text) && text[at] == '\t')
        tn_complain(r, line, "not YAML: a tab; indent with spaces");
    else if (parser->context && parser->context_mark.line + 1 != line)
        tn_complain(r, line,
                    "not YAML: %s (%s that began on line %u); check the indentation, colons "
                    "and quotes",
                    problem, parser->context, (unsigned)parser->context_mark.line + 1);
    else
        tn_complain(r, line, "not YAML: %s; check the indentation, colons and quotes", problem);
}

const struct tn_yaml *tn_yaml_read(struct tn_reader *r, const char *text, size_t len)
{
    struct builder b = {.reader = r};
    yaml_parser_t parser;
    bool done = false;

    if (len > TN_CONFIG_BYTES_MAX) {
        tn_complain(r, 0, "larger than 4 MiB");
        return NULL;
    }
    if (!yaml_parser_initialize(&parser)) {
        r->no_memory = true;
        return NULL;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    while (!done && !b.bad) {
        yaml_event_t event;

        if (!yaml_parser_parse(&parser, &event)) {
            tell_problem(r, &parser, text);
            b.bad = true;
            break;
        }
        done = event.type == YAML_STREAM_END_EVENT;
        take_event(&b, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return b.bad ? NULL : b.root;
}
