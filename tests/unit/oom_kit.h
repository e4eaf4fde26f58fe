/* oom_kit.h - SQLite's allocations fail with ours, its store is linked in, and a folder of its own.
 */
#ifndef OOM_KIT_H
#define OOM_KIT_H

#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "oom.h"
#include "tenure/store.h"

extern const struct tenure_store_ops *const tenure_store_module[]; /* sqlite: */

static sqlite3_mem_methods kit_real;

static void *kit_malloc(int n)
{
    return tn_oom_strikes() ? NULL : kit_real.xMalloc(n);
}

static void *kit_realloc(void *memory, int n)
{
    return tn_oom_strikes() ? NULL : kit_real.xRealloc(memory, n);
}

/* folder: a template of mkdtemp().  0, or -1 as a set-up of cmocka wants it. */
static inline int kit_begin(char *folder)
{
    sqlite3_mem_methods methods;

    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &kit_real) != SQLITE_OK)
        return -1;
    methods = kit_real;
    methods.xMalloc = kit_malloc;
    methods.xRealloc = kit_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK ||
        tenure_store_register(tenure_store_module[0], NULL) != TENURE_OK)
        return -1;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int kit_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int kit_end(const char *folder)
{
    return nftw(folder, kit_remove, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
