/*
 * tenure/tenure.h - the whole library.
 *
 *   elector.h     take part in an election
 *   state.h       documents that the next leader finds, and no former one overwrites
 *   checkpoint.h  how far the work has come, in such a document
 *   fence.h       for what is written to: refuse leaders that were succeeded
 *   lease.h       look at the lease of an election
 *   jobs.h        share jobs with other workers
 *   control.h     pause, resume, hand over, list the candidates
 *   history.h     who led, when, and why it changed
 *   elections.h   every election of a store
 *   removal.h     an election goes, with all that is kept of it
 *   store.h       the register under all of these; for stores of your own
 *   status.h      what calls answer
 *   version.h     which version this is
 *
 * STRUCTS THAT THE LIBRARY FILLS begin with their size, which TENURE_<NAME>
 * sets.  Nothing beyond it is written, so that a program runs with a library
 * that knows more members than its headers did; a size of 0 is INVALID.
 */
#ifndef TENURE_TENURE_H
#define TENURE_TENURE_H

#include "checkpoint.h"
#include "control.h"
#include "elections.h"
#include "elector.h"
#include "fence.h"
#include "history.h"
#include "jobs.h"
#include "lease.h"
#include "removal.h"
#include "state.h"
#include "status.h"
#include "store.h"
#include "version.h"

#endif
