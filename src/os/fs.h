/* os/fs.h - what a file system is like. */
#ifndef TN_OS_FS_H
#define TN_OS_FS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Does the file system of path belong to more than this machine, or might it?
 * Network, cluster and FUSE file systems do: their caches may be stale, their
 * locks may not reach other hosts, and inotify does not see what others do.
 * 1 or 0; -1 with errno if path cannot be asked.  name (may be NULL) receives a
 * word for people: "nfs", "fuse", ... or "local".
 */
int tn_fs_network(const char *path, const char **name);

/*
 * Make the kernel forget what it believes about the directory fd if the server
 * knows better, so that lookups below it are fresh.  Costs one request on a
 * network file system and nothing on a local one.  false with errno on failure.
 */
bool tn_fs_refresh(int fd);

/* Is that very file or directory mounted, and not one above it? */
bool tn_fs_mounted(const char *path);
/*
 * Is path that file?  1 or 0; -1 with errno.  Its times are not asked for: since
 * Linux 6.13 a time that somebody has looked at makes the next write dirty the
 * inode, and then every flush writes two places of the disk instead of one.
 */
int tn_fs_is(const char *path, dev_t dev, ino_t ino);

#endif
