"""A reason that no preemption changes leads a refusal: the label, name or toleration that is lacking.

Sources: GoogleCloudPlatform/kubernetes-engine-samples (a selector that no node meets),
kubernetes-sigs/scheduler-plugins#930 (a gang of which a part has room), kubernetes/enhancements#5690
(devices).
"""

from typing import Any

import pytest
from tests.support.devices import scene as devices
from tests.support.filters.builders import claim, mounts, volume
from tests.support.preemption.scene import ZONE, gang, group, node, of, planned, pod

from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics

MISMATCH = "node(s) didn't match Pod's node affinity/selector"
UNNAMED = "2 node(s) didn't satisfy plugin(s) [NodeAffinity]"
UNREACHED = "2 node(s) didn't match PersistentVolume's node affinity"
UNLABELLED = "2 node(s) didn't match pod topology spread constraints (missing required label)"
TAINTED = "node(s) had untolerated taint(s)"
TAKEN = "node(s) were taken by other members of the group (Insufficient cpu)"
GPU = {"key": "gpu", "value": "true", "effect": "NoSchedule"}
DEDICATED = {"key": "dedicated", "effect": "NoExecute"}
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
MANY = 1000


def need(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def affinity(*terms: list[dict[str, Any]], names: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """Return the fields of a pod that requires one of these terms, or these names."""
    listed: list[dict[str, Any]] = [{"matchExpressions": term} for term in terms]
    listed += [{"matchFields": [name]} for name in names]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}
    return {"affinity": {"nodeAffinity": required}}


def labelled(*nodes: dict[str, str]) -> list[Any]:
    """Return nodes n1, n2 and so on with these labels."""
    return [node(f"n{at}", labels=labels) for at, labels in enumerate(nodes, 1)]


def wanting(cpu: int = 2, **fields: Any) -> Any:
    return pod("p", cpu, 9, **fields)


def refused(number: int, reasons: str) -> str:
    return f"0/{number} nodes are available: {reasons}."


def spread_over(key: str) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": {"a": "b"}}}]}


TWO = labelled({ZONE: "c", "gen": "4"}, {ZONE: "c", "gen": "5"})
NOT_MATCHED = refused(2, f"2 {MISMATCH}")
LOW = [pod(f"low-{at}", 4, 1, node=f"n{at}", ago=60) for at in (1, 2)]
PEER = pod("peer", 4, 9, node="n1", ago=60)
IN_ZONE_A = [{"matchExpressions": [need(ZONE, "In", "a")]}]

CASES: dict[str, tuple[list[Any], str]] = {
    "a selected value": (
        [*TWO, *LOW, wanting(nodeSelector={"pool": "gpu"})],
        f"pool=gpu: no node has this label; {NOT_MATCHED}",
    ),
    "two labels on different nodes": (
        [*labelled({"a": "1"}, {"b": "1"}, {"b": "1"}), wanting(nodeSelector={"a": "1", "b": "1"})],
        (
            "a=1: 1 of 3 nodes has this label, b=1: 2 of 3 nodes have this label, and no node meets both; "
            f"{refused(3, f'3 {MISMATCH}')}"
        ),
    ),
    "In": (
        [*TWO, wanting(**affinity([need(ZONE, "In", "a", "b")]))],
        f"{ZONE} in (a, b): no node has such a label; {NOT_MATCHED}",
    ),
    "NotIn": (
        [*TWO, wanting(**affinity([need(ZONE, "NotIn", "c", "d")]))],
        f"{ZONE} notin (c, d): no node meets this; {NOT_MATCHED}",
    ),
    "Exists": (
        [*TWO, wanting(**affinity([need("gpu", "Exists")]))],
        f"gpu: no node has this label; {NOT_MATCHED}",
    ),
    "DoesNotExist": (
        [*TWO, wanting(**affinity([need("gen", "DoesNotExist")]))],
        f"!gen: no node meets this; {NOT_MATCHED}",
    ),
    "Gt": (
        [*TWO, wanting(**affinity([need("gen", "Gt", "5")]))],
        f"gen>5: no node meets this; {NOT_MATCHED}",
    ),
    "Lt": (
        [*TWO, wanting(**affinity([need("gen", "Lt", "4")]))],
        f"gen<4: no node meets this; {NOT_MATCHED}",
    ),
    "matchFields": (
        [*TWO, wanting(**affinity(names=(need("metadata.name", "In", "n9"),)))],
        (f"metadata.name=n9: no node has this name; {refused(2, UNNAMED)}"),
    ),
    "the selector and a term together": (
        [
            *labelled({"a": "1", "b": "2"}, {"b": "1"}),
            wanting(nodeSelector={"a": "1"}, **affinity([need("b", "In", "1")])),
        ],
        (
            "a=1: 1 of 2 nodes has this label, b=1: 1 of 2 nodes has this label, and no node meets both; "
            f"{NOT_MATCHED}"
        ),
    ),
    "the nearest of several terms": (
        [
            *labelled({"a": "1"}, {"a": "1", "b": "1"}),
            wanting(
                **affinity(
                    [need("x", "Exists"), need("y", "Exists")],
                    [need("a", "Exists"), need("b", "Exists"), need("c", "Exists")],
                    [need("z", "Exists"), need("x", "Exists")],
                )
            ),
        ],
        (
            "no node meets any of 3 affinity terms, and the nearest needs c: no node has this label, "
            f"b: 1 of 2 nodes has this label; {NOT_MATCHED}"
        ),
    ),
    "more labels than are named": (
        [*TWO, wanting(nodeSelector=dict.fromkeys("abcde", "1"))],
        (
            "a=1: no node has this label, b=1: no node has this label, c=1: no node has this label, "
            f"2 more requirements; {NOT_MATCHED}"
        ),
    ),
    "some nodes lack the label, and others lack room": (
        [*labelled({"pool": "a"}, {}, {}), PEER, wanting(nodeSelector={"pool": "a"})],
        (
            "pool=a: 1 of 3 nodes has this label; nothing has a lower priority: "
            f"{refused(3, f'1 Insufficient cpu, 2 {MISMATCH}')}"
        ),
    ),
    "victims are only where the label is not": (
        [
            *labelled({"pool": "a"}, {}),
            *(PEER, pod("low", 4, 1, node="n2", ago=60), wanting(nodeSelector={"pool": "a"})),
        ],
        (
            "pool=a: 1 of 2 nodes has this label; even without all that may be preempted: "
            f"{refused(2, f'1 Insufficient cpu, 1 {MISMATCH}')}"
        ),
    ),
    "taints": (
        [
            *(node("n1", taints=[GPU]), node("n2", taints=[GPU, DEDICATED])),
            *LOW,
            wanting(tolerations=[{"key": "gpu", "operator": "Equal", "value": "false"}]),
        ],
        (
            "gpu=true:NoSchedule: all 2 nodes have this taint, dedicated:NoExecute: 1 of 2 nodes has this "
            f"taint, and the pod has no toleration for them; {refused(2, f'2 {TAINTED}')}"
        ),
    ),
    "taints of some nodes come last, as every cluster has some": (
        [node("n1"), node("n2", taints=[GPU]), PEER, wanting()],
        (
            f"nothing has a lower priority: {refused(2, f'1 Insufficient cpu, 1 {TAINTED}')} "
            "gpu=true:NoSchedule: 1 of 2 nodes has this taint, and the pod has no toleration for it."
        ),
    ),
    "the only node with the label is tainted": (
        [node("n1", labels={"pool": "a"}, taints=[GPU]), node("n2"), wanting(nodeSelector={"pool": "a"})],
        (
            "pool=a: 1 of 2 nodes has this label; gpu=true:NoSchedule: 1 of 2 nodes has this taint, and the "
            f"pod has no toleration for it; {refused(2, f'1 {MISMATCH}, 1 {TAINTED}')}"
        ),
    ),
    "cordoned nodes": (
        [node("n1", unschedulable=True, taints=[CORDONED]), node("n2", unschedulable=True), *LOW, wanting()],
        (f"spec.unschedulable: all 2 nodes are cordoned; {refused(2, '2 node(s) were unschedulable')}"),
    ),
    "the only node with the label is cordoned": (
        [
            node("n1", labels={"pool": "a"}, unschedulable=True),
            node("n2"),
            wanting(nodeSelector={"pool": "a"}),
        ],
        (
            "pool=a: 1 of 2 nodes has this label; spec.unschedulable: 1 of 2 nodes is cordoned; "
            f"{refused(2, f'1 {MISMATCH}, 1 node(s) were unschedulable')}"
        ),
    ),
    "a volume elsewhere, on nodes without room": (
        [*TWO, *LOW, claim("c", "v"), volume("v", terms=IN_ZONE_A), wanting(**mounts("c"))],
        (f"{ZONE}=a: no node has this label (for a volume of the pod); {refused(2, UNREACHED)}"),
    ),
    "a volume in a zone, by its label": (
        [*TWO, claim("c", "v"), volume("v", labels={ZONE: "a"}), wanting(**mounts("c"))],
        (
            f"{ZONE}=a: no node has this label (for a volume of the pod); "
            f"{refused(2, '2 node(s) had no available volume zone')}"
        ),
    ),
    "devices of an allocated claim elsewhere": (
        [*TWO, devices.device_class(), devices.claim("p", ["n9/gpu-0"], ()), devices.pod("p", 9)],
        (
            "metadata.name=n9: no node has this name (for the devices of a claim); "
            f"{refused(2, '2 resourceclaim not available on the node')}"
        ),
    ),
    "more taints than are named": (
        [node("n1", taints=[{"key": key, "effect": "NoSchedule"} for key in "abcde"]), wanting()],
        (
            "a:NoSchedule: the only node has this taint, b:NoSchedule: the only node has this taint, "
            "c:NoSchedule: the only node has this taint, 2 more taints, and the pod has no toleration for "
            "them; "
            f"{refused(1, f'1 {TAINTED}')}"
        ),
    ),
    "a label of topology spread": (
        [*TWO, wanting(**spread_over("rack"))],
        (f"rack: no node has this label (for a topology spread constraint); {refused(2, UNLABELLED)}"),
    ),
    "a request that is larger than every node": (
        [*TWO, *LOW, wanting(64)],
        (
            "cpu: no node that suits the pod has enough, even without other pods; "
            f"{refused(2, '2 Insufficient cpu')}"
        ),
    ),
    "preemptionPolicy Never": (
        [*TWO, wanting(preemptionPolicy="Never", nodeSelector={"pool": "gpu"})],
        (f"pool=gpu: no node has this label; {NOT_MATCHED} not eligible due to preemptionPolicy=Never."),
    ),
    "only protected units have a lower priority": (
        [node("n1"), pod("low", 4, 1, node="n1", ago=60, namespace="kube-system"), wanting()],
        f"nothing of a lower priority may be preempted: {refused(1, '1 Insufficient cpu')}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_unchangeable_reason_comes_first(case: str) -> None:
    objects, message = CASES[case]
    assert planned(*objects, by="p").message == message


@pytest.mark.parametrize("semantics", Semantics)
def test_the_unchangeable_reason_is_the_first_of_the_table(semantics: Semantics) -> None:
    objects, message = CASES["some nodes lack the label, and others lack room"]
    plan = planned(*objects, by="p", semantics=semantics)
    assert [(reason.reason, reason.count) for reason in plan.nodes] == [
        (MISMATCH, 2),
        ("Insufficient cpu", 1),
    ]
    assert plan.message == message


GANGS: dict[str, tuple[list[Any], str]] = {
    "one node is free": (
        [
            *(node("n1"), node("n2"), pod("peer", 4, 9, node="n2", ago=60)),
            *(group("g", 9, 2), gang("g", [None] * 2, 4, priority=9)),
        ],
        (
            "nothing has a lower priority: 1 of 2 members has room; "
            f"{refused(2, f'1 Insufficient cpu, 1 {TAKEN}')}"
        ),
    ),
    "more pods than minCount": (
        [*(node("n1"), node("n2"), node("n3")), *(group("g", 9, 4), gang("g", [None] * 6, 4, priority=9))],
        f"nothing has a lower priority: 3 of 4 needed members have room; {refused(3, f'3 {TAKEN}')}",
    ),
    "members run already": (
        [
            *(node("n1"), node("n2"), group("g", 9, 3)),
            *(gang("g", ["n1"], 4, priority=9), pod("g-8", 4, 9, group="g"), pod("g-9", 4, 9, group="g")),
        ],
        (
            "nothing has a lower priority: 1 of 2 needed members has room; "
            f"{refused(2, f'1 Insufficient cpu, 1 {TAKEN}')}"
        ),
    ),
    "no member has room": (
        [node("n1"), PEER, group("g", 9, 2), gang("g", [None] * 2, 4, priority=9)],
        f"nothing has a lower priority: {refused(1, '1 Insufficient cpu')}",
    ),
    "one member waits for a label that no node has": (
        [
            *(node("n1"), PEER, group("g", 9, 2), gang("g", [None], 4, priority=9)),
            pod("g-1", 1, 9, group="g", nodeSelector={"pool": "gpu"}),
        ],
        f"pool=gpu: no node has this label; {refused(1, f'1 {MISMATCH}')}",
    ),
    "a topology label that no node has": (
        [node("n1"), group("g", 9, 2, topology="rack"), gang("g", [None] * 2, 1, priority=9)],
        (
            "rack: no node has this label (for the topology of the group); "
            f"{refused(1, '1 node(s) had no label rack, the topology of the group')}"
        ),
    ),
}


@pytest.mark.parametrize("semantics", [Semantics.KEP, Semantics.V1_37])
@pytest.mark.parametrize("case", GANGS)
def test_a_gang_says_how_many_members_have_room(case: str, semantics: Semantics) -> None:
    objects, message = GANGS[case]
    plan = planned(*objects, by=of("g"), semantics=semantics)
    assert (plan.outcome, plan.message) == (Outcome.DOES_NOT_FIT, message)


def test_members_that_are_placed_pod_by_pod_are_counted_too() -> None:
    objects, _ = GANGS["one node is free"]
    assert planned(*objects, by=of("g"), semantics=Semantics.PODS).message == (
        f"nothing has a lower priority: 1 of 2 members has room; {refused(2, '2 Insufficient cpu')}"
    )


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37, Semantics.PODS])
def test_a_refusal_for_devices_names_the_rule_of_the_release(semantics: Semantics) -> None:
    objects = [*devices.cluster(1, 1), *devices.holder("low", ["n0/gpu-0"]), *devices.waiting("high")]
    release = "" if semantics is Semantics.PODS else f" {semantics}"
    assert planned(*objects, semantics=semantics).message == (
        f"kube-scheduler{release} preempts nothing for devices (kubernetes/enhancements#5690): "
        f"{refused(1, '1 cannot allocate all claims')}"
    )


def test_a_gang_with_too_few_devices_names_the_rule() -> None:
    members = [devices.waiting(f"high-{at}", group="high") for at in range(2)]
    low = devices.holder("low", ["n0/gpu-0"])
    objects = [*devices.cluster(1, 2), *low, group("high", 10, 2), *members[0], *members[1]]
    assert planned(*objects, by=of("high"), semantics=Semantics.V1_37).message == (
        "kube-scheduler 1.37 preempts nothing for devices (kubernetes/enhancements#5690): 1 of 2 members has "
        "room; 0/1 nodes are available: "
        f"1 {TAKEN.replace('Insufficient cpu', 'cannot allocate all claims')}."
    )


def test_devices_that_no_node_has_are_no_matter_of_the_rule() -> None:
    objects = [*devices.cluster(1, 0), *devices.waiting("high")]
    assert planned(*objects, semantics=Semantics.V1_37).message == refused(1, "1 cannot allocate all claims")


@pytest.mark.parametrize(("first", "judged"), [((), 64), (("x",), 32)])
def test_a_limited_number_of_requirements_is_looked_at(first: tuple[str, ...], judged: int) -> None:
    """The terms are a tenant's; 64 requirements are looked at."""
    terms = [[need(key, "Exists") for key in (*first, f"z{at}")] for at in range(MANY // 2)]
    message = planned(*TWO, wanting(**affinity(*terms)), by="p").message
    nearest = ", ".join(f"{key}: no node has this label" for key in (*first, "z0"))
    which = f"the first {judged} affinity terms"
    assert message == f"no node meets any of {which}, and the nearest needs {nearest}; {NOT_MATCHED}"


def test_of_many_values_three_are_named() -> None:
    values = [f"v{at}" for at in range(9)]
    message = planned(*TWO, wanting(**affinity([need("y", "In", *values)])), by="p").message
    assert message == f"y in (v0, v1, v2 and 6 more): no node has such a label; {NOT_MATCHED}"


def test_a_long_value_is_cut() -> None:
    message = planned(*TWO, wanting(nodeSelector={"k": "v" * MANY}), by="p").message
    assert message == f"k={'v' * 237}…: no node has this label; {NOT_MATCHED}"
