"""The conformance suite on a URL, as a program of its own."""

import subprocess


def suite(build, url, *options, rounds=200):
    done = subprocess.run([build / "tests/conformance/tenure-conformance", url, "--dir", build,
                           "--rounds", str(rounds), "--seconds", "1", *options],
                          capture_output=True, text=True, timeout=800)
    # What failed comes first: a report may be cut.
    lines = sorted(done.stdout.splitlines(), key=lambda line: line.startswith("ok "))
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr}" + "\n".join(lines)
    assert "0 failed" in done.stdout
