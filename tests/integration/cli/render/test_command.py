"""`podium audit` from its arguments to its exit code, on small files."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.calling import Podium
from tests.support.servers import Server

from podium.api.minors import prerelease_note
from podium.cli.render.formats import FORMATS

SICK = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gold}
value: 1000
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train, namespace: team-a, uid: 6b3f6f0e-0000-4000-8000-000000000001}
spec:
  schedulingPolicy: {gang: {minCount: 1}}
  priorityClassName: gold
  priority: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: train-0, namespace: team-a, uid: 6b3f6f0e-0000-4000-8000-000000000002}
spec:
  schedulingGroup: {podGroupName: train}
  containers: [{name: main}]
status: {phase: Running}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team-a}
"""
CLEAN = """\
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: team-a}
spec: {containers: [{name: main}]}
status: {phase: Running}
"""
WARNED = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gold, annotations: {preemption-toleration.scheduling.x-k8s.io/toleration-seconds: soon}}
value: 1000
"""
SERVER = "---\napiVersion: cli.podium.dev/v1\nkind: ClusterInfo\nserver: {version}\n"


def _file(text: str, name: str = "cluster.yaml") -> str:
    Path(name).write_text(text, "utf-8")
    return name


@pytest.mark.parametrize("output", FORMATS)
def test_exit_code_is_the_same_in_every_format(podium: Podium, output: str) -> None:
    """The exit code is 3 for findings, 0 for a clean cluster, 2 for wrong usage, 1 for unreadable input."""
    sick, clean = _file(SICK), _file(CLEAN, "clean.yaml")
    assert podium("-f", sick, "-o", output).code == 3
    assert podium("-f", sick, "-o", output, "--fail-on", "never").code == 0
    assert podium("-f", clean, "-o", output, "--fail-on", "warning").code == 0
    assert podium("-f", sick, "-o", output, "--select", "no-such-rule").code == 2
    broken = podium("-f", _file("{", "broken.json"), "-o", output)
    assert (broken.code, broken.stdout) == (1, "")
    assert broken.stderr.count("\n") == 1


FAIL_ON = {
    "an error fails by default": (SICK, [], 3),
    "a warning does not": (WARNED, [], 0),
    "unless asked for": (WARNED, ["--fail-on", "warning"], 3),
    "an error fails then too": (SICK, ["--fail-on", "warning"], 3),
    "never is never": (SICK, ["--fail-on", "never"], 0),
    "an ignored rule does not fail": (SICK, ["--ignore", "pod-priority-differs"], 0),
    "a rule that was not selected does not": (SICK, ["--select", "group-missing"], 0),
}


@pytest.mark.parametrize(("text", "options", "want"), FAIL_ON.values(), ids=list(FAIL_ON))
def test_fail_on(podium: Podium, text: str, options: Sequence[str], want: int) -> None:
    """--fail-on, --select and --ignore determine the exit code."""
    assert podium("-f", _file(text), *options).code == want


USAGE = {
    "no such rule": (["--ignore", "pod-priority-difers"], "Did you mean pod-priority-differs?"),
    "no such format": (["-o", "pdf"], "'pdf' is not one of"),
    "no such minor": (["--kubernetes", "1.20"], "'1.20' is not one of"),
    "files and a live cluster": (["--context", "team-a"], "-f reads files"),
}


@pytest.mark.parametrize(("options", "want"), USAGE.values(), ids=list(USAGE))
def test_wrong_usage(podium: Podium, options: Sequence[str], want: str) -> None:
    """The command refuses options without effect, with a hint, before it writes any output."""
    run = podium("-f", _file(SICK), *options)
    assert (run.code, run.stdout) == (2, "")
    assert want in run.stderr


def test_report_is_all_of_standard_output(podium: Podium) -> None:
    """Stdout is valid JSON; the command's notes are on stderr."""
    run = podium("-f", _file(SICK), "-o", "json")
    assert [finding["rule"] for finding in run.json["findings"] if finding["severity"] == "error"] == [
        "pod-priority-differs"
    ]
    assert run.json["summary"]["objects"] == {"Pod": 1, "PodGroup": 1, "PriorityClass": 1}
    assert run.json["summary"]["skipped"] == {"v1 ConfigMap": 1}
    assert run.json["groups"][0]["divergent"] == [{"pod": "train-0", "priority": 0, "role": ""}]
    assert run.stderr == "podium: Kubernetes 1.37 (assumed, because no node has a version)\n"


def test_output_file_gets_what_standard_output_would(podium: Podium) -> None:
    """With --output-file stdout stays empty, and the exit code is the same."""
    sick = _file(SICK)
    direct = podium("-f", sick, "-o", "json")
    run = podium("-f", sick, "-o", "json", "--output-file", "report.json")
    assert (run.code, run.stdout) == (3, "")
    assert Path("report.json").read_text("utf-8") == direct.stdout
    assert run.stderr.endswith("wrote report.json\n")


MINORS = {
    "as asked": (["--kubernetes", "1.36"], "v1.37.0", "1.36", "set by --kubernetes"),
    "the server's": ([], "v1.36.3", "1.36", "the API server is v1.36.3"),
    "a vendor's": ([], "v1.35.2-gke.100", "1.35", "the API server is v1.35.2-gke.100"),
    "a newer one than known": (
        [],
        "v1.41.0",
        "1.38",
        f"the API server is v1.41.0; the nearest known minor{prerelease_note(38)}",
    ),
    "unknown version": ([], "''", "1.37", "assumed, because no node has a version"),
}


