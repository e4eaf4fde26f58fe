/* os/boot.h - which CLOCK_BOOTTIME is this? */
#ifndef TN_OS_BOOT_H
#define TN_OS_BOOT_H

#include <stdbool.h>

#define TN_BOOT_CLOCK 16 /* characters of the clock's name */

/*
 * A name for the clock that tenure_now() reads: two processes that get the same
 * one may compare their times.  It differs after a reboot, on another machine,
 * and in a time namespace with its own offset.  false, and out untouched, if
 * /proc does not tell.
 */
bool tn_boot_clock(char out[TN_BOOT_CLOCK + 1]);

#endif
