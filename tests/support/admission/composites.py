"""Composite groups, their children and trees of templates of the differential, with their defects."""

from random import Random
from typing import Any

from tests.support.admission.edits import Edit, append, drop, put, swap
from tests.support.admission.grouped import (
    GROUP_DEFECTS,
    WORKLOAD_DEFECTS,
    group_update,
    pod_group,
    status,
    template_ref,
    workload,
    workload_update,
)
from tests.support.admission.scene import (
    BAD_SUBDOMAINS,
    GROUP,
    MAX_PRIORITY,
    NOT_LABELS,
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

_BAD_POLICIES: tuple[Any, ...] = (
    None,
    {},
    {"basic": {}, "gang": {"minGroupCount": 2}},
    {"gang": {}},
    {"gang": {"minGroupCount": 0}},
    {"gang": {"minGroupCount": -1}},
    {"gang": {"minGroupCount": None}},
    {"gang": None},
    {"basic": {"minGroupCount": 3}},
    {"gang": {"minGroupCount": 2_147_483_648}},
    {"gang": {"minGroupCount": "3"}},
    {"gang": {"minCount": 3}},
    {"other": {}},
    {"gang": []},
    "gang",
)
_CONSTRAINTS: tuple[Any, ...] = (
    {"topology": [{"key": "example.com/rack"}]},
    {"topology": [{"key": "example.com/rack"}, {"key": "zone"}]},
    {"topology": [{}]},
    {"topology": [{"key": "not a label"}]},
    {"topology": []},
    {"topology": None},
    {"topology": {}},
    {},
    None,
)
_PARENTS = ("parent", "parent", "composite-1", "a" * 254, "", "Bad_Name", None, 7)


def _good_policy(rng: Random) -> Document:
    return {"basic": {}} if rng.random() < 0.4 else {"gang": {"minGroupCount": rng.choice((1, 2, 8, 1000))}}


def _at(place: str, rng: Random, scene: Scene) -> list[Edit]:
    """Return a change to the spec of a composite group or to a composite template."""
    match rng.randrange(12):
        case 0 | 1 | 2:
            return [put(f"{place}/schedulingPolicy", rng.choice(_BAD_POLICIES))]
        case 3:
            return [put(f"{place}/schedulingPolicy/gang", {"minGroupCount": rng.choice((3, 0))})]
        case 4 | 5:
            modes = (*scene.dialect.bad_modes, *scene.dialect.good_modes)
            return [put(f"{place}/disruptionMode", rng.choice(modes))]
        case 6:
            return [put(f"{place}/priorityClassName", class_name(rng, scene))]
        case 7:
            return [put(f"{place}/priority", number(rng, scene))]
        case 8:
            return [drop(f"{place}/schedulingPolicy")]
        case 9:
            policies = ("Never", "PreemptLowerPriority", "Sometimes", "", None)
            return [put(f"{place}/preemptionPolicy", rng.choice(policies))]
        case _:
            return [put(f"{place}/schedulingConstraints", rng.choice(_CONSTRAINTS))]


def composite_group(name: str, rng: Random, scene: Scene) -> Document:
    """A valid CompositePodGroup, often with a class, a mode, constraints and a parent."""
    known = rng.choice(list(scene.workloads)) if scene.workloads else "no-such-workload"
    spec: Document = {
        "workloadRef": template_ref(scene.dialect, known, "root"),
        "schedulingPolicy": _good_policy(rng),
    }
    if scene.classes and rng.random() < 0.5:
        spec["priorityClassName"] = likely_class(rng, scene)
    if rng.random() < 0.4:
        spec["disruptionMode"] = rng.choice(scene.dialect.good_modes)
    if rng.random() < 0.3:
        spec["schedulingConstraints"] = {"topology": [{"key": "example.com/rack"}]}
    if rng.random() < 0.3:
        spec["parentCompositePodGroupName"] = "parent"
    return {
        "apiVersion": f"{GROUP}/{rng.choice(scene.dialect.composites)}",
        "kind": "CompositePodGroup",
        "metadata": {"name": name, "namespace": scene.namespace},
        "spec": spec,
    }


def _composite_field(rng: Random, scene: Scene) -> list[Edit]:
    return _at("spec", rng, scene)


def _parent(rng: Random, _scene: Scene) -> list[Edit]:
    return [put("spec/parentCompositePodGroupName", rng.choice(_PARENTS))]


def _reference(rng: Random, scene: Scene) -> list[Edit]:
    path = "spec/workloadRef"
    match rng.randrange(5):
        case 0:
            return [put(path, rng.choice(({}, None, "x", {"workloadName": "w"}, {"templateName": "t"})))]
        case 1:
            return [drop(path)]
        case 2:
            return [put(path, template_ref(scene.dialect, rng.choice(BAD_SUBDOMAINS), "root"))]
        case _:
            return [put(path, template_ref(scene.dialect, "other", rng.choice((*NOT_LABELS, "t"))))]


def _status(rng: Random, scene: Scene) -> list[Edit]:
    return [put("status", rng.choice((status(rng, scene), {}, None)))]


COMPOSITE_DEFECTS: tuple[tuple[int, Defect], ...] = (
    (10, _composite_field),
    (3, _parent),
    (4, _reference),
    (1, _status),
    (1, bad_name),
    (1, generate_name),
    (1, metadata_edits),
    (1, unknown_field),
    (1, lambda r, _: [put("spec", r.choice(({}, None, [])))]),
)


def composite_update(rng: Random, scene: Scene) -> list[Edit]:
    """Return one or two changes to a stored composite group."""
    droppable = ("priority", "priorityClassName", "disruptionMode", "preemptionPolicy")
    options: tuple[Defect, ...] = (
        _composite_field,
        _composite_field,
        _composite_field,
        _parent,
        _reference,
        metadata_edits,
        _status,
        lambda r, _: [put("spec/schedulingPolicy", _good_policy(r))],
        lambda r, _: [put("spec/schedulingPolicy/gang/minGroupCount", r.choice((1, 4, 0)))],
        lambda r, _: [drop(f"spec/{r.choice(droppable)}")],
        lambda _r, _s: [drop("spec/parentCompositePodGroupName")],
        lambda _r, _s: [drop("spec/schedulingConstraints")],
    )
    return some(rng, scene, options)


def child(name: str, rng: Random, scene: Scene) -> Document:
    """A valid PodGroup with a parent."""
    document = pod_group(name, rng, scene)
    known = rng.choice(list(scene.workloads)) if scene.workloads else "no-such-workload"
    document["spec"] |= {
        "parentCompositePodGroupName": "parent",
        "workloadRef": template_ref(scene.dialect, known, "leaf-1"),
    }
    if rng.random() < 0.3:
        document["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimName": "gpu"}]
    if rng.random() < 0.3:
        document["spec"]["schedulingConstraints"] = {"topology": [{"key": "example.com/rack"}]}
    return document