@pytest.mark.parametrize(("options", "version", "minor", "how"), MINORS.values(), ids=list(MINORS))
def test_minor_that_is_judged_for(
    podium: Podium, options: Sequence[str], version: str, minor: str, how: str
) -> None:
    """The minor is the requested one, else the server's; report and stderr name its source."""
    run = podium("-f", _file(SICK + SERVER.format(version=version)), "-o", "json", *options)
    assert (run.json["summary"]["kubernetes"], run.json["summary"]["chosenBy"]) == (minor, how)
    assert f"Kubernetes {minor} ({how}" in run.stderr


def test_findings_are_placed_in_their_file(podium: Podium) -> None:
    """SARIF and GitHub name the line of the field, and the file as a whole for a finding without one."""
    missing = SICK.replace("podGroupName: train", "podGroupName: nowhere")
    Path("dumps").mkdir()
    sick = _file(SICK + "---\n" + missing.split("---\n")[2].replace("train-0", "lost"), "dumps/cluster.yaml")
    results = podium("-f", sick, "-o", "sarif").json["runs"][0]["results"]
    places = {result["ruleId"]: result["locations"][0]["physicalLocation"] for result in results}
    line = SICK.splitlines().index("  priority: 1000") + 1
    assert places["pod-priority-differs"] == {
        "artifactLocation": {"uri": "dumps/cluster.yaml"},
        "region": {"startLine": line},
    }
    assert places["group-missing"] == {"artifactLocation": {"uri": "dumps/cluster.yaml"}}
    annotations = podium("-f", sick, "-o", "github").stdout
    assert f"::error file=dumps/cluster.yaml,line={line},title=pod-priority-differs::" in annotations
    assert "::error file=dumps/cluster.yaml,title=group-missing::" in annotations


def test_standard_input_has_no_place() -> None:
    """Objects from stdin are reported without a file."""
    run = subprocess.run(
        [sys.executable, "-c", "from podium.cli.main import main; main()", "audit", "-f", "-", "-o", "sarif"],
        input=SICK,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 3
    (result,) = (r for r in json.loads(run.stdout)["runs"][0]["results"] if r["level"] == "error")
    assert list(result["locations"][0]) == ["logicalLocations"]


def test_rules_that_were_asked_for_are_described(podium: Podium) -> None:
    """SARIF describes the selected rules and no others."""
    run = podium("-f", _file(SICK), "-o", "sarif", "--select", "group-missing", "--select", "class-unused")
    rules = [rule["id"] for rule in run.json["runs"][0]["tool"]["driver"]["rules"]]
    assert sorted(rules) == ["class-unused", "group-missing"]


def test_table_takes_the_terminals_width(podium: Podium, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is never narrower than 60 nor wider than 140, and without colour when piped."""
    sick = _file(SICK)
    for columns, widest in ((40, 60), (90, 90), (300, 140)):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = podium("-f", sick).stdout
        assert max(map(len, text.splitlines())) <= widest
        assert "\x1b" not in text
        assert re.match(r"1 group and 1 pod will not schedule on Kubernetes 1\.37\.\n", text)


TERMINALS: dict[str, tuple[dict[str, str], bool]] = {
    "a terminal": ({"TERM": "xterm"}, True),
    "no colour wanted": ({"TERM": "xterm", "NO_COLOR": "1"}, False),
    "an empty wish is none": ({"TERM": "xterm", "NO_COLOR": ""}, True),
    "a dumb terminal": ({"TERM": "dumb"}, False),
}


@pytest.mark.parametrize(("environment", "coloured"), TERMINALS.values(), ids=list(TERMINALS))
def test_colour_on_a_terminal(tmp_path: Path, environment: dict[str, str], coloured: bool) -> None:
    """A terminal gets colour unless it cannot show it or the user has disabled it."""
    file = tmp_path / "clean.yaml"
    file.write_text(CLEAN)
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"no pseudo-terminals, /dev/pts is not mounted: {error}")
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    subprocess.run(
        [sys.executable, "-c", "from podium.cli.main import main; main()", "audit", "-f", str(file)],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**inherited, **environment},
        check=True,
    )
    os.close(theirs)
    first = os.read(ours, 4096)
    os.close(ours)
    assert first.startswith(b"\x1b[1mNo rule found" if coloured else b"No rule found")


def test_audit_of_json_imports_nothing_heavy() -> None:
    """Auditing a file loads no client, no YAML, no pydantic and no table library."""
    code = (
        "import sys\n"
        "from podium.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    heavy = {'aiohttp', 'kubernetes_asyncio', 'numpy', 'pydantic', 'rich', 'yaml'}\n"
        "    print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}
    run = subprocess.run(
        [sys.executable, "-c", code, "audit", "-f", "-"],
        input=json.dumps(pod),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0
    assert run.stderr.splitlines()[-1] == "[]"


@pytest.mark.server
def test_live_audit_judges_for_the_server(podium: Podium, server: Server, namespace: str) -> None:
    """Without -f the cluster is read, the minor is the API server's, and no finding has a file."""
    pod = {
        "metadata": {"name": "lost"},
        "spec": {
            "schedulingGroup": {"podGroupName": "nowhere"},
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    code, answer = server.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    assert code == 201, answer
    live = ("--kubeconfig", str(server.kubeconfig), "-n", namespace)
    run = podium(*live, "-o", "json")
    assert run.code == 3
    assert run.json["summary"]["kubernetes"] == server.release.minor
    assert run.json["summary"]["chosenBy"] == f"the API server is v{server.release.version}"
    assert [finding["rule"] for finding in run.json["findings"] if finding["severity"] == "error"] == [
        "group-missing"
    ]
    results = podium(*live, "-o", "sarif").json["runs"][0]["results"]
    (result,) = (result for result in results if result["level"] == "error")
    assert list(result["locations"][0]) == ["logicalLocations"]
    assert f"namespace {namespace} only" in podium(*live).stdout.replace("\n", " ")
