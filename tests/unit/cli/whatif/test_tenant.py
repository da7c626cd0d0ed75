"""`--tenant`: no format of any plan names another namespace or its objects."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.integration.cli.whatif.test_commands import FORMATS, file, podium
from tests.support.calling import Podium

from podium.planner.preemption.outcome import NO_UID

__all__ = ["podium"]

# Names of other tenants: namespaces, objects and labels. No word of a sentence is among them.
FOREIGN = (
    "xenon",
    "quartz",
    "walrus",
    "yonder",
    "juniper",
    "fjord",
    "obelisk",
    "kestrel",
    "zephyr",
    "kube-system",
)


def named(kind: str, name: str, namespace: str = "", *, uid: str = "", **fields: Any) -> dict[str, Any]:
    """Make an object; `uid` is the last digits of its UID."""
    versions = {
        "PodGroup": "scheduling.podium.dev/v1beta1",
        "PriorityClass": "scheduling.k8s.io/v1",
        "PodDisruptionBudget": "policy/v1",
    }
    metadata: dict[str, Any] = {"name": name, **fields.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    if uid:
        metadata["uid"] = f"00000000-0000-4000-8000-{uid:0>12}"
    return {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": metadata, **fields}


def pod(
    name: str,
    namespace: str,
    uid: str,
    cpu: str = "4",
    *,
    priority: int = 0,
    node: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Make a pod for podium-scheduler; `group` and `labels` go to its labels, the rest to its spec."""
    labels = extra.pop("labels", {})
    group = extra.pop("group", None)
    if group:
        labels = {**labels, "scheduling.podium.dev/pod-group": group}
    time = "2026-11-21T08:00:00Z"
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": time}
    return named(
        "Pod",
        name,
        namespace,
        uid=uid,
        metadata={"labels": labels, **extra.pop("metadata", {})},
        spec={
            "schedulerName": "podium-scheduler",
            "priority": priority,
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
            **extra,
        },
        status={"phase": "Running", "startTime": time, "conditions": [condition]} if node else {},
    )


def node(name: str) -> dict[str, Any]:
    return named("Node", name, status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}})


def budget(name: str, namespace: str, uid: str, app: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    return named(
        "PodDisruptionBudget",
        name,
        namespace,
        uid=uid,
        spec={"selector": selector},
        status={"disruptionsAllowed": 0},
    )


def group(name: str, namespace: str, uid: str, priority: int) -> dict[str, Any]:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 1}},
        "disruptionMode": {"all": {}},
        "priority": priority,
    }
    return named("PodGroup", name, namespace, uid=uid, spec=spec)


PATIENCE = {
    "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority": "999",
    "preemption-toleration.scheduling.x-k8s.io/toleration-seconds": "-1",
}
PATIENT = named("PriorityClass", "patient", metadata={"annotations": PATIENCE}, value=0)
MINE = pod("mine", "us", "1", priority=9)
GANG = [
    group("crew", "us", "20", 9),
    *(pod(f"crew-{at}", "us", f"2{at}", priority=9, group="crew") for at in (1, 2)),
]
BY_POD, BY_GROUP = ("--pod", "us/mine"), ("--group", "us/crew")

