"""Plant the bugs of a world (tests/sim/jobs, tests/sim/replica), one at a time, and see it catch them.

A patch changes a copy of the core, or of the world where the rule is the store's, the disk's or an
operator's; the product is never touched.  Each variant lives seed 1, 2, 3 ... until a promise is
broken, or begins with the seed that its line "From:" names, where it was caught when it was written;
--cpu (default 60) is how long it may take.  First of all the code as it is lives the kept seeds
(`seeds` in the world's folder): histories that once broke a promise.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess

CC = os.environ.get("CC", "cc")
FLAGS = ["-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE"]


def call(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **options)


def must(command, what, **options):
    done = call(command, **options)
    if done.returncode:
        raise RuntimeError(f"{what}:\n{done.stdout}")


class Builder:
    def __init__(self, world, patterns, root, build):
        self.world, self.root = world, root
        self.folder = os.path.join(build, "planted-" + world)
        self.base = os.path.join(build, "src/libtn_base.a")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.sources = [os.path.relpath(path, root) for pattern in patterns
                        for path in sorted(glob.glob(os.path.join(root, pattern)))
                        if not path.endswith("family.c")]

    def compile(self, path, output):
        includes = [self.root, *(os.path.join(self.root, name)
                                 for name in ("src", "include", "tests/sim/" + self.world))]
        must([CC, *FLAGS, *("-I" + name for name in includes), "-c", path, "-o", output],
             f"{path} does not compile")

    def object_of(self, source):
        return os.path.join(self.folder, source.replace("/", "_") + ".o")

    def variant(self, patch, name):
        folder = os.path.join(self.folder, name)
        objects = {source: self.object_of(source) for source in self.sources}
        files = re.findall(r"^--- a/(\S+)", open(patch, encoding="utf-8").read(), re.M)
        for source in files:
            os.makedirs(os.path.join(folder, os.path.dirname(source)), exist_ok=True)
            shutil.copy(os.path.join(self.root, source), os.path.join(folder, source))
        must(["patch", "-p1", "--no-backup-if-mismatch", "-i", patch],
             f"{patch} does not apply any more: rewrite it for what the code is now", cwd=folder)
        for source in files:
            objects[source] = os.path.join(folder, os.path.basename(source) + ".o")
            self.compile(os.path.join(folder, source), objects[source])
        return self.link(objects, folder)

    def link(self, objects, folder):
        program = os.path.join(folder, self.world + "-sim")
        must([CC, *objects.values(), self.base, "-o", program], f"{program} does not link")
        return program

    def unchanged(self):
        return self.link({source: self.object_of(source) for source in self.sources}, self.folder)


def catch(builder, patch, cpu):
    """What caught it, or why it was not caught."""
    name = os.path.basename(patch)[:-len(".patch")]
    head = open(patch, encoding="utf-8").read()
    expected = re.search(r"^Expected: (.*)$", head, re.M)[1]
    start = re.search(r"^From: (\d+)$", head, re.M)
    program = builder.variant(patch, name)
    done = call(["sh", "-c", f"ulimit -c 0; ulimit -S -t {cpu}; exec \"$0\" \"$@\"", program,
                 "--from", start[1] if start else "1", "--seeds", "1000000000"])
    found = re.search(r"^VIOLATION (\S+): (.*)\n  seed \d+, history (\d+)", done.stdout, re.M)
    if not found:
        return False, f"FAILED {name}: not caught (exit {done.returncode})\n{done.stdout[-1000:]}"
    if found[1] not in expected.split(", "):
        return False, f"FAILED {name}: caught by {found[1]} ({found[2]}), not by {expected}"
    return True, f"caught {name}: {found[1]} after {found[3]} histories: {found[2]}"


def live_kept(builder):
    """The kept seeds that break a promise, with their last lines."""
    program = builder.unchanged()
    with open(os.path.join(builder.root, "tests/sim", builder.world, "seeds"), encoding="utf-8") as lines:
        seeds = [line.split()[0] for line in lines if not line.startswith("#")]
    lives = [(seed, call([program, "--seed", seed])) for seed in seeds]
    return [f"FAILED seed {seed}: {done.stdout[-200:]}" for seed, done in lives if done.returncode]


def main(world, patterns):
    """`patterns` name the sources of the world and of what it tests."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("build")
    parser.add_argument("--cpu", type=int, default=60)
    parser.add_argument("numbers", nargs="*", type=int)
    wish = parser.parse_intermixed_args()
    folder = os.path.join(wish.root, "tests/sim", world, "planted")
    patches = [path for path in sorted(glob.glob(os.path.join(os.path.abspath(folder), "*.patch")))
               if not wish.numbers or int(os.path.basename(path)[:2]) in wish.numbers]
    builder = Builder(world, patterns, os.path.abspath(wish.root), os.path.abspath(wish.build))
    passed, broken = 0, []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda source: builder.compile(os.path.join(builder.root, source),
                                                     builder.object_of(source)), builder.sources))
        if not wish.numbers:
            broken = live_kept(builder)
            print("\n".join(broken) if broken else "every kept seed keeps every promise", flush=True)
        for task in [pool.submit(catch, builder, path, wish.cpu) for path in patches]:
            try:
                well, text = task.result()
            except RuntimeError as error:
                well, text = False, f"FAILED {error}"
            passed += well
            print(text, flush=True)
    print(f"{passed} passed, {len(patches) - passed} failed")
    return 1 if broken or passed != len(patches) or not patches else 0

