"""The alert pack and the dashboard: they parse, they fire, and they name only what tenure exports."""

import json
import re
import shutil
import subprocess
import urllib.request

import pytest
from process import Daemon, free_port, until

PROMTOOL = "promtool"  # of scripts/deps test

WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
LISTS = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")


def metrics_of(expression):
    """The metric names of a PromQL expression: what is left when all else is taken away."""
    text = re.sub(r'"(\\.|[^"\\])*"', "", expression)
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", text)
    text = LISTS.sub("", text)
    names = re.findall(r"(?<![\w.$])([a-zA-Z_:][\w:]*)(?!\w)(?!\s*\()", text)
    return {name for name in names if name.lower() not in WORDS}


def test_metrics_of():
    assert metrics_of('sum by (job, name) (rate(a_total{x="b_c{"}[5m:15s])) > on (id) 0.2 * d '
                      'and changes((max by (q) (e > 0))[15m:15s])') == {"a_total", "d", "e"}


def run(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


@pytest.fixture(scope="module")
def root(pytestconfig):
    return pytestconfig.rootpath


@pytest.fixture(scope="module")
def pack(root):
    return root / "contrib" / "prometheus"


def rules(pack):
    """(alert, expression) of each rule.  The file is ours and plain, and PyYAML is not needed."""
    found, alert = [], None
    lines = iter((pack / "tenure.rules.yml").read_text().splitlines())
    for line in lines:
        if match := re.match(r"      - alert: (\w+)$", line):
            alert = match[1]
        elif match := re.match(r"        expr: (.*)$", line):
            text = match[1]
            if text == "|":
                text = ""
                for more in lines:
                    if not more.startswith("          "):
                        break
                    text += more + "\n"
            found.append((alert, text))
    return found


def dashboard(root):
    return json.loads((root / "contrib" / "grafana" / "tenure.json").read_text())


def dashboard_expressions(board):
    found = [a["expr"] for a in board["annotations"]["list"]]
    for panel in board["panels"]:
        found += [target["expr"] for target in panel.get("targets", [])]
    return found


def variables(expression):
    """Grafana fills these in; promtool wants to see something."""
    return expression.replace("$__rate_interval", "1m").replace("$job", "j").replace("$name", "n") \
        .replace("$group", "g")


def test_rules_are_well(pack):
    answer = run(PROMTOOL, "check", "rules", "--lint=all", "--lint-fatal", "tenure.rules.yml",
                 cwd=pack)
    assert answer.returncode == 0, answer.stdout


def test_alerts_fire_and_stay_quiet(pack):
    answer = run(PROMTOOL, "test", "rules", "tenure.test.yml", cwd=pack)
    assert answer.returncode == 0, answer.stdout


def test_each_alert_is_tested(pack, tmp_path):
    """An alert that never fires, or always does, is noticed by tenure.test.yml."""
    text = (pack / "tenure.rules.yml").read_text()
    shutil.copy(pack / "tenure.test.yml", tmp_path)
    alerts = [alert for alert, _ in rules(pack)]
    assert len(alerts) == text.count("- alert:") >= 5
    body = re.compile(r"^        expr: .*?(?=^        (?:for|labels): )", re.M | re.S)
    def plant(expression):
        (tmp_path / "tenure.rules.yml").write_text(body.sub(f"        expr: '{expression}'\n", text))
        answer = run(PROMTOOL, "test", "rules", "tenure.test.yml", cwd=tmp_path)
        assert answer.returncode != 0
        return answer.stdout

    never = plant("vector(0) > 1")
    assert not [alert for alert in alerts if f"alertname: {alert}," not in never]
    assert "count(ALERTS" in plant('count by (job, name) ({name=~".+"}) > 0')


def test_dashboard_parses(root, tmp_path):
    board = dashboard(root)
    assert board["uid"] == "tenure" and len({p["id"] for p in board["panels"]}) == len(board["panels"])
    rows = [{"record": f"x:{i}", "expr": variables(e)}
            for i, e in enumerate(dashboard_expressions(board))]
    assert len(rows) > 10
    path = tmp_path / "board.json"  # JSON is YAML
    path.write_text(json.dumps({"groups": [{"name": "board", "rules": rows}]}))
    answer = run(PROMTOOL, "check", "rules", str(path))
    assert answer.returncode == 0, answer.stdout


def test_dashboard_shows_every_metric_of_the_jobs(root, exported):
    shown = set().union(*(metrics_of(variables(e)) for e in dashboard_expressions(dashboard(root))))
    silent = {"tenure_job_member", "tenure_job_planned", "tenure_job_starts_total", "tenure_job_plan_changes_total"}
    jobs = {name for name in exported if name.startswith(("tenure_job_", "job_lease_"))}
    assert jobs - shown <= silent | {"job_lease_renewals_total"}, jobs - shown


def test_panels_do_not_overlap(root):
    taken = {}
    for panel in dashboard(root)["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]


def test_runbook_has_each_alert(root, pack):
    told = re.findall(r"^## (Tenure\w+)$", (root / "docs/how-to/alerts.md").read_text(), re.M)
    assert sorted(told) == sorted(alert for alert, _ in rules(pack))
    for alert, _ in rules(pack):
        assert f"runbook: docs/how-to/alerts.md#{alert.lower()}\n" in (pack / "tenure.rules.yml").read_text()


def scraped(daemon, port, sign):
    """What is answered there, once it says that."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
            return text if sign in text else None
    except OSError:
        assert daemon.alive(), daemon.log()
        return None


@pytest.fixture(scope="module")
def exported(build):
    """What a real agent and a real worker export: the names that can be asked for."""
    port = free_port()
    with Daemon("alerts") as agent:
        config = agent.dir / "tenure.yaml"
        config.write_text(f"name: n\ncoordinate: {{type: sqlite, path: {agent.dir}/s.db}}\n"
                          f"run: {{command: [sleep, '600']}}\nhttp: {{listen: '127.0.0.1:{port}'}}\n")
        agent.spawn([build / "tenure", "agent", "--config", config])
        text = until(lambda: scraped(agent, port, 'tenure_election_up{name="n"} 1\n'))
    port = free_port()
    with Daemon("alerts") as worker:
        worker.spawn([build / "tenure", "work", "--store", f"sqlite:{worker.dir}/s.db", "--group", "g", "--id", "w",
                      "--listen", f"127.0.0.1:{port}", "--", "sleep", "600"])
        text += until(lambda: scraped(worker, port, 'tenure_job_member{group="g",worker="w"}'))
    names = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
        names |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return names


def test_only_what_is_exported(root, pack, exported):
    for alert, expression in rules(pack):
        assert metrics_of(expression) <= exported, (alert, metrics_of(expression) - exported)
    for expression in dashboard_expressions(dashboard(root)):
        names = metrics_of(variables(expression))
        assert names and names <= exported, (expression, names - exported)
