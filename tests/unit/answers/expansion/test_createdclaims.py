"""The claims that controllers create for the pods of a file, bound or not as controllers bind them."""

from typing import Any

import pytest
from tests.support.expand import (
    Document,
    add,
    cluster,
    group,
    job,
    jobset,
    leader_worker_set,
    made,
    member,
    pod,
    pods,
    template,
)

from podium.answers.expansion import createdclaims
from podium.answers.expansion.expand import Expansion
from podium.api.devices import ResourceClaim
from podium.api.storage import PersistentVolume, PersistentVolumeClaim
from podium.documents.document import ReadError

APPS, DEVICES = "apps/v1", "resource.k8s.io/v1"


def _class(
    name: str, mode: str | None = None, *, provisioner: str = "csi.example.com", **more: Any
) -> Document:
    stored = {"provisioner": provisioner, "volumeBindingMode": mode or "Immediate", **more}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **stored}


def _default(name: str, time: str = "2026-01-01T00:00:00Z", **more: Any) -> Document:
    stored = _class(name, "WaitForFirstConsumer", **more)
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {**stored, "metadata": {"name": name, "annotations": annotations, "creationTimestamp": time}}


def _spec(storage_class: str | None = "late", size: str = "1Gi", **more: Any) -> Document:
    named = {} if storage_class is None else {"storageClassName": storage_class}
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **named, **more}


def _claim(name: str = "c", storage_class: str | None = "late", **more: Any) -> Document:
    return made("v1", "PersistentVolumeClaim", name, _spec(storage_class, **more))


def _volume(name: str, storage_class: str = "static", size: str = "1Gi", **more: Any) -> Document:
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**spec, **more},
    }


def _stateful(*volumes: str, replicas: int = 2, storage_class: str | None = "late") -> Document:
    templates = [{"metadata": {"name": each}, "spec": _spec(storage_class)} for each in volumes]
    spec = {"replicas": replicas, "template": template(), "volumeClaimTemplates": templates}
    return made(APPS, "StatefulSet", "db", spec)


