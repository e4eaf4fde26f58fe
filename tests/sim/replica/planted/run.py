#!/usr/bin/python3
"""Plant each bug of the replication's protocol, one at a time, and see its world catch it.

    run.py SOURCE-ROOT BUILD-FOLDER [--cpu SECONDS] [NUMBER ...]

Each is the absence of one rule of the protocol, or a mistake that this world found in our own
draft.  tests/sim/planted_world.py says how.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import planted_world  # noqa: E402

if __name__ == "__main__":
    sys.exit(planted_world.main("replica", ["src/core/replica/*.c", "tests/sim/replica/*.c"]))
