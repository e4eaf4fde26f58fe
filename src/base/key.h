/*
 * base/key.h - every shape of key that this project writes.
 *
 *   NAME/lease                     the lease record of the election NAME
 *   NAME/control                   pause, hand-over
 *   NAME/candidates/CANDIDATE      one a candidate
 *   NAME/history                   who led
 *   NAME/fencing                   who is proving that the leader's machine is off
 *   NAME/state/COLLECTION          the root of a collection
 *   NAME/state/COLLECTION/ID       a document
 *
 * and of a group of jobs, whose NAME is a name like that of an election
 *
 *   NAME/job/ID                    who owns a job, and its checkpoint
 *   NAME/spec/ID                   what the job is
 *   NAME/member/ID                 a worker
 *   NAME/catalogue                 which pages there are
 *   NAME/catalogue/NNNN            a thousand jobs
 *   NAME/plan                      which worker should run which job
 *   NAME/bell                      rung when something has changed
 *   NAME/history/ID                what a worker did to its jobs, for people
 *
 * and of the whole store
 *
 *   tenure/removed                 the floor of epochs: above those of elections that are gone
 *
 * NAME may have several segments.  The holders of a lock that several may hold are elections of
 * their own: the first is NAME, the others are NAME/holders/2, NAME/holders/3 and so on.
 */
#ifndef TN_BASE_KEY_H
#define TN_BASE_KEY_H

#include "tenure/store.h"

#define TN_KEY_LEASE       "/lease"
#define TN_KEY_CONTROL     "/control"
#define TN_KEY_CANDIDATES  "/candidates/"
#define TN_KEY_HISTORY     "/history"
#define TN_KEY_FENCING     "/fencing"
#define TN_KEY_STATE       "/state/"
#define TN_KEY_JOB         "/job/"
#define TN_KEY_SPEC        "/spec/"
#define TN_KEY_MEMBER      "/member/"
#define TN_KEY_CATALOGUE   "/catalogue"
#define TN_KEY_PLAN        "/plan"
#define TN_KEY_BELL        "/bell"
#define TN_KEY_JOB_HISTORY "/history/"
#define TN_KEY_REMOVED     "tenure/removed" /* a whole key */

/* ---- Spelling ------------------------------------------------------------ */

/* NAME and one of the above, such as tn_key_of(name, TN_KEY_LEASE, key). */
void tn_key_of(const char *name, const char *tail, char key[TENURE_KEY_MAX + 1]);
/* The id may hold more than a key may; the segment is made from it. */
void tn_key_candidate(const char *name, const char *id, char key[TENURE_KEY_MAX + 1]);
/* The root of a collection; INVALID if it cannot be called that. */
enum tenure_status tn_key_collection(const char *name, const char *collection,
                                     char key[TENURE_KEY_MAX + 1], struct tenure_error *err);
/*
 * The key of a document.  Ids may hold any bytes but NUL; what a key cannot hold is written as _xx.
 * INVALID if it gets too long or is empty.
 */
enum tenure_status tn_key_document(const char *name, const char *collection, const char *id,
                                   char key[TENURE_KEY_MAX + 1], struct tenure_error *err);

/* The election of holder number `place`, from 1. */
#define TN_KEY_HOLDERS     "/holders/"
#define TN_KEY_HOLDERS_MAX 64
void tn_key_holder(const char *name, unsigned place, char election[TENURE_KEY_MAX + 1]);

/* NAME, the folder (TN_KEY_JOB ...) and the id, escaped as that of a document is. */
enum tenure_status tn_key_item(const char *name, const char *folder, const char *id,
                               char key[TENURE_KEY_MAX + 1], struct tenure_error *err);
/* A page of the catalogue. */
void tn_key_page(const char *name, unsigned page, char key[TENURE_KEY_MAX + 1]);

/* ---- Reading ------------------------------------------------------------- */

/* Does key end with the tail (TN_KEY_LEASE ...)?  Then *name_len (may be NULL) is that of NAME. */
bool tn_key_is(const char *key, const char *tail, size_t *name_len);
/* Is key below NAME and the folder (TN_KEY_STATE ...)?  The bytes of NAME; 0: it is not. */
size_t tn_key_below(const char *key, const char *folder);
/* Where NAME/state/COLLECTION ends, with or without "/ID" behind it; NULL: it is no such key. */
const char *tn_key_collection_end(const char *key);
/* The id in the last segment of a document's key; false if the escapes are not ours. */
bool tn_key_document_id(const char *segment, char id[TENURE_KEY_MAX + 1]);

/* Make the first len bytes of a key the last key that could be below them: a listing that goes on
 * after it passes over everything there. */
void tn_key_pass_below(char key[TENURE_KEY_MAX + 1], size_t len);

#endif