EPHEMERAL = [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": _spec()}}}]
LATE, NOW = _class("late", "WaitForFirstConsumer"), _class("now")
STATIC = _class("static", provisioner="kubernetes.io/no-provisioner")


def _claims(expansion: Expansion) -> dict[str, PersistentVolumeClaim]:
    return {
        each.metadata.name or "": each
        for each in expansion.objects
        if isinstance(each, PersistentVolumeClaim)
    }


def _bindings(expansion: Expansion) -> dict[str, str]:
    """Return the volume of each claim, empty for an unbound one."""
    return {
        name: (each.spec.volumeName or "") if each.bound and each.spec is not None else ""
        for name, each in _claims(expansion).items()
    }


# Volumes.

BECAUSE = "because it binds claims before their pods are scheduled"


def test_a_stateful_set_has_a_claim_for_each_pod_and_template() -> None:
    """The claims outlive it, so they have no owner."""
    claims = _claims(add(cluster(LATE), _stateful("data", "log")))
    assert sorted(claims) == ["data-db-0", "data-db-1", "log-db-0", "log-db-1"]
    assert {each.metadata.namespace for each in claims.values()} == {"t"}
    assert {each.storage_class for each in claims.values()} == {"late"}
    assert {each.metadata.ownerReferences for each in claims.values()} == {None}


def test_claims_that_exist_are_used_again() -> None:
    """They may be of the cluster or of the file."""
    added = add(cluster(LATE, _claim("data-db-0")), _stateful("data", replicas=3), _claim("data-db-1"))
    assert sorted(_claims(added)) == ["data-db-1", "data-db-2"]
    assert not any("replaces" in note for note in added.notes)


def test_a_replica_of_a_leader_worker_set_has_claims_too() -> None:
    document = leader_worker_set(1, 2)
    templates = [{"metadata": {"name": "data"}, "spec": _spec()}]
    document["spec"]["leaderWorkerTemplate"]["volumeClaimTemplates"] = templates
    assert sorted(_claims(add(cluster(LATE), document))) == ["data-serve-0", "data-serve-0-1"]


MAKERS: dict[str, Document] = {
    "Deployment": made(APPS, "Deployment", "web", {"replicas": 2, "template": template(volumes=EPHEMERAL)}),
    "Job": job(template=template(volumes=EPHEMERAL)),
    "Pod": pod(volumes=EPHEMERAL),
    "JobSet": jobset(
        {"name": "a", "template": {"spec": {"parallelism": 2, "template": template(volumes=EPHEMERAL)}}}
    ),
    "RayCluster": made(
        "ray.io/v1", "RayCluster", "r", {"headGroupSpec": {"template": template(volumes=EPHEMERAL)}}
    ),
}


@pytest.mark.parametrize("document", MAKERS.values(), ids=list(MAKERS))
def test_an_ephemeral_volume_has_a_claim_that_belongs_to_its_pod(document: Document) -> None:
    added = add(cluster(LATE), document)
    owners = {name: each.metadata.controller() for name, each in _claims(added).items()}
    assert {name: owner and (owner.kind, owner.uid) for name, owner in owners.items()} == {
        f"{name}-tmp": ("Pod", each.metadata.uid) for name, each in pods(added).items()
    }


BOUND: list[tuple[str, list[Document], Document, str]] = [
    ("a class that waits for the pod", [LATE], _claim(), ""),
    ("one that does not", [NOW], _claim("c", "now"), "created"),
    ("a class that does not exist", [NOW], _claim("c", "nowhere"), ""),
    ("a class without a provisioner", [STATIC], _claim("c", "static"), ""),
    ("and with a volume", [STATIC, _volume("v")], _claim("c", "static"), "v"),
    (
        "the smallest volume that suffices",
        [STATIC, *(_volume(f"v{size}", size=f"{size}Gi") for size in (9, 1, 4))],
        _claim("c", "static", size="2Gi"),
        "v4",
    ),
    (
        "a volume of its class before a new one",
        [NOW, _volume("v", "now")],
        _claim("c", "now"),
        "v",
    ),
    ("a volume of another class", [STATIC, _volume("v", "late")], _claim("c", "static"), ""),
    ("no class by intent", [NOW, _default("d"), _volume("v", "")], _claim("c", ""), "v"),
    ("no class and no default", [NOW], _claim("c", None), ""),
    ("the default class", [_default("d")], _claim("c", None), ""),
    ("a volume that it names", [LATE, _volume("v", "late")], _claim(volumeName="v"), "v"),
    ("one that does not exist", [LATE], _claim(volumeName="v"), ""),
    ("one that is too small", [LATE, _volume("v", "late")], _claim(size="2Gi", volumeName="v"), ""),
    (
        "a volume that names it",
        [STATIC, _volume("v"), _volume("w", claimRef={"namespace": "t", "name": "c"})],
        _claim("c", "static"),
        "w",
    ),
    (
        "one that names another",
        [STATIC, _volume("v", claimRef={"namespace": "t", "name": "other"})],
        _claim("c", "static", volumeName="v"),
        "",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "claim", "volume"), [row[1:] for row in BOUND], ids=[row[0] for row in BOUND]
)
def test_a_claim_is_bound_as_the_volume_controller_would(
    objects: list[Document], claim: Document, volume: str
) -> None:
    """Whether the other objects are of the cluster or of the file."""
    other = _class("other")
    free = [
        {**each, "status": {"phase": "Available"}} if each["kind"] == "PersistentVolume" else each
        for each in objects
    ]
    for added in (add(cluster(*free), claim, pod()), add(cluster(other), *objects, claim, pod())):
        (bound,) = _bindings(added).values()
        assert ("created" if bound.startswith("pvc-") else bound) == volume


def test_the_newest_default_class_counts() -> None:
    state = cluster(_default("b"), _default("a"), _default("old", "2025-01-01T00:00:00Z"), NOW)
    assert _claims(add(state, _stateful("data", storage_class=None)))["data-db-0"].storage_class == "a"


def test_two_claims_do_not_get_the_same_volume() -> None:
    volume = {**_volume("v"), "status": {"phase": "Available"}}
    added = add(cluster(STATIC, volume), _stateful("data", storage_class="static"))
    assert _bindings(added) == {"data-db-0": "v", "data-db-1": ""}


def test_a_volume_that_a_class_provisions_is_reached_in_the_topologies_that_it_allows() -> None:
    expression = {"key": "zone", "values": ["a", "b"]}
    zoned = _class("now", allowedTopologies=[{"matchLabelExpressions": [expression]}])
    added = add(cluster(zoned), _stateful("data", storage_class="now", replicas=1))
    (volume,) = (each for each in added.objects if isinstance(each, PersistentVolume))
    assert volume.spec is not None
    assert volume.spec.csi is not None
    assert volume.spec.nodeAffinity is not None
    assert volume.spec.nodeAffinity.required is not None
    (term,) = volume.spec.nodeAffinity.required.nodeSelectorTerms or []
    assert [(each.key, each.operator, each.values) for each in term.matchExpressions or ()] == [
        ("zone", "In", ["a", "b"])
    ]
    assert volume.spec.csi.driver == "csi.example.com"
    assert added.notes == (f"planned as if StorageClass now had provisioned 1 volume, {BECAUSE}",)


CLASSES: list[tuple[str, list[Document], Document, str]] = [
    (
        "a class that does not exist",
        [NOW],
        _claim("c", "nowhere"),
        "StorageClass nowhere not found, so no volume is created for 1 claim (t/c)",
    ),
    (
        "no default",
        [NOW],
        _claim("c", None),
        "no StorageClass is the default, so no volume is created for 1 claim (t/c)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "claim", "note"), [row[1:] for row in CLASSES], ids=[row[0] for row in CLASSES]
)
def test_a_class_that_a_claim_lacks_is_named(objects: list[Document], claim: Document, note: str) -> None:
    assert add(cluster(*objects), claim, pod()).notes == (note,)


@pytest.mark.parametrize("name", ["now", None])
def test_a_claim_of_an_unread_class_has_a_class_that_no_reader_knows(name: str | None) -> None:
    """So the planner does not judge its pod."""
    added = add(cluster(), _claim("c", name), pod())
    assert (_bindings(added), added.notes) == ({"c": ""}, ())
    assert _claims(added)["c"].storage_class == (name or "<default>")


def test_a_claim_of_the_cluster_keeps_its_volume() -> None:
    """A manifest that is applied again has no volume name."""
    stored = _claim(volumeName="v")
    stored["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    added = add(cluster(LATE, stored, _volume("v", "late")), _claim(), _volume("v", "late"), pod())
    assert _claims(added) == {}
    assert added.notes == (
        "PersistentVolumeClaim t/c exists already and stays as it is",
        "PersistentVolume v exists already and stays as it is",
    )


# Devices.


def _template(name: str = "one") -> Document:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return made(DEVICES, "ResourceClaimTemplate", name, {"spec": {"devices": {"requests": [request]}}})


ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one"}


def _resource_claims(expansion: Expansion) -> dict[str, ResourceClaim]:
    return {each.metadata.name or "": each for each in expansion.objects if isinstance(each, ResourceClaim)}


def _named(expansion: Expansion) -> dict[str, list[tuple[str | None, str | None]]]:
    """Return the entries of each pod with their claims, as its status names them."""
    return {
        name: [
            (each.name, each.resourceClaimName)
            for each in (pod.status.resourceClaimStatuses if pod.status is not None else None) or ()
        ]
        for name, pod in pods(expansion).items()
    }


DEVICE_USERS: dict[str, Document] = {
    "Pod": pod(resourceClaims=[ENTRY]),
    "Deployment": made(
        APPS, "Deployment", "web", {"replicas": 3, "template": template(resourceClaims=[ENTRY])}
    ),
    "StatefulSet": made(APPS, "StatefulSet", "db", {"template": template(resourceClaims=[ENTRY])}),
    "Job": job(parallelism=2, template=template(resourceClaims=[ENTRY])),
}


@pytest.mark.parametrize("stored", [False, True], ids=["of the file", "of the cluster"])
@pytest.mark.parametrize("document", DEVICE_USERS.values(), ids=list(DEVICE_USERS))
def test_each_pod_has_a_claim_from_a_template(document: Document, *, stored: bool) -> None:
    """Its status names the claim, which belongs to it."""
    added = add(cluster(_template()), document) if stored else add(cluster(), document, _template())
    claims, named = _resource_claims(added), _named(added)
    assert len(claims) == len(named)
    for name, each in pods(added).items():
        ((entry, claim_name),) = named[name]
        claim = claims[claim_name or ""]
        owner = claim.metadata.controller()
        assert entry == "gpu"
        assert (claim_name or "").startswith(f"{name}-gpu-"[:58])
        assert owner is not None
        assert (owner.kind, owner.uid) == ("Pod", each.metadata.uid)
        assert [each.name for each in claim.spec.devices.requests or ()] == ["gpu"]
        assert claim.metadata.annotations == {"resource.kubernetes.io/pod-claim-name": "gpu"}


def test_a_template_that_does_not_exist_is_named() -> None:
    """The pod has a plan, which says that it waits for its claim."""
    document = made(APPS, "Deployment", "web", {"replicas": 3, "template": template(resourceClaims=[ENTRY])})
    added = add(cluster(_template("other")), document)
    assert len(added.targets) == 3
    assert _resource_claims(added) == {}
    problem = "ResourceClaimTemplate t/one not found, so the claim gpu of its pods is never created"
    assert added.notes == (f"Deployment t/web: {problem}",)


def test_a_template_that_could_not_be_read_leaves_the_pod_without_a_plan() -> None:
    state = cluster()
    state.unread["ResourceClaimTemplate"] = "missing permission"
    added = add(state, pod(resourceClaims=[ENTRY]), pod("other"))
    assert list(added.targets) == [("t", "other")]
    problem = "names ResourceClaimTemplate t/one, which was not read (missing permission). Add it"
    assert [text.partition(": ")[2] for text in added.unplanned.values()] == [problem]


def test_a_claim_that_exists_is_used_again() -> None:
    """An exported pod names it."""
    claim = made(DEVICES, "ResourceClaim", "p-gpu-abcde", {"devices": {}})
    exported = pod(resourceClaims=[ENTRY])
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-abcde"}]}
    exported["status"] = {"phase": "Pending", **status}
    added = add(cluster(claim, _template()), exported)
    assert (_named(added), _resource_claims(added)) == ({"p": [("gpu", "p-gpu-abcde")]}, {})
    (name,) = _resource_claims(add(cluster(_template()), exported))
    assert name != "p-gpu-abcde"


@pytest.mark.parametrize("stored", [False, True], ids=["of the file", "of the cluster"])
def test_the_pods_of_a_group_with_an_equal_entry_share_its_claim(*, stored: bool) -> None:
    """Kubernetes creates it for the group, with its gate on, as kubernetes-sigs/dra-example-driver shows."""
    of_group = [group(resourceClaims=[ENTRY], priority=1000)]
    members = [member(name, resourceClaims=[ENTRY]) for name in "ab"]
    state = cluster(_template(), *(of_group if stored else ()))
    added = add(state, *members, *(() if stored else of_group))
    gate = "PodGroup t/g: planned as with the gate DRAWorkloadResourceClaims"
    assert added.notes == (() if stored else (gate,))
    ((name, claim),) = _resource_claims(added).items()
    owner = claim.metadata.controller()
    assert _named(added) == {"a": [("gpu", name)], "b": [("gpu", name)]}
    assert name.startswith("g-gpu-")
    assert owner is not None
    assert (owner.kind, owner.name) == ("PodGroup", "g")


def test_the_claim_that_a_group_has_is_used_again() -> None:
    created = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "g-gpu-abcde"}]}
    stored = {**group(resourceClaims=[ENTRY]), "status": created}
    added = add(cluster(stored, _template()), member("a", resourceClaims=[ENTRY]))
    assert (_named(added), _resource_claims(added)) == ({"a": [("gpu", "g-gpu-abcde")]}, {})


