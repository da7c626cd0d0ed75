"""Podium with a served Workload API: its additions to native objects, and its own groups."""

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.parity import kubectl, scene
from tests.support.parity.case import GANG, template, workload
from tests.support.parity.sides import Document, Side, Sides, Way
from tests.support.servers import FULL
from tests.support.webhooks.running import running

from podium.api.groups import GROUP_LABEL, NATIVE_GROUP, PODIUM_GROUP

pytestmark = pytest.mark.server

# A thousand times over both minors, or on each.
_PAIRS, _THREADS = 1000 if FULL else 500, 4
# Pods get the class of their group.
_POLICY = {
    "apiVersion": "config.podium.dev/v1",
    "kind": "AdmissionPolicy",
    "levels": {"member-priority": "inherit"},
}
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def side(gated: Sides, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """Yield a server with the Workload API and Podium, and two classes that both have seen."""
    side, folder = gated.podium, tmp_path_factory.mktemp("webhook")
    with running(side.server, folder, scene.config(folder, _POLICY)):
        scene.make(side, "/api/v1/namespaces", {"metadata": {"name": scene.NAMESPACE}})
        for name, value, policy in (("gold", 1000, "PreemptLowerPriority"), ("meek", 500, "Never")):
            body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            scene.make(side, "/apis/scheduling.k8s.io/v1/priorityclasses", body)
            scene.until_resolved(side, name, value)
            scene.until_resolved(side._replace(group=PODIUM_GROUP), name, value)
        yield side


def _group(side: Side, group: str, name: str, class_name: str) -> None:
    spec = {"schedulingPolicy": GANG, "priorityClassName": class_name}
    metadata = {"name": name, "namespace": scene.NAMESPACE}
    made = side._replace(group=group).write(
        Way.CREATE, {"kind": "PodGroup", "metadata": metadata, "spec": spec}
    )
    assert made.allowed, made


def _pod(name: str, group: str, of: str, **spec: Any) -> Document:
    metadata: Document = {"name": name, "namespace": scene.NAMESPACE}
    containers = [{"name": "main", "image": "example.com/image"}]
    if group == PODIUM_GROUP:
        metadata["labels"] = {GROUP_LABEL: of}
    else:
        spec["schedulingGroup"] = {"podGroupName": of}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def _created(side: Side, document: Document) -> tuple[Any, ...]:
    """Create a pod with kubectl once its group is seen; return its priority fields."""
    name = document["metadata"]["name"]
    done = kubectl.run(side, "create", "-f", "-", stdin=json.dumps(side.own(document)))
    assert done.returncode == 0, done.stderr
    got = kubectl.run(side, "get", "pod", name, f"-n={scene.NAMESPACE}", "-o", "json")
    spec = json.loads(got.stdout)["spec"]
    return spec.get("priorityClassName"), spec["priority"], spec["preemptionPolicy"]


@pytest.mark.parametrize("group", [NATIVE_GROUP, PODIUM_GROUP])
@pytest.mark.parametrize(
    ("class_name", "stored"),
    [("gold", ("gold", 1000, "PreemptLowerPriority")), ("meek", ("meek", 500, "Never"))],
)
def test_a_pod_without_a_class_takes_after_its_group(
    side: Side, group: str, class_name: str, stored: tuple[Any, ...]
) -> None:
    """Class, integer and policy come in one patch, and the in-tree plugin's second run accepts them."""
    name = f"inherits-{next(_NUMBERS)}"
    _group(side, group, name, class_name)
    assert _created(side, _pod(name, group, name)) == stored


@pytest.mark.parametrize("group", [NATIVE_GROUP, PODIUM_GROUP])
def test_a_pod_with_a_class_keeps_it(side: Side, group: str) -> None:
    """The class that a pod names stays; a difference from the group's is a warning, never a refusal."""
    name = f"differs-{next(_NUMBERS)}"
    _group(side, group, name, "gold")
    document = _pod(name, group, name, priorityClassName="meek")
    assert _created(side, document) == ("meek", 500, "Never")
    again = json.dumps(side.own({**document, "metadata": {**document["metadata"], "name": f"{name}-2"}}))
    done = kubectl.run(side, "create", "-f", "-", stdin=again)
    assert done.returncode == 0, done.stderr
    assert "Warning: spec.priority: priority 500 (class meek) differs from that of PodGroup" in done.stderr


def test_a_native_template_of_an_unknown_class_is_warned_of(side: Side) -> None:
    """Podium accepts it as upstream does, and kubectl prints Podium's warning."""
    metadata = {"name": f"unknown-{next(_NUMBERS)}", "namespace": scene.NAMESPACE}
    unknown = template(priorityClassName="nothing")
    document = side.own({"kind": "Workload", "metadata": metadata, **workload(unknown)})
    done = kubectl.run(side, "create", "-f", "-", stdin=json.dumps(document))
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Warning: spec.podGroupTemplates[0].priorityClassName: ")


def test_a_class_and_its_group_are_made_together(side: Side) -> None:
    """A group that is created right after its class, on another connection, is never refused."""
    mine = side._replace(group=PODIUM_GROUP)

    def make(numbers: range) -> list[str]:
        one, other = side.server.access.client(), side.server.access.client()
        wrong = []
        for number in numbers:
            body = {"metadata": {"name": f"fresh-{number}"}, "value": number}
            code, answer = one.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
            assert code == 201, answer
            spec = {"schedulingPolicy": GANG, "priorityClassName": f"fresh-{number}"}
            metadata = {"name": f"fresh-{number}", "namespace": scene.NAMESPACE}
            document = {"kind": "PodGroup", "metadata": metadata, "spec": spec}
            made = mine._replace(client=other).write(Way.CREATE, document)
            if made.object is None or made.object["spec"]["priority"] != number:
                wrong.append(str(made))
        one.close()
        other.close()
        return wrong

    with ThreadPoolExecutor(_THREADS) as pool:
        shares = pool.map(make, (range(start, _PAIRS, _THREADS) for start in range(_THREADS)))
        wrong = [text for share in shares for text in share]
    assert not wrong, f"{len(wrong)} of {_PAIRS}: {wrong[0]}"