CHILD_DEFECTS: tuple[tuple[int, Defect], ...] = (
    *GROUP_DEFECTS,
    (6, _parent),
    (4, _reference),
    (2, lambda r, _: [put("spec/schedulingConstraints", r.choice(_CONSTRAINTS))]),
)


def child_update(rng: Random, scene: Scene) -> list[Edit]:
    """Return one or two changes to a stored PodGroup."""
    options: tuple[Defect, ...] = (
        group_update,
        _parent,
        _reference,
        lambda _r, _s: [drop("spec/parentCompositePodGroupName")],
        lambda r, _: [put("spec/schedulingConstraints", r.choice(_CONSTRAINTS))],
        lambda _r, _s: [put("spec/resourceClaims/0/name", "other")],
    )
    return some(rng, scene, options)


def tree(name: str, rng: Random, scene: Scene) -> Document:
    """A valid Workload with composite templates of one to three levels."""
    document = workload(name, ["leaf"], rng, scene)
    (leaf,) = document["spec"].pop("podGroupTemplates")
    root = _branch("root", rng.choice((1, 1, 2, 3)), leaf, rng, scene)
    if scene.dialect.alike and rng.random() < 0.8:
        _make_alike(root)
    document["spec"]["compositePodGroupTemplates"] = [root]
    return document


def _make_alike(parent: Document) -> None:
    """Give the templates below a template its gang and its mode all, which only a gang may have."""
    gang = "gang" in parent["schedulingPolicy"]
    if not gang:
        parent.pop("disruptionMode", None)
    for field, count in (("compositePodGroupTemplates", "minGroupCount"), ("podGroupTemplates", "minCount")):
        for child in parent.get(field, ()):
            if gang:
                child["schedulingPolicy"] = {"gang": {count: 2}}
            if parent.get("disruptionMode") == {"all": {}}:
                child["disruptionMode"] = {"all": {}}
            _make_alike(child)


def _branch(name: str, levels: int, leaf: Document, rng: Random, scene: Scene) -> Document:
    shared: Document = {key: leaf[key] for key in ("priorityClassName", "priority") if key in leaf}
    branch: Document = {"name": name, "schedulingPolicy": _good_policy(rng), **shared}
    if rng.random() < 0.3:
        branch["disruptionMode"] = rng.choice(scene.dialect.good_modes)
    if rng.random() < 0.3:
        branch["schedulingConstraints"] = {"topology": [{"key": "example.com/rack"}]}
    if levels > 1:
        branch["compositePodGroupTemplates"] = [_branch(f"sub-{levels}", levels - 1, leaf, rng, scene)]
    if levels == 1 or rng.random() < 0.5:
        branch["podGroupTemplates"] = [{**leaf, "name": f"leaf-{levels}"}]
    return branch


