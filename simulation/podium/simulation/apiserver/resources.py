"""The resources that the simulated API server serves: one row each, and their discovery."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from podium.api.groups import NATIVE_GROUP
from podium.minors.minor import COMPOSITE, WORKLOAD_API, Minor
from podium.simulation.apiserver.messages import Document

# The type of a list that is merged by items: the keys of a map, or no keys for a set of texts.
Keys = tuple[str, ...]
SET: Keys = ()
# The types of lists and the atomic maps of a kind, by path.
_METADATA: Mapping[str, Keys] = {"metadata.finalizers": SET, "metadata.ownerReferences": ("uid",)}
_OWNERS = frozenset({"metadata.ownerReferences"})
_CONDITIONS: Mapping[str, Keys] = {"status.conditions": ("type",)}
_CONTAINER: Mapping[str, Keys] = {
    "": ("name",),
    ".env": ("name",),
    ".ports": ("containerPort", "protocol"),
    ".volumeMounts": ("mountPath",),
    ".volumeDevices": ("devicePath",),
    ".resources.claims": ("name",),
}


def _pod_lists(spec: str) -> dict[str, Keys]:
    containers = {
        f"{spec}.{name}{path}": keys
        for name in ("containers", "initContainers")
        for path, keys in _CONTAINER.items()
    }
    return containers | {
        f"{spec}.volumes": ("name",),
        f"{spec}.imagePullSecrets": ("name",),
        f"{spec}.hostAliases": ("ip",),
        f"{spec}.schedulingGates": ("name",),
        f"{spec}.resourceClaims": ("name",),
        f"{spec}.topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    }


class ResourceRow(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A resource: its names and versions (the preferred one first), and how writes treat it.

    `lists` and `atomic` are the types of its lists and its atomic maps by path. `zero` is the object that Go
    decodes from nothing, with None for a list: the fields of a new object are compared with it.
    `has_generation`: a change of anything but metadata and status counts. With `guarded` an update needs a
    resourceVersion. `returns_deleted`: the answer to a deletion is the object. `resets_status`: the main path
    gives no manager fields of the status. `schemas` are the schemas of a
    custom resource by version.
    """

    group: str
    versions: tuple[str, ...]
    stored: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: frozenset[str] = frozenset()
    lists: Mapping[str, Keys]
    atomic: frozenset[str] = _OWNERS
    zero: Mapping[str, Any] = {}
    has_generation: bool = False
    guarded: bool = False
    returns_deleted: bool = False
    resets_status: bool = True
    custom: bool = False
    schemas: Mapping[str, Mapping[str, Any]] = {}

    @property
    def resource(self) -> str:
        """Return the name in messages: `podgroups.scheduling.k8s.io`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """Return the kind in messages about invalid objects."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def api_version(self, version: str) -> str:
        """Return group and version as in objects."""
        return f"{self.group}/{version}" if self.group else version

    def discovered(self) -> list[Document]:
        """Return the entries of the resource in the discovery of a version."""
        verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        entry = {
            "name": self.plural,
            "singularName": self.kind.lower(),
            "namespaced": self.namespaced,
            "kind": self.kind,
            "verbs": verbs,
        }
        parts = [
            {
                **entry,
                "name": f"{self.plural}/{part}",
                "singularName": "",
                "verbs": ["get", "patch", "update"],
            }
            for part in sorted(self.subresources)
        ]
        return [entry, *parts]


def _row(api_version: str, plural: str, kind: str, *subresources: str, **more: Any) -> ResourceRow:
    group, _, version = api_version.rpartition("/")
    lists = {**_METADATA, **(_CONDITIONS if "status" in subresources else {}), **more.pop("lists", {})}
    versions = more.pop("versions", (version,))
    more["atomic"] = _OWNERS | more.get("atomic", frozenset())
    return ResourceRow(
        group=group,
        versions=versions,
        stored=version,
        plural=plural,
        kind=kind,
        subresources=frozenset(subresources),
        lists=lists,
        **more,
    )