# Each case has another tenant's objects in another sentence or field; the last digits of a UID that must be
# shown.
CASES: dict[str, tuple[list[dict[str, Any]], Sequence[str], str]] = {
    "a victim": ([node("n1"), pod("quartz", "xenon", "77", node="n1"), MINE], BY_POD, "77"),
    "a group that goes": (
        [
            node("n1"),
            node("n2"),
            group("walrus", "xenon", "70", 0),
            pod("quartz", "xenon", "71", node="n1", group="walrus"),
            pod("yonder", "xenon", "72", node="n2", group="walrus"),
            *GANG,
        ],
        BY_GROUP,
        "70",
    ),
    "a budget that is violated": (
        [
            node("n1"),
            pod("quartz", "xenon", "77", node="n1", labels={"app": "fjord"}),
            budget("juniper", "xenon", "78", "fjord"),
            MINE,
        ],
        BY_POD,
        "77",
    ),
    "a budget that spares": (
        [
            node("n1"),
            pod("quartz", "xenon", "77", "1", node="n1", labels={"app": "fjord"}),
            pod("walrus", "xenon", "76", "3", node="n1"),
            budget("juniper", "xenon", "78", "fjord"),
            pod("mine", "us", "1", "3", priority=9),
        ],
        BY_POD,
        "78",
    ),
    "a toleration": (
        [
            node("n1"),
            PATIENT,
            pod("quartz", "xenon", "77", node="n1", priorityClassName="patient"),
            MINE,
        ],
        BY_POD,
        "77",
    ),
    "a class that does not exist": (
        [node("n1"), pod("quartz", "xenon", "77", node="n1", priorityClassName="gone"), MINE],
        BY_POD,
        "77",
    ),
    "a group of which one is protected": (
        [
            node("n1"),
            node("n2"),
            group("walrus", "xenon", "70", 0),
            pod("quartz", "xenon", "71", node="n1", group="walrus"),
            pod("yonder", "xenon", "72", node="n2", group="walrus", schedulerName="other"),
            *GANG,
        ],
        (*BY_GROUP, "--config", "config.yaml"),
        "72",
    ),
    "the system": ([node("n1"), pod("quartz", "kube-system", "77", node="n1"), MINE], BY_POD, "77"),
    "a pod that is leaving": (
        [
            node("n1"),
            pod("quartz", "xenon", "77", node="n1", metadata={"deletionTimestamp": "2026-11-21T09:00:00Z"}),
            MINE,
        ],
        BY_POD,
        "77",
    ),
    "requests that cannot be read": (
        [
            node("n1"),
            node("n2"),
            pod("quartz", "xenon", "77", "obelisk", node="n1"),
            MINE,
        ],
        BY_POD,
        "77",
    ),
    "a budget that cannot be read": (
        [
            node("n1"),
            pod("quartz", "xenon", "77", node="n1"),
            budget("juniper", "xenon", "78", "not a label: kestrel"),
            MINE,
        ],
        BY_POD,
        "78",
    ),
    "a pod on a node that is gone": (
        [node("n1"), pod("quartz", "xenon", "77", node="n9"), pod("walrus", "xenon", "76", node="n1"), MINE],
        BY_POD,
        "77",
    ),
    "an anti-affinity": (
        [
            node("n1"),
            pod(
                "quartz",
                "xenon",
                "77",
                "1",
                node="n1",
                priority=99,
                affinity={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "labelSelector": {"matchLabels": {"app": "zephyr"}},
                                "namespaces": ["us"],
                                "topologyKey": "kubernetes.io/hostname",
                            }
                        ]
                    }
                },
            ),
            pod("mine", "us", "1", "3", priority=9),
        ],
        BY_POD,
        "",
    ),
}
CONFIG = """\
apiVersion: config.podium.dev/v1
kind: WhatIfConfiguration
evictOnly: podium-scheduler
"""


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize(("objects", "arguments", "uid"), CASES.values(), ids=list(CASES))
def test_others_are_uids(
    podium: Podium, objects: list[dict[str, Any]], arguments: Sequence[str], uid: str, output: str
) -> None:
    """No foreign name is in the output or on stderr, in any format; the UID is, where it matters."""
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    file(CONFIG, "config.yaml")
    run = podium("-f", file(json.dumps(listed), "c.json"), *arguments, "--tenant", "us", "-o", output)
    assert run.code in (0, 3), run.stderr
    for name in FOREIGN:
        assert name not in run.stdout, name
        assert name not in run.stderr, name
    if uid and output in ("json", "yaml"):
        assert f"00000000-0000-4000-8000-{uid:0>12}" in run.stdout
    assert "us/" in run.stdout or run.code == 3


def test_without_a_tenant_they_are_named(podium: Podium) -> None:
    """Without --tenant every foreign name that matters is shown, so the cases have foreign names."""
    objects, arguments, _ = CASES["a budget that spares"]
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    text = podium("-f", file(json.dumps(listed), "c.json"), *arguments).stdout
    assert "xenon/walrus" in text
    assert "xenon/juniper" in text.replace("\n", "").replace(" ", "")


def test_an_object_without_uid_has_none(podium: Podium) -> None:
    """A manifest that was never on a server has no UID, and the report has a note instead."""
    listed = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [node("n1"), pod("quartz", "xenon", "", node="n1"), MINE],
    }
    run = podium("-f", file(json.dumps(listed), "c.json"), *BY_POD, "--tenant", "us", "-o", "json")
    assert [unit["name"] for unit in run.json["victims"]] == [NO_UID]


def test_a_tenant_is_offered_its_own(podium: Podium) -> None:
    """Without a named preemptor, only the tenant's pending pods are shown."""
    objects = [node("n1"), pod("quartz", "xenon", "7"), MINE]
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    run = podium("-f", file(json.dumps(listed), "c.json"), "--tenant", "us")
    assert run.stderr == ("podium: no target: use --pod or --group, or -A for all; pending pods: us/mine\n")
