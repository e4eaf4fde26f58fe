/* machine_world.h - one supervisor's machine in a script: what golden.c runs. */
#ifndef MACHINE_WORLD_H
#define MACHINE_WORLD_H

#include <stdio.h>

#include "supervise/machine.h"

struct world {
    FILE *out;
    unsigned faults; /* lines that began with "!!": --update does not take them */
    struct tn_machine machine;
    int64_t now_ns, deadline_ns;
    bool owes;        /* the elector owes something to the store */
    bool synced;      /* nothing is to be done there */
    bool program;     /* something of it may be there */
    char failing[16]; /* "ticket", "spawn", ...: the next one fails */
};

void world_obey(struct world *w, const char *line);

#endif