_NODE_INFO = dict.fromkeys(
    (
        *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
        *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
    ),
    "",
)
_ZERO: Mapping[str, Any] = {"spec": {}, "status": {}}
_EVENT_ZERO: Mapping[str, Any] = {"regarding": {}, "deprecatedSource": {}}
_REFERENCES = frozenset({"regarding", "related"})
_SELECTED = frozenset({"spec.selector"})
_POD_ATOMIC = frozenset(
    {"spec.nodeSelector", "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"}
)
_CLUSTER: Mapping[str, Any] = {"namespaced": False}
_WORKLOAD: Mapping[str, Any] = {
    "lists": _pod_lists("spec.template.spec"),
    "atomic": frozenset({"spec.selector", "spec.template.spec.nodeSelector"}),
    "has_generation": True,
    "zero": {"spec": {"template": {"metadata": {}, "spec": {"containers": None}}}, "status": {}},
}
_WEBHOOKS: Mapping[str, Any] = {
    "namespaced": False,
    "has_generation": True,
    "lists": {"webhooks": ("name",)},
    "atomic": frozenset({"webhooks.namespaceSelector", "webhooks.objectSelector"}),
}

_BUILT_IN = (
    _row("v1", "namespaces", "Namespace", "status", "finalize", namespaced=False, zero=_ZERO),
    _row(
        "v1",
        "nodes",
        "Node",
        "status",
        namespaced=False,
        lists={"status.addresses": ("type",)},
        zero={
            "spec": {},
            "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": _NODE_INFO},
        },
    ),
    _row(
        "v1",
        "pods",
        "Pod",
        "status",
        "binding",
        "eviction",
        lists={**_pod_lists("spec"), "status.podIPs": ("ip",), "status.hostIPs": ("ip",)},
        atomic=_POD_ATOMIC,
        zero={"spec": {"containers": None}, "status": {}},
        has_generation=True,
        returns_deleted=True,
    ),
    _row("v1", "configmaps", "ConfigMap"),
    _row("v1", "secrets", "Secret"),
    _row("v1", "serviceaccounts", "ServiceAccount", returns_deleted=True, lists={"secrets": ("name",)}),
    _row(
        "v1", "persistentvolumes", "PersistentVolume", "status", **_CLUSTER, zero=_ZERO, returns_deleted=True
    ),
    _row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", "status", zero=_ZERO, returns_deleted=True),
    _row("coordination.k8s.io/v1", "leases", "Lease", zero={"spec": {}}),
    _row(
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "status",
        zero={
            "spec": {},
            "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
        },
        atomic=_SELECTED,
        has_generation=True,
    ),
    _row("batch/v1", "jobs", "Job", "status", **_WORKLOAD),
    _row("apps/v1", "replicasets", "ReplicaSet", "status", **_WORKLOAD),
    _row("apps/v1", "deployments", "Deployment", "status", **_WORKLOAD),
    _row("storage.k8s.io/v1", "storageclasses", "StorageClass", **_CLUSTER),
    _row("storage.k8s.io/v1", "csinodes", "CSINode", **_CLUSTER, lists={"spec.drivers": ("name",)}),
    _row("storage.k8s.io/v1", "csidrivers", "CSIDriver", **_CLUSTER, zero={"spec": {}}),
    _row("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity"),
    _row("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", "status", **_CLUSTER, zero=_ZERO),
    _row(
        "resource.k8s.io/v1",
        "resourceclaims",
        "ResourceClaim",
        "status",
        zero=_ZERO,
        lists={
            "spec.devices.requests": ("name",),
            "status.reservedFor": ("uid",),
        },
    ),
    _row("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    _row("resource.k8s.io/v1", "deviceclasses", "DeviceClass", **_CLUSTER, has_generation=True),
    _row("resource.k8s.io/v1", "resourceslices", "ResourceSlice", **_CLUSTER, has_generation=True),
    _row(f"{NATIVE_GROUP}/v1", "priorityclasses", "PriorityClass", namespaced=False, zero={"value": 0}),
    _row("events.k8s.io/v1", "events", "Event", zero=_EVENT_ZERO, atomic=_REFERENCES),
    _row(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "status",
        namespaced=False,
        has_generation=True,
        zero={"spec": {"names": {}, "versions": None}, "status": {}},
    ),
    *(
        _row("admissionregistration.k8s.io/v1", f"{kind.lower()}s", kind, **_WEBHOOKS)
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
)
_GROUP_ZERO: Mapping[str, Any] = {"spec": {"schedulingPolicy": {}}, "status": {}}
_OLDER_GROUP_ZERO: Mapping[str, Any] = {
    "spec": {"schedulingPolicy": {}, "podGroupTemplateRef": None},
    "status": {},
}
_GROUP_LISTS: Mapping[str, Mapping[str, Keys]] = {
    "Workload": {"spec.podGroupTemplates": ("name",)},
    "PodGroup": {"status.resourceClaimStatuses": ("name",), "spec.resourceClaims": ("name",)},
}


def rows_of(minor: Minor, gates: Collection[str]) -> Iterable[ResourceRow]:
    """Yield the resources that a server with these gates serves before any definition is created."""
    yield from _BUILT_IN
    if WORKLOAD_API not in gates:
        return
    for kind, served in minor.kinds.items():
        if kind == "CompositePodGroup" and COMPOSITE not in gates:
            continue
        status = () if kind == "Workload" else ("status",)
        group_zero = _OLDER_GROUP_ZERO if minor.apis[served.stored].older else _GROUP_ZERO
        yield _row(
            f"{NATIVE_GROUP}/{served.stored}",
            f"{kind.lower()}s",
            kind,
            *status,
            versions=served.versions,
            lists=_GROUP_LISTS.get(kind, {}),
            zero=group_zero if status else {"spec": {"podGroupTemplates": None}},
            guarded=not minor.free_updates,
            # The store of 1.36 is not told of the fields that the strategy resets.
            resets_status=minor.number > 36,
        )


def custom_row(definition: Mapping[str, Any]) -> ResourceRow:
    """Return the resource of a CustomResourceDefinition.

    All versions have one form: a conversion between versions of another form is not modelled.
    """
    spec = definition["spec"]
    versions = [version for version in spec["versions"] if version["served"]]
    stored = next(version for version in spec["versions"] if version["storage"])
    schema = stored.get("schema", {}).get("openAPIV3Schema", {})
    lists: dict[str, Keys] = dict(_METADATA)
    _add_lists(lists, schema, "")
    return ResourceRow(
        group=spec["group"],
        versions=tuple(version["name"] for version in versions),
        stored=stored["name"],
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
        subresources=frozenset(stored.get("subresources", ())),
        lists=lists,
        has_generation=True,
        guarded=True,
        custom=True,
        schemas={v["name"]: v.get("schema", {}).get("openAPIV3Schema", {}) for v in versions},
    )


def _add_lists(lists: dict[str, Keys], schema: Mapping[str, Any], path: str) -> None:
    kind = schema.get("x-kubernetes-list-type")
    if kind in ("map", "set"):
        lists[path] = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    if "items" in schema:
        _add_lists(lists, schema["items"], path)
    for name, part in schema.get("properties", {}).items():
        _add_lists(lists, part, f"{path}.{name}" if path else name)


def undeclared(schema: Mapping[str, Any], value: Any, path: str) -> str:
    """Return the path of the first field that a schema does not know, empty for none."""
    if isinstance(value, list):
        parts = [(schema.get("items", {}), item, path) for item in value]
    elif isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        # The identity has no schema.
        known = () if path else ("apiVersion", "kind", "metadata")
        parts = [
            (properties.get(name), part, f"{path}.{name}")
            for name, part in value.items()
            if name not in known
        ]
    else:
        return ""
    for inner, part, place in parts:
        if inner is None:
            return place
        if found := undeclared(inner, part, place):
            return found
    return ""


def shaped(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a value without the fields that its schema does not know, and with the schema's defaults."""
    properties = schema.get("properties", {})
    match value:
        case dict() if schema.get("x-kubernetes-preserve-unknown-fields") or not (
            properties or "additionalProperties" in schema or schema.get("type") == "object"
        ):
            return value
        case dict() if "additionalProperties" in schema:
            more = schema["additionalProperties"]
            return {name: shaped(more, part) for name, part in value.items()}
        case dict():
            known = {
                name: shaped(properties[name], part) for name, part in value.items() if name in properties
            }
            for name, part in properties.items():
                if name not in known and "default" in part:
                    known[name] = shaped(part, part["default"])
            return known
        case list() if "items" in schema:
            return [shaped(schema["items"], item) for item in value]
        case _:
            return value
