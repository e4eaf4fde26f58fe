/* os/trim.h - an idle process should not hold what it needed only to start. */
#ifndef TN_OS_TRIM_H
#define TN_OS_TRIM_H

/*
 * Give back memory that was used for starting up: free blocks of the heap, and
 * the pages of code and constants of every library in this process.  What is
 * needed again is mapped again from the page cache, a few microseconds each
 * time, so call it once, when the process has settled.  Thread-safe.
 */
void tn_trim(void);

#endif
