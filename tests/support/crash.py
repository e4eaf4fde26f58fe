"""What a disk may hold after a crash, by the system calls that led there.

A Log is read from strace.  Disk replays it up to any call, and then makes up states: what was
flushed is there; of everything since, any part may be, in any order, and cut anywhere.  A new
name is flushed by fsync of its directory only, which is stricter than most file systems are.
"""

import os
import re

CALLS = ("mknod,mknodat,openat,open,creat,write,pwrite64,writev,pwritev,ftruncate,fallocate,fsync,fdatasync,"
         "link,linkat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,close,dup,dup2,dup3")
BLOCK = 512  # a disk writes these as a whole, in any order
LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)")
STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


def strace(log):
    """The command that has the rest of the line traced into log."""
    return ["strace", "-f", "-xx", "-s", "10000000", "-e", "trace=" + CALLS, "-o", str(log)]


class Call:
    def __init__(self, name, rest, result):
        self.name, self.result = name, result
        self.strings = [bytes.fromhex(s.replace("\\x", "")) for s in STRING.findall(rest)]
        self.args = [part.strip() for part in STRING.sub("S", rest).split(",")]


def read_log(path):
    """The calls that succeeded."""
    calls = []
    with open(path, encoding="ascii") as lines:
        for line in lines:
            assert "unfinished" not in line, "several threads: the order is not known"
            found = LINE.match(line)
            if found and int(found.group(3)) >= 0:
                calls.append(Call(found.group(1), found.group(2), int(found.group(3))))
    return calls


class Inode:
    def __init__(self):
        self.now = bytearray()
        self.flushed = b""
        self.pending = []  # (offset, bytes); bytes None: cut to offset
        self.folder = False

    def write(self, offset, data):
        if offset > len(self.now):
            self.now.extend(bytes(offset - len(self.now)))
        self.now[offset:offset + len(data)] = data
        self.pending.append((offset, data))

    def truncate(self, size):
        if size < len(self.now):
            del self.now[size:]
        else:
            self.now.extend(bytes(size - len(self.now)))
        self.pending.append((size, None))

    def flush(self):
        self.flushed, self.pending = bytes(self.now), []

    def after_crash(self, choose):
        """choose(n): 0 .. n of the n bytes of a write are there; or a list: which blocks of it are."""
        if self.folder:
            return None
        data = bytearray(self.flushed)
        for offset, piece in self.pending:
            if piece is None:
                if choose(1):
                    data = data[:offset] + bytes(max(0, offset - len(data)))
                continue
            keep = choose(len(piece))
            if isinstance(keep, list):
                data.extend(bytes(max(0, offset + len(piece) - len(data))))
                for i, there in enumerate(keep):
                    if there:
                        part = piece[i * BLOCK:(i + 1) * BLOCK]
                        data[offset + i * BLOCK:offset + i * BLOCK + len(part)] = part
            elif keep:
                data.extend(bytes(max(0, offset - len(data))))
                data[offset:offset + keep] = piece[:keep]
        return bytes(data)


