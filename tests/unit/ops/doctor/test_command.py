"""`podium doctor` as a command: its formats, its exit codes, and its page."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.support.doctor import scene
from tests.support.doctor.scene import leaf, well
from tests.unit.ops.doctor.test_checks import CASES

from podium.cli.commands import doctor
from podium.cli.kubeoptions import KubeOptions
from podium.cli.render.text import Layout
from podium.kube.discovery import ServerVersion
from podium.ops.doctor.diagnosis import diagnose
from podium.ops.doctor.facts import PODS, ClusterFacts, UnreadDocument
from podium.ops.doctor.server import MINIMA

_PODIUM = Path(sys.executable).with_name("podium")
PAGE = (scene.DOCS / "doctor.md").read_text(encoding="utf-8")


def test_the_minima_are_those_of_the_page() -> None:
    """docs/doctor.md lists the requirements of each mode as the code's table does."""
    section = PAGE.partition("## Which Kubernetes\n")[2].partition("\n##")[0]
    rows = [line.split(" | ")[:2] for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [[f"| {each.mode}", f"1.{each.minor}"] for each in MINIMA]


def test_each_check_is_on_the_page() -> None:
    """The table has exactly the names of the checks."""
    assert set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)) == {each.name for each in CASES}


def _sick() -> ClusterFacts:
    made = well()
    made.answers[scene.SECRET] = {"data": {"tls.crt": leaf(-1)}}
    return made.facts()


@pytest.mark.parametrize("format", ["json", "yaml"])
@pytest.mark.parametrize(("facts", "code"), [(_sick(), 3), (well().facts(), 0)], ids=["sick", "well"])
def test_the_contract(
    facts: ClusterFacts,
    code: int,
    format: str,  # noqa: A002 - the name of the option
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """The report has the envelope, versions, numbers by level and each check; exit code 3 means problems."""

    async def look(_kube: KubeOptions) -> ClusterFacts:
        return facts

    monkeypatch.setattr(doctor, "_look", look)
    with pytest.raises(SystemExit) as ended:
        doctor.command(["-o", format])
    assert (ended.value.code or 0) == code
    written = yaml.safe_load(capfdbinary.readouterr().out)
    assert list(written) == ["apiVersion", "kind", "server", "podium", "summary", "checks"]
    assert (written["kind"], written["server"], written["podium"]) == ("DoctorReport", "v1.37.0", "0.1.0")
    checks = diagnose(facts)
    assert [tuple(each.values()) for each in written["checks"]] == [
        (each.name, each.level, each.fact, each.fix) for each in checks
    ]
    assert list(written["checks"][0]) == ["name", "level", "fact", "fix"]
    assert written["summary"]["problem"] == (code == 3)
    assert sum(written["summary"].values()) == len(checks)


@pytest.mark.parametrize(
    ("version", "fact"),
    [
        (ServerVersion("v1.37.0", "37", "37"), "v1.37.0"),
        (ServerVersion("v1.37.1-eks-1", "37+", "37"), "v1.37.1-eks-1"),
        (ServerVersion("v1.32.4", "32"), "v1.32.4"),
        (ServerVersion("v1.36.3", "36", "33"), "1.33 (emulated by v1.36.3)"),
    ],
)
def test_a_server_is_what_it_behaves_as(version: ServerVersion, fact: str) -> None:
    assert str(version) == fact


@pytest.mark.parametrize("width", [80, 140, None])
def test_the_table_fits(width: int | None) -> None:
    """Problems come first, each fix under its fact; no line is wider than the terminal."""
    checks = diagnose(_sick())
    text = doctor._table(checks, Layout(width=width, colour=False))
    lines = text.splitlines()
    assert lines[0] == f"1 problem in {len(checks)} checks."
    headings = [line for line in lines if line.isupper() and " " not in line]
    assert headings == ["PROBLEMS", "NOTES", "WELL"]
    assert lines[4].startswith("certificate  Secret podium-system/podium-webhook expired 24 hours ago")
    assert "  fix: kubectl -n podium-system logs deployment/podium-webhook" in text
    assert width is None or max(map(len, lines)) <= width


def test_an_incomplete_reading_is_no_success() -> None:
    """The first line counts the checks; the others are in the notes."""
    made = well()
    made.answers[PODS] = UnreadDocument(403, "no")
    checks = diagnose(made.facts())
    first = doctor._table(checks, Layout(width=None, colour=False)).splitlines()[0]
    assert first == f"No problem in {len(checks) - 1} checks; 1 check not made."


def test_names_of_others_do_not_act_on_the_terminal() -> None:
    """An object's name is printed as plain text."""
    made = well()
    made.deployment("webhook")["spec"]["template"]["spec"]["containers"][0]["image"] = "podium:\x1b[2J"
    assert "\x1b" not in doctor._table(diagnose(made.facts()), Layout(width=80, colour=False))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "kubeconfig not found"),
        ({"clusters": []}, ""),
        (
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
            },
            "https://127.0.0.1:1: GET /version failed",
        ),
    ],
    ids=["no file", "no context", "connection refused"],
)
def test_no_server_is_one_line(content: object, expected: str, tmp_path: Path) -> None:
    """Without a server the command fails, in a line and without a traceback."""
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(json.dumps(content), encoding="utf-8")
    line = [str(_PODIUM), "doctor", f"--kubeconfig={path}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
