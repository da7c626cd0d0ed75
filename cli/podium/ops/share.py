"""Reduce objects to what may leave the cluster: the fields that Podium reads, without private texts.

A dump is made to be sent to others. The reads already leave out environments, arguments and images. This
module also removes annotations and free text that Podium does not read, and labels that nothing in the dump
selects by. Nodes and volumes keep all labels, because pods may select by them. With pseudonyms every name
that users gave is replaced too. The same name always has the same pseudonym, so references still match. Only
the holder of this dump's key can check a guess.

The strings of devices are renamed so that selectors of devices still choose the same ones
(`podium.ops.selectorwords`). Names of resources, attributes, capacities and counters stay, because they say
what hardware is, not whose.

Every text field of every read is in one of the tables below; a test finds a field that is in none.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from podium.api import durations, saving
from podium.api.claims import ExtendedResourceRequest
from podium.api.core import PodDisruptionBudgetStatus
from podium.api.devices import (
    IMPLICIT_RESOURCE_PREFIX,
    AllocatedDevice,
    CELSelector,
    DeviceAttribute,
    ResourceSliceSpec,
)
from podium.api.events import PREEMPTED_BY, PREEMPTOR, Event
from podium.api.meta import Condition, LabelSelector, ObjectMeta, OwnerReference
from podium.api.podkinds.table import OWNER_KINDS
from podium.api.priority import SYSTEM_CLASSES, SYSTEM_PREFIX
from podium.api.records import CLUSTER, Owner, RecordedPlan
from podium.api.schedulable import (
    EVICTED,
    ContainerPort,
    SchedulableNode,
    SchedulableSpec,
    SchedulableStatus,
)
from podium.api.storage import (
    MIGRATED_PLUGINS,
    NO_PROVISIONER,
    AWSElasticBlockStore,
    CSIDriver,
    PersistentVolume,
)
from podium.api.v1alpha2 import ControllerRef
from podium.ops.selectorwords import Expression
from podium.ops.sharedfields import (
    AMOUNT_FIELDS,
    BY_QUALIFIED_FIELDS,
    CLASS_FIELD,
    DRIVER_FIELDS,
    FLAGS,
    FREE_TEXT_FIELDS,
    KEY_FIELDS,
    KEYS_FIELDS,
    MARKS,
    NAME_FIELDS,
    NAMES_FIELDS,
    NAMING_KEYS,
    PLAIN_KEYS,
    QUALIFIED_FIELDS,
    REQUESTS_FIELDS,
    SAVING_KEYS,
    STORAGE_KEYS,
    TELLING,
    VALUE_FIELDS,
    VALUES_FIELDS,
    WAIT_KEYS,
    WORD_FIELDS,
    words_of,
)

Rename = Callable[[str], str]


# The only field of a node that a selector may name.
_NAME_OF_NODE = "metadata.name"

# Kinds of well-known owners.
_OWNERS = frozenset(kind for _, kind in OWNER_KINDS)

# Addresses that mean all addresses of a node.
_ANY_ADDRESS = frozenset(("", "0.0.0.0", "::"))  # noqa: S104 - compared with, not listened on

# Plugins that were part of Kubernetes, and the drivers that kube-scheduler translates their volumes to.
_PLUGINS = words_of("""
    kubernetes.io/aws-ebs kubernetes.io/azure-disk kubernetes.io/azure-file kubernetes.io/cinder
    kubernetes.io/gce-pd kubernetes.io/portworx-volume kubernetes.io/vsphere-volume
""")
_DRIVERS = _PLUGINS | words_of("""
    ebs.csi.aws.com disk.csi.azure.com file.csi.azure.com cinder.csi.openstack.org pd.csi.storage.gke.io
    pxd.portworx.com csi.vsphere.vmware.com
