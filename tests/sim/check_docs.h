/*
 * sim/check_docs.h - what the product's state code promises, checked on the
 * registers as they really are.
 *
 *   I3  nothing older changes or creates what a later epoch has sealed; FENCED
 *       is final, and never without a reason
 *   I4  what load() returns stood there after the seal; a seal changes nothing
 *   I5  every change is on the very value that its writer saw, seq rises by one,
 *       and an operator's edit is not overwritten by who has not seen it
 *   I6  OK: it took effect.  CONFLICT and errors: it did not, and never will.
 *       Every nonce is fresh
 */
#ifndef SIM_CHECK_DOCS_H
#define SIM_CHECK_DOCS_H

#include <string.h>

#include "docs.h"

static inline bool sim_fence_same(const struct tn_fence *a, const struct tn_fence *b)
{
    return a->epoch == b->epoch && memcmp(a->grant, b->grant, TENURE_NONCE_SIZE) == 0;
}

/* ---- check_docs.c: where something happens to a register ----------------- */

void sim_check_doc_sent(struct sim_world *w, const struct sim_client *c, const struct sim_reg *reg,
                        const struct tenure_swap *swap);
/* A swap takes effect; reg->now is still what it replaces. */
void sim_check_doc_applied(struct sim_world *w, const struct sim_doc_part *p, struct sim_reg *reg);
/* The register is as it was; nothing is promised over what was lost. */
void sim_check_doc_restored(struct sim_world *w, struct sim_reg *reg,
                            const struct sim_reading *was);

/* ---- check_client.c: where a client is answered -------------------------- */

/* A call to the state begins. */
void sim_check_call(struct sim_client *c);
/* It will try to write this; data NULL: delete. */
void sim_check_try(struct sim_client *c, const char *collection, const char *id, const char *text);
/* Every call to the state ends here: FENCED is final. */
void sim_check_told(struct sim_client *c, enum tenure_status status);
/* Try number i was answered so. */
void sim_check_tried(struct sim_client *c, unsigned i, enum tenure_status status, uint64_t seq);
/* How often others had written it, to be asked for before a load. */
uint32_t sim_check_foreign(struct sim_client *c, const char *collection, const char *id);
#define SIM_ANY_SEQ UINT64_MAX /* in a document: its seq and marks are not known */
/* load() said OK. */
void sim_check_doc_loaded(struct sim_client *c, const char *collection, const char *id,
                          const struct tenure_document *doc, uint32_t foreign);
/* seal() said OK. */
void sim_check_collection_sealed(struct sim_client *c, const char *collection);
/* A program starts (I4). */
void sim_check_term(struct sim_world *w, unsigned node, uint64_t epoch);

#endif
