"""Random short sequences of requests to an API server, symbolic so that two servers can run them.

A text `{uid pods/a}` in a body is the UID that a side saw last, `{version pods/a}` the last resourceVersion
and `{stale pods/a}` the first one. A body with SENT is the object that was seen last, with changes.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from podium.simulation.apiserver.patching import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC

JSON = "application/json"
# The key of a body that is the object seen last; its value names the object.
SENT = "$sent"
NAMES = ("a", "b")
MANAGERS = ("one", "two")
_TIME = "2026-01-02T03:04:05Z"
Body = dict[str, Any]


class Step(NamedTuple):
    """A request. `{ns}` in texts is the namespace of a side."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    content_type: str = JSON

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        kind = "" if self.content_type == JSON else f" ({self.content_type.partition('/')[2]})"
        return f"{self.method} {self.path}{'?' if query else ''}{query}{kind} {self.body or ''}".rstrip()


class TestedKind(NamedTuple):
    """A kind of the comparison: its creations, and partial objects that change it, at its status too."""

    api_version: str
    kind: str
    plural: str
    created: Sequence[Body]
    changes: Sequence[Body]
    statuses: Sequence[Body] = ()
    namespaced: bool = True
    custom: bool = False

    @property
    def parent(self) -> str:
        """Return the path of the list."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{root}/namespaces/{{ns}}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"

    def head(self, name: str) -> Body:
        """Return the identity of an object."""
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name}}

    def named(self, name: str) -> str:
        """Return the name of an object: those without a namespace have one that no other sequence uses."""
        return name if self.namespaced else f"{{ns}}-{name}"


_LABELS = {"metadata": {"labels": {"app": "web"}}}
_METADATA = (
    _LABELS,
    {"metadata": {"labels": {"app": "api", "tier": "x"}}},
    {"metadata": {"labels": None}},
    {"metadata": {"annotations": {"note": "1"}}},
    {"metadata": {"finalizers": ["example.dev/one"]}},
    {"metadata": {"finalizers": ["example.dev/one", "example.dev/two"]}},
    {"metadata": {"finalizers": None}},
)


def _condition(kind: str, status: str, reason: str = "Tested") -> Body:
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": _TIME}


_CONDITIONS = (
    {"status": {"conditions": [_condition("Ready", "True")]}},
    {"status": {"conditions": [_condition("Ready", "False", "Broken")]}},
    {"status": {"conditions": [_condition("Other", "True")]}},
    {"status": {"conditions": [_condition("Other", "False"), _condition("Ready", "True")]}},
)


def _container(name: str, image: str, **more: Any) -> Body:
    return {"name": name, "image": image, **more}


_OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "11111111-1111-1111-1111-111111111111"}
_LIMITS = {"limits": {"cpu": "1", "memory": "1Gi"}}
_PODS = TestedKind(
    "v1",
    "Pod",
    "pods",
    (
        {"spec": {"containers": [_container("c", "x")]}},
        {"spec": {"containers": [_container("c", "x")]}, **_LABELS},
        {"spec": {"containers": [_container("c", "x:1", resources=_LIMITS)], "priority": 7}},
        {
            "metadata": {"ownerReferences": [_OWNER], "labels": {"app": "web"}},
            "spec": {
                "containers": [
                    _container("c", "x:1", env=[{"name": "A", "value": "1"}]),
                    _container("d", "y"),
                ],
                "nodeName": "n",
                "terminationGracePeriodSeconds": 5,
            },
        },
        {"spec": {"containers": [_container("c", "x")], "schedulingGates": [{"name": "example.dev/wait"}]}},
        {"spec": {"containers": [_container("c", "x")], "priorityClassName": "system-node-critical"}},
        {"spec": {"containers": [_container("c", "x")], "priorityClassName": "absent"}},
        {"spec": {"containers": []}},
    ),
    (
        *_METADATA,
        {"spec": {"containers": [_container("c", "x:2")]}},
        {"spec": {"activeDeadlineSeconds": 60}},
        {"spec": {"schedulerName": "other"}},
        {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}},
        {"spec": {"schedulingGates": None}},
        {"metadata": {"ownerReferences": [_OWNER]}},
        {"status": {"phase": "Running"}},
    ),
    (
        *_CONDITIONS,
        {"status": {"phase": "Running"}},
        {"status": {"phase": "Running", "conditions": [_condition("Ready", "True")]}},
        {"status": {"phase": "Failed"}},
        {"status": {"nominatedNodeName": "n"}},
        {"status": {"nominatedNodeName": None}},
        {
            "metadata": {"annotations": {"saved": "1"}},
            "status": {"conditions": [_condition("Ready", "False")]},
        },
        {"spec": {"schedulerName": "other"}},
    ),
)
_SEEN = {"observedGeneration": 9}
_BUDGETS = TestedKind(
    "policy/v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    (
        {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}},
        {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "api"}}}},
    ),
    (*_METADATA, {"spec": {"minAvailable": 2}}, {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
    tuple(
        {
            "status": {
                **observed,
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": 1,
                "expectedPods": 2,
            }
        }
        for observed, allowed, healthy in (({}, 1, 2), (_SEEN, 1, 2), (_SEEN, 0, 1), (_SEEN, 0, 2))
    ),
)
_CONFIG_MAPS = TestedKind(
    "v1",
    "ConfigMap",
    "configmaps",
    ({"data": {"x": "1"}}, {"data": {"x": "1", "y": "2"}, **_LABELS}, {}),
    (*_METADATA, {"data": {"x": "2"}}, {"data": {"y": "3"}}, {"data": {"x": None}}, {"data": None}),
)
_LEASES = TestedKind(
    "coordination.k8s.io/v1",
    "Lease",
    "leases",
    (
        {"spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}},
        {
            "spec": {
                "holderIdentity": "one",
                "leaseTransitions": 0,
                "renewTime": "2026-01-02T03:04:05.000001Z",
            }
        },
    ),
    (
        *_METADATA,
        {"spec": {"holderIdentity": "two"}},
        {"spec": {"leaseTransitions": 3, "holderIdentity": None}},
    ),
)
_CLASSES = TestedKind(
    "scheduling.k8s.io/v1",
    "PriorityClass",
    "priorityclasses",
    ({"value": 5}, {"value": 9, "description": "x", "preemptionPolicy": "Never"}, {"value": 2_000_000_000}),
    (*_METADATA, {"description": "y"}, {"value": 6}, {"preemptionPolicy": "Never"}),
    namespaced=False,
)
_NODES = TestedKind(
    "v1",
    "Node",
    "nodes",
    ({}, {"spec": {"unschedulable": True}, **_LABELS}),
    (
        *_METADATA,
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
        {"spec": {"unschedulable": None, "taints": None}},
    ),
    (
        *_CONDITIONS,
        {"status": {"allocatable": {"cpu": "4"}}},
        {"status": {"capacity": {"cpu": "4", "pods": "10"}}},
    ),
    namespaced=False,
)
_THINGS = TestedKind(
    "example.dev/v1",
    "Thing",
    "things",
    (
        {"spec": {"size": 1}},
        {"spec": {"size": 2, "parts": [{"name": "p", "weight": 1}]}},
        {"spec": {"unknown": 1}},
    ),
    (
        *_METADATA,
        {"spec": {"size": 3}},
        {"spec": {"parts": [{"name": "q", "weight": 2}]}},
        {"spec": {"tags": ["t"]}},
        {"spec": {"size": None}},
        {"status": {"phase": "x"}},
    ),
    (*_CONDITIONS, {"status": {"phase": "y"}}, {"spec": {"size": 9}}),
    custom=True,
)
_CONDITION_SCHEMA: Body = {
    "type": "object",
    "properties": {
        name: {"type": "string"} for name in ("type", "status", "reason", "message", "lastTransitionTime")
    },
}
DEFINITION: Body = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.dev"},
    "spec": {
        "group": "example.dev",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "mode": {"type": "string", "default": "plain"},
                                    "tags": {
                                        "type": "array",
                                        "items": {"type": "string"},
                                        "x-kubernetes-list-type": "set",
                                    },
                                    "parts": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "weight": {"type": "integer"},
                                            },
                                        },
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                    },
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "phase": {"type": "string"},
                                    "conditions": {
                                        "type": "array",
                                        "items": {**_CONDITION_SCHEMA, "required": ["type"]},
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["type"],
                                    },
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


def _groups(version: str) -> TestedKind:
    gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    return TestedKind(
        f"scheduling.k8s.io/{version}",
        "PodGroup",
        "podgroups",
        ({"spec": gang}, {"spec": {"schedulingPolicy": {"basic": {}}}, **_LABELS}, {"spec": {}}),
        (*_METADATA, {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}, {"status": {}}),
        _CONDITIONS,
    )


_SECRETS = TestedKind(
    "v1",
    "Secret",
    "secrets",
    ({"data": {"x": "eA=="}}, {"data": {"x": "eA=="}, "type": "example.dev/kind", **_LABELS}),
    (*_METADATA, {"data": {"y": "eQ=="}}, {"data": {"x": None}}),
)


def _workloads(version: str) -> TestedKind:
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    return TestedKind(
        f"scheduling.k8s.io/{version}",
        "Workload",
        "workloads",
        ({"spec": {"podGroupTemplates": [template]}}, {"spec": {"podGroupTemplates": []}}),
        _METADATA,
    )


def kinds(group_version: str) -> tuple[TestedKind, ...]:
    """Return the kinds of the comparison; `group_version` is the version of the native PodGroup."""
    native = _groups(group_version), _workloads(group_version)
    return (_PODS, _BUDGETS, _CONFIG_MAPS, _LEASES, _CLASSES, _NODES, _THINGS, *native, _SECRETS)


# How often a sequence is about each kind.
_WEIGHTS = (8, 0, 3, 2, 2, 2, 4, 4, 1, 1)


def sequence(random: Random, among: Sequence[TestedKind]) -> list[Step]:
    """Return 5 to 15 requests about two objects of one kind or, for evictions, of two kinds."""
    main = random.choices(among, _WEIGHTS)[0]
    used = [main]
    if (main is _PODS and random.random() < 0.5) or random.random() < 0.1:
        used.append(_BUDGETS)
    steps = [_creation(random, kind, NAMES[0]) for kind in used]
    while len(steps) < random.randint(5, 15):
        kind = used[-1] if random.random() < 0.2 else main
        steps.append(_step(random, kind, random.choices(NAMES, [4, 1])[0]))
    return steps


def _creation(random: Random, kind: TestedKind, name: str, **query: str) -> Step:
    body = _merged(kind.head(kind.named(name)), random.choice(kind.created))
    return Step("POST", kind.parent, {"fieldManager": random.choice(MANAGERS), **query}, body)


def _step(random: Random, kind: TestedKind, name: str) -> Step:
    path, query = f"{kind.parent}/{kind.named(name)}", {"fieldManager": random.choice(MANAGERS)}
    place = f"{kind.plural}/{kind.named(name)}"
    if random.random() < 0.08:
        query["dryRun"] = "All"
    choices: list[Callable[..., Step]] = [_creation, _read, _put, _patch, _apply, _delete]
    weights = [2, 2, 3, 6, 4, 3]
    if kind is _PODS:
        choices += [_bind, _evict]
        weights += [2, 2]
    made = random.choices(choices, weights)[0]
    if made is _creation:
        return _creation(random, kind, name, **query)
    return made(random, kind, path, place, query)


def _read(random: Random, kind: TestedKind, path: str, _place: str, _query: Body) -> Step:
    if kind.namespaced and random.random() < 0.5:
        options: tuple[Mapping[str, str], ...] = ({}, {"limit": "1"}, {"labelSelector": "app=web"})
        return Step("GET", kind.parent, random.choice(options))
    return Step("GET", path)


def _part(random: Random, kind: TestedKind) -> tuple[str, Body]:
    """Return the end of a path, and a change that is meant for it."""
    if kind.statuses and random.random() < 0.4:
        return "/status", random.choice(kind.statuses)
    return "", random.choice(kind.changes)


def _preconditions(random: Random, place: str) -> Body:
    choices: tuple[Body, ...] = (
        {},
        {"uid": f"{{uid {place}}}"},
        {"resourceVersion": f"{{version {place}}}"},
        {"resourceVersion": f"{{stale {place}}}"},
        {"uid": "22222222-2222-2222-2222-222222222222"},
    )
    return random.choices(choices, [12, 3, 3, 2, 1])[0]


def _put(random: Random, kind: TestedKind, path: str, place: str, query: Body) -> Step:
    end, change = _part(random, kind)
    version = random.choices((None, f"{{stale {place}}}", ""), [6, 2, 1])[0]
    metadata = {} if version is None else {"metadata": {"resourceVersion": version or None}}
    return Step(
        "PUT",
        path + end,
        query,
        {SENT: place, "unseen": kind.head(kind.named(place[-1])), "change": _merged(change, metadata)},
    )


def _patch(random: Random, kind: TestedKind, path: str, place: str, query: Body) -> Step:
    end, change = _part(random, kind)
    content_type = random.choice((MERGE_PATCH, STRATEGIC, STRATEGIC, JSON_PATCH))
    if content_type == JSON_PATCH:
        return Step("PATCH", path + end, query, _operations(random, kind, change, place), JSON_PATCH)
    if content_type == STRATEGIC and random.random() < 0.15 and kind.statuses:
        change = {"status": {"conditions": [{"$patch": "delete", "type": random.choice(("Ready", "Other"))}]}}
    body = _merged(change, {"metadata": _preconditions(random, place)})
    return Step("PATCH", path + end, query, body, content_type)


_CORE = ("/spec/containers", "/spec/selector", "/spec/schedulingPolicy", "/value", "/status")


def _operations(random: Random, kind: TestedKind, change: Body, place: str) -> list[Body]:
    field = random.choice(list(change))
    path, value = f"/{field}", change[field]
    if isinstance(value, dict) and value:
        name, value = random.choice(list(value.items()))
        path = f"{path}/{name}"
    # No value of a wrong type: the texts of decoders are not modelled. Nor is an object without its core.
    choices = [] if value is None else ["add", "replace"]
    if path not in _CORE:
        choices.append("remove")
    body: Body = {"op": random.choice(choices), "path": path}
    if body["op"] != "remove":
        body["value"] = value
    test = {"op": "test", "path": "/metadata/uid", "value": f"{{uid {place}}}"}
    return [test, body] if random.random() < 0.3 else [body]


def _apply(random: Random, kind: TestedKind, path: str, place: str, query: Body) -> Step:
    end, change = _part(random, kind)
    parts = [change] if random.random() < 0.6 else [change, _part_at(random, kind, end)]
    body = kind.head(kind.named(place[-1]))
    for part in parts:
        body = _merged(body, _without_nulls(part))
    if random.random() < 0.15:
        body = _merged(body, {"metadata": _preconditions(random, place)})
    if not end and random.random() < 0.3:
        body = _merged(random.choice(kind.created), body)
    return Step("PATCH", path + end, {**query, "force": random.choice(("true", "false"))}, body, APPLY_PATCH)


def _part_at(random: Random, kind: TestedKind, end: str) -> Body:
    return random.choice(kind.statuses if end else kind.changes)


def _delete(random: Random, _kind: TestedKind, path: str, place: str, query: Body) -> Step:
    body: Body = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if random.random() < 0.4:
        body["gracePeriodSeconds"] = random.choice((0, 0, 3, 60))
    if preconditions := _preconditions(random, place):
        body["preconditions"] = preconditions
    # A server loses a precondition of the version if the policy removes the last finalizer: it answers 409.
    if random.random() < 0.2 and "resourceVersion" not in preconditions:
        body["propagationPolicy"] = random.choice(("Background", "Foreground", "Orphan"))
    if "dryRun" in query and "propagationPolicy" not in body:
        body["dryRun"] = ["All"]
    return Step("DELETE", path, {}, body if len(body) > 2 or random.random() < 0.5 else None)


def _bind(random: Random, kind: TestedKind, path: str, place: str, query: Body) -> Step:
    metadata = {"name": kind.named(place[-1]), **_preconditions(random, place)}
    metadata.pop("resourceVersion", None)
    target = {"apiVersion": "v1", "kind": "Node", "name": random.choice(("n", "m"))}
    return Step(
        "POST",
        f"{path}/binding",
        query,
        {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target},
    )


def _evict(random: Random, kind: TestedKind, path: str, place: str, query: Body) -> Step:
    body: Body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": kind.named(place[-1])}}
    if random.random() < 0.3:
        body["deleteOptions"] = {"gracePeriodSeconds": 1}
    return Step("POST", f"{path}/eviction", query, body)


def _merged(value: Body, change: Body) -> Body:
    """Return both documents as one."""
    merged = dict(value)
    for name, part in change.items():
        held = merged.get(name)
        merged[name] = _merged(held, part) if isinstance(held, dict) and isinstance(part, dict) else part
    return merged


def _without_nulls(value: Body) -> Body:
    """Return a document without nulls, and without objects of nulls alone."""
    parts = {name: _without_nulls(part) if isinstance(part, dict) else part for name, part in value.items()}
    return {
        name: part for name, part in parts.items() if part is not None and (part != {} or value[name] == {})
    }
