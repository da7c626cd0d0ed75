"""Any contents of an added file give objects, or one line that names the file; never a traceback."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.expand import (
    ASKING,
    GOLD,
    LETS,
    add,
    cluster,
    group,
    job,
    jobset,
    leader_worker_set,
    made,
    member,
    role,
    template,
)

from podium.errors import PodiumError

_CLAIMS = [{"metadata": {"name": "data"}}]
_STATEFUL = {"replicas": 2, "ordinals": {"start": 1}, "template": template(), "volumeClaimTemplates": _CLAIMS}
_WORKLOAD = {
    "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
    "podGroupTemplates": [{"name": "all", "schedulingPolicy": {"gang": {"minCount": 2}}}],
}
_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "z", "labelSelector": {"matchLabels": {}}}
        ]
    }
}
_CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "c",
    "resources": {"requests": {"storage": "1Gi"}},
}
_EPHEMERAL = {
    "name": "tmp",
    "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {}}, "spec": _CLAIM}},
}
_ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one"}
_DEVICES = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
_STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "c", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "x",
    "volumeBindingMode": "Immediate",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}],
}
_VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {"capacity": {"storage": "2Gi"}, "claimRef": {"namespace": "t", "name": "p"}, **_CLAIM},
}
_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"os": "linux"}},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
}
_TERM = {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux"]}]}
_REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}}
_AGENT = template(
    nodeSelector={"os": "linux"},
    tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    affinity={"nodeAffinity": _REQUIRED},
)
OBJECTS: list[list[dict[str, Any]]] = [
    [LETS, GOLD, job(labels=ASKING, completionMode="Indexed", completions=3)],
    [jobset(role("a", 2, ASKING), role("b", dependsOn=[{"name": "a"}]))],
    [leader_worker_set(groupPlacementPolicy={"type": "None"})],
    [made("apps/v1", "StatefulSet", "db", _STATEFUL)],
    [made("apps/v1", "Deployment", "web", {"replicas": 2, "template": template(affinity=_AFFINITY)})],
    [made("scheduling.k8s.io/v1beta1", "Workload", "w", _WORKLOAD), job()],
    [group(workloadRef={"workloadName": "w", "templateName": "all"}), member()],
    [
        made("apps/v1", "Deployment", "web", {"template": template(volumes=[_EPHEMERAL])}),
        _STORAGE_CLASS,
        _VOLUME,
        made("v1", "PersistentVolumeClaim", "p", {**_CLAIM, "volumeName": "v"}),
    ],
    [
        job(template=template(resourceClaims=[_ENTRY])),
        made("resource.k8s.io/v1", "ResourceClaimTemplate", "one", {"metadata": {}, "spec": _DEVICES}),
    ],
    [made("apps/v1", "DaemonSet", "agent", {"template": _AGENT}), _NODE],
    [made("policy/v1", "PodDisruptionBudget", "b", {"selector": {"matchLabels": {"a": "b"}}})],
]
_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 10**9, 2**40, 1.5, "", "x", "*", [], [None], [7], {}, {"a": "b"}, {"name": 7}]
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return every place in a document except its header, which gives its kind."""
    steps: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        steps = [step for step in value.items() if path[1:] or step[0] not in ("apiVersion", "kind")]
    elif isinstance(value, list):
        steps = list(enumerate(value))
    found = [(*path, step) for step, _ in steps]
    return found + [place for step, each in steps for place in _places(each, (*path, step))]


@st.composite
def _damaged(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A file in which some values are replaced or removed."""
    objects: list[dict[str, Any]] = copy.deepcopy(draw(st.sampled_from(OBJECTS)))
    for _ in range(draw(st.integers(1, 3))):
        places = [place for place in _places(objects) if len(place) > 1]
        if not places:
            break
        *path, last = draw(st.sampled_from(places))
        holder: Any = objects
        for step in path:
            holder = holder[step]
        if draw(st.booleans()) and isinstance(holder, dict):
            del holder[last]
        else:
            holder[last] = copy.deepcopy(draw(_VALUES))
    return objects


@given(_damaged())
def test_a_damaged_file_is_added_or_refused_in_one_line(objects: list[dict[str, Any]]) -> None:
    before = json.dumps(objects)
    state = cluster()
    revision = state.revision
    try:
        add(state, *objects)
    except PodiumError as error:
        line = str(error)
        assert line.startswith("new.json")
        assert line.isprintable()
    assert state.revision == revision
    assert json.dumps(objects) == before
