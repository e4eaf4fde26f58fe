"""`tenure config check`, its examples and its manual; the messages themselves are in
tests/unit/config."""

import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENURE_BUILD", ROOT / "build"))
CASES = ROOT / "tests" / "unit" / "config"


def check(*args, **env):
    return subprocess.run([BUILD / "tenure", "config", "check", *map(str, args)], text=True,
                          capture_output=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PASSWORD": "c4n4ry", "HOSTNAME": "node-1", **env})


def test_the_example_can_be_used():
    done = check(ROOT / "contrib" / "tenure.yaml")
    assert done.returncode == 0 and not done.stderr
    assert "election web" in done.stdout and "election nightly" in done.stdout


def test_the_readme_can_be_used(tmp_path):
    (text,) = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    (tmp_path / "tenure.yaml").write_text(text)
    assert check(tmp_path / "tenure.yaml").returncode == 0


@pytest.mark.parametrize("path", sorted(CASES.glob("seed_*.yaml")), ids=lambda path: path.stem)
def test_files_of_other_programs_can_be_used(path):
    done = check(path)
    assert "c4n4ry" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


def test_stores_that_are_not_here(tmp_path):
    """A store without its module or its library cannot be used, whatever else is right."""
    file = tmp_path / "tenure.yaml"
    file.write_text("coordinate: {type: mongodb, endpoints: [h]}\nelections: [{name: web}]\n")
    done = check(file)
    assert done.returncode == 2 and done.stderr.startswith(f"{file}:1: coordinate: no store is called")


def test_everything_that_is_wrong_is_told():
    done = check(CASES / "bad_keys.yaml")
    wanted = (CASES / "bad_keys.txt").read_text().replace("bad_keys.yaml", str(CASES / "bad_keys.yaml"))
    assert done.returncode == 2 and done.stderr == wanted and not done.stdout
    done = check(CASES / "bad_many.yaml")
    assert done.stderr.splitlines()[20:] == ["and 10 more"]
    done = check("--json", CASES / "bad_keys.yaml")
    assert done.returncode == 2
    assert json.loads(done.stdout)["errors"] == wanted.splitlines()


def test_json():
    done = check("--json", CASES / "seed_file_lease.yaml")
    (election,) = json.loads(done.stdout)["elections"]
    assert election["store"] == "file:/var/lib/sf2loki/leader.lease"
    assert election["times"] == {"ttl_ms": 30000, "hold_ms": 23545, "kill_ms": 1000,
                                 "renew_ms": 10000, "request_ms": 2000, "grace_ms": 8000,
                                 "clock_drift_ppm": 100000}


def test_where_it_is_looked_for(tmp_path):
    done = check(tmp_path / "none.yaml")
    assert done.returncode == 1 and "No such file" in done.stderr
    assert check(TENURE_CONFIG=str(CASES / "seed_heartbeat.yaml")).returncode == 0
    big = tmp_path / "big.yaml"
    big.write_text("#" * 5_000_000)
    done = check(big)
    assert done.returncode == 2 and "larger than 4 MiB" in done.stderr
    done = check(tmp_path)
    assert done.returncode == 1 and "Is a directory" in done.stderr


def test_the_manual_has_every_key():
    source = (ROOT / "src/config/sections.c").read_text() + (ROOT / "src/config/config.c").read_text()
    keys = set(re.findall(r'^ +\{"([a-z_]+)", (?:NULL|"[^"]*"), TN_KEY_', source, re.M))
    manual = (ROOT / "docs/reference/man5/tenure.yaml.5.scd").read_text()
    named = set(re.findall(r"\*([a-z_]+)\*", manual))
    assert len(keys) > 50 and not keys - named
