#include "fs.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

/* From the kernel's list of magic numbers; linux/magic.h lacks half of them. */
static const struct {
    uint32_t magic;
    const char *name;
} shared[] = {
    {0x00006969, "nfs"},   {0x0000517b, "smb"},    {0xff534d42, "cifs"}, {0xfe534d42, "smb2"},
    {0x65735546, "fuse"},  {0x01021997, "9p"},     {0x00c36400, "ceph"}, {0x5346414f, "afs"},
    {0x6b414653, "afs"},   {0x0bd00bd0, "lustre"}, {0x01161970, "gfs2"}, {0x7461636f, "ocfs2"},
    {0x47504653, "gpfs"},  {0x73757245, "coda"},   {0x0000564c, "ncp"},  {0x786f4256, "vboxsf"},
    {0xaad7aaea, "panfs"}, {0x19830326, "beegfs"},
};

int tn_fs_network(const char *path, const char **name)
{
    struct statfs fs;

    if (statfs(path, &fs) != 0)
        return -1;
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        if (shared[i].magic == (uint32_t)fs.f_type) {
            if (name)
                *name = shared[i].name;
            return 1;
        }
    }
    if (name)
        *name = "local";
    return 0;
}

bool tn_fs_refresh(int fd)
{
    struct statx now;

    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &now) == 0;
}

bool tn_fs_mounted(const char *path)
{
    struct statx now;

    return statx(AT_FDCWD, path, 0, STATX_INO, &now) == 0 &&
           (now.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

int tn_fs_is(const char *path, dev_t dev, ino_t ino)
{
    struct statx now;

    if (statx(AT_FDCWD, path, 0, STATX_INO, &now) != 0)
        return -1;
    return now.stx_ino == ino && makedev(now.stx_dev_major, now.stx_dev_minor) == dev;
}
