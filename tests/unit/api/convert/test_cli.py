"""`podium convert`: documents in, documents out, losses on stderr, exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from tests.support.convert import objects

from podium.cli.commands.convert import command
from podium.documents.yamldoc import load_all
from podium.errors import PodiumError

NATIVE = "scheduling.k8s.io/v1beta1"
PODIUM = "scheduling.podium.dev/v1beta1"
MANIFEST = """\
# From 1.36.
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata:
  name: train
  labels: {"on": "yes", version: "1e3"}
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  disruptionMode: PodGroup
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {schedulingGroup: {podGroupName: train}}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {script: "a\\n  b\\n", mode: "0777"}}
"""
CONVERTED: list[dict[str, Any]] = [
    {
        "apiVersion": PODIUM,
        "kind": "PodGroup",
        "metadata": {"name": "train", "labels": {"on": "yes", "version": "1e3"}},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": {"all": {}}},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"scheduling.podium.dev/pod-group": "train"}},
        "spec": {},
    },
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"script": "a\n  b\n", "mode": "0777"},
    },
]


def run(*arguments: str, text: str | bytes | None = None) -> Result:
    """Run the command as a shell would, with stdin; a PodiumError reaches the test."""
    return CliRunner().invoke(command, arguments, input=text)


def test_documents_come_out_in_order_as_kubectl_reads_them() -> None:
    result = run("-f", "-", "--to", PODIUM, text=MANIFEST)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [*load_all(result.stdout.encode())] == CONVERTED


def test_json_is_one_object_or_one_list() -> None:
    result = run("-f", "-", "--to", PODIUM, "-o", "json", text=MANIFEST)
    assert json.loads(result.stdout) == {"apiVersion": "v1", "kind": "List", "items": CONVERTED}
    one = run("-f", "-", "--to", PODIUM, "-o", "json", text=MANIFEST.split("---", maxsplit=1)[0])
    assert json.loads(one.stdout) == CONVERTED[0]


def test_a_loss_is_a_line_with_its_place_and_exit_code_3(tmp_path: Path) -> None:
    file = tmp_path / "groups.yaml"
    group = {"apiVersion": NATIVE, "kind": "PodGroup", "metadata": {"name": "a", "uid": "1"}}
    spec = {"preemptionPolicy": "Never", "a\nb": 1}
    second = f"{file}, document 2, items[0]"
    items = {"apiVersion": "v1", "kind": "List", "items": [group | {"spec": spec}]}
    file.write_text("{}\n---\n".replace("{}", json.dumps(group | {"spec": {}})) + json.dumps(items))
    result = run("-f", str(file), "--to", "scheduling.k8s.io/v1alpha2")
    assert result.exit_code == 3
    assert result.stderr.splitlines() == [
        f"{file}, document 1, metadata: uid left out: the result is a new object",
        f"{second}, metadata: uid left out: the result is a new object",
        f"{second}, spec.preemptionPolicy: scheduling.k8s.io/v1alpha2 has no such field; left out",
        f"{second}, spec.a\\x0ab: is not a field of scheduling.k8s.io/v1beta1; left out",
    ]
    assert [document["spec"] for document in load_all(result.stdout.encode())] == [{}, {}]


def test_bookkeeping_alone_is_said_and_is_no_loss() -> None:
    group = {"apiVersion": NATIVE, "kind": "PodGroup", "metadata": {"name": "a", "uid": "1"}, "spec": {}}
    result = run("-f", "-", "--to", PODIUM, text=json.dumps(group))
    assert (result.exit_code, len(result.stderr.splitlines())) == (0, 1)


LEFT: list[tuple[str, str, str, int]] = [
    ("a version without conversion", "scheduling.k8s.io/v1alpha1", "PodGroup", 3),
    ("groups of groups of no version", "scheduling.k8s.io/v1alpha2", "CompositePodGroup", 3),
    ("a class", "scheduling.k8s.io/v1", "PriorityClass", 0),
    ("another project's group", "scheduling.volcano.sh/v1beta1", "PodGroup", 0),
    ("Kueue's workload", "kueue.x-k8s.io/v1beta1", "Workload", 0),
    ("an empty List", "v1", "List", 0),
]


def test_lost_comments_are_said() -> None:
    """A List becomes single objects. Its text of several lines stays readable."""
    items = (
        'items:\n# first\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: "b\\nc\\n"}}\n'
    )
    done = run("-f", "-", "--to", NATIVE, text=f"apiVersion: v1\nkind: List\n{items}")
    assert done.exit_code == 0
    assert "items[0]: comments are not kept, because its List is written as single objects" in done.stderr
    assert done.stdout.endswith("data:\n  a: |\n    b\n    c\n")
    assert run("-f", "-", "--to", NATIVE, text=MANIFEST.replace("# From 1.36.\n", "")).stderr == ""


def test_the_line_breaks_of_windows_stay() -> None:
    """Line separators stay too: only the changed lines differ in a review."""
    two = MANIFEST.replace("kind: List\nitems:", "kind: ConfigMap\ndata: {}\n#").partition("- {")[0]
    unix, windows = (run("-f", "-", "--to", PODIUM, text=text) for text in (two, two.replace("\n", "\r\n")))
    assert unix.stdout.count("---") == 1
    assert windows.stdout_bytes.decode() == unix.stdout_bytes.decode().replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("api_version", "kind", "code"), [row[1:] for row in LEFT], ids=[row[0] for row in LEFT]
)
def test_other_kinds_are_passed_through(api_version: str, kind: str, code: int) -> None:
    """Other documents are unchanged; a group of another version of this API gets a note, with exit code 3."""
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "items": []}
    if kind != "List":
        del document["items"]
    result = run("-f", "-", "--to", NATIVE, "-o", "json", text=json.dumps(document))
    assert json.loads(result.stdout) == document
    assert result.exit_code == code
    expected = f"<stdin>, document 1, apiVersion: {api_version} {kind} cannot be converted and is unchanged\n"
    assert result.stderr == (expected if code else "")


def test_an_empty_list_of_groups_is_of_the_target() -> None:
    empty = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroupList", "items": []}
    result = run("-f", "-", "--to", NATIVE, "-o", "json", text=json.dumps(empty))
    assert (result.exit_code, json.loads(result.stdout)) == (0, empty | {"apiVersion": NATIVE})


def _foreign(api_version: str, spec: Any, metadata: Any, **pod: Any) -> str:
    """Return a PodGroup of another project, and a pod whose metadata name it."""
    named = {"name": "train", "namespace": "a"}
    group = {"apiVersion": api_version, "kind": "PodGroup", "metadata": named, "spec": spec}
    member = {"apiVersion": "v1", "kind": "Pod", "metadata": {**named, **metadata}, "spec": pod}
    return f"{json.dumps(group)}\n---\n{json.dumps(member)}"


VOLCANO, KAI = "scheduling.volcano.sh/v1beta1", "scheduling.run.ai/v2alpha2"
COSCHEDULING, KOORDINATOR = "scheduling.x-k8s.io/v1alpha1", "scheduling.sigs.k8s.io/v1alpha1"
GANG = {"schedulingPolicy": {"gang": {"minCount": 4}}}
GOLD, GATED = {"priorityClassName": "gold"}, {"annotations": {"other": "x"}}
SCHEDULER, REPLACED = "spec.schedulerName", "replaced by podium-scheduler, which schedules the group"
# project, groups and pods of it, spec of the PodGroup in Podium's API, metadata of the pod, lines on stderr
FOREIGN: list[tuple[str, str, Any, Any, list[str]]] = [
    (
        "coscheduling",
        _foreign(
            COSCHEDULING,
            {
                "minMember": 4,
                "minResources": {"cpu": 8},
                "scheduleTimeoutSeconds": 9,
                "priorityClassName": "",
            },
            {"labels": {"scheduling.x-k8s.io/pod-group": "train", "app": "x"}},
            **GOLD,
        ),
        {**GOLD, **GANG},
        {"labels": {"app": "x", "scheduling.podium.dev/pod-group": "train"}},
        [
            "1, spec.minResources: scheduling.podium.dev/v1beta1 has no equal; left out",
            "1, spec.scheduleTimeoutSeconds: scheduling.podium.dev/v1beta1 has no equal; left out",
            "1, spec.priorityClassName: gold, the class of its pods",
            f"2, {SCHEDULER}: default-scheduler {REPLACED}",
        ],
    ),
    (
        "coscheduling",
        _foreign(
            KOORDINATOR,
            {"minMember": 0},
            {"labels": {"pod-group.scheduling.sigs.k8s.io": "train"}},
            schedulerName="podium-scheduler",
        ),
        {"schedulingPolicy": {"basic": {}}},
        {"labels": {"scheduling.podium.dev/pod-group": "train"}},
        [],
    ),
    (
        "volcano",
        _foreign(
            VOLCANO,
            {"minMember": 4, "queue": "q", **GOLD, "minTaskMember": None},
            {"annotations": {"scheduling.k8s.io/group-name": "train", "other": "x"}},
            schedulerName="volcano",
        ),
        {**GOLD, **GANG},
        {**GATED, "labels": {"scheduling.podium.dev/pod-group": "train"}},
        [
            "1, spec.queue: scheduling.podium.dev/v1beta1 has no equal; left out",
            f"2, {SCHEDULER}: volcano {REPLACED}",
        ],
    ),
    (
        "kai",
        _foreign(
            KAI,
            {"minMember": 4, "preemptibility": "preemptible"},
            {"annotations": {"pod-group-name": "another", "other": "x"}},
            schedulerName="kai-scheduler",
        ),
        GANG,
        {**GATED, "labels": {"scheduling.podium.dev/pod-group": "another"}},
        [
            "1, spec.preemptibility: scheduling.podium.dev/v1beta1 has no equal; left out",
            "1, spec.priorityClassName: is not set. Name the class of its pods (none are in the input)",
            f"2, {SCHEDULER}: kai-scheduler {REPLACED}",
        ],
    ),
]


@pytest.mark.parametrize(
    ("project", "text", "spec", "metadata", "lines"), FOREIGN, ids=[row[0] for row in FOREIGN]
)
def test_groups_of_another_project_become_podgroups_with_their_pods(
    project: str, text: str, spec: Any, metadata: Any, lines: list[str]
) -> None:
    """Each field that has no equal is a line on stderr, with exit code 3."""
    result = run("-f", "-", "--from", project, "--to", PODIUM, "-o", "json", text=text)
    group, member = json.loads(result.stdout)["items"]
    assert (group["apiVersion"], group["spec"]) == (PODIUM, spec)
    assert {**member["metadata"], "name": "train", "namespace": "a"} == {
        **metadata,
        "name": "train",
        "namespace": "a",
    }
    assert member["spec"]["schedulerName"] == "podium-scheduler"
    assert result.stderr.splitlines() == [f"<stdin>, document {line}" for line in lines]
    assert result.exit_code == (3 if any("left out" in line for line in lines) else 0)


def test_groups_of_another_project_become_native_groups_of_any_version() -> None:
    """The pods name them in the field, and kube-scheduler schedules them."""
    older = "scheduling.k8s.io/v1alpha2"
    result = run("-f", "-", "--from", "volcano", "--to", older, "-o", "json", text=FOREIGN[2][1])
    group, member = json.loads(result.stdout)["items"]
    assert (group["apiVersion"], group["spec"]) == (older, {**GOLD, **GANG})
    assert member["metadata"] == {"name": "train", "namespace": "a", **GATED}
    assert member["spec"] == {
        "schedulerName": "default-scheduler",
        "schedulingGroup": {"podGroupName": "train"},
    }


def test_pods_of_several_classes_give_their_group_none() -> None:
    key = {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}
    text = _foreign(COSCHEDULING, {"minMember": 4}, key, schedulerName="podium-scheduler", **GOLD)
    pod = text.partition("---")[2].replace("gold", "low")
    result = run("-f", "-", "--from", "coscheduling", "--to", PODIUM, text=f"{text}\n---\n{pod}")
    wanted = "document 1, spec.priorityClassName: is not set. Name the class of its pods (gold, low)\n"
    assert (result.exit_code, result.stderr) == (3, f"<stdin>, {wanted}")


def test_fields_that_a_server_wrote_are_left_out_of_a_group_of_another_project() -> None:
    metadata = {"name": "train", "uid": "1"}
    group = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": metadata, "status": {"phase": "Running"}}
    text = json.dumps(group | {"spec": {"minMember": 4, **GOLD}})
    result = run("-f", "-", "--from", "volcano", "--to", NATIVE, "-o", "json", text=text)
    assert result.exit_code == 0
    assert [line.rpartition(", ")[2].partition(":")[0] for line in result.stderr.splitlines()] == [
        "status",
        "metadata",
    ]
    assert json.loads(result.stdout) == {
        "apiVersion": NATIVE,
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {**GOLD, **GANG},
    }


@pytest.mark.parametrize(("api_version", "kind"), [(VOLCANO, "Queue"), ("batch.volcano.sh/v1alpha1", "Job")])
def test_other_objects_of_the_project_are_unchanged_and_said(api_version: str, kind: str) -> None:
    template = {"metadata": {"labels": {"scheduling.k8s.io/group-name": "g"}}, "spec": {"containers": []}}
    document = {"apiVersion": api_version, "kind": kind, "spec": {"tasks": [{"template": template}]}}
    result = run("-f", "-", "--from", "volcano", "--to", NATIVE, "-o", "json", text=json.dumps(document))
    assert (result.exit_code, json.loads(result.stdout)) == (3, document)
    wanted = f"{api_version} {kind} cannot be converted and is unchanged"
    assert result.stderr == f"<stdin>, document 1, apiVersion: {wanted}\n"


def test_a_group_of_another_project_with_a_wrong_type_is_an_error_with_its_place() -> None:
    text = f"apiVersion: {VOLCANO}\nkind: PodGroup\nspec:\n  minMember: many\n"
    result = run("-f", "-", "--from", "volcano", "--to", NATIVE, text=text)
    assert isinstance(result.exception, PodiumError)
    assert str(result.exception) == (
        "<stdin>, document 1, line 4: spec.minMember: expected integer or null, got string"
    )
    assert result.stdout == ""


def test_strict_refuses_what_podium_does_not_read() -> None:
    result = run("-f", "-", "--to", PODIUM, "--strict", text=MANIFEST)
    assert isinstance(result.exception, PodiumError)
    assert "Podium does not read v1 ConfigMap (--strict)" in str(result.exception)
    assert str(result.exception).startswith("<stdin>, document 2, items[1]")


def test_nothing_is_written_when_one_document_is_bad(tmp_path: Path) -> None:
    """A wrong type is an error of the input with its place, and the output file keeps its content."""
    bad = MANIFEST + "---\n{apiVersion: v1, kind: Pod, metadata: {name: 7}}\n"
    target = tmp_path / "out.yaml"
    target.write_text("before")
    result = run("-f", "-", "--to", PODIUM, "--output-file", str(target), text=bad)
    assert isinstance(result.exception, PodiumError)
    assert "<stdin>, document 3" in str(result.exception)
    assert "metadata.name" in str(result.exception)
    assert (target.read_text(), result.stdout) == ("before", "")


def test_an_output_file_is_named(tmp_path: Path) -> None:
    target = tmp_path / "out.yaml"
    result = run("-f", "-", "--to", PODIUM, "--output-file", str(target), text=MANIFEST)
    assert (result.stdout, result.stderr) == ("", f"wrote {target}\n")
    assert [*load_all(target.read_bytes())] == CONVERTED


USAGE = [
    ("no file", ["--to", PODIUM]),
    ("no target", ["-f", "-"]),
    ("unknown target", ["-f", "-", "--to", "scheduling.podium.dev/v1"]),
    ("unknown project", ["-f", "-", "--to", PODIUM, "--from", "slurm"]),
    ("unknown format", ["-f", "-", "--to", PODIUM, "-o", "xml"]),
]


@pytest.mark.parametrize("arguments", [row[1] for row in USAGE], ids=[row[0] for row in USAGE])
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    result = run(*arguments, text=MANIFEST)
    assert (result.exit_code, result.stdout) == (2, "")


@settings(max_examples=25)
@given(objects())
def test_written_documents_read_back(document: dict[str, Any]) -> None:
    """YAML and JSON of any object, to its own version, are that object for kubectl's reader."""
    target, text = document["apiVersion"], json.dumps(document)
    written = run("-f", "-", "--to", target, text=text).stdout
    assert [*load_all(written.encode())] == [document]
    assert json.loads(run("-f", "-", "--to", target, "-o", "json", text=text).stdout) == document
