#!/usr/bin/python3
"""Plant each known bug of our peers, one at a time, and see the simulator catch it.

    run.py SOURCE-ROOT BUILD-FOLDER [--write FILE] [--cpu SECONDS] [NUMBER ...]

A patch in this folder changes a copy of src/core, of the state's code or of one of
the simulator's models; never the product.  Only what it changes is compiled: the rest
is BUILD-FOLDER's own simulator.  Each variant then lives the default campaign, seed 1, 2,
3 ... in one process, until a promise is broken, or begins with the seed that its line
"From:" names, a little before the one that caught it when it was written; --cpu
(default 600) is how long it may take.  With --write, every variant begins with seed 1,
and the table of what was caught is written there.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import signal
import subprocess
import sys

CC = os.environ.get("CC", "cc")
FLAGS = ["-std=gnu11", "-O2", "-w", "-D_GNU_SOURCE"]
INCLUDES = ["", "tests/sim", "src/core", "src", "include"]
# Of these the linker takes only what the objects before them, those of the changed files, do not define.
UNCHANGED = ["tenure-sim.p/tests_sim_main.c.o", "-Wl,--start-group", "tests/sim/libsim.a", "src/libtn_inner.a",
             "src/libtn_core.a", "src/libtn_base.a", "-Wl,--end-group"]
LIBRARIES = ["-ljansson", "-lpthread", "-ldl",
             *("-Wl,--wrap=" + name for name in ("tenure_now", "tenure_nonce", "usleep"))]


class Plant:
    """One patch: its number, what it says it is, and what must catch it."""

    def __init__(self, path):
        text = open(path, encoding="utf-8").read()
        self.path = path
        self.number = int(os.path.basename(path)[:2])
        self.name = os.path.basename(path)[:-len(".patch")]
        self.title = re.search(r"^Planted bug \d+: (.*)\.$", text, re.M)[1]
        self.expected = re.search(r"^Expected: (.*)$", text, re.M)[1].split(", ")
        note = re.search(r"^Note: (.*)$", text, re.M)
        self.note = note[1] if note else ""
        start = re.search(r"^From: (\d+)$", text, re.M)
        self.start = start[1] if start else "1"
        self.files = re.findall(r"^--- a/(\S+)", text, re.M)


def call(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **options)


class Builder:
    def __init__(self, root, build):
        self.root, self.build = root, build
        self.includes = ["-I" + os.path.join(folder, name) for folder, name in
                         [*((root, name) for name in INCLUDES), (build, ""), (build, "tests/sim")]]

    def compile(self, source, output):
        done = call([CC, *FLAGS, *self.includes, "-c", source, "-o", output])
        if done.returncode:
            raise RuntimeError(f"{source} does not compile:\n{done.stdout}")

    def variant(self, plant):
        """The simulator with this bug in it."""
        folder = os.path.join(self.build, "planted", plant.name)
        shutil.rmtree(folder, ignore_errors=True)
        for name in plant.files:
            os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
            shutil.copy(os.path.join(self.root, name), os.path.join(folder, name))
        done = call(["patch", "-p1", "--no-backup-if-mismatch", "-i", plant.path], cwd=folder)
        if done.returncode:
            raise RuntimeError(f"{plant.path} does not apply any more: rewrite it for what the "
                               f"code is now\n{done.stdout}")
        objects = [os.path.join(folder, name + ".o") for name in plant.files]
        for name, output in zip(plant.files, objects):
            self.compile(os.path.join(folder, name), output)
        program = os.path.join(folder, "tenure-sim")
        done = call([CC, *objects, *UNCHANGED, *LIBRARIES, "-o", program], cwd=self.build)
        if done.returncode:
            raise RuntimeError(f"{plant.name} does not link:\n{done.stdout}")
        return program


def catch(builder, plant, start, cpu):
    """What caught it, after how many histories, in how many CPU seconds; or why not."""
    program = builder.variant(plant)
    done = call(["sh", "-c", f"ulimit -c 0; ulimit -S -t {cpu}; exec \"$0\" \"$@\"", program,
                 "--first", "--jobs", "1", "--from", start, "--seeds", "1000000000", "--lasting", "0"])
    return judge(plant, done.returncode, done.stdout, cpu)


def judge(plant, code, text, cpu):
    """A campaign ends by a violation, at its CPU limit, or because somebody stopped it:
    only the second is a bug that was not caught."""
    found = re.search(r"^VIOLATION (\S+): (.*)\n  model (\S+), history (\d+) of", text, re.M)
    if code == -signal.SIGXCPU or (found and found[1] == "crash" and
                                   f"by signal {signal.SIGXCPU:d} " in found[2]):
        return None, f"not caught in {cpu} s of CPU\n{text[-2000:]}"
    if not found:
        return None, f"stopped before it was caught (exit {code})\n{text[-2000:]}"
    spent = re.search(r"([\d.]+) s of CPU", text)
    result = {"invariant": found[1], "why": found[2], "model": found[3], "seeds": int(found[4]),
              "cpu": float(spent[1]) if spent else 0.0}
    if found[1] not in plant.expected:
        return result, f"caught by {found[1]} ({found[2]}), not by {' or '.join(plant.expected)}"
    return result, None


def write_table(path, rows):
    lines = [
        "# Planted bugs", "",
        "Each known bug of our peers, planted in a copy of the code and caught by the default",
        "campaign of the simulator: seeds 1, 2, 3 … over all models, until a promise is broken.",
        "Written by `tests/sim/planted/run.py`; the patches are beside it.", "",
        "| bug | caught by | model | histories | CPU | how it showed |",
        "|---|---|---|---:|---:|---|"]
    for plant, result in rows:
        lines.append(f"| {plant.number}. {plant.title} | {result['invariant']} | {result['model']} "
                     f"| {result['seeds']} | {result['cpu']:.1f} s | {result['why']} |")
    notes = [(plant.number, plant.note) for plant, _ in rows if plant.note]
    lines += ["", "Where a bug lies outside the core, or in a part that the product does not have "
              "yet, it is", "planted in the simulator's model of that part:", ""]
    lines += [f"- {number}: {note}" for number, note in notes]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("build")
    parser.add_argument("--write")
    parser.add_argument("--cpu", type=int, default=600)
    parser.add_argument("numbers", nargs="*", type=int)
    wish = parser.parse_intermixed_args()
    here = os.path.dirname(os.path.abspath(__file__))
    plants = [Plant(path) for path in sorted(glob.glob(os.path.join(here, "*.patch")))]
    plants = [plant for plant in plants if not wish.numbers or plant.number in wish.numbers]
    builder = Builder(os.path.abspath(wish.root), os.path.abspath(wish.build))
    rows, failed = [], 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        tasks = [(plant, pool.submit(catch, builder, plant, "1" if wish.write else plant.start, wish.cpu))
                 for plant in plants]
        for plant, task in tasks:
            try:
                result, wrong = task.result()
            except RuntimeError as error:
                result, wrong = None, str(error)
            if wrong:
                failed += 1
                print(f"FAILED {plant.name}: {wrong}", flush=True)
                continue
            rows.append((plant, result))
            print(f"caught {plant.name}: {result['invariant']} after {result['seeds']} histories, "
                  f"{result['cpu']:.1f} s: {result['why']}", flush=True)
    print(f"{len(rows)} passed, {failed} failed")
    if wish.write and not failed:
        write_table(wish.write, rows)
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
