#!/usr/bin/python3
"""Plant each bug of the jobs' protocol, one at a time, and see the world of jobs catch it.

    run.py SOURCE-ROOT BUILD-FOLDER [--cpu SECONDS] [NUMBER ...]

Each is the absence of one rule of the protocol; number 35 is one that this world found in our own
first draft.  tests/sim/planted_world.py says how.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import planted_world  # noqa: E402

if __name__ == "__main__":
    sys.exit(planted_world.main("jobs", [
        "src/core/jobs/*.c", "src/core/lease.c", "src/core/timing.c", "tests/sim/jobs/*.c",
        "tests/sim/jobs/planted/main.c"]))
