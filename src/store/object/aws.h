/* store/object/aws.h - who we are to Amazon's services, and the proof of it: Signature Version 4.
 */
#ifndef TN_STORE_OBJECT_AWS_H
#define TN_STORE_OBJECT_AWS_H

#include "store/object/object.h"

/* Strings are owned; NULL: there is none. */
struct tn_aws_keys {
    char *id, *secret, *session;
    const char *source; /* for messages */
    struct tn_object_lifetime life;
};

/* Where to look for them. */
struct tn_aws_choice {
    const char *user; /* NULL: the chain */
    struct tn_secret password;
    const char *profile; /* NULL: $AWS_PROFILE, "default" */
    const char *region;
    int cancel_fd;
};

/* ---- credentials.c */

/*
 * Keep keys fit for use: loads them if there are none or they end soon.  The chain: what the URL
 * names, the environment, a profile, the role of a container or a machine.  DENIED if nobody
 * has any; CONFIG if what is there makes no sense.
 */
enum tenure_status tn_aws_keys_load(const struct tn_aws_choice *choice, struct tn_aws_keys *keys,
                                    int64_t deadline, struct tenure_error *err);
/* Are they whole?  If not, they are freed. */
bool tn_aws_keys_complete(struct tn_aws_keys *keys, const char *source);
/* Accepts a zeroed struct, and leaves one. */
void tn_aws_keys_free(struct tn_aws_keys *keys);
/* A setting of the profile, from the files for settings and for credentials.  A new string; NULL:
 * it is not there. */
char *tn_aws_profile(const char *profile, const char *name);

/* ---- aws_role.c */

/* Keys of the role of a pod, a container or a machine, from the service that issues them. */
enum tenure_status tn_aws_role(const struct tn_aws_choice *choice, struct tn_aws_keys *keys,
                               int64_t deadline, struct tenure_error *err);

/* ---- sign.c */

#define TN_AWS_HASH 65
#define TN_AWS_DATE 17 /* "20260131T120000Z" */

/* What is signed.  Everything is encoded as it is sent. */
struct tn_aws_request {
    const char *method, *path, *query, *host, *region, *service;
    const char *const *headers; /* "name:value", in order, all behind "host"; ended by NULL */
    char date[TN_AWS_DATE];
    char hash[TN_AWS_HASH]; /* of the body */
};

/* The date is now, the hash that of the body. */
void tn_aws_request_init(struct tn_aws_request *rq, const void *body, size_t len);
/* The value of the header Authorization.  A new string or NULL. */
char *tn_aws_sign(const struct tn_aws_keys *keys, const struct tn_aws_request *rq);

#endif
