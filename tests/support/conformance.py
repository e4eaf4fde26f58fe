"""The conformance suite on a URL, as a program of its own."""

import subprocess


def suite(build, url, *options, rounds=200):
    done = subprocess.run([build / "tests/conformance/tenure-conformance", url, "--dir", build,
                           "--rounds", str(rounds), "--seconds", "1", *options],
                          capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed" in done.stdout
