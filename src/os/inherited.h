/*
 * os/inherited.h - a descriptor that a process inherits, or that every module of it finds.
 *
 * Its number stands in the environment, together with the file that it must be: the environment
 * outlives the descriptor, in what is executed later, where that number is another file's.
 */
#ifndef TN_OS_INHERITED_H
#define TN_OS_INHERITED_H

void tn_inherited_name(const char *variable, int fd);
/* -1: there is none, or that descriptor is another file. */
int tn_inherited_find(const char *variable);

#endif
