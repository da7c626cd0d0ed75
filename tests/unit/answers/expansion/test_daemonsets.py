"""A DaemonSet has one pod for each node that its template admits, bound to the node by its name."""

from typing import Any

import pytest
from tests.support.expand import Document, add, cluster, made, pods, template

from podium.answers.expansion import expand
from podium.answers.expansion.expand import Expansion
from podium.documents.document import ReadError

AGENT = {"app": "agent"}
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
BROKEN = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
OFFLINE = {"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}
SOFT = {"key": "slow", "effect": "PreferNoSchedule"}


def _node(name: str, *taints: Document, **labels: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints), "unschedulable": CORDONED in taints},
        "status": {"allocatable": {"cpu": "4"}},
    }


NODES = [
    _node("control", CONTROL_PLANE, os="linux"),
    _node("cordoned", CORDONED, os="linux"),
    _node("gpu", SOFT, os="linux", gpu="a100"),
    _node("lost", BROKEN, os="linux"),
    _node("offline", OFFLINE, os="linux"),
    _node("win", os="windows"),
]
ALL = {str(node["metadata"]["name"]) for node in NODES}


def _daemon_set(**spec: Any) -> Document:
    return made("apps/v1", "DaemonSet", "agent", {"template": template(AGENT, **spec)})


def _affinity(**term: Any) -> Document:
    terms = {"nodeSelectorTerms": [term] if term else []}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _nodes(expansion: Expansion) -> dict[str, str]:
    """Return the only node that each added pod may have, by pod."""
    found: dict[str, str] = {}
    for name, pod in pods(expansion).items():
        assert pod.spec.affinity is not None
        assert pod.spec.affinity.nodeAffinity is not None
        required = pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        assert required is not None
        (term,) = required.nodeSelectorTerms or []
        (field,) = term.matchFields or []
        assert (field.key, field.operator, term.matchExpressions) == ("metadata.name", "In", None)
        (found[name],) = field.values or []
    return found


EXPRESSION = {"key": "gpu", "operator": "Exists"}
ADMITTED: list[tuple[str, dict[str, Any], set[str]]] = [
    ("its own tolerations cover what nodes suffer from", {}, ALL - {"control", "offline"}),
    ("those of the host's network also a node without", {"hostNetwork": True}, ALL - {"control"}),
    ("one for all taints", {"tolerations": [{"operator": "Exists"}]}, ALL),
    (
        "one for a taint",
        {"tolerations": [{"key": CONTROL_PLANE["key"], "operator": "Exists", "effect": "NoSchedule"}]},
        ALL - {"offline"},
    ),
    ("a selector", {"nodeSelector": {"os": "windows"}}, {"win"}),
    ("a selector of no node", {"nodeSelector": {"os": "plan9"}}, set()),
    ("an affinity", {"affinity": _affinity(matchExpressions=[EXPRESSION])}, {"gpu"}),
    (
        "both must hold",
        {"affinity": _affinity(matchExpressions=[EXPRESSION]), "nodeSelector": {"os": "windows"}},
        set(),
    ),
    ("an affinity without terms", {"affinity": _affinity()}, set()),
    (
        "a node by its name",
        {"affinity": _affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["win"]}])},
        {"win"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "nodes"), [row[1:] for row in ADMITTED], ids=[row[0] for row in ADMITTED])
def test_each_node_that_the_template_admits_gets_a_pod(spec: dict[str, Any], nodes: set[str]) -> None:
    expansion = add(cluster(*NODES), _daemon_set(**spec))
    assert sorted(_nodes(expansion).values()) == sorted(nodes)
    assert len(expansion.targets) == len(nodes)
    assert {str(source) for source in expansion.targets.values()} <= {"DaemonSet t/agent"}


def test_nodes_without_a_pod_are_named_with_their_reason() -> None:
    notes = add(cluster(*NODES), _daemon_set(nodeSelector={"os": "linux"})).notes
    others = ["node selector", f"taint {CONTROL_PLANE['key']}", f"taint {OFFLINE['key']}"]
    reasons = ", ".join(f"1 node ({each})" for each in others)
    assert notes == (f"DaemonSet t/agent: no pod on {reasons}",)