_ROOT = "spec/compositePodGroupTemplates/0"
_PLACES = (_ROOT, _ROOT, f"{_ROOT}/compositePodGroupTemplates/0")


def _branch_field(rng: Random, scene: Scene) -> list[Edit]:
    return _at(rng.choice(_PLACES), rng, scene)


def _leaf_field(rng: Random, scene: Scene) -> list[Edit]:
    place = f"{rng.choice(_PLACES)}/podGroupTemplates/0"
    match rng.randrange(5):
        case 0:
            policy = rng.choice(({}, {"gang": {"minCount": 0}}, {"gang": {"minCount": 3}}))
            return [put(f"{place}/schedulingPolicy", policy)]
        case 1:
            return [put(f"{place}/priority", number(rng, scene))]
        case 2:
            return [put(f"{place}/name", rng.choice((*NOT_LABELS, "root", "other")))]
        case 3:
            return [put(f"{place}/preemptionPolicy", rng.choice(("Never", "Sometimes")))]
        case _:
            return [put(f"{place}/schedulingConstraints", rng.choice(_CONSTRAINTS))]


def _shape(rng: Random, scene: Scene) -> list[Edit]:
    """Return too many templates, none, no children, repeated names, both lists, or too many levels."""
    place = rng.choice(_PLACES)
    leaf: Document = {"name": "leaf", "schedulingPolicy": {"basic": {}}}
    bare: Document = {"name": "bare", "schedulingPolicy": {"basic": {}}}
    composites = "spec/compositePodGroupTemplates"
    match rng.randrange(12):
        case 0:
            return [drop(f"{place}/podGroupTemplates")]
        case 1:
            return [append(f"{place}/podGroupTemplates", {**leaf, "name": name}) for name in "abcdefghi"]
        case 2:
            twice = {**leaf, "name": rng.choice(("root", "leaf-1", "twice"))}
            return [append(f"{place}/podGroupTemplates", twice) for _ in range(rng.choice((1, 2)))]
        case 3:
            return [append(f"{place}/compositePodGroupTemplates", bare)]
        case 4:
            return [put("spec/podGroupTemplates", rng.choice(([leaf], [], None)))]
        case 5 | 6:
            deep = _branch("deep-0", rng.choice((3, 4, 5)), _plain_leaf(rng), rng, scene)
            edits = [append(rng.choice((f"{_ROOT}/compositePodGroupTemplates", composites)), deep)]
            return edits if rng.random() < 0.5 else [put(composites, [deep])]
        case 7:
            return [put(composites, rng.choice(([], None, {}, [None], [{}])))]
        case 8:
            more = {**bare, "podGroupTemplates": [leaf]}
            return [append(composites, {**more, "name": rng.choice(("root", "more"))})]
        case 9:
            return [swap(composites), append(composites, {**bare, "name": "root"})]
        case 10:
            return [put(f"{place}/name", rng.choice((*NOT_LABELS, "leaf-1", "renamed")))]
        case _:
            return [put(f"{place}/priority", rng.choice((7, MAX_PRIORITY + 1)))]


def _plain_leaf(rng: Random) -> Document:
    """Return a leaf with most fields, whose value a server prints when the tree has too many levels."""
    leaf: Document = {"schedulingPolicy": rng.choice(({"basic": {}}, {"gang": {"minCount": 2}}))}
    if rng.random() < 0.5:
        leaf["disruptionMode"] = {"all": {}}
    if rng.random() < 0.5:
        leaf["resourceClaims"] = [{"name": "gpus", "resourceClaimName": "gpu"}]
    if rng.random() < 0.5:
        leaf["preemptionPolicy"] = "Never"
    return leaf


TREE_DEFECTS: tuple[tuple[int, Defect], ...] = (
    (8, _branch_field),
    (5, _leaf_field),
    (10, _shape),
    *((1, defect) for _, defect in WORKLOAD_DEFECTS),
)


def tree_update(rng: Random, scene: Scene) -> list[Edit]:
    """Return one or two changes to a stored Workload with composite templates."""
    options: tuple[Defect, ...] = (
        _branch_field,
        _branch_field,
        _leaf_field,
        _leaf_field,
        _shape,
        _shape,
        workload_update,
        lambda r, _: [put(f"{_ROOT}/schedulingPolicy", _good_policy(r))],
        lambda r, _: [put(f"{_ROOT}/schedulingPolicy/gang/minGroupCount", r.choice((1, 4, 0)))],
        lambda r, _: [drop(f"{r.choice(_PLACES)}/{r.choice(_TEMPLATE_FIELDS)}")],
        lambda _r, _s: [drop("spec/compositePodGroupTemplates")],
    )
    return some(rng, scene, options)


_TEMPLATE_FIELDS = (
    *("priority", "priorityClassName", "disruptionMode", "schedulingPolicy", "name"),
    *("schedulingConstraints", "podGroupTemplates", "compositePodGroupTemplates"),
)