""")
# Joins the zones of a volume in its label, so that each has the pseudonym that it has on nodes.
_ZONE_SEPARATOR = "__"

# Names that reveal nothing about a cluster: those of Kubernetes and of well-known projects.
_COMMON = frozenset(SYSTEM_CLASSES) | words_of("""
    default kube-system kube-public kube-node-lease default-scheduler podium-scheduler volcano kai-scheduler
    koord-scheduler yunikorn scheduler-plugins-scheduler kubelet taint-eviction-controller chief evaluator
    driver executor head launcher leader main master node ps worker workers
""")
_KNOWN_GROUPS = re.compile(
    r"(?:|apps|batch|(?:.*\.)?(?:(?:x-)?k8s\.io|kubernetes\.io|podium\.dev|kubeflow\.org|volcano\.sh|ray\.io|grove\.io|run\.ai))"
)


def pseudonyms(key: bytes) -> Rename:
    """Return the function that replaces names under one key; the result is a valid name and label value."""

    def rename(name: str) -> str:
        if not name or name in _COMMON or name.isdecimal():
            return name
        digest = hmac.new(key, name.encode(), hashlib.sha256).digest()
        return "n" + base64.b32encode(digest)[:12].decode().lower()

    return rename


# The first sentence of a kubelet's message on an eviction, which names a resource of the node.
_SHORT_NODE = re.compile(r"The node (?:was low on resource|had condition): [^.]*\.")


class Filter:
    """Turns a read into its shareable part. Without `rename` names stay unchanged.

    With `past`, messages of schedulers and kubelets on pods and groups are shared too; with `rename` as well,
    only preemptor and victim remain of them. Owner kinds that a record names stay unchanged if they are in
    `kinds`, and strings of devices if they are in `words`.
    """

    def __init__(
        self,
        label_keys: frozenset[str],
        rename: Rename | None,
        *,
        past: bool = False,
        kinds: frozenset[str] = frozenset(),
        words: frozenset[str] = frozenset(),
    ) -> None:
        self._label_keys = NAMING_KEYS | STORAGE_KEYS | FLAGS | SAVING_KEYS | WAIT_KEYS | label_keys
        self._words_kept = words
        self._past = past
        self._pseudonyms = rename is not None
        self._rename = rename or (lambda name: name)
        self.special: Mapping[tuple[type, str], Callable[[Any], Any]] = {
            (ObjectMeta, "generateName"): lambda name: f"{self._rename(name.rstrip('-'))}-",
            (ObjectMeta, "labels"): self._known_labels,
            (ObjectMeta, "annotations"): self._known_labels,
            (SchedulableNode, "metadata"): self._placed,
            (PersistentVolume, "metadata"): self._placed,
            (CSIDriver, "metadata"): self._driver_metadata,
            (LabelSelector, "matchLabels"): self._labels,
            (SchedulableSpec, "nodeSelector"): self._labels,
            **dict.fromkeys(KEY_FIELDS, self._key),
            **dict.fromkeys(KEYS_FIELDS, self._keys),
            **dict.fromkeys(VALUE_FIELDS, self._rename),
            **dict.fromkeys(VALUES_FIELDS, self._zones),
            **dict.fromkeys(NAMES_FIELDS, self._names),
            **dict.fromkeys(DRIVER_FIELDS, self._driver),
            # The zone before the ID, as in aws://<zone>/<ID>, is not part of the disk's name.
            (AWSElasticBlockStore, "volumeID"): lambda disk: self._rename(disk.rpartition("/")[2]),
            (ContainerPort, "hostIP"): self._address,
            **dict.fromkeys(AMOUNT_FIELDS, lambda amount: amount),
            **dict.fromkeys(WORD_FIELDS, self._word),
            (DeviceAttribute, "strings"): lambda words: [self._word(word) for word in words],
            **dict.fromkeys(QUALIFIED_FIELDS, self._qualified),
            **dict.fromkeys(BY_QUALIFIED_FIELDS, self._by_qualified),
            (AllocatedDevice, "request"): self._request,
            **dict.fromkeys(REQUESTS_FIELDS, lambda names: [self._request(name) for name in names]),
            (CELSelector, "expression"): self._expression,
            (ResourceSliceSpec, "pool"): self.share,
            (ExtendedResourceRequest, "resourceName"): self._resource,
            (RecordedPlan, "domain"): lambda domain: domain if domain == CLUSTER else self._rename(domain),
            (Owner, "kind"): lambda kind: kind if kind in _OWNERS or kind in kinds else self._rename(kind),
            (PodDisruptionBudgetStatus, "disruptedPods"): lambda pods: {
                self._rename(name): time for name, time in pods.items()
            },
        }

    def share(self, value: Any) -> Any:
        """Return the value in JSON form, without its unset fields."""
        if isinstance(value, list | tuple):
            return [self.share(item) for item in value]
        if isinstance(value, dict):
            return {self._resource(name): self.share(amount) for name, amount in value.items()}
        if not isinstance(value, msgspec.Struct):
            return value
        shared = {}
        for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            content = getattr(value, field)
            if content is not None and field not in FREE_TEXT_FIELDS:
                shared[name] = self._field(type(value), field, content)
        if isinstance(value, OwnerReference | ControllerRef):
            shared |= self._foreign(value)
        if words := self._eviction(value) or (self._words(value) if self._past else ""):
            shared["message"] = words
        return shared

    def name(self, text: str) -> str:
        """Return a name, or its pseudonym."""
        return self._rename(text)

    def _field(self, owner: type, field: str, value: Any) -> Any:
        special = self.special.get((owner, field))
        if special is not None:
            return special(value)
        if field in NAME_FIELDS:
            return self._rename(value)
        if field == CLASS_FIELD:
            # A rule reads the prefix: only Kubernetes may create such a class.
            return value if value.startswith(SYSTEM_PREFIX) else self._rename(value)
        return self.share(value)

    def _eviction(self, value: msgspec.Struct) -> str:
        """Return the kubelet's message on an evicted pod; under pseudonyms without names of containers."""
        if not isinstance(value, SchedulableStatus) or value.reason != EVICTED:
            return ""
        message = value.message or ""
        if not self._pseudonyms:
            return message
        match = _SHORT_NODE.match(message)
        return match[0] if match else ""

    def _words(self, value: msgspec.Struct) -> str:
        """Return the message of an object on waiting or eviction; under pseudonyms only the names in it."""
        telling = isinstance(value, Event | RecordedPlan) or (
            isinstance(value, Condition) and value.type in TELLING
        )
        message: str = (getattr(value, "message", None) if telling else None) or ""
        if not self._pseudonyms:
            return message
        if isinstance(value, Event) and (match := PREEMPTED_BY.match(message)):
            return f"Preempted by {match[1]} {self._rename(match[2])} on node {self._rename(match[3])}"
        scheduler, colon, rest = message.partition(": preempting")
        if not (isinstance(value, Condition) and colon):
            return ""
        match = PREEMPTOR.search(rest)
        preemptor = f"{match[1]} (UID {self._rename(match[2])})" if match else "pod"
        return f"{self._rename(scheduler)}: preempting to accommodate a higher priority {preemptor}"

    def _known_labels(self, labels: dict[str, str]) -> dict[str, str]:
        return self._labels(
            {key: value for key, value in labels.items() if key in self._label_keys or _is_plain(key)}
        )

    def _labels(self, labels: dict[str, str]) -> dict[str, str]:
        return {self._key(key): self._label_value(key, value) for key, value in labels.items()}

    def _placed(self, metadata: ObjectMeta) -> Any:
        """Return metadata with all labels of a node or a volume, because pods may select by them."""
        shared = self.share(metadata)
        return shared | {"labels": self._labels(metadata.labels)} if metadata.labels else shared

    def _driver_metadata(self, metadata: ObjectMeta) -> Any:
        """Return metadata of a CSIDriver, which is named as its driver."""
        return self.share(metadata) | {"name": self._driver(metadata.name or "")}

    def _driver(self, driver: str) -> str:
        """Return a driver or provisioner; those that kube-scheduler knows by name stay."""
        return driver if driver in _DRIVERS or driver == NO_PROVISIONER else self._rename(driver)

    def _word(self, word: str) -> str:
        """Return a string of a device that a selector may compare; API groups of Kubernetes stay."""
        return word if word in self._words_kept or _KNOWN_GROUPS.fullmatch(word) else self._rename(word)

    def _qualified(self, name: str) -> str:
        """Return the name of an attribute or a capacity, of which only the domain is renamed."""
        domain, slash, bare = name.rpartition("/")
        return f"{self._word(domain)}{slash}{bare}"

    def _by_qualified(self, values: dict[str, Any]) -> dict[str, Any]:
        return {self._qualified(name): self.share(value) for name, value in values.items()}

    def _request(self, name: str) -> str:
        return "/".join(self._rename(name_part) for name_part in name.split("/"))

    def _expression(self, text: str) -> str:
        return Expression(text).renamed(self._word) if self._pseudonyms else text

    def _resource(self, name: str) -> str:
        """Return the name of a resource; the one that each class has contains the name of the class."""
        if not name.startswith(IMPLICIT_RESOURCE_PREFIX):
            return name
        return IMPLICIT_RESOURCE_PREFIX + self._rename(name.removeprefix(IMPLICIT_RESOURCE_PREFIX))

    def _names(self, names: list[str]) -> list[str]:
        return [self._rename(name) for name in names]

    def _zones(self, values: list[str]) -> list[str]:
        return [self._zone(value) for value in values]

    def _zone(self, value: str) -> str:
        """Return a value of a label, which may be several zones of a volume."""
        return _ZONE_SEPARATOR.join(self._rename(zone) for zone in value.split(_ZONE_SEPARATOR))

    def _label_value(self, key: str, value: str) -> str:
        if _is_plain(key):
            return value
        if key in MARKS:
            return "yes"
        if key in SAVING_KEYS:
            known = key if key in saving.KEYS else saving.CHECKPOINT
            # Without the webhook a tenant may write any text.
            return self._rename(value) if any(saving.problems({known: value}, saving.NOT_SAVED)) else value
        if key in WAIT_KEYS:
            return self._rename(value) if durations.seconds(value) is None else value
        if key in FLAGS and value in ("true", "false"):
            return value
        if key == MIGRATED_PLUGINS:
            return ",".join(plugin for plugin in value.split(",") if plugin in _PLUGINS)
        return self._zone(value)

    def _keys(self, keys: list[str]) -> list[str]:
        return [self._key(key) for key in keys]

    def _address(self, address: str) -> str:
        return address if address in _ANY_ADDRESS else self._rename(address)

    def _key(self, key: str) -> str:
        domain, slash, _ = key.rpartition("/")
        known = key in NAMING_KEYS or key == _NAME_OF_NODE or (slash and _KNOWN_GROUPS.fullmatch(domain))
        return key if known else self._rename(key)

    def _foreign(self, owner: OwnerReference | ControllerRef) -> dict[str, str]:
        """Return the pseudonyms for a kind that is not well known; nothing for a well-known kind."""
        if isinstance(owner, OwnerReference):
            group, slash, version = owner.apiVersion.rpartition("/")
            renamed = {"apiVersion": f"{self._rename(group)}.example{slash}{version}"}
        else:
            group = owner.apiGroup or ""
            renamed = {"apiGroup": f"{self._rename(group)}.example"}
        if not self._pseudonyms or _KNOWN_GROUPS.fullmatch(group):
            return {}
        return {**renamed, "kind": self._rename(owner.kind or "")}


def known_kinds(objects: Iterable[Any]) -> frozenset[str]:
    """Return the owner kinds of well-known projects; a kind that a record names must be one of these."""
    owners = (owner for value in objects for owner in value.metadata.ownerReferences or ())
    kinds = {(owner.kind, owner.apiVersion.rpartition("/")[0]) for owner in owners}
    return frozenset(kind for kind, group in kinds if _KNOWN_GROUPS.fullmatch(group))


def _is_plain(key: str) -> bool:
    return key.startswith(PLAIN_KEYS)
