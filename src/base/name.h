/* base/name.h - the name of an election, which the keys of all that is kept of it begin with. */
#ifndef TN_BASE_NAME_H
#define TN_BASE_NAME_H

/* NULL; or why name (which may be NULL) cannot be the name of an election. */
const char *tn_name_fault(const char *name);

#endif
