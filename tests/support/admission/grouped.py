"""Workloads and PodGroups of the differential: valid objects, their status, and their defects."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.support.admission.edits import Edit, append, drop, put, swap
from tests.support.admission.scene import (
    BAD_SUBDOMAINS,
    GROUP,
    MAX_PRIORITY,
    NOT_LABELS,
    Defect,
    Dialect,
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
from tests.support.admission.single import spec_class_and_priority

_BAD_POLICIES: tuple[Any, ...] = (
    None,
    {},
    {"basic": {}, "gang": {"minCount": 2}},
    {"gang": {}},
    {"gang": {"minCount": 0}},
    {"gang": {"minCount": -1}},
    {"gang": {"minCount": None}},
    {"gang": None},
    {"basic": None},
    {"basic": {}, "gang": None},
    {"basic": {"minCount": 3}},
    {"gang": {"minCount": 2_147_483_648}},
    {"gang": {"minCount": "3"}},
    {"basic": {}, "other": {}},
    {"other": {}},
    {"gang": {"minCount": 3, "other": 1}},
    {"gang": []},
    "gang",
)


def _good_policy(rng: Random) -> Document:
    return {"basic": {}} if rng.random() < 0.4 else {"gang": {"minCount": rng.choice((1, 2, 8, 1000))}}


def _at(place: str, rng: Random, scene: Scene) -> list[Edit]:
    """Return a change to a group's spec or to a template, which have most fields in common."""
    dialect = scene.dialect
    match rng.randrange(13):
        case 0 | 1 | 2:
            return [put(f"{place}/schedulingPolicy", rng.choice(_BAD_POLICIES))]
        case 3:
            return [put(f"{place}/schedulingPolicy/gang", rng.choice(({"minCount": 3}, {"minCount": 0})))]
        case 4 | 5:
            return [put(f"{place}/disruptionMode", rng.choice(dialect.bad_modes))]
        case 6:
            return [put(f"{place}/disruptionMode", rng.choice(dialect.good_modes))]
        case 7 | 8:
            return [put(f"{place}/priorityClassName", class_name(rng, scene))]
        case 9 | 10:
            return [put(f"{place}/priority", number(rng, scene))]
        case 11:
            return [drop(f"{place}/schedulingPolicy")]
        case _:
            return [_gated(place, rng)]


def _gated(place: str, rng: Random) -> Edit:
    """Return a field behind a closed gate, or a field that the version does not know."""
    claims = [{"name": f"claim-{index}", "resourceClaimName": "gpu"} for index in range(5)]
    values: dict[str, tuple[Any, ...]] = {
        "schedulingConstraints": (
            {"topology": [{"key": "example.com/rack"}]},
            {"topology": [{}, {}]},
            {},
            None,
        ),
        "resourceClaims": (claims[:1], claims, [{}], [], None),
        "preemptionPolicy": ("Never", "PreemptLowerPriority", "Sometimes", "", None),
        "parentCompositePodGroupName": ("parent", "Bad_Name", "", None),
    }
    field = rng.choice(list(values))
    return put(f"{place}/{field}", rng.choice(values[field]))


def workload(name: str, templates: Sequence[str], rng: Random, scene: Scene) -> Document:
    """A valid Workload; all of its templates have one priority, as 1.37 requires."""
    shared: Document = {}
    if scene.classes and rng.random() < 0.5:
        shared["priorityClassName"] = likely_class(rng, scene)
    if rng.random() < 0.3:
        shared["priority"] = rng.choice((0, 1000, MAX_PRIORITY))
    spec: Document = {
        "podGroupTemplates": [_template(template, shared, rng, scene) for template in templates]
    }
    if rng.random() < 0.4:
        spec["controllerRef"] = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    return {
        "apiVersion": f"{GROUP}/{rng.choice(scene.dialect.versions)}",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": scene.namespace},
        "spec": spec,
    }


def _template(name: str, shared: Document, rng: Random, scene: Scene) -> Document:
    template: Document = {"name": name, "schedulingPolicy": _good_policy(rng), **shared}
    if rng.random() < 0.3:
        template["disruptionMode"] = rng.choice(scene.dialect.good_modes)
    return template


def _one_template(rng: Random, scene: Scene) -> list[Edit]:
    return _at(f"spec/podGroupTemplates/{rng.choice((0, 0, 0, 1))}", rng, scene)


def _template_priority(rng: Random, _scene: Scene) -> list[Edit]:
    """Return an invalid class name, or a number above the maximum of a user's class."""
    path = "spec/podGroupTemplates/0"
    return [
        put(f"{path}/priorityClassName", rng.choice(BAD_SUBDOMAINS))
        if rng.random() < 0.5
        else put(f"{path}/priority", rng.choice((MAX_PRIORITY + 1, 2_000_000_000, 2_147_483_647)))
    ]


def _template_name(rng: Random, _scene: Scene) -> list[Edit]:
    path = f"spec/podGroupTemplates/{rng.choice((0, 0, 1))}"
    return [drop(f"{path}/name")] if rng.random() < 0.2 else [put(f"{path}/name", rng.choice(NOT_LABELS))]


