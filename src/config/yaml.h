/*
 * config/yaml.h - YAML text as a tree whose every node knows its line.
 *
 * Only what a configuration needs: mappings, lists, values.  Anchors, aliases,
 * tags, merge keys, several documents and bytes that are not UTF-8 are refused,
 * and so is what is deeper, longer or larger than anybody would write by hand.
 * So a hostile file costs no more than its own size.
 */
#ifndef TN_CONFIG_YAML_H
#define TN_CONFIG_YAML_H

#include "config/reader.h"

#define TN_YAML_DEPTH_MAX 12
#define TN_YAML_NODES_MAX 131072

enum tn_yaml_kind { TN_YAML_VALUE, TN_YAML_LIST, TN_YAML_MAP };

struct tn_yaml {
    enum tn_yaml_kind kind;
    unsigned line;
    const char *text; /* VALUE; without NUL bytes inside */
    bool quoted;      /* VALUE: "" is a value, nothing at all is none */
    const char *key;  /* in a MAP; else NULL */
    unsigned key_line;
    struct tn_yaml *first, *next; /* children in the order of the file; the next sibling */
    struct tn_yaml *last;
};

/* The tree, in the reader's arena; NULL with a complaint. */
const struct tn_yaml *tn_yaml_read(struct tn_reader *r, const char *text, size_t len);

#endif
