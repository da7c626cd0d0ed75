"""`podium preflight` on files: tables, JSON, the folder, exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.preflight import NEW_VERSION, group, pod

from podium.cli.commands.preflight import command
from podium.documents.clusterinfo import ClusterInfo
from podium.documents.yamldoc import load_all
from podium.errors import PodiumError

EXAMPLES = Path(__file__).parents[4] / "examples"
TRAINING = str(EXAMPLES / "training-1.36.json.gz")
READY = str(EXAMPLES / "clean-1.37.json.gz")


def run(*arguments: str, text: str | None = None) -> Result:
    """Run the command as a shell would; a PodiumError reaches the test."""
    return CliRunner().invoke(command, arguments, input=text)


def listed(*items: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def test_a_real_cluster_of_1_36() -> None:
    """The report names the groups that the 1.37 scheduler leaves pending, and converts all of v1alpha2."""
    done = run("-f", TRAINING, "--to", "1.37", "-o", "json")
    assert done.exit_code == 3
    report = json.loads(done.stdout)
    assert (report["apiVersion"], report["kind"]) == ("cli.podium.dev/v1", "PreflightReport")
    assert {each["object"]["name"] for each in report["stopped"]} == {
        "ablation",
        "finetune",
        "nightly-asr",
        "retrain",
    }
    assert len(report["remade"]) == 37
    assert {each["target"] for each in report["remade"]} == {NEW_VERSION}
    assert {each["fingerprint"] for each in report["findings"]}


def test_the_table_says_the_same_in_the_order_of_work() -> None:
    """The groups that stop, the objects to recreate, the steps; long parts are cut, but not with `wide`."""
    done = run("-f", TRAINING, "--to", "1.37")
    assert done.exit_code == 3
    lines = done.stdout.splitlines()
    assert lines[0].startswith("4 groups, 35 pods and 272 accelerators stop scheduling with the upgrade")
    sections = [line for line in lines if line.isupper()]
    order = [
        "STOPS SCHEDULING",
        "FINDINGS BY RULE",
        f"RECREATE AS {NEW_VERSION.upper()}",
        "WHAT TO DO",
    ]
    assert [line for line in sections if line in order] == order
    assert max(map(len, lines)) <= 110
    wide = run("-f", TRAINING, "--to", "1.37", "-o", "wide").stdout
    assert "more (-o wide shows all)" in done.stdout
    assert "more (-o wide shows all)" not in wide
    assert wide.count("Workload team-") > done.stdout.count("Workload team-")


def test_a_cluster_that_is_ready_says_so() -> None:
    done = run("-f", READY, "--to", "1.38")
    assert done.exit_code == 0
    assert done.stdout.startswith("No checked object stops scheduling with the upgrade")


def test_a_workload_of_1_35_is_found_without_from() -> None:
    """Only 1.35 has its version, and its pods lose their reference to a group."""
    text = """
apiVersion: scheduling.k8s.io/v1alpha1
kind: Workload
metadata: {name: w}
spec: {podGroups: [{name: a, policy: {gang: {minCount: 4}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec: {template: {spec: {workloadRef: {name: w, podGroup: a}}}}
"""
    done = run("-f", "-", "--to", "1.37", text=text)
    assert done.exit_code == 3
    assert done.stdout.startswith("1 object cannot be stored after the upgrade from Kubernetes 1.35 to 1.37.")
    assert "workload-ref-dropped" in done.stdout


def test_the_folder_holds_what_was_and_what_will_be(tmp_path: Path) -> None:
    """The folder has a file for each namespace; Workloads come before their groups."""
    folder = tmp_path / "out"
    done = run("-f", "-", "--to", "1.37", "--output-dir", str(folder), text=listed(group(), pod()))
    assert done.exit_code == 3
    files = {str(each.relative_to(folder)) for each in folder.rglob("*.yaml")}
    assert files == {"new/team-a.yaml", "old/team-a.yaml"}
    (new,) = load_all((folder / "new/team-a.yaml").read_bytes())
    assert new["apiVersion"] == NEW_VERSION
    assert "wrote new/team-a.yaml, old/team-a.yaml" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    """Old and new results are never mixed; an empty folder is accepted."""
    (tmp_path / "out").mkdir()
    arguments = ("-f", "-", "--to", "1.37", "--output-dir", str(tmp_path / "out"))
    assert run(*arguments, text=listed(group())).exit_code == 3
    before = (tmp_path / "out/new/team-a.yaml").read_bytes()
    refused = run(*arguments, text=listed(group("other")))
    assert isinstance(refused.exception, PodiumError)
    assert "Use a new or empty folder" in str(refused.exception)
    assert (tmp_path / "out/new/team-a.yaml").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_nothing_to_make_anew_writes_no_folder(tmp_path: Path) -> None:
    text = listed(group(version=NEW_VERSION))
    done = run("-f", "-", "--to", "1.37", "--output-dir", str(tmp_path / "out"), text=text)
    assert done.exit_code == 0
    assert "is not created" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_dump_is_judged_but_gives_no_manifests(tmp_path: Path) -> None:
    """It leaves out labels and annotations, so a manifest made from it would not be the same object."""
    info = {"apiVersion": "cli.podium.dev/v1", "kind": "ClusterInfo", "server": "v1.36.3"}
    assert set(info) <= set(ClusterInfo.__struct_fields__)
    text = listed(info, group(), pod(priority=5))
    report = json.loads(run("-f", "-", "--to", "1.37", "-o", "json", text=text).stdout)
    assert [each["manifest"] for each in report["remade"]] == [""]
    assert report["steps"][0]["what"].startswith("run preflight on the live cluster")
    refused = run("-f", "-", "--to", "1.37", "--output-dir", str(tmp_path / "out"), text=text)
    assert isinstance(refused.exception, PodiumError)
    assert "PodGroup team-a/train cannot be written" in str(refused.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_is_taken_to_be_of_the_minor_before() -> None:
    """A file has its minor only in the version of its groups; --from sets it."""
    report = json.loads(run("-f", "-", "--to", "1.38", "-o", "json", text=listed(pod(priority=5))).stdout)
    assert report["current"] == "1.37"
    assert report["currentBy"].startswith("assumed")
    report = json.loads(run("-f", "-", "--to", "1.38", "-o", "json", text=listed(group())).stdout)
    assert report["current"] == "1.36"
    result = run("-f", "-", "--to", "1.38", "--from", "1.36", "-o", "json", text=listed(group()))
    assert json.loads(result.stdout)["current"] == "1.36"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-f", READY, "--to", "1.37"], "is not an upgrade: the current minor is 1.37"),
        (["-f", TRAINING, "--to", "1.37", "--from", "1.38"], "is not an upgrade: the current minor is 1.38"),
        (["-f", TRAINING], "Missing option '--to'"),
        (["-f", TRAINING, "--to", "1.36"], "'1.36' is not one of"),
        (["-f", TRAINING, "--to", "1.37", "--context", "a"], "-f reads files"),
    ],
)  # fmt: skip
def test_wrong_usage(arguments: list[str], expected: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert expected in done.stderr


def test_a_name_cannot_act_on_a_terminal() -> None:
    """Names in files may be hostile."""
    hostile = group("train\x1b[2J")
    assert "\x1b" not in run("-f", "-", "--to", "1.37", text=listed(hostile)).stdout