# Refusals of a server, and limits.

WRONG = "spec: expected object or null, got integer"
REFUSED: list[tuple[str, Document, str]] = [
    (
        "a claim without a name",
        made(APPS, "StatefulSet", "db", {"volumeClaimTemplates": [7], "template": template()}),
        "spec.volumeClaimTemplates[0].metadata.name: is missing or not text",
    ),
    (
        "a template of a wrong type",
        made(
            APPS,
            "StatefulSet",
            "db",
            {"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": 7}], "template": template()},
        ),
        f"spec.volumeClaimTemplates[0].{WRONG}",
    ),
    (
        "an ephemeral one",
        job(template=template(volumes=[{"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": 7}}}])),
        f"spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate.{WRONG}",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "problem"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_template_that_no_server_takes_is_refused_with_its_field(document: Document, problem: str) -> None:
    with pytest.raises(ReadError) as refused:
        add(cluster(), document)
    assert str(refused.value).partition(": ")[2] == problem


def test_more_claims_than_the_maximum_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(createdclaims, "MOST_CLAIMS", 3)
    added = add(cluster(LATE), _stateful("data", "log"), pod(volumes=EPHEMERAL))
    problem = "StatefulSet t/db brings the file to 5 claims. The maximum is 3"
    assert [text.partition(": ")[2] for text in added.unplanned.values()] == [problem]
