/*
 * jobs/catalogue.h - which jobs there are: written by operators, and by nobody else.
 *
 *   GROUP/catalogue         tenure-catalogue 1 REVISION ACTIVE PAGES\n
 *                           then the revision of each page, one a line
 *   GROUP/catalogue/NNNN    tenure-page 1 PAGE REVISION ROWS\n
 *                           then a row for each number of a job, from NNNN * 1000 on:
 *                           ID WEIGHT WANTED SPEC PIN MUST PREFER, divided by tabs; an empty row
 *                           is a number that is free
 *
 * A change writes the pages first and the root last.  Whoever finds a page newer than the root
 * says, or one that it does not name, finds the work of an operator that died between the two,
 * and completes it.
 */
#ifndef TN_JOBS_CATALOGUE_H
#define TN_JOBS_CATALOGUE_H

#include "jobs/records.h"

#define TN_CATALOGUE_KIND "tenure-catalogue"
#define TN_PAGE_KIND      "tenure-page"
#define TN_PAGE_ROWS      1000u
#define TN_PAGES_MAX      (TN_PLAN_JOBS_MAX / TN_PAGE_ROWS)

/* A job.  The texts are the catalogue's, or the caller's who has put them there. */
struct tn_row {
    const char *id; /* NULL: the number is free */
    const char *pin, *must, *prefer;
    uint32_t weight;
    enum tn_wanted wanted;
    bool spec; /* it has a specification */
};

struct tn_page {
    struct tenure_token token;
    uint64_t revision; /* as the page says */
    struct tn_row *rows;
    uint32_t count;
    char *text;  /* that the rows point into */
    bool edited; /* to be written */
};

struct tn_catalogue {
    struct tenure_token token;
    uint64_t revision; /* 0: there is none yet */
    uint32_t active;   /* members that should work before standbys do; 0: all there are */
    uint32_t page_count;
    struct tn_page *pages;
    bool unfinished; /* the root does not say what the pages are: it is to be written */
    uint32_t *index; /* of a hash: number + 1; 0: none */
    uint32_t index_size;
};

/* ---- The records --------------------------------------------------------- */

/* What a root says: `revisions` of `pages` pages, malloc'ed. */
enum tenure_status tn_catalogue_root_decode(const void *data, size_t len,
                                            struct tn_catalogue *catalogue, uint64_t **revisions,
                                            uint32_t *pages, struct tenure_error *err);
/* malloc'ed; NULL: no memory. */
char *tn_catalogue_root_encode(const struct tn_catalogue *catalogue, size_t *len);
/* A page of rows; frees nothing of what *page was. */
enum tenure_status tn_page_decode(const void *data, size_t len, uint32_t number,
                                  struct tn_page *page, struct tenure_error *err);
/* malloc'ed; NULL: no memory. */
char *tn_page_encode(const struct tn_page *page, uint32_t number, size_t *len);
void tn_page_free(struct tn_page *page);

/* ---- The catalogue ------------------------------------------------------- */

/* Read all of it.  CORRUPT names the register.  The caller frees it, also after a failure. */
enum tenure_status tn_catalogue_load(tenure_store *store, const char *group,
                                     struct tn_catalogue *catalogue, int64_t deadline,
                                     struct tenure_error *err);
void tn_catalogue_free(struct tn_catalogue *catalogue);

/* How many numbers there are, free ones included. */
uint32_t tn_catalogue_size(const struct tn_catalogue *catalogue);
/* The row of a number below that size; its id may be NULL. */
struct tn_row *tn_catalogue_row(const struct tn_catalogue *catalogue, uint32_t number);
/* The number of a job; false: there is none of that id. */
bool tn_catalogue_find(const struct tn_catalogue *catalogue, const char *id, uint32_t *number);
/* Its page is to be written. */
void tn_catalogue_touch(struct tn_catalogue *catalogue, uint32_t number);
/* A free number for a job, whose row is the caller's to fill.  NOMEM, INVALID: it is full. */
enum tenure_status tn_catalogue_add(struct tn_catalogue *catalogue, const char *id,
                                    uint32_t *number, struct tenure_error *err);
/* Its number is free again. */
void tn_catalogue_drop(struct tn_catalogue *catalogue, uint32_t number);

/* Make an edit of what was loaded; called again after a conflict, with what is there then. */
typedef enum tenure_status (*tn_catalogue_fn)(void *arg, struct tn_catalogue *catalogue,
                                              struct tenure_error *err);
/*
 * Load, edit and write: the pages, then the root.  The edit must be one that may be made twice.
 * *catalogue (may be NULL) is what was written, for the caller to free.
 */
enum tenure_status tn_catalogue_edit(tenure_store *store, const char *group, tn_catalogue_fn edit,
                                     void *arg, struct tn_catalogue *catalogue, int64_t deadline,
                                     struct tenure_error *err);

#endif
