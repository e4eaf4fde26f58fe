/*
 * cli/doctor/crew.h - threads and processes with connections of their own.
 *
 * Both kinds take orders over a socket, so that whoever asks need not care
 * which it is.  The processes are forked before the first store is opened and
 * the first thread started.
 */
#ifndef TN_CLI_DOCTOR_CREW_H
#define TN_CLI_DOCTOR_CREW_H

#include <pthread.h>
#include <sys/types.h>

#include "tenure/store.h"

#define CREW_PROCESSES 3
#define CREW_THREADS   3
#define CREW_SIZE      (CREW_PROCESSES + CREW_THREADS)

enum crew_kind {
    CREW_OPEN = 1, /* connect */
    CREW_READ,     /* read key */
    CREW_SWAP,     /* at at_ns swap key, if it is `seen`; limit by_ns */
    CREW_COUNT,    /* read a number in key and add one to it, until at_ns */
    CREW_WAIT,     /* until key, or what is below it, is not `seen`, or by_ns */
};

struct crew_order {
    uint32_t kind;
    bool prefix; /* WAIT: seen.version is a mark */
    char key[96];
    struct tenure_token seen;
    int64_t at_ns;
    int64_t by_ns;
};

struct crew_answer {
    uint32_t status;                  /* enum tenure_status */
    struct tenure_token token;        /* READ: what is there; SWAP: what was written */
    uint8_t nonce[TENURE_NONCE_SIZE]; /* SWAP: of the request */
    int64_t end_ns;                   /* when the call returned */
    uint64_t ok, unknown;             /* COUNT: answers; WAIT, in ok: woken for nothing */
    char text[200];                   /* why, if not OK */
};

struct crew_member {
    int socket; /* ours */
    int inner;  /* theirs */
    pid_t pid;  /* 0: a thread */
    pthread_t thread;
    const char *url;
};

struct doctor_crew {
    unsigned n;
    struct crew_member members[CREW_SIZE]; /* the processes first */
    bool hung; /* somebody did not answer: threads cannot be waited for */
};

/* Fork the processes.  url lives as long as the crew. */
enum tenure_status doctor_crew_fork(struct doctor_crew *crew, const char *url,
                                    struct tenure_error *err);
/* Start the threads, and connect everybody by deadline. */
enum tenure_status doctor_crew_open(struct doctor_crew *crew, int64_t deadline,
                                    struct tenure_error *err);
void doctor_crew_order(struct doctor_crew *crew, unsigned who, const struct crew_order *order);
/* false: no answer, long after by_ns. */
bool doctor_crew_answer(struct doctor_crew *crew, unsigned who, int64_t by_ns,
                        struct crew_answer *answer);
/* Order and answer in one. */
bool doctor_crew_ask(struct doctor_crew *crew, unsigned who, const struct crew_order *order,
                     struct crew_answer *answer);
void doctor_crew_end(struct doctor_crew *crew);

#endif
