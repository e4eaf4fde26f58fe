"""The cgroup v2 that the tests are in, and whether one can be made below it."""

import functools
import os
import pathlib


def mount_point():
    """Where cgroup v2 is mounted, or None."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup2 " in line:
            return pathlib.Path(line.split()[4])
    return None


def own_cgroup():
    """The directory of the cgroup that we are in, or None."""
    point = mount_point()
    own = [line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()
           if line.startswith("0::")]
    return point / own[0].lstrip("/") if point and own else None


@functools.cache
def missing():
    """Why `--contain cgroup` cannot be had here, or None."""
    own = own_cgroup()
    if not own:
        return "no cgroup v2 is mounted here (in a chroot: mount -t cgroup2 none /sys/fs/cgroup)"
    trial = own / f"tenure-test-{os.getpid()}"
    try:
        trial.mkdir()
    except OSError as error:
        return f"no cgroup can be made in {own}: {error.strerror}"
    try:
        return None if (trial / "cgroup.kill").exists() else "this kernel's cgroups have no cgroup.kill"
    finally:
        trial.rmdir()
