"""The functions of podium.answers: what importing them costs, and the field that an error names."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podium import answers
from podium.answers import ClusterReading, read, read_objects, whatif, why
from podium.answers.whatifplans import Addition, threats
from podium.documents.scope import Scope
from podium.errors import PodiumUsageError, QuestionError
from podium.planner.preemption.outcome import Outcome

ROOT = Path(__file__).parents[3]
CLUSTER = str(ROOT / "examples" / "preemption" / "cluster.yaml")
CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nvalue: 1\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: NS}
spec: {containers: [{name: main, image: x}]}
---
"""


@pytest.fixture(scope="module")
def example() -> ClusterReading:
    return read(CLUSTER)


def pod(name: str, namespace: str) -> str:
    return POD.replace("NAME", name).replace("NS", namespace)


@pytest.mark.parametrize("name", ["admit", "audit", "read"])
def test_a_function_that_makes_no_plan_imports_no_numpy(name: str) -> None:
    code = f"import sys; from podium.answers import {name}; print('numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_every_public_name_is_a_function_or_type() -> None:
    assert all(callable(getattr(answers, name)) for name in answers.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'what'"):
        _ = answers.what


def asked(path: Path, text: str) -> ClusterReading:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n"
    path.joinpath("cluster.yaml").write_text(node + text, "utf-8")
    return read(str(path / "cluster.yaml"))


Ask = Callable[[Path], Any]

FIELDS: dict[str, tuple[str, str, Ask]] = {
    "a time": (
        "now",
        "'yesterday' is not a time",
        lambda path: whatif(asked(path, pod("x", "a")), ("a", "x"), now="yesterday"),
    ),
    "no target": ("target", "pending pods: a/x", lambda path: whatif(asked(path, pod("x", "a")))),
    "nothing waits": (
        "pending",
        "no pod or group is pending (namespace b only)",
        lambda path: whatif(asked(path, pod("x", "a")), pending=Scope("b")),
    ),
    "a name in two namespaces": (
        "pod",
        "x is in several namespaces: a, b. Write NAMESPACE/x",
        lambda path: whatif(asked(path, pod("x", "a") + pod("x", "b")), ("", "x"), "pod"),
    ),
    "a victim in two namespaces": (
        "victim",
        "x is in several namespaces",
        lambda path: threats(asked(path, pod("x", "a") + pod("x", "b")), ("", "x")),
    ),
    "why of a name in two namespaces": (
        "pod",
        "x is in several namespaces",
        lambda path: why(asked(path, pod("x", "a") + pod("x", "b")), ("", "x"), "pod"),
    ),
    "a rule": (
        "select",
        "rule 'nope' does not exist",
        lambda path: answers.audit(asked(path, ""), select=["nope"]),
    ),
    "a minor": (
        "kubernetes",
        "'1.2' is not known",
        lambda path: answers.audit(asked(path, ""), kubernetes="1.2"),
    ),
}


@pytest.mark.parametrize(("field", "problem", "ask"), FIELDS.values(), ids=list(FIELDS))
def test_an_error_names_the_field(field: str, problem: str, ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(QuestionError) as error:
        ask(tmp_path)
    assert (error.value.field, isinstance(error.value, PodiumUsageError)) == (field, True)
    assert str(error.value).startswith(problem)
    assert "--" not in str(error.value)


def test_added_objects_without_pods_are_an_error_of_their_field(
    example: ClusterReading, tmp_path: Path
) -> None:
    (tmp_path / "class.yaml").write_text(CLASS, "utf-8")
    with pytest.raises(QuestionError, match="none is or creates a pending pod or group") as error:
        whatif(example, added=Addition(read_objects(str(tmp_path / "class.yaml"))))
    assert error.value.field == "added"


def test_a_plan_with_added_objects_does_not_change_the_cluster(
    example: ClusterReading, tmp_path: Path
) -> None:
    (tmp_path / "pod.yaml").write_text(pod("new", "research"), "utf-8")
    notes: list[str] = []
    before = len(example.near.state.pods)
    report = whatif(example, added=Addition(read_objects(str(tmp_path / "pod.yaml"))), note=notes.append)
    assert (report.preemptor, report.plan.outcome) == ("Pod research/new", Outcome.FITS)
    assert len(example.near.state.pods) == before
