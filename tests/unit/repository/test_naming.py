"""Names of pods and groups on the command line: in one word, or in kubectl's form."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.calling import Run, calling

Ask = Callable[..., Run]
# The name as written (WHO is a placeholder), further words, the exit code, and the message.
Case = tuple[str, list[str], int, str]

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: scheduling.podium.dev/v1beta1
kind: PodGroup
metadata: {name: ring, namespace: a, uid: u1}
spec: {schedulingPolicy: {gang: {minCount: 1}}}
---
apiVersion: v1
kind: Pod
metadata: {name: ring-0, namespace: a, uid: u2, labels: {scheduling.podium.dev/pod-group: ring}}
spec: {schedulerName: podium-scheduler, containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: runs, namespace: a, uid: u3}
spec: {schedulerName: podium-scheduler, nodeName: n1, containers: [{name: main}]}
"""
# The form of each command, and the target's name.
COMMANDS = {
    "why pod": (["why", "pod"], "ring-0"),
    "why group": (["why", "group"], "ring"),
    "whatif --pod": (["whatif", "--pod"], "ring-0"),
    "whatif --group": (["whatif", "--group"], "ring"),
    "whatif --victim": (["whatif", "--victim"], "runs"),
}
CASES: dict[str, Case] = {
    "with its namespace": ("a/WHO", [], 0, ""),
    "in a namespace": ("WHO", ["-n", "a"], 0, ""),
    "in a namespace, spelt out": ("WHO", ["--namespace=a"], 0, ""),
    "twice the same": ("a/WHO", ["-n", "a"], 0, ""),
    "two namespaces": ("a/WHO", ["-n", "b"], 2, "a/WHO is not in namespace b, which -n names."),
    "in the only namespace that has it": ("WHO", [], 0, ""),
    "an empty -n": ("WHO", ["-n", ""], 0, ""),
    "a -n that is none": ("WHO", ["-n", "A_"], 2, "-n: 'A_' is not a valid namespace name."),
    "in a tenant's namespace": ("WHO", ["--tenant", "a"], 0, ""),
    "a tenant's": ("WHO", ["-n", "a", "--tenant", "a"], 0, ""),
    "not the tenant's": (
        "WHO",
        ["-n", "a", "--tenant", "b"],
        2,
        "a/WHO is not in namespace b, which --tenant names.",
    ),
    "no name": ("", ["-n", "a"], 2, "'a/' is not of the form NAMESPACE/NAME."),
    "no name at all": ("", [], 2, "'' is not of the form NAMESPACE/NAME."),
    "no namespace": ("/WHO", ["-n", "a"], 2, "'/WHO' is not of the form NAMESPACE/NAME."),
    "a type and a name": ("pod/a/WHO", [], 2, "'pod/a/WHO' is not of the form NAMESPACE/NAME."),
}


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    """Call any command, in a folder with the cluster's file."""
    tmp_path.joinpath("cluster.yaml").write_text(CLUSTER, "utf-8")
    return lambda name, *words: calling(name, monkeypatch, tmp_path)(*words)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
@pytest.mark.parametrize(("command", "who"), COMMANDS.values(), ids=list(COMMANDS))
def test_names_in_files(ask: Ask, command: list[str], who: str, case: Case) -> None:
    """Either form names the object; options without effect are usage errors."""
    text, more, code, message = case
    run = ask(*command, text.replace("WHO", who), *more, "-f", "cluster.yaml")
    assert run.code == code, run.stderr
    assert message.replace("WHO", who) in run.stderr
    assert (f"a/{who}" in run.stdout) == (code == 0)


# The pod, group and running pod of CLUSTER once more, in another namespace; "gone" is in events alone.
OTHER = CLUSTER.split("---", 1)[1].replace("namespace: a", "namespace: b").replace("uid: u", "uid: v")
EVENTS = """\
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: a}
reason: Preempted
involvedObject: {kind: Pod, namespace: a, name: gone}
"""


@pytest.mark.parametrize(("command", "who"), COMMANDS.values(), ids=list(COMMANDS))
def test_a_name_in_several_namespaces_is_a_usage_error_of_one_line(
    ask: Ask, tmp_path: Path, command: list[str], who: str
) -> None:
    tmp_path.joinpath("other.yaml").write_text(OTHER, "utf-8")
    run = ask(*command, who, "-f", "cluster.yaml", "-f", "other.yaml")
    message = f"{who} is in several namespaces: a, b. Write NAMESPACE/{who}, or add -n NAMESPACE"
    assert (run.code, run.stdout) == (2, "")
    assert run.stderr == f"podium: {command[-1]}: {message}\n"


@pytest.mark.parametrize(("command", "who"), COMMANDS.values(), ids=list(COMMANDS))
def test_a_plain_name_that_no_object_has_is_reported_as_it_is_written(
    ask: Ask, command: list[str], who: str
) -> None:
    run = ask(*command, f"{who}-none", "-f", "cluster.yaml")
    assert (run.code, run.stdout) == (1, "")
    assert f" {who}-none not found" in run.stderr


def test_the_namespace_of_a_pod_that_is_gone_is_that_of_its_events(ask: Ask, tmp_path: Path) -> None:
    tmp_path.joinpath("events.yaml").write_text(EVENTS, "utf-8")
    run = ask("why", "pod", "gone", "-f", "cluster.yaml", "-f", "events.yaml")
    assert run.code == 0, run.stderr
    assert run.stdout.startswith("Pod a/gone ")


def test_a_plain_name_may_be_that_of_an_added_object(ask: Ask, tmp_path: Path) -> None:
    added = CLUSTER.rsplit("---", 1)[1].replace("runs", "new").replace("nodeName: n1, ", "")
    tmp_path.joinpath("added.yaml").write_text(added, "utf-8")
    run = ask("whatif", "--pod", "new", "--add", "added.yaml", "-f", "cluster.yaml")
    assert run.code == 0, run.stderr
    assert "Pod a/new fits" in run.stdout


def test_a_namespace_without_a_name_is_a_usage_error(ask: Ask) -> None:
    """Objects of --add have namespaces of their own."""
    run = ask("whatif", "--add", "cluster.yaml", "-n", "a")
    assert (run.code, run.stdout) == (2, "")
    assert "--add excludes -n, -A and -l." in run.stderr
