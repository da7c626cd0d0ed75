"""An oracle of delayed binding: one pod, one node and one volume at a time, on manifests as dicts.

It follows the Kubernetes documentation and kube-scheduler's behaviour, and can be checked by reading. It
shares no code with the module that it checks. Of equal volumes, and of capacities with room, the first by
name is taken, where kube-scheduler's choice is random.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Manifest = Mapping[str, Any]
Labels = Mapping[str, str]

NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
_SELECTED = "volume.kubernetes.io/selected-node"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_UNITS = {"Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10, "G": 10**9, "M": 10**6, "k": 10**3}

# The class of a capacity, and the labels of its topology.
PlainSegment = tuple[str, frozenset[tuple[str, str]]]


@dataclass
class PlainLedger:
    """The volumes, nodes and space that earlier members of a gang count on."""

    volumes: dict[str, str] = field(default_factory=dict)  # by claim
    nodes: dict[str, str] = field(default_factory=dict)  # by claim
    segments: dict[str, PlainSegment] = field(default_factory=dict)  # by claim of `nodes`, if it has one
    promised: Counter[PlainSegment] = field(default_factory=Counter)  # bytes


@dataclass
class PlainAnswer:
    """The reason against a node, or the volume of each claim and the segment of each claim to provision."""

    reason: str | None = None
    bound: dict[str, str] = field(default_factory=dict)
    provisioned: dict[str, PlainSegment | None] = field(default_factory=dict)


class PlainBinding:
    """The storage of a cluster."""

    def __init__(self, storage: Sequence[Manifest]) -> None:
        def of_kind(kind: str) -> list[Manifest]:
            return sorted((each for each in storage if each["kind"] == kind), key=_name)

        self.volumes = of_kind("PersistentVolume")
        self.capacities = of_kind("CSIStorageCapacity")
        self.classes = {_name(each): each for each in of_kind("StorageClass")}
        self.drivers = {_name(each): each for each in of_kind("CSIDriver")}

    def answer(
        self,
        claims: Sequence[Manifest],
        node: Manifest,
        ledger: PlainLedger | None = None,
        *,
        summed: bool = False,
    ) -> PlainAnswer:
        """Return whether a node can have a pod with these claims, and which volumes they get."""
        ledger = ledger or PlainLedger()
        labels = node["metadata"].get("labels", {})
        found = PlainAnswer()
        to_match, to_provision = [], []
        for claim in claims:
            name = _name(claim)
            selected = claim["metadata"].get("annotations", {}).get(_SELECTED)
            # Members of a gang on several nodes can share it.
            shared = summed and not {"ReadWriteMany", "ReadOnlyMany"}.isdisjoint(claim["spec"]["accessModes"])
            if name in ledger.volumes:
                held = next((each for each in self.volumes if _name(each) == ledger.volumes[name]), None)
                if held is None or not _reaches(held, labels):
                    return PlainAnswer(NO_VOLUME)
            elif name in ledger.nodes and shared:
                _, topology = ledger.segments.get(name, ("", frozenset()))
                if self._why_not_provided(claim, labels) or not topology <= labels.items():
                    return PlainAnswer(NO_VOLUME)
            elif name in ledger.nodes:
                if ledger.nodes[name] != _name(node):
                    return PlainAnswer(NO_VOLUME)
            elif selected is None:
                to_match.append(claim)
            elif selected == _name(node) or shared:
                to_provision.append(claim)
            else:
                return PlainAnswer(NO_VOLUME)
        for claim in sorted(to_match, key=_requested):
            chosen = self._match(claim, labels, {*found.bound.values(), *ledger.volumes.values()})
            if chosen is None:
                to_provision.append(claim)
            else:
                found.bound[_name(claim)] = chosen
        promised = Counter(ledger.promised)
        for claim in to_provision:
            reason = self._provision(claim, labels, promised, found, summed=summed)
            if reason is not None:
                return PlainAnswer(reason)
        return found

    def _match(self, claim: Manifest, labels: Labels, taken: set[str]) -> str | None:
        """Return the volume that names the claim, or the smallest that suits; None if there is none."""
        smallest: Manifest | None = None
        for volume in self.volumes:
            spec, owner = volume["spec"], volume["spec"].get("claimRef")
            if _name(volume) in taken or _class(volume) != _class(claim):
                continue
            if owner is not None and not _names(owner, claim):
                continue
            if _bytes(spec["capacity"]["storage"]) < _requested(claim):
                continue
            fields = ("volumeMode", "Filesystem"), ("volumeAttributesClassName", "")
            if any(spec.get(each, default) != claim["spec"].get(each, default) for each, default in fields):
                continue
            if "deletionTimestamp" in volume["metadata"]:
                continue
            if owner is not None:
                return _name(volume) if _reaches(volume, labels) else None
            suits = (
                volume["status"]["phase"] == "Available"
                and _selects(claim["spec"].get("selector"), volume["metadata"].get("labels", {}))
                and set(claim["spec"]["accessModes"]) <= set(spec["accessModes"])
                and _reaches(volume, labels)
            )
            if suits and (smallest is None or _size(volume) < _size(smallest)):
                smallest = volume
        return None if smallest is None else _name(smallest)

    def _provision(
        self,
        claim: Manifest,
        labels: Labels,
        promised: Counter[PlainSegment],
        found: PlainAnswer,
        *,
        summed: bool,
    ) -> str | None:
        refusal = self._why_not_provided(claim, labels)
        if refusal is not None:
            return refusal
        driver = self.drivers.get(self.classes[_class(claim)]["provisioner"])
        asks = "storage" in claim["spec"]["resources"].get("requests", {})
        if not asks or driver is None or not driver["spec"].get("storageCapacity"):
            found.provisioned[_name(claim)] = None
            return None
        size = _requested(claim)
        for capacity in self.capacities:
            limit, topology = _limit(capacity), capacity.get("nodeTopology")
            if capacity["storageClassName"] != _class(claim) or limit is None or limit < size:
                continue
            if topology is None or not topology.get("matchLabels", {}).items() <= labels.items():
                continue
            segment = (_class(claim), frozenset(topology.get("matchLabels", {}).items()))
            if summed and "capacity" in capacity:
                room = max(_bytes(capacity["capacity"]), limit)
                if promised[segment] + size > room:
                    continue
            promised[segment] += size
            found.provisioned[_name(claim)] = segment
            return None
        return NO_SPACE

    def _why_not_provided(self, claim: Manifest, labels: Labels) -> str | None:
        """Return why the class of a claim provides no volume for a node, whatever space there is."""
        storage_class = self.classes.get(_class(claim))
        provisioner = storage_class.get("provisioner") if storage_class is not None else None
        if storage_class is None or provisioner in (None, "", "kubernetes.io/no-provisioner"):
            return NO_VOLUME
        terms = storage_class.get("allowedTopologies", [])
        within = [_all_in(term.get("matchLabelExpressions", []), labels) for term in terms]
        return NO_VOLUME if terms and not any(within) else None


def _name(thing: Manifest) -> str:
    return str(thing["metadata"]["name"])


def _class(thing: Manifest) -> str:
    beta = thing["metadata"].get("annotations", {}).get(_BETA_CLASS)
    return str(thing["spec"].get("storageClassName", "") if beta is None else beta)


def _names(owner: Manifest, claim: Manifest) -> bool:
    metadata = claim["metadata"]
    same = (owner["namespace"], owner["name"]) == (metadata["namespace"], metadata["name"])
    return same and owner.get("uid", "") in ("", metadata["uid"])


def _bytes(quantity: str) -> int:
    for suffix, unit in _UNITS.items():
        if quantity.endswith(suffix):
            return int(quantity.removesuffix(suffix)) * unit
    return int(quantity)


def _size(volume: Manifest) -> int:
    return _bytes(volume["spec"]["capacity"]["storage"])


def _requested(claim: Manifest) -> int:
    return _bytes(claim["spec"]["resources"].get("requests", {}).get("storage", "0"))


def _limit(capacity: Manifest) -> int | None:
    amount = capacity.get("maximumVolumeSize", capacity.get("capacity"))
    return None if amount is None else _bytes(amount)


def _reaches(volume: Manifest, labels: Labels) -> bool:
    affinity = volume["spec"].get("nodeAffinity")
    if affinity is None:
        return True
    terms = affinity["required"]["nodeSelectorTerms"]
    return any(
        all(_meets(each, labels) for each in term["matchExpressions"])
        for term in terms
        if term["matchExpressions"]
    )


def _selects(selector: Manifest | None, labels: Labels) -> bool:
    if selector is None:
        return True
    return bool(selector.get("matchLabels", {}).items() <= labels.items()) and all(
        _meets(each, labels) for each in selector.get("matchExpressions", [])
    )


def _all_in(expressions: Sequence[Manifest], labels: Labels) -> bool:
    return bool(expressions) and all(labels.get(each["key"]) in each["values"] for each in expressions)


def _meets(expression: Manifest, labels: Labels) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdecimal() and int(value) > int(expression["values"][0])
        case _:
            raise AssertionError(expression)