class Disk:
    """Files below root; directories are there from the first moment on, unless it is new: then
    those that are made come like files."""

    def __init__(self, root, new=False):
        self.new = new
        self.root = os.fsencode(str(root))
        self.now, self.flushed = {}, {}
        self.pending = []  # (path, inode or None)
        self.files, self.dirs, self.offsets = {}, {}, {}
        self.folders = set()
        self.said = b""
        self.settled = False
        self.grows = False  # new directories come after it is settled; a crash leaves them

    def next_process(self):
        self.files, self.dirs, self.offsets = {}, {}, {}

    def settle(self):
        """Everything until now is on the disk, long since."""
        for inode in self.now.values():
            inode.flush()
        self.flushed, self.pending, self.settled = dict(self.now), [], True

    def load(self):
        """What is below root now was on the disk before the first call."""
        for folder, _, files in os.walk(self.root):
            self.folders.add(folder)
            for name in files:
                inode, path = Inode(), os.path.join(folder, name)
                with open(path, "rb") as file:
                    inode.write(0, file.read())
                self.now[path] = inode
        self.settle()
        self.grows = True

    def path(self, call, string=0, at=0):
        name = call.strings[string]
        if not name.startswith(b"/") and call.args[at] != "AT_FDCWD":
            name = self.dirs.get(int(call.args[at]), b"?") + b"/" + name
        return os.path.normpath(name)

    def ours(self, path):
        return path.startswith(self.root)

    def name(self, path, inode):
        if inode is None:
            self.now.pop(path, None)
        else:
            self.now[path] = inode
        self.pending.append((path, inode))

    def flush_dir(self, folder):
        for path, inode in [p for p in self.pending if os.path.dirname(p[0]) == folder]:
            if inode is None:
                self.flushed.pop(path, None)
            else:
                self.flushed[path] = inode
        self.pending = [p for p in self.pending if os.path.dirname(p[0]) != folder]

    def apply(self, call):
        """True: something on the disk may have changed."""
        handler = getattr(self, "do_" + call.name, None)
        return bool(handler and handler(call))

    def do_openat(self, call):
        path, flags, fd = self.path(call), call.args[2], call.result
        self.files.pop(fd, None)
        self.dirs.pop(fd, None)
        if not self.ours(path) or path.endswith(b"-shm"):
            return False
        made = path not in self.now
        if "O_DIRECTORY" in flags or (made and "O_CREAT" not in flags) or (
                not made and self.now[path].folder):
            self.dirs[fd] = path
            return False
        if made:
            self.name(path, Inode())
        self.files[fd], self.offsets[fd] = self.now[path], 0
        if "O_TRUNC" in flags and self.now[path].now:
            self.now[path].truncate(0)
            return True
        return made

    def do_write(self, call):
        fd = int(call.args[0])
        if fd == 1:
            self.said += call.strings[0]
        return self.put(fd, None, b"".join(call.strings)[:call.result])

    do_writev = do_write

    def do_pwrite64(self, call):
        return self.put(int(call.args[0]), int(call.args[3]), call.strings[0][:call.result])

    def put(self, fd, offset, data):
        inode = self.files.get(fd)
        if inode is None:
            return False
        if offset is None:
            offset = self.offsets[fd]
            self.offsets[fd] += len(data)
        inode.write(offset, data)
        return True

    def do_ftruncate(self, call):
        inode = self.files.get(int(call.args[0]))
        if inode is not None:
            inode.truncate(int(call.args[1]))
        return inode is not None

    def do_fsync(self, call):
        fd = int(call.args[0])
        if fd in self.files:
            self.files[fd].flush()
        elif fd in self.dirs:
            self.flush_dir(self.dirs[fd])
        return fd in self.files or fd in self.dirs

    do_fdatasync = do_fsync

    def do_close(self, call):
        self.files.pop(int(call.args[0]), None)
        self.dirs.pop(int(call.args[0]), None)

    def do_link(self, call):
        return self.linked(self.path_plain(call, 0), self.path_plain(call, 1))

    def do_linkat(self, call):
        return self.linked(self.path(call, 0, 0), self.path(call, 1, 2))

    def path_plain(self, call, string):
        return os.path.normpath(call.strings[string])

    def linked(self, old, new):
        if not self.ours(new):
            return False
        self.name(new, self.now[old])
        return True

    def do_unlink(self, call):
        return self.gone(self.path_plain(call, 0))

    def do_unlinkat(self, call):
        return self.gone(self.path(call))

    def gone(self, path):
        if path not in self.now:
            return False
        self.name(path, None)
        return True

    def do_rename(self, call):
        return self.moved(self.path_plain(call, 0), self.path_plain(call, 1))

    def do_renameat(self, call):
        return self.moved(self.path(call, 0, 0), self.path(call, 1, 2))

    do_renameat2 = do_renameat

    def moved(self, old, new):
        if old not in self.now:
            return False
        self.name(new, self.now[old])
        self.name(old, None)
        return True

    def do_mknodat(self, call):
        return self.made(self.path(call))

    def do_mknod(self, call):
        return self.made(self.path_plain(call, 0))

    def made(self, path):
        if self.ours(path):
            self.name(path, Inode())
        return self.ours(path)

    def do_mkdir(self, call):
        return self.folder(self.path_plain(call, 0))

    def do_mkdirat(self, call):
        return self.folder(self.path(call))

    def folder(self, path):
        if not self.ours(path):
            return False
        if self.new:
            self.made(path)
            self.now[path].folder = True
            return True
        assert self.grows or not self.settled, "directories are part of the set-up"
        self.folders.add(path)
        return False

    def after_crash(self, choose):
        """path below root -> content; None: a directory."""
        names = dict(self.flushed)
        for path, inode in self.pending:
            if choose(1):
                if inode is None:
                    names.pop(path, None)
                else:
                    names[path] = inode
        lost = [path + b"/" for path, inode in self.now.items() if inode.folder and path not in names]
        names = {path: inode for path, inode in names.items() if not path.startswith(tuple(lost))}
        contents = {id(inode): inode.after_crash(choose) for inode in names.values()}
        return {path[len(self.root):]: contents[id(inode)] for path, inode in names.items()}
