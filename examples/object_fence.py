#!/usr/bin/python3
"""object_fence.py URL EPOCH VALUE - write an object that only the latest leader may write.

The epoch is kept in the object; the write is on condition of what was read (If-Match, or
If-None-Match for the first), so the store itself refuses whoever was overtaken in between.

Exit: 0 written, 3 fenced: a later leader was here.
"""

import json
import sys
import urllib.error
import urllib.request


def read(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.headers["ETag"], json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None, {"epoch": 0}
        raise


def write(url, etag, content):
    """False: it is not what was read any more."""
    condition = {"If-Match": etag} if etag else {"If-None-Match": "*"}
    request = urllib.request.Request(url, json.dumps(content).encode(), condition, method="PUT")
    try:
        urllib.request.urlopen(request, timeout=10).close()
        return True
    except urllib.error.HTTPError as error:
        if error.code in (409, 412):
            return False
        raise


def fenced_write(url, epoch, value, pause=lambda: None):
    """True: written.  False: a later leader was here."""
    if not 1 <= epoch < 2**53:
        raise ValueError("no leader has this epoch")
    while True:
        etag, now = read(url)
        if now["epoch"] > epoch:
            return False
        pause()
        if write(url, etag, {"epoch": epoch, "value": value}):
            return True


if __name__ == "__main__":
    sys.exit(0 if fenced_write(sys.argv[1], int(sys.argv[2]), sys.argv[3]) else 3)
