/*
 * base/url.h - store URLs.
 *
 *   scheme:path?name=value&name=value
 *   scheme://user:password@host:port,host:port/path?name=value
 *
 * Percent-escapes are decoded in every part.  The parts point into one buffer
 * that the struct owns.
 */
#ifndef TN_BASE_URL_H
#define TN_BASE_URL_H

#include "tenure/status.h"

#define TN_URL_MAX    2047
#define TN_URL_PARAMS 32

struct tn_url {
    char *scheme;
    bool authority; /* "//" was there */
    char *user;     /* NULL: none */
    char *password; /* NULL: none */
    char *hosts;    /* "h1:p1,h2:p2", not decoded further; "" without authority */
    char *path;     /* with its leading '/', if it has one; "" if empty */
    struct {
        char *name;
        char *value;
        bool used;
    } params[TN_URL_PARAMS];
    unsigned n_params;
    char *buffer;
};

/* Parse.  CONFIG with a message that says what is wrong, without secrets. */
enum tenure_status tn_url_parse(const char *text, struct tn_url *url, struct tenure_error *err);
/* Accepts a zeroed struct. */
void tn_url_free(struct tn_url *url);
/* The value of a parameter, marked as used; or NULL. */
const char *tn_url_param(struct tn_url *url, const char *name);

/* What must be known of a store before it is opened; 0 for a server. */
enum tn_url_trait {
    TN_URL_PRIVATE = 1 << 0,  /* seen by this process alone */
    TN_URL_IN_FILES = 1 << 1, /* the first open makes it; opens at once */
    TN_URL_LOCKED = 1 << 2,   /* a client that hangs in a request holds up all others */
};
unsigned tn_url_traits(const char *text);

/* The URL of the same store, opened by who repairs what is damaged there; NULL when out of memory.
 * It may hold a password: tn_url_wipe() frees it. */
char *tn_url_repairing(const char *text);
/* The same for who only uses what is there: opening it makes no store. */
char *tn_url_existing(const char *text);
/* Accepts NULL. */
void tn_url_wipe(char *text);

#endif