def _template_list(rng: Random, scene: Scene) -> list[Edit]:
    """Return too many templates, none, duplicates, another template, or a value that is not a list."""
    path = "spec/podGroupTemplates"
    match rng.randrange(8):
        case 0:
            return [drop(path)]
        case 1:
            return [put(path, rng.choice(([], None, {}, [None], [{}])))]
        case 2:
            return [append(path, _template(f"more-{index}", {}, rng, scene)) for index in range(8)]
        case 3:
            size = rng.choice((8, 8, 9))
            return [put(path, [_template(f"t{index}", {}, rng, scene) for index in range(size)])]
        case 4:
            template = _template("twice", {}, rng, scene)
            return [append(path, template), append(path, template)]
        case 5:
            return [append(path, _template("other", {"priority": rng.choice((0, 7))}, rng, scene))]
        case 6:
            return [append(path, _template("plain", {}, rng, scene))]
        case _:
            return [put("spec", rng.choice(({}, None, [])))]


def _controller_ref(rng: Random, _scene: Scene) -> list[Edit]:
    good = {"apiGroup": "batch", "kind": "Job", "name": "train"}
    bad = rng.choice(
        (
            {},
            {"kind": "Job"},
            {"name": "train"},
            {**good, "kind": "a/b"},
            {**good, "kind": ".."},
            {**good, "kind": ""},
            {**good, "name": "%41"},
            {**good, "name": "."},
            {**good, "apiGroup": "Bad_Group"},
            {**good, "apiGroup": ""},
            {**good, "apiGroup": "a" * 254},
            {**good, "name": "other"},
            good,
            None,
        )
    )
    return [put("spec/controllerRef", bad)]


def _composites(rng: Random, scene: Scene) -> list[Edit]:
    """Return composite templates: their gate is off on 1.37, and 1.36 does not know them."""
    composite = {
        "name": "tree",
        "schedulingPolicy": {"basic": {}},
        "podGroupTemplates": [_template("leaf", {}, rng, scene)],
    }
    edits = [put("spec/compositePodGroupTemplates", rng.choice(([composite], [composite], [], None, [{}])))]
    return edits if rng.random() < 0.5 else [*edits, drop("spec/podGroupTemplates")]


WORKLOAD_DEFECTS: tuple[tuple[int, Defect], ...] = (
    (8, _one_template),
    (3, _template_name),
    (2, _template_priority),
    (6, _template_list),
    (4, _controller_ref),
    (1, _composites),
    (1, bad_name),
    (1, generate_name),
    (1, metadata_edits),
    (1, unknown_field),
)


def workload_update(rng: Random, scene: Scene) -> list[Edit]:
    """Return one or two changes to a stored Workload."""
    options: tuple[Defect, ...] = (
        _one_template,
        _one_template,
        _template_list,
        _template_name,
        _controller_ref,
        metadata_edits,
        lambda r, _: [put("spec/podGroupTemplates/0/schedulingPolicy", _good_policy(r))],
        lambda r, _: [
            put("spec/podGroupTemplates/0/schedulingPolicy/gang/minCount", r.choice((1, 4, 0, -1)))
        ],
        lambda _r, _s: [swap("spec/podGroupTemplates")],
        lambda r, _: [drop(f"spec/podGroupTemplates/{r.choice((0, 1))}")],
        lambda _r, _s: [drop("spec/controllerRef")],
        lambda r, _: [drop(f"spec/podGroupTemplates/0/{r.choice(_TEMPLATE_FIELDS)}")],
    )
    return some(rng, scene, options)


_TEMPLATE_FIELDS = ("priority", "priorityClassName", "disruptionMode", "schedulingPolicy", "name")


def pod_group(name: str, rng: Random, scene: Scene) -> Document:
    """A valid PodGroup, often with a class, a mode and a reference to a template."""
    spec: Document = {"schedulingPolicy": _good_policy(rng)}
    if scene.classes and rng.random() < 0.6:
        spec["priorityClassName"] = likely_class(rng, scene)
    if rng.random() < 0.5:
        spec["disruptionMode"] = rng.choice(scene.dialect.good_modes)
    document: Document = {
        "apiVersion": f"{GROUP}/{rng.choice(scene.dialect.versions)}",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": scene.namespace},
        "spec": spec,
    }
    if scene.workloads and rng.random() < 0.4:
        workload_name, templates = rng.choice(list(scene.workloads.items()))
        spec[scene.dialect.ref] = template_ref(scene.dialect, workload_name, rng.choice(templates))
    return document


def template_ref(dialect: Dialect, workload_name: Any, template_name: Any) -> Document:
    """A reference to a template in the minor's spelling."""
    ref: Document = {}
    for path, value in zip(dialect.ref_names, (workload_name, template_name), strict=True):
        *parents, last = path.split("/")
        place = ref
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return ref


