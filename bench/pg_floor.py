#!/usr/bin/python3
"""PostgreSQL: our registers beside pgbench with the same statement, interleaved in one run.

    bench/pg_floor.py [--rounds 7] [--count 500] [--build build]

The floor is pgbench, one client, prepared: the compare-and-swap that the store
sends, the token carried from answer to request, 300 bytes of data, the same
server, the same durability.  Medians of the rounds, and the ratios.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import server_postgres  # noqa: E402
from server_postgres import Postgres  # noqa: E402

DATA = "repeat('r', 300)::bytea"
SWAP = ("UPDATE tenure.register SET version = version + 1, prev = nonce,"
        f" nonce = gen_random_uuid(), tombstone = false, data = {DATA}"
        " WHERE key = 'floor' AND version = :version AND nonce = :nonce::uuid"
        " RETURNING version, nonce{notify} \\gset\n")
START = "SELECT version, nonce FROM tenure.register WHERE key = 'floor' \\gset\n"
READ = "SELECT * FROM tenure.register WHERE key = 'floor';\n"
BATCH = ("UPDATE tenure.register SET version = version + 1, prev = nonce,"
         f" nonce = gen_random_uuid(), tombstone = false, data = {DATA}"
         " WHERE key >= 'many/' AND key < 'many0';\n")
FILL = ("INSERT INTO tenure.register SELECT k, 1, gen_random_uuid(), NULL, false, "
        f"{DATA} FROM (SELECT 'floor' AS k UNION ALL"
        " SELECT 'many/' || lpad(i::text, 6, '0') FROM generate_series(1, {rows}) i) n"
        " ON CONFLICT DO NOTHING")


def pgbench(server, folder, script, count):
    """Seconds that one script took, on the average."""
    file = pathlib.Path(folder) / "script"
    file.write_text(script)
    done = subprocess.run(["pgbench", "-n", "-M", "prepared", "-c", "1", "-t", str(count), "-f",
                           file, "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres",
                           "postgres"], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        if line.startswith("tps = "):
            return 1 / float(line.split()[2])
    raise SystemExit(done.stdout + done.stderr)


def ours(build, server, count, rows, query=""):
    done = subprocess.run([build / "bench" / "store_cycles", server.url(query), str(count),
                           str(rows)], capture_output=True, text=True, check=True)
    return {line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--build", type=pathlib.Path,
                        default=pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build")))
    args = parser.parse_args()
    if server_postgres.MISSING:
        raise SystemExit(server_postgres.MISSING)
    seen = {}

    def note(name, value):
        seen.setdefault(name, []).append(value)

    with Postgres(shared_buffers="128MB") as server, tempfile.TemporaryDirectory() as folder:
        ours(args.build, server, 10, 0)  # makes the table
        server.sql(FILL.format(rows=args.rows))
        # Prepared once for many: the token goes round inside one pgbench script.
        notify = ", pg_notify('tenure', key)"
        inner = 20
        for _ in range(args.rounds):
            for name, text in (("swap", notify), ("plain", "")):
                took = pgbench(server, folder, START + SWAP.format(notify=text) * inner,
                               max(1, args.count // inner))
                note(f"floor {name}", took / inner)
            note("floor read", pgbench(server, folder, READ, args.count))
            note("floor batch", pgbench(server, folder, BATCH, 2))
            got = ours(args.build, server, args.count, args.rows)
            note("ours swap", 1 / got["renewals"])
            note("ours cycle", 1 / got["cycles"])
            note("ours read", 1 / got["reads"])
            note("ours batch", got["batch_swap"] / 1e3)
            note("ours silent", 1 / ours(args.build, server, args.count, 0,
                                         "?notify=off")["renewals"])
            server.sql("DELETE FROM tenure.register WHERE key LIKE 'bench-%'")
            server.sql("VACUUM tenure.register")
    m = {name: statistics.median(values) for name, values in seen.items()}
    print(f"renewals   ours {1 / m['ours swap']:8.0f}/s   pgbench {1 / m['floor swap']:8.0f}/s   "
          f"ratio {m['floor swap'] / m['ours swap']:.2f}")
    print(f"cycles     ours {1 / m['ours cycle']:8.0f}/s   pgbench {1 / m['floor swap'] / 2:8.0f}/s"
          f"   ratio {2 * m['floor swap'] / m['ours cycle']:.2f}")
    print(f"no notify  ours {1 / m['ours silent']:8.0f}/s   pgbench {1 / m['floor plain']:8.0f}/s   "
          f"ratio {m['floor plain'] / m['ours silent']:.2f}")
    print(f"reads      ours {1 / m['ours read']:8.0f}/s   pgbench {1 / m['floor read']:8.0f}/s   "
          f"ratio {m['floor read'] / m['ours read']:.2f}")
    print(f"batch of {args.rows}  ours {m['ours batch'] * 1e3:.1f} ms   "
          f"bare UPDATE {m['floor batch'] * 1e3:.1f} ms   "
          f"times {m['ours batch'] / m['floor batch']:.2f}")


if __name__ == "__main__":
    main()
