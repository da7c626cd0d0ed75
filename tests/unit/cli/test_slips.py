"""Usual mistakes on the command line are understood, or refused with the right command."""

import io
import json
import tarfile
from pathlib import Path

import pytest
import yaml
from tests.support.calling import call

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: t}\n"
    "spec: {containers: [{name: a, image: b}]}\nstatus: {phase: Running}\n"
)
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: node}\nstatus: {allocatable: {cpu: 4, pods: 9}}\n"
BUDGET = (
    "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b, namespace: t}\nspec: {}\n"
    "status: {disruptedPods: {p: null}}\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pod.yaml").write_text(POD, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "podium audit --kubernetes v1.37 -f pod.yaml",
        "podium audit --kubernetes 1.37.2 -f pod.yaml",
        "podium preflight --to v1.38 --from v1.37 -f pod.yaml",
        "podium admit --kubernetes v1.36 -f pod.yaml",
        "podium why pods t/p -f pod.yaml",
        "podium why po t/p -f pod.yaml",
        "podium why pod/p -n t -f pod.yaml",
        "podium why po/p -n t -f pod.yaml",
        "podium version",
        "podium help",
        "podium help audit",
    ],
)
def test_another_spelling_is_understood(line: str, folder: Path) -> None:
    done = call(line, folder)
    assert done.code == 0, done.stderr


@pytest.mark.parametrize("kind", ["groups", "podgroup", "PodGroups", "pg", "podgroups.scheduling.k8s.io"])
def test_every_name_of_a_group_is_understood(kind: str, folder: Path) -> None:
    assert "PodGroup t/g not found" in call(f"podium why {kind} t/g -f pod.yaml", folder).stderr


