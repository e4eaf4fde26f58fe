#!/usr/bin/python3
"""The states of many elections on one PostgreSQL whose flush is slow: do their commits share it?

    bench/pg_many.py [--elections 16] [--keys 10] [--seconds 6] [--flush-ms 25] [--build build]

Each election commits batches of documents, one after the other.  The flush is made slow with
commit_delay, which the server waits before every one.  Prints batches a second of all elections
together, with notifications and without.
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import server_postgres  # noqa: E402


def batches(args, url):
    build = args.build.resolve()
    writers = [subprocess.Popen([build / "bench/batches", url, f"bench{i}", str(args.seconds),
                                 str(args.keys), build], stdout=subprocess.PIPE, text=True)
               for i in range(args.elections)]
    counts = [writer.communicate()[0] for writer in writers]
    if any(writer.returncode for writer in writers):
        sys.exit("pg_many.py: a writer failed")
    return sum(map(int, counts)) / args.seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elections", type=int, default=16)
    parser.add_argument("--keys", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--flush-ms", type=int, default=25)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    args = parser.parse_args()
    for notify in ("on", "off"):
        server = server_postgres.Postgres(commit_delay=args.flush_ms * 1000, commit_siblings=0)
        try:
            print(f"notify={notify}: {batches(args, server.url(f'?notify={notify}')):.0f} "
                  "batches a second", flush=True)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
