#!/usr/bin/python3
"""Elections far away from their store: does somebody lead after every fault, wherever every answer comes in time?

    tests/trials/latency.py [--stores redis,etcd] [--delays 10,30] [--ttls 1500,5000]
                            [--faults reset] [--beds 4] [--write]

A cell is a store, a delay each way, a ttl and a fault: two candidates behind a
proxy that delays, and after the fault the lease has to be renewed again and
again.  Cells whose round trip is longer than a request may last are left out.
Fails if a cell was not led again, or if two programs ever ran at once.  With
--write the table is kept in docs/evidence/trials-latency.md.
"""

import argparse
import concurrent.futures
import contextlib
import itertools
import os
import sys
import time

import bed  # noqa: F401  (finds the folders of the others)
import run
import world as w
from proxy import Proxy
from rig import RIGS
from test_latency import order, pair_on

DELAYS = (10, 30, 60, 100, 200)
TTLS = (1500, 3000, 5000, 15000)


def reset(rig, line, world):
    line.cut()


def reset_twice(rig, line, world):
    line.cut()
    rig.renewals()
    line.cut()


def black_hole(rig, line, world):
    """Reset, and new connections are taken and never answered, until the term is over."""
    epoch = world.table.top()
    line.black_hole = True
    line.cut()
    world.dead(epoch)
    line.black_hole = False


def strand(rig, line, world):
    """Nothing passes on what is open, until the term is over; new connections are sound."""
    line.strand()


def pause(rig, line, world):
    order(rig, "pause")
    rig.renewals()
    order(rig, "resume")


FAULTS = {"reset": reset, "reset twice": reset_twice, "black hole": black_hole, "strand": strand,
          "pause": pause}


def request_ms(ttl_ms):
    """The limit of one request, as src/core/timing.c has it."""
    return min(w.hold_ns(ttl_ms) / 5e6, 2000)


def possible(name, delay, ttl):
    return 2 * delay < 0.9 * request_ms(ttl) and ttl >= (5000 if name == "kube" else 0)


def cell(name, delay, ttl, fault):
    """None, or what went wrong.  Every cell has a server of its own."""
    rig = RIGS[name]()
    try:
        rig.settle()
        with Proxy(("127.0.0.1", rig.port)) as line, \
                pair_on(rig, line, delay / 1000, ttl) as world:
            FAULTS[fault](rig, line, world)
            rig.renewals(3)
            gone = [c.name for c in world.candidates if c.proc.poll() is not None]
            assert not gone, f"ended: {gone}"
        return None
    except Exception as error:  # a cell that cannot be told has failed
        return f"{type(error).__name__}: {error}"
    finally:
        with contextlib.suppress(Exception):
            rig.close()


def table(results, args):
    lines = ["| store | fault | " + " | ".join(f"{d} ms" for d in args.delays) + " |",
             "|" + "---|" * (2 + len(args.delays))]
    for name, fault in itertools.product(args.stores, args.faults):
        marks = []
        for delay in args.delays:
            of = [results[key] is None for key in results if key[:2] == (name, delay)
                  and key[3] == fault]
            marks.append(f"{sum(of)} of {len(of)}" if of else "–")
        lines.append(f"| {name} | {fault} | " + " | ".join(marks) + " |")
    return "\n".join(lines) + "\n"


def main():
    def several(kind):
        return lambda text: [kind(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", type=several(str),
                        default=[name for name in RIGS if not RIGS[name].missing])
    parser.add_argument("--delays", type=several(int), default=list(DELAYS))
    parser.add_argument("--ttls", type=several(int), default=list(TTLS))
    parser.add_argument("--faults", type=several(str), default=list(FAULTS))
    parser.add_argument("--beds", type=int, default=2, help="elections side by side")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    os.environ["TENURE_BUILD"] = str(w.BUILD)
    begin = time.monotonic()
    keys = [key for key in itertools.product(args.stores, args.delays, args.ttls, args.faults)
            if possible(*key[:3])]
    with concurrent.futures.ThreadPoolExecutor(args.beds) as pool:
        results = dict(zip(keys, pool.map(lambda key: cell(*key), keys)))
    for key, wrong in results.items():
        print(*key, wrong or "led again", flush=True)
    ttls = ", ".join(f"{ttl / 1000:g}" for ttl in args.ttls)
    text = (f"# Far away from the store\n\n`tests/trials/latency.py`, on {run.machine()}, "
            f"{(time.monotonic() - begin) / 60:.0f} minutes: delays each way, ttls of {ttls} s; in "
            f"how many of the cells whose round trip fits into a request somebody led again.\n\n"
            f"{table(results, args)}")
    print(text)
    if args.write:
        (run.ROOT / "docs/evidence/trials-latency.md").write_text(text)
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
