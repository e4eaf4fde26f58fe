/*
 * store/object/xml.h - the little XML that object stores answer with: elements with text in them.
 *
 * No library: three elements are of interest, a parser of everything costs a megabyte of memory in
 * every candidate, and nothing that a DTD or an entity of its own could do is wanted here.
 */
#ifndef TN_STORE_OBJECT_XML_H
#define TN_STORE_OBJECT_XML_H

#include <stdbool.h>
#include <stddef.h>

/* A piece of a document. */
struct tn_xml {
    const char *at, *end;
};

/*
 * The next element of that name in rest, wherever it stands, and what is between its tags; rest
 * goes on behind it.  False: there is none.  An element does not hold another of its own name.
 */
bool tn_xml_next(struct tn_xml *rest, const char *name, struct tn_xml *inside);
/* The text of the first element of that name, its escapes decoded.  False: none, and out is as it
 * was; or it is too long, and out has what fits. */
bool tn_xml_text(struct tn_xml in, const char *name, char *out, size_t size);

#endif