def _group_ref(rng: Random, scene: Scene) -> list[Edit]:
    dialect, path = scene.dialect, f"spec/{scene.dialect.ref}"
    known = rng.choice(list(scene.workloads)) if scene.workloads else "no-such-workload"
    name = rng.choice((known, known, "no-such-workload", *BAD_SUBDOMAINS))
    template = rng.choice((*scene.workloads.get(known, ["t"]), "no-such-template", *NOT_LABELS))
    match rng.randrange(7):
        case 0:
            return [put(path, rng.choice(({}, None, {"workload": {}}, {"workload": None}, "x")))]
        case 1:
            missing = rng.choice(dialect.ref_names)
            return [put(path, template_ref(dialect, known, "t")), drop(f"{path}/{missing}")]
        case 2:
            return [drop(path)]
        case 3:
            return [put(path, template_ref(dialect, known, "no-such-template"))]
        case _:
            return [put(path, template_ref(dialect, name, template))]


def _group_field(rng: Random, scene: Scene) -> list[Edit]:
    return _at("spec", rng, scene)


def _group_status(rng: Random, scene: Scene) -> list[Edit]:
    return [put("status", rng.choice((status(rng, scene), {}, None)))]


GROUP_DEFECTS: tuple[tuple[int, Defect], ...] = (
    (10, _group_field),
    (4, _group_ref),
    (2, spec_class_and_priority),
    (1, _group_status),
    (1, bad_name),
    (1, generate_name),
    (2, metadata_edits),
    (1, unknown_field),
    (1, lambda r, _: [put("spec", r.choice(({}, None, [])))]),
)


def group_update(rng: Random, scene: Scene) -> list[Edit]:
    """Return one or two changes to a stored PodGroup."""
    options: tuple[Defect, ...] = (
        _group_field,
        _group_field,
        _group_field,
        _group_ref,
        metadata_edits,
        _group_status,
        lambda r, _: [put("spec/schedulingPolicy", _good_policy(r))],
        lambda r, _: [put("spec/schedulingPolicy/gang/minCount", r.choice((1, 4, 0, -1)))],
        lambda r, _: [drop(f"spec/{r.choice(('priority', 'priorityClassName', 'disruptionMode'))}")],
        lambda _r, _s: [drop("metadata/finalizers")],
        lambda _r, _s: [append("metadata/finalizers", "example.com/late")],
    )
    return some(rng, scene, options)


_TIME = "2026-01-01T00:00:00Z"


def status(rng: Random, scene: Scene) -> Document:
    """A valid status of a PodGroup."""
    scheduled = "PodGroupScheduled" if scene.minor == "1.36" else "PodGroupInitiallyScheduled"
    types = [scheduled, "DisruptionTarget", "PodsNotMatchingPriority", "example.com/Other"]
    rng.shuffle(types)
    conditions: list[Document] = [
        {
            "type": kind,
            "status": rng.choice(("True", "False", "Unknown")),
            "reason": rng.choice(("Unschedulable", "SchedulerError", "A:b_C,d")),
            "message": rng.choice(("", "no node fits")),
            "lastTransitionTime": _TIME,
        }
        for kind in types[: rng.randrange(4)]
    ]
    if conditions and rng.random() < 0.2:
        conditions[0]["observedGeneration"] = rng.choice((0, 3))
    return {"conditions": conditions} if conditions or rng.random() < 0.5 else {}


def status_edits(rng: Random, scene: Scene) -> list[Edit]:
    """Return a status with zero to two defects, sometimes with a spec or labels, which a server ignores."""
    edits = [put("status", status(rng, scene))]
    edits += [_condition_defect(rng) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    match rng.randrange(10):
        case 0:
            edits += _group_field(rng, scene)
        case 1:
            edits += metadata_edits(rng, scene)
        case 2:
            edits.append(
                put("status/resourceClaimStatuses", rng.choice(([], [{"name": "claim-0"}], [{}], None)))
            )
        case 3:
            edits.append(put("status", rng.choice(({}, None, {"conditions": None}, {"conditions": [None]}))))
        case _:
            pass
    return edits


def _condition_defect(rng: Random) -> Edit:
    values: dict[str, tuple[Any, ...]] = {
        "type": ("", "bad type!", "a/b/c", "x" * 317, "example.com/Fine", None),
        "status": ("", "true", "Maybe", None, True),
        "reason": ("", "bad reason", "1st", "x" * 1025, None),
        "message": ("x" * 32768, "x" * 32769, None, "ünï"),
        "other": ("x",),
        "lastTransitionTime": (None, "0001-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "yesterday"),
        "observedGeneration": (-1, 0, None, "1"),
    }
    match rng.randrange(8):
        case 0:
            duplicate = {"type": "Twice", "status": "True", "reason": "R", "lastTransitionTime": _TIME}
            return put("status/conditions", [duplicate, duplicate])
        case 1:
            return drop(f"status/conditions/0/{rng.choice(list(values))}")
        case 2:
            return swap("status/conditions")
        case _:
            field = rng.choice(list(values))
            return put(f"status/conditions/{rng.choice((0, 0, 1))}/{field}", rng.choice(values[field]))
