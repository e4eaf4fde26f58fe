#!/usr/bin/python3
"""pg_floor.py [BUILD] - postgres: against pgbench with the same statement, on the same server.

The contenders take turns.  One line a figure: name, ours, the floor, and their ratio.  The floor is
pgbench, one client, prepared: the compare-and-swap that the store sends, the token carried from
answer to request, 300 bytes of data, the same server, the same durability.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1] if __name__ == "__main__" and sys.argv[1:] else
                     os.environ.get("TENURE_BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(ROOT / "tests" / "support"))
import server_postgres  # noqa: E402
from server_postgres import Postgres  # noqa: E402

ROUNDS, BATCH_ROUNDS = 7, 3
COUNT, INNER = 400, 20
ROWS = 10000

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


def ours(server, count, rows, query=""):
    done = subprocess.run([BUILD / "bench" / "store_cycles", server.url(query), str(count),
                           str(rows)], capture_output=True, text=True, check=True)
    return {line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines()}


def tell(name, unit, pairs, bound):
    """Neighbours share what else the machine is doing: the median of their ratios counts."""
    mine, floor = (statistics.median(side) for side in zip(*pairs))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{name:9} {mine:9.1f} {unit}  floor {floor:9.1f} {unit}  ratio {ratio:.2f} ({bound})")


def main():
    if server_postgres.MISSING:
        raise SystemExit(f"pg_floor.py: {server_postgres.MISSING}")
    renewals, cycles, silent, reads, batches = [], [], [], [], []
    with Postgres(shared_buffers="128MB") as server, tempfile.TemporaryDirectory() as folder:
        ours(server, 10, 0)  # makes the table
        server.sql(FILL.format(rows=ROWS))

        def swaps(notify):
            """Prepared once for many: the token goes round inside one pgbench script."""
            took = pgbench(server, folder, START + SWAP.format(notify=notify) * INNER,
                           COUNT // INNER)
            return INNER / took

        for _ in range(ROUNDS):
            floor = swaps(", pg_notify('tenure', key)")
            got = ours(server, COUNT, 0)
            renewals.append((got["renewals"], floor))
            cycles.append((got["cycles"], floor / 2))
            reads.append((got["reads"], 1 / pgbench(server, folder, READ, COUNT)))
            silent.append((ours(server, COUNT, 0, "?notify=off")["renewals"], swaps("")))
            server.sql("DELETE FROM tenure.register WHERE key LIKE 'bench-%'")
            server.sql("VACUUM tenure.register")
        for _ in range(BATCH_ROUNDS):
            batches.append((ours(server, 1, ROWS)["batch_swap"],
                            pgbench(server, folder, BATCH, 2) * 1e3))
            server.sql("VACUUM tenure.register")
    tell("renewals", "/s", renewals, "at least 0.90")
    tell("cycles", "/s", cycles, "at least 0.90")
    tell("silent", "/s", silent, "at least 0.90; notify=off")
    tell("reads", "/s", reads, "at least 0.90")
    tell("batch", "ms", batches, f"at most 2.00; {ROWS} registers")


if __name__ == "__main__":
    main()
