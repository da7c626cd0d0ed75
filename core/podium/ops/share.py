"""What of an object may leave the cluster: the fields that Podium reads, less what is not its business.

A dump is made to be sent to somebody. The reads already leave out environments, arguments and images; here go
annotations and free text that nothing reads, and labels that nothing in the dump selects by (of nodes and
volumes all stay: they say what a pod may ask of its place). With pseudonyms every name that people gave goes
too: the same name always becomes the same pseudonym, so that references still meet, and only whoever holds
the key of that one dump could check a guess.

Every text field of every read has its place in one of the tables below; a test finds one that has none.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from podium import gangs, inference
from podium.api.core import PodDisruptionBudgetStatus, SchedulingGate
from podium.api.events import PREEMPTED_BY, PREEMPTOR, Event
from podium.api.foreign import OWNERS
from podium.api.groups import GROUP_LABEL
from podium.api.meta import Condition, LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference
from podium.api.records import CLUSTER, Owner, RecordedPlan
from podium.api.schedulable import (
    BIND_COMPLETED,
    ClaimedAmount,
    ContainerPort,
    NodeSelectorRequirement,
    PersistentVolume,
    PodAffinityTerm,
    SchedulableNode,
    SchedulableSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from podium.api.v1alpha2 import ControllerRef, TopologyConstraint
from podium.priority import SYSTEM_CLASSES, SYSTEM_PREFIX, TOLERATION_PREFIXES

Rename = Callable[[str], str]

# Labels and annotations whose values are names of things, or a place among them.
NAMING_KEYS = frozenset(
    (
        GROUP_LABEL,
        inference.COSCHEDULING_GROUP,
        inference.JOBSET_NAME,
        inference.JOBSET_ROLE,
        inference.JOB_NAME,
        inference.JOB_NAME_OLD,
        inference.KUEUE_GROUP,
        inference.KUEUE_ROLE,
        inference.KUEUE_WORKLOAD,
        inference.LWS_GROUP,
        inference.LWS_NAME,
        inference.LWS_WORKER,
        inference.TRAINING_JOB,
        inference.TRAINING_ROLE,
        inference.TRAINJOB_STEP,
        inference.VOLCANO_GROUP,
        inference.VOLCANO_JOB,
        inference.VOLCANO_TASK,
    )
)
# Keys, or beginnings of keys, whose values are numbers, digests and words of ours.
_PLAIN_KEYS = (
    inference.KUEUE_ROLE_HASH,
    *TOLERATION_PREFIXES,
    BIND_COMPLETED,
    gangs.AUTO_LABEL,
    gangs.DISRUPTION_LABEL,
    gangs.NAMESPACE_LABEL,
    gangs.SCHEDULER_LABEL,
    gangs.JOBSET_INDEX,
)

CLASS_FIELD = "priorityClassName"
NAME_FIELDS = frozenset(
    (
        "name",
        "namespace",
        "uid",
        "nodeName",
        "podGroupName",
        "workloadName",
        "podGroupTemplateName",
        "templateName",
        "parentCompositePodGroupName",
        "resourceClaimName",
        "resourceClaimTemplateName",
        "schedulerName",
        "claimName",
        "volumeName",
        "nominatedNodeName",
        "component",
        "reportingComponent",
    )
)
FREE_TEXT_FIELDS = frozenset(("description", "message"))
# Conditions in which schedulers and kubelets tell why a pod or group waits, or had to go.
TELLING = frozenset(("PodScheduled", "PodGroupScheduled", "PodGroupInitiallyScheduled", "DisruptionTarget"))
PLAIN_FIELDS = frozenset(
    (
        "apiVersion",
        "apiGroup",
        "kind",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "lastTransitionTime",
        "preemptionPolicy",
        "restartPolicy",
        "startupPolicy",
        "startupPolicyOrder",
        "disruptionMode",
        "phase",
        "kubeletVersion",
        "minAvailable",
        "maxUnavailable",
        "operator",
        "type",
        "status",
        "reason",
        "requests",
        "limits",
        "overhead",
        "allocatable",
        "allocatedResources",
        "resources",
        "quantity",
        "basic",
        "protocol",
        "effect",
        "whenUnsatisfiable",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "accessModes",
        "startTime",
        "firstTimestamp",
        "eventTime",
        "time",
        "mode",
        "result",
        "agreement",
        "accelerators",
        "action",
        "bindMountOptions",
        "declaredFeatures",
    )
)

# The one field of a node that a selector may name.
_NAME_OF_NODE = "metadata.name"

# Kinds of owners that are nobody's own.
_OWNERS = frozenset(kind for _, kind in OWNERS)

# Addresses that stand for all of a node's.
_ANY_ADDRESS = frozenset(("", "0.0.0.0", "::"))  # noqa: S104 - compared with, not listened on

# Names that say nothing of their cluster: what Kubernetes and well-known projects call things.
_COMMON = frozenset(
    (
        *SYSTEM_CLASSES,
        "default",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "default-scheduler",
        "podium-scheduler",
        "volcano",
        "kai-scheduler",
        "koord-scheduler",
        "yunikorn",
        "scheduler-plugins-scheduler",
        "kubelet",
        "taint-eviction-controller",
        "chief",
        "evaluator",
        "driver",
        "executor",
        "head",
        "launcher",
        "leader",
        "main",
        "master",
        "node",
        "ps",
        "worker",
        "workers",
    )
)
_KNOWN_GROUPS = re.compile(
    r"(?:|apps|batch|(?:.*\.)?(?:(?:x-)?k8s\.io|kubernetes\.io|podium\.dev|kubeflow\.org|volcano\.sh|ray\.io))"
)


def pseudonyms(key: bytes) -> Rename:
    """Give the function that replaces names under one key; the result is a valid name and label value."""

    def rename(name: str) -> str:
        if not name or name in _COMMON or name.isdecimal():
            return name
        digest = hmac.new(key, name.encode(), hashlib.sha256).digest()
        return "n" + base64.b32encode(digest)[:12].decode().lower()

    return rename


# Where keys of labels (or what is spelled like them) and values of labels stand by themselves.
_KEY_FIELDS = (
    (SchedulingGate, "name"),
    (TopologyConstraint, "key"),
    (LabelSelectorRequirement, "key"),
    (NodeSelectorRequirement, "key"),
    (Toleration, "key"),
    (Taint, "key"),
    (PodAffinityTerm, "topologyKey"),
    (TopologySpreadConstraint, "topologyKey"),
)
_KEYS_FIELDS = (
    (ObjectMeta, "finalizers"),
    (PodAffinityTerm, "matchLabelKeys"),
    (PodAffinityTerm, "mismatchLabelKeys"),
    (TopologySpreadConstraint, "matchLabelKeys"),
)
_VALUE_FIELDS = ((Toleration, "value"), (Taint, "value"))
_VALUES_FIELDS = (
    (LabelSelectorRequirement, "values"),
    (NodeSelectorRequirement, "values"),
    (PodAffinityTerm, "namespaces"),
)


class Filter:
    """Turns a read into what may be shared of it. Without `rename` names stay as they are.

    With `past` schedulers' and kubelets' words on pods and groups are shared, too; with `rename` as well only
    who preempted whom is left of them. Of owners that a record names `kinds` stay as they are.
    """

    def __init__(
        self,
        label_keys: frozenset[str],
        rename: Rename | None,
        *,
        past: bool = False,
        kinds: frozenset[str] = frozenset(),
    ) -> None:
        self._label_keys = NAMING_KEYS | label_keys
        self._past = past
        self._pseudonyms = rename is not None
        self._rename = rename or _same
        self.special: Mapping[tuple[type, str], Callable[[Any], Any]] = {
            (ObjectMeta, "generateName"): lambda name: f"{self._rename(name.rstrip('-'))}-",
            (ObjectMeta, "labels"): self._known_labels,
            (ObjectMeta, "annotations"): self._known_labels,
            (SchedulableNode, "metadata"): self._placed,
            (PersistentVolume, "metadata"): self._placed,
            (LabelSelector, "matchLabels"): self._labels,
            (SchedulableSpec, "nodeSelector"): self._labels,
            **dict.fromkeys(_KEY_FIELDS, self._key),
            **dict.fromkeys(_KEYS_FIELDS, self._keys),
            **dict.fromkeys(_VALUE_FIELDS, self._rename),
            **dict.fromkeys(_VALUES_FIELDS, self._names),
            (ContainerPort, "hostIP"): self._address,
            # The name of a resource, as the keys of requests are.
            (ClaimedAmount, "name"): lambda name: name,
            (RecordedPlan, "domain"): lambda domain: domain if domain == CLUSTER else self._rename(domain),
            (Owner, "kind"): lambda kind: kind if kind in _OWNERS or kind in kinds else self._rename(kind),
            (PodDisruptionBudgetStatus, "disruptedPods"): lambda pods: {
                self._rename(name): time for name, time in pods.items()
            },
        }

    def share(self, value: Any) -> Any:
        """Give the value as JSON has it, its unset fields left out."""
        if isinstance(value, list | tuple):
            return [self.share(item) for item in value]
        if not isinstance(value, msgspec.Struct):
            return value
        shared = {}
        for field in value.__struct_fields__:
            part = getattr(value, field)
            if part is not None and field not in FREE_TEXT_FIELDS:
                shared[field] = self._field(type(value), field, part)
        if isinstance(value, OwnerReference | ControllerRef):
            shared |= self._foreign(value)
        if self._past and (words := self._words(value)):
            shared["message"] = words
        return shared

    def name(self, text: str) -> str:
        """Give a name, or its pseudonym."""
        return self._rename(text)

    def _field(self, owner: type, field: str, value: Any) -> Any:
        special = self.special.get((owner, field))
        if special is not None:
            return special(value)
        if field in NAME_FIELDS:
            return self._rename(value)
        if field == CLASS_FIELD:
            # The prefix is a rule's business: nobody but Kubernetes may make such a class.
            return value if value.startswith(SYSTEM_PREFIX) else self._rename(value)
        return self.share(value)

    def _words(self, value: msgspec.Struct) -> str:
        """Give the message of what tells why somebody waits or had to go; under pseudonyms its names only."""
        telling = isinstance(value, Event | RecordedPlan) or (
            isinstance(value, Condition) and value.type in TELLING
        )
        message: str = (getattr(value, "message", None) if telling else None) or ""
        if not self._pseudonyms:
            return message
        if isinstance(value, Event) and (told := PREEMPTED_BY.match(message)):
            return f"Preempted by {told[1]} {self._rename(told[2])} on node {self._rename(told[3])}"
        scheduler, colon, rest = message.partition(": preempting")
        if not (isinstance(value, Condition) and colon):
            return ""
        told = PREEMPTOR.search(rest)
        whom = f"{told[1]} (UID {self._rename(told[2])})" if told else "pod"
        return f"{self._rename(scheduler)}: preempting to accommodate a higher priority {whom}"

    def _known_labels(self, labels: dict[str, str]) -> dict[str, str]:
        return self._labels(
            {key: value for key, value in labels.items() if key in self._label_keys or _is_plain(key)}
        )

    def _labels(self, labels: dict[str, str]) -> dict[str, str]:
        return {
            self._key(key): value if _is_plain(key) else self._rename(value) for key, value in labels.items()
        }

    def _placed(self, metadata: ObjectMeta) -> Any:
        """Share what pods choose their place by: all labels of a node or a volume."""
        shared = self.share(metadata)
        return shared | {"labels": self._labels(metadata.labels)} if metadata.labels else shared

    def _names(self, names: list[str]) -> list[str]:
        return [self._rename(name) for name in names]

    def _keys(self, keys: list[str]) -> list[str]:
        return [self._key(key) for key in keys]

    def _address(self, address: str) -> str:
        return address if address in _ANY_ADDRESS else self._rename(address)

    def _key(self, key: str) -> str:
        domain, slash, _ = key.rpartition("/")
        known = key in NAMING_KEYS or key == _NAME_OF_NODE or (slash and _KNOWN_GROUPS.fullmatch(domain))
        return key if known else self._rename(key)

    def _foreign(self, owner: OwnerReference | ControllerRef) -> dict[str, str]:
        """Give the pseudonyms of a kind that is somebody's own; nothing for a well-known one."""
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
    """Give the kinds of well-known projects that own any of these objects: what a record names must be it."""
    owners = (owner for value in objects for owner in value.metadata.ownerReferences or ())
    kinds = {(owner.kind, owner.apiVersion.rpartition("/")[0]) for owner in owners}
    return frozenset(kind for kind, group in kinds if _KNOWN_GROUPS.fullmatch(group))


def _is_plain(key: str) -> bool:
    return key.startswith(_PLAIN_KEYS)


def _same(text: str) -> str:
    return text
