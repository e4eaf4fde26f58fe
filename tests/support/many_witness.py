#!/usr/bin/env python3
"""examples/many_jobs.py with a witness of each job:  many_witness.py FOLDER

As job_witness.c: while a job runs it holds a lock on FOLDER/JOB; in that file stand its epoch and how far it has
counted.  What is wrong goes into FOLDER/violations.  A lock is of an open file, so two runs in one process are seen too.
With FOLDER/keep-JOB the end of that job is never confirmed.
"""

import fcntl
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import many_jobs  # noqa: E402

FOLDER = pathlib.Path(sys.argv[1])


class Witness(many_jobs.Job):
    def __init__(self, name, epoch, spec, checkpoint):
        super().__init__(name, epoch, spec, checkpoint)
        self.fd = os.open(FOLDER / name, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.violated("twice", 0, 0)
        before, acked = map(int, (os.pread(self.fd, 64, 0) or b"0 0").split())
        if epoch <= before:
            self.violated("epoch", epoch, before)
        if self.count not in (acked, acked + 1):  # the last may have been stored without an answer that arrived
            self.violated("lost", self.count, acked)
        self.write()

    def violated(self, what, seen, known):
        with open(FOLDER / "violations", "a") as out:
            out.write(f"{what} {self.name} epoch {self.epoch}: {seen} against {known}\n")

    def write(self):
        os.pwrite(self.fd, f"{self.epoch:20} {self.count:20}\n".encode(), 0)

    def stored(self, checkpoint):
        super().stored(checkpoint)
        self.write()

    def end(self):
        os.close(self.fd)


class Keeper(many_jobs.Worker):
    def end(self, name, epoch):
        if not (FOLDER / f"keep-{name}").exists():
            super().end(name, epoch)


Keeper(Witness, pause=0.1).run()
