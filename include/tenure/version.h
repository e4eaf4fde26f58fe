/*
 * tenure/version.h - the version of these headers.
 *
 * tenure_version() is that of the library which a program runs with.  Within
 * one major number a newer library runs what an older header compiled: structs
 * grow at their end, and carry their size.
 */
#ifndef TENURE_VERSION_H
#define TENURE_VERSION_H

#define TENURE_VERSION_MAJOR 0
#define TENURE_VERSION_MINOR 1
#define TENURE_VERSION_PATCH 0
#define TENURE_VERSION       "0.1.0"
/* To compare: 0.1.0 is 100, 1.2.3 is 10203. */
#define TENURE_VERSION_NUMBER                                                                      \
    (TENURE_VERSION_MAJOR * 10000 + TENURE_VERSION_MINOR * 100 + TENURE_VERSION_PATCH)

#endif