def test_version_and_help_are_those_of_the_options(folder: Path) -> None:
    assert call("podium version", folder).stdout == call("podium --version", folder).stdout
    assert call("podium help audit", folder).stdout == call("podium audit --help", folder).stdout
    assert call("podium help", folder).stdout == call("podium --help", folder).stdout


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("podium audit pod.yaml", "(pod.yaml). To read a file or folder, use -f pod.yaml"),
        ("podium audit --kubernetes v1.99 -f pod.yaml", "'1.99' is not one of"),
        ("podium audit -f https://example.org/a", "https://example.org/a: URLs are not read"),
        ("podium whatif -f node.yaml", "no target: use --pod or --group"),
        ("podium whatif -f pod.yaml --pod t/p", "the input has no nodes"),
        ("podium help nothing", "No such command 'nothing'"),
        ("podium audit help", "Use podium audit --help"),
        (
            "podium audit -k base",
            "'-k'. Build it first: kubectl kustomize DIR | podium audit -f -",
        ),
        ("podium whatif -f pod.yaml pod/p", "To plan for a pod, use --pod p"),
        ("podium whatif -f pod.yaml -n t --pod pod/p", "which -n names. Write p without its kind."),
        (
            "podium why job t/p -f pod.yaml",
            "'job' is not one of 'pod', 'group'. A workload waits because of its",
        ),
        ("podium why deployment/p -n t -f pod.yaml", "'deployment' is not one of 'pod', 'group'"),
        ("podium why p -n t -f pod.yaml", "'p' is not one of 'pod', 'group'"),
        ("podium why pod -n t -f pod.yaml", "Name one pod or group, such as pod team-a/trainer"),
        ("podium why pod/ -n t -f pod.yaml", "'t/' is not of the form NAMESPACE/NAME"),
        ("podium why pod/p pod/p -n t -f pod.yaml", "Name one pod or group, such as pod team-a/trainer"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_to_do(line: str, words: str, folder: Path) -> None:
    (folder / "node.yaml").write_text(NODE, "utf-8")
    done = call(line, folder)
    assert (done.code, words in done.stderr) == (2, True), done.stderr


_TABLE = "this is a table or list of kubectl, so use kubectl get -o yaml"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NAME  READY  STATUS\np  1/1  Running\n", _TABLE),
        ("NAMESPACE  NAME  READY\nt  p  1/1\n", _TABLE),
        ("LAST SEEN   TYPE     REASON\n5m  Normal  Scheduled\n", _TABLE),
        ("No resources found in default namespace.\n", _TABLE),
        ("pod/p\npod/q\n", _TABLE),
        ("podgroup.scheduling.k8s.io/train\n", _TABLE),
        ("kind: Pod\nspec:\n\tpriority: 1\n", "line 3: malformed YAML: a tab indents this line. Use spaces"),
    ],
)
def test_a_text_that_is_no_manifest_is_named(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "input").write_text(text, "utf-8")
    done = call("podium audit -f input", tmp_path)
    assert (done.code, words in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("name", ["kustomization.yaml", "Kustomization"])
def test_a_kustomization_without_a_version_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("resources: [pod.yaml]\n", "utf-8")
    done = call(f"podium audit -f {name}", tmp_path)
    assert f"{name}: is a kustomize source, not an object. Build it first: kubectl kustomize" in done.stderr


def test_a_tar_archive_is_named(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "dump.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("pod.yaml"), io.BytesIO())
    done = call("podium audit -f dump.tar.gz", tmp_path)
    assert "dump.tar.gz: this is a tar archive. Extract it, and name the folder" in done.stderr


def test_convert_leaves_out_an_object_of_a_folder_that_does_not_decode(folder: Path) -> None:
    """A single such file is an error, and --strict refuses it in a folder too."""
    (folder / "bad.yaml").write_text(POD.replace("name: p", "name: 5"), "utf-8")
    to = "--to scheduling.podium.dev/v1beta1"
    done = call(f"podium convert -f . {to}", folder)
    assert (done.code, done.stdout) == (0, POD)
    assert "skipped 1 document of folders (1 cannot be read: bad.yaml, document 1, line 3" in done.stderr
    assert call(f"podium convert -f bad.yaml {to}", folder).code == 1
    assert call(f"podium convert -f . --strict {to}", folder).code == 1


@pytest.mark.parametrize("end", ["x: 1", "x: |\n  a", "x: |\n  a\n", "x: |-\n  a", "x: 1  # end"])
def test_convert_keeps_a_text_without_a_last_line_break(end: str, tmp_path: Path) -> None:
    """An additional line break would change a block scalar at the end."""
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(f"apiVersion: v1\nkind: ConfigMap  # kept\n{end}", "utf-8")
    done = call("podium convert -f a.yaml -f b.yaml --to scheduling.podium.dev/v1beta1", tmp_path)
    first, second = yaml.safe_load_all(done.stdout)
    assert first == second == yaml.safe_load((tmp_path / "a.yaml").read_text("utf-8"))
    assert done.stdout.rstrip("\n").endswith(f"# kept\n{end}".rstrip("\n"))


def test_a_budget_with_a_pod_without_a_time_is_read(folder: Path) -> None:
    """A golden file of kubernetes/api has such a budget."""
    (folder / "budget.yaml").write_text(BUDGET, "utf-8")
    assert call("podium audit -f pod.yaml,budget.yaml", folder).code == 0


def test_the_json_of_a_plan_lists_what_was_not_read(folder: Path) -> None:
    (folder / "node.yaml").write_text(NODE, "utf-8")
    (folder / "new.yaml").write_text(POD.replace("Running", "Pending"), "utf-8")
    done = call("podium whatif -f node.yaml --add new.yaml -o json", folder)
    assert "Pod: not in the input" in json.loads(done.stdout)["notRead"]
    (folder / "pod.yaml").write_text(POD.replace("containers", "nodeName: node, containers"), "utf-8")
    threat = call("podium whatif -f node.yaml,pod.yaml --victim t/p -o json", folder)
    assert "PriorityClass: not in the input" in json.loads(threat.stdout)["notRead"]


def test_a_missing_choice_is_a_list_of_lines(folder: Path) -> None:
    lines = call("podium convert -f pod.yaml", folder).stderr.splitlines()
    assert "Error: Missing option '--to'. Choose from:" in lines
    assert "  scheduling.podium.dev/v1beta1" in lines
