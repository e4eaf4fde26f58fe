#!/usr/bin/python3
"""Name what the simulator is built from: a header with a digest of its sources."""
import hashlib
import sys

digest = hashlib.sha256()
for path in sorted(sys.argv[1:], key=lambda p: p.rsplit("/", 1)[-1]):
    with open(path, "rb") as f:
        digest.update(path.rsplit("/", 1)[-1].encode() + b"\0" + f.read() + b"\0")
print(f'#define SIM_BUILD "{digest.hexdigest()[:16]}"')
