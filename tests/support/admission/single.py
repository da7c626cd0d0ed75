"""PriorityClasses and Pods of the differential: valid objects, and their defects."""

from random import Random
from typing import Any

from tests.support.admission.edits import Edit, drop, put
from tests.support.admission.scene import (
    BAD_SUBDOMAINS,
    GROUP,
    NOT_INT32,
    PRIORITIES,
    Defect,
    Document,
    Scene,
    bad_name,
    class_name,
    generate_name,
    likely_class,
    metadata_edits,
    number,
    some,
    unknown_field,
)


def priority_class(name: str, value: int, rng: Random) -> Document:
    """A valid PriorityClass."""
    document: Document = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    policy = rng.choice((None, None, "Never", "PreemptLowerPriority"))
    if policy is not None or rng.random() < 0.1:
        document["preemptionPolicy"] = policy
    if rng.random() < 0.3:
        document["description"] = rng.choice(("for training", "", None))
    return document


def _class_value(rng: Random, _scene: Scene) -> list[Edit]:
    if rng.random() < 0.15:
        return [put("value", rng.choice(NOT_INT32))]
    return [drop("value")] if rng.random() < 0.2 else [put("value", rng.choice(PRIORITIES))]


def _class_policy(rng: Random, _scene: Scene) -> list[Edit]:
    return [
        put(
            "preemptionPolicy",
            rng.choice(("Sometimes", "", "never", None, "Never", "PreemptLowerPriority", 5)),
        )
    ]


def _class_default(rng: Random, _scene: Scene) -> list[Edit]:
    return [put("globalDefault", rng.choice((True, True, True, False, None, "true")))]


def _class_system(rng: Random, _scene: Scene) -> list[Edit]:
    """Return a reserved name, never with both of its own values: that object already exists."""
    name, value = rng.choice(
        (
            ("system-unheard-of", 5),
            ("system-", 2_000_000_000),
            ("system-node-critical", 1000),
            ("system-node-critical", 2_000_000_000),
            ("system-cluster-critical", 2_000_001_000),
        )
    )
    if rng.random() < 0.3:
        return [
            put("metadata/name", "system-cluster-critical"),
            put("value", 2_000_000_000),
            put("globalDefault", True),
        ]
    return [put("metadata/name", name), put("value", value)]


CLASS_DEFECTS: tuple[tuple[int, Defect], ...] = (
    (4, _class_value),
    (3, _class_policy),
    (4, _class_default),
    (3, _class_system),
    (2, bad_name),
    (1, generate_name),
    (2, metadata_edits),
    (1, unknown_field),
    (1, lambda r, _: [put("description", r.choice((5, None, "<&>")))]),
)


def class_update(rng: Random, scene: Scene) -> list[Edit]:
    """Return one or two changes to a stored PriorityClass."""
    options: tuple[Defect, ...] = (
        _class_value,
        _class_policy,
        _class_default,
        _class_default,
        metadata_edits,
        lambda r, _: [put("description", r.choice(("moved", "", None)))],
        lambda _r, _s: [drop("preemptionPolicy")],
        unknown_field,
    )
    return some(rng, scene, options)


def pod(name: str, rng: Random, scene: Scene) -> Document:
    """A valid Pod, often with a class and a group."""
    spec: Document = {
        "containers": [{"name": "main", "image": "example.com/train:1"}],
        "terminationGracePeriodSeconds": 0,
    }
    if scene.classes and rng.random() < 0.5:
        spec["priorityClassName"] = likely_class(rng, scene)
    if scene.groups and rng.random() < 0.5:
        spec["schedulingGroup"] = {"podGroupName": rng.choice(scene.groups)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": scene.namespace},
        "spec": spec,
    }


def _spec_class(rng: Random, scene: Scene) -> list[Edit]:
    return [put("spec/priorityClassName", class_name(rng, scene))]


def _spec_priority(rng: Random, scene: Scene) -> list[Edit]:
    return [put("spec/priority", number(rng, scene))]


def spec_class_and_priority(rng: Random, scene: Scene) -> list[Edit]:
    if not scene.classes:
        return [put("spec/priority", 0)]
    name, value = rng.choice(list(scene.classes.items()))
    return [put("spec/priorityClassName", name), put("spec/priority", value)]


def _spec_policy(rng: Random, _scene: Scene) -> list[Edit]:
    values: tuple[Any, ...] = (
        "Never",
        "PreemptLowerPriority",
        "PreemptLowerPriority",
        "Sometimes",
        "",
        None,
        1,
    )
    return [put("spec/preemptionPolicy", rng.choice(values))]


def _pod_group(rng: Random, scene: Scene) -> list[Edit]:
    values: tuple[Any, ...] = (
        {},
        None,
        {"podGroupName": rng.choice((*BAD_SUBDOMAINS, "no-such-group"))},
        {"other": "x"},
        "x",
    )
    good = {"podGroupName": rng.choice(scene.groups)} if scene.groups else {}
    return [put("spec/schedulingGroup", rng.choice((*values, good)))]


POD_DEFECTS: tuple[tuple[int, Defect], ...] = (
    (4, _spec_class),
    (3, _spec_priority),
    (3, spec_class_and_priority),
    (4, _spec_policy),
    (4, _pod_group),
    (1, bad_name),
    (1, generate_name),
    (1, metadata_edits),
    (1, unknown_field),
)


def pod_update(rng: Random, scene: Scene) -> list[Edit]:
    """Return one or two changes to a stored Pod; only the image of its containers may change."""
    options: tuple[Defect, ...] = (
        _spec_class,
        _spec_priority,
        _spec_policy,
        _pod_group,
        metadata_edits,
        lambda _r, _s: [put("spec/containers/0/image", "example.com/train:2")],
        lambda r, _: [drop(f"spec/{r.choice(('priority', 'preemptionPolicy'))}")],
        lambda r, _: [drop(f"spec/{r.choice(('priorityClassName', 'schedulingGroup'))}")],
    )
    return some(rng, scene, options)


def pod_status_edits(rng: Random, scene: Scene) -> list[Edit]:
    """Return a status as a kubelet writes it, with labels (which /status accepts) or a spec (ignored)."""
    edits = [put("status/phase", rng.choice(("Running", "Pending", "Succeeded")))]
    match rng.randrange(4):
        case 0:
            edits += metadata_edits(rng, scene)
        case 1:
            edits += _spec_priority(rng, scene)
        case 2:
            edits += _pod_group(rng, scene)
        case _:
            pass
    return edits
