"""A page of documentation, run from top to bottom: CONTRIBUTING.md has the convention."""

import os
import re
import shlex
import signal
import string
import subprocess

from process import die_with_parent, free_port

LIMIT = 300  # seconds for one page: generous, and nothing here is about speed

# What the hidden blocks of a page can call, and what reports a command that failed.
PRELUDE = """
set -eEuo pipefail
here=setup
trap 'code=$?; echo "$here: exit code $code of: $BASH_COMMAND" >&3' ERR
pids=
finish() { for pid in $pids; do kill -TERM $pid 2>/dev/null || :; done; wait; }
trap finish EXIT
until_ok() {  # until_ok COMMAND: repeat it until it succeeds
    for _ in $(seq 600); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    echo "until_ok: still failing: $*" >&3
    return 1
}
end() {  # end NAME [SIGNAL]: a background block, and wait until it has ended
    kill -"${2:-TERM}" "${!1}"
    wait "${!1}" || :
}
"""

MARK = re.compile(r"<!--\s*(needs|put|file|run|sh):?\s*(.*?)\s*-->", re.S)
PIECE = re.compile(r"<!--.*?-->|^(?P<indent> *)```(?P<language>[a-z]*)\n(?P<text>.*?)^ *```$", re.M | re.S)


class Block:
    """A fenced block, or hidden commands, with the marks that stand before it."""

    def __init__(self, line, language, text, marks=(), hidden=False):
        self.line, self.language, self.text, self.hidden = line, language, text, hidden
        self.file = self.background = self.elsewhere = None
        self.code, self.output = 0, None
        for kind, value in marks:
            word, _, rest = value.partition(" ")
            if kind == "file":
                self.file = value
            elif word == "background":
                self.background = rest.split()
            elif word == "exit":
                self.code = int(rest)
            elif word == "elsewhere":
                self.elsewhere = rest
            else:
                raise ValueError(f"line {line}: unknown mark '{kind}: {value}'")


class Document:
    """Its blocks in order; `needs` names the servers and programs without which it cannot be run."""

    def __init__(self, path):
        self.path, self.needs, self.blocks, self.put = path, [], [], []
        text, marks = path.read_text(), []
        for piece in PIECE.finditer(text):
            line = text.count("\n", 0, piece.start()) + 1
            if piece["language"] is None:
                mark = MARK.fullmatch(piece[0])
                if not mark:
                    continue
                kind, value = mark.groups()
                if kind == "needs":
                    self.needs += value.split()
                elif kind == "put":
                    old, arrow, new = value.partition(" => ")
                    assert arrow, f"{path.name}:{line}: put: OLD => NEW"
                    self.put.append((old, new))
                elif kind == "sh":
                    self.blocks.append(Block(line, "sh", value + "\n", hidden=True))
                else:
                    marks.append((kind, value))
                continue
            body = re.sub(rf"^{piece['indent']}", "", piece["text"], flags=re.M)
            block = Block(line, piece["language"], body, marks)
            if block.language == "text" and not marks and self.blocks:
                self.blocks[-1].output = body
            else:
                self.blocks.append(block)
            marks = []
        assert not marks, f"{path.name}: a mark without a block: {marks}"

    def script(self, env):
        """The whole page as one script; each block's output goes to a file of its own."""
        parts = [PRELUDE]
        for number, block in enumerate(self.blocks):
            text = block.text
            for old, new in self.put:
                text = text.replace(old, string.Template(new).safe_substitute(env))
            where = f"{self.path.name}:{block.line}"
            parts.append(f"here={shlex.quote(where)}\n")
            out = f">.out-{number} 2>&1"
            if block.file:
                name = shlex.quote(block.file)
                parts.append(f"cat >{name} <<'END-OF-FILE'\n{text}END-OF-FILE\nchmod +x {name}\n")
            elif block.language != "sh" or block.elsewhere:
                continue
            elif block.background:
                for name in block.background:
                    parts.append(f"(exec setpriv --pdeathsig KILL env {text.strip()}\n) >{name}.out 2>&1 &\n"
                                 f"export {name}=$!; pids=\"$pids $!\"\n")
            elif block.code:
                parts.append(f"trap - ERR; set +e; ( set -e\n{text}) {out}; code=$?; set -e\n"
                             f"trap 'code=$?; echo \"$here: exit code $code of: $BASH_COMMAND\" >&3' ERR\n"
                             f"[ $code = {block.code} ] || {{ echo \"$here: exit code $code\" >&3; exit 1; }}\n")
            else:
                parts.append(f"{{ :\n{text}}} {out}\n")
        return "".join(parts)

    def run(self, folder, env, prefix=()):
        """Run it; what was wrong, in words, or None."""
        ports = {f"PORT{number}": str(free_port()) for number in range(1, 5)}
        env = {"HOME": str(folder), "LC_ALL": "C.UTF-8", "COLUMNS": "100", "TZ": "UTC", **ports, **env}
        (folder / ".script").write_text(self.script(env))
        with open(folder / ".wrong", "wb") as wrong:
            process = subprocess.Popen([*prefix, "bash", "-c", "exec 3>&2; . ./.script"], cwd=folder, env=env,
                                       stdin=subprocess.DEVNULL, stdout=wrong, stderr=wrong,
                                       start_new_session=True, preexec_fn=die_with_parent)
            try:
                code = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                code = f"no end within {LIMIT} s"
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)  # what is left of it
                except ProcessLookupError:
                    pass
                process.wait()
        if code != 0:
            return f"{code}\n" + "".join(
                f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in
                [folder / ".wrong", *sorted(folder.glob(".out-*"), key=os.path.getmtime), *folder.glob("*.out")])
        for number, block in enumerate(self.blocks):
            if block.output is not None:
                shown = (folder / f".out-{number}").read_text(errors="replace")
                if not matches(block.output, shown):
                    return f"{self.path.name}:{block.line}: expected\n{block.output}\nbut it printed\n{shown}"
        return None


def matches(expected, shown):
    """Every line of expected, in this order; `…` stands for any text, spaces for any spaces."""
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    for line in expected.splitlines():
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in line.split("…"))
        pattern = re.compile(pattern.replace(r"\ ", r"\ *"))
        if not line.strip():
            continue
        while lines and not pattern.fullmatch(lines[0]):
            lines.pop(0)
        if not lines:
            return False
        lines.pop(0)
    return True