def test_nodes_of_the_file_count() -> None:
    assert list(_nodes(add(cluster(), _daemon_set(), _node("new"))).values()) == ["new"]


def test_a_pod_has_the_labels_the_owner_and_the_tolerations_that_its_controller_writes() -> None:
    (pod,) = pods(add(cluster(_node("n")), _daemon_set(tolerations=[{"key": "own"}]))).values()
    labels = pod.metadata.labels or {}
    owner = pod.metadata.controller()
    assert set(labels) == {"app", "controller-revision-hash"}
    assert owner is not None
    assert (owner.apiVersion, owner.kind, owner.name) == ("apps/v1", "DaemonSet", "agent")
    prefix = "node.kubernetes.io/"
    assert [(each.key or "").removeprefix(prefix) for each in pod.spec.tolerations or ()] == [
        *("own", "not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure"),
        "unschedulable",
    ]


def _existing(name: str, node: str | None, owner: str = "agent", **metadata: Any) -> Document:
    reference = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": owner,
        "uid": "ds-1",
        "controller": True,
    }
    pod = made(
        "v1", "Pod", name, {"nodeName": node, "containers": []}, ownerReferences=[reference], **metadata
    )
    return {**pod, "status": {"phase": "Running" if node else "Pending"}}


def _waiting(name: str, node: str) -> Document:
    pod = _existing(name, None)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {**pod, "spec": {**pod["spec"], "affinity": _affinity(matchFields=[field])}}


LEAVING = {"deletionTimestamp": "2026-11-21T18:00:00Z"}
TAKEN: list[tuple[str, Document, set[str]]] = [
    ("a running pod keeps its node", _existing("a", "n1"), {"n2"}),
    ("so does one that waits for its node", _waiting("a", "n1"), {"n2"}),
    ("a pod that leaves makes room for the next", _existing("a", "n1", **LEAVING), {"n1", "n2"}),
    ("so does one that has failed", {**_existing("a", "n1"), "status": {"phase": "Failed"}}, {"n1", "n2"}),
    ("another DaemonSet's does not count", _existing("a", "n1", "other"), {"n1", "n2"}),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "nodes"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_a_node_with_a_pod_of_the_daemon_set_gets_no_second_one(pod: Document, nodes: set[str]) -> None:
    expansion = add(cluster(_node("n1"), _node("n2"), pod), _daemon_set())
    assert set(_nodes(expansion).values()) == nodes


def test_the_pods_of_a_daemon_set_of_the_cluster_stay_its_pods() -> None:
    """They name its UID, which a manifest does not have."""
    stored = _daemon_set()
    stored["metadata"]["uid"] = "ds-1"
    state = cluster(_node("n1"), _node("n2"), stored, _existing("a", "n1"))
    expansion = add(state, _daemon_set())
    for each in expansion.objects:
        state.apply(each)
    assert [owner.metadata.uid for owner in state.owners.values()] == ["ds-1"]
    assert expansion.notes == ("DaemonSet t/agent: no pod on 1 node (has one already)",)


def test_a_value_of_a_wrong_type_in_the_template_is_an_error_with_its_field() -> None:
    with pytest.raises(ReadError) as refused:
        add(cluster(_node("n")), _daemon_set(tolerations=[{"key": 1}]))
    assert str(refused.value).endswith(
        "spec.template.spec.tolerations[0].key: expected string or null, got integer"
    )


def test_more_pods_than_the_maximum_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expand, "MOST_PODS", 1)
    with pytest.raises(ReadError) as refused:
        add(cluster(_node("n1"), _node("n2")), _daemon_set())
    problem = "DaemonSet t/agent brings the file to 2 pods of DaemonSets. The maximum is 1"
    assert str(refused.value).endswith(problem)
