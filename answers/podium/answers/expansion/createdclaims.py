"""The claims that controllers create for the pods of a file: for their volumes, and for their devices.

A StatefulSet has a claim for each pod and template, which is used again if it exists. A generic ephemeral
volume has a claim that belongs to its pod. An entry of spec.resourceClaims with a template has a claim that
belongs to the pod, or to the pod's native PodGroup if the group has an equal entry.

Claims for volumes are then bound, as the volume controller does before any pod is scheduled. A claim without
a class gets the default class. A claim of a class with WaitForFirstConsumer stays unbound until its pod has a
node, which the plan decides. Another claim is bound at once: to the volume that it names, to the smallest
free volume that suits it, or to a volume that its class provisions. No object says which nodes reach a volume
that does not exist yet, so all nodes of the topologies that the class allows do.

Sources: the StatefulSet, ephemeral volume and resource claim controllers, DefaultStorageClass and the
PersistentVolume controller of Kubernetes 1.36 and 1.37.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from podium.answers.expansion.added import Added, converted
from podium.answers.expansion.additions import Additions
from podium.api.claims import ClaimSource
from podium.api.core import EntryStatus, ResourceClaimEntry
from podium.api.devices import ResourceClaim, ResourceClaimTemplate
from podium.api.groups import PodGroup
from podium.api.membership import membership
from podium.api.meta import ObjectMeta, OwnerReference
from podium.api.podkinds.created import generated, uid_of, value_at
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable, SchedulableSpec, SchedulableStatus, Volume
from podium.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from podium.api.storage import (
    DEFAULT_CLASS,
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    CSISource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
)
from podium.cluster.reader import Name, name_of
from podium.documents.load import NOT_IN_INPUT
from podium.planner.plugins.volumes.bindables import (
    BindableVolumes,
    DelayedClaim,
    bindable_volume,
    bound_pair,
    delayed_claim,
)
from podium.text import count, some

# More claims than this in one file are probably a mistake, and would take the planner minutes.
MOST_CLAIMS = 100_000

# An annotation of a created claim: the name of its entry in the pod's spec.resourceClaims.
_ENTRY = "resource.kubernetes.io/pod-claim-name"


class VolumeTemplate(NamedTuple):
    """A volume for which each pod has a claim of its own, and the claim as its template has it."""

    volume: str
    claim: PersistentVolumeClaim


def stateful_templates(added: Added, path: Sequence[str]) -> tuple[VolumeTemplate, ...]:
    """Return the volumeClaimTemplates at a path of an object, none for no path. Raises ReadError."""
    field = ".".join((*path, "volumeClaimTemplates"))
    templates = value_at(added.value, *path, "volumeClaimTemplates") if path else None
    listed = templates if isinstance(templates, list) else []
    made: list[VolumeTemplate] = []
    for index, template in enumerate(listed):
        name = value_at(template, "metadata", "name")
        if not isinstance(name, str):
            raise added.document.error("is missing or not text", f"{field}[{index}].metadata.name")
        made.append(VolumeTemplate(name, _claim(added, template, f"{field}[{index}]")))
    return tuple(made)


def ephemeral_templates(added: Added, spec: object, path: str) -> tuple[VolumeTemplate, ...]:
    """Return the generic ephemeral volumes of a pod's spec at a path of an object. Raises ReadError."""
    volumes = value_at(spec, "volumes")
    made: list[VolumeTemplate] = []
    for index, volume in enumerate(volumes if isinstance(volumes, list) else ()):
        template, name = value_at(volume, "ephemeral", "volumeClaimTemplate"), value_at(volume, "name")
        if template is not None and isinstance(name, str):
            field = f"{path}.volumes[{index}].ephemeral.volumeClaimTemplate".strip(".")
            made.append(VolumeTemplate(name, _claim(added, template, field)))
    return tuple(made)


def with_claims(spec: SchedulableSpec, templates: Sequence[VolumeTemplate], pod: str) -> SchedulableSpec:
    """Return the spec of a StatefulSet's pod, with its own claims in place of the volumes of their names."""
    if not templates:
        return spec
    own = {template.volume: ClaimSource(f"{template.volume}-{pod}") for template in templates}
    volumes = [Volume(name=name, persistentVolumeClaim=source) for name, source in own.items()]
    others = [volume for volume in spec.volumes or () if volume.name not in own]
    return msgspec.structs.replace(spec, volumes=[*volumes, *others])


class CreatedClaims:
    """Collects the claims for volumes of the pods that a file adds, and at the end creates all claims."""

    def __init__(self, additions: Additions) -> None:
        self._additions = additions
        self._volumes: dict[Name, PersistentVolumeClaim] = {}
        self._number = 0
        # The number of generated names so far.
        self._generated = 0

    def check_number(self, added: Added, pods: int, templates: int, spec: SchedulableSpec) -> None:
        """Count the claims of equal pods before they are added. Raises ReadError if they are too many."""
        self._number += pods * (templates + len(spec.resourceClaims or ()))
        if self._number > MOST_CLAIMS:
            problem = (
                f"{added.ref} brings the file to {self._number:,} claims. The maximum is {MOST_CLAIMS:,}"
            )
            raise added.document.error(problem)

    def collect(
        self, pod: Schedulable, stateful: Iterable[VolumeTemplate], ephemeral: Iterable[VolumeTemplate]
    ) -> None:
        """Collect the claims for the volumes of a pod."""
        namespace, pod_name = name_of(pod)
        owner = _controlled_by("v1", "Pod", pod.metadata)
        claims = [(f"{volume.volume}-{pod_name}", volume.claim, None) for volume in stateful]
        for name, template, owners in (
            *claims,
            *((f"{pod_name}-{volume.volume}", volume.claim, [owner]) for volume in ephemeral),
        ):
            key = namespace, name
            metadata = self._metadata("PersistentVolumeClaim", key, template.metadata, owners)
            self._volumes.setdefault(key, msgspec.structs.replace(template, metadata=metadata))

    def create(self) -> None:
        """Add the claims that neither the file nor the cluster has, bound as controllers would bind them."""
        additions = self._additions
        stored = {_full_name(obj) for obj in additions.objects if isinstance(obj, PersistentVolumeClaim)}
        for key, claim in self._volumes.items():
            if key not in stored and key not in additions.state.claims:
                additions.store(claim)
        ClaimBinder(additions).bind()
        self._create_resource_claims()

    def _create_resource_claims(self) -> None:
        pods = [obj for obj in self._additions.objects if isinstance(obj, Schedulable)]
        if not any(pod.spec.resourceClaims for pod in pods):
            return
        state, objects = self._additions.state, self._additions.objects
        templates = dict(state.claim_templates)
        templates |= {
            _full_name(template): template
            for template in objects
            if isinstance(template, ResourceClaimTemplate)
        }
        claims = set(state.resource_claims)
        claims |= {_full_name(claim) for claim in objects if isinstance(claim, ResourceClaim)}
        of_groups: dict[tuple[Name, str | None], EntryStatus] = {}
        for pod in pods:
            if pod.pending:
                with self._additions.leaving_out(self._additions.brought[name_of(pod)].ref):
                    self._name_claims(pod, templates, claims, of_groups)

    def _name_claims(
        self,
        pod: Schedulable,
        templates: Mapping[Name, ResourceClaimTemplate],
        claims: set[Name],
        of_groups: dict[tuple[Name, str | None], EntryStatus],
    ) -> None:
        """Create the claims of a pod's entries with a template, and name them in the pod's status.

        A claim that the pod's status names already is used. `of_groups` are the claims of groups so far.
        """
        namespace = pod.metadata.namespace or ""
        key = membership(pod, native_served=self._additions.profile.workload_api)
        group = self._additions.seen.groups.get(key) if key is not None and key.native else None
        status = pod.status or SchedulableStatus(phase="Pending")
        named = {
            entry_status.name: entry_status
            for entry_status in status.resourceClaimStatuses or ()
            if entry_status.resourceClaimName is None or (namespace, entry_status.resourceClaimName) in claims
        }
        for entry in pod.spec.resourceClaims or ():
            if entry.resourceClaimTemplateName is None or entry.name in named:
                continue
            template = templates.get((namespace, entry.resourceClaimTemplateName))
            sharing = group if group is not None and entry in group.claims else None
            created = _of_group(sharing, entry, of_groups) if sharing is not None else None
            if created is None and template is not None:
                owner = (
                    _controlled_by("v1", "Pod", pod.metadata)
                    if sharing is None
                    else _controlled_by(sharing.ref.apiVersion, "PodGroup", sharing.metadata)
                )
                created = EntryStatus(entry.name, self._create(entry, template, owner))
                if sharing is not None:
                    of_groups[(namespace, sharing.ref.name), entry.name] = created
            if created is not None:
                named[entry.name] = created
            else:
                self._note_missing(pod, entry)
        if named:
            pod.status = msgspec.structs.replace(status, resourceClaimStatuses=list(named.values()))

    def _create(
        self, entry: ResourceClaimEntry, template: ResourceClaimTemplate, owner: OwnerReference
    ) -> str:
        """Create a claim from a template, and return its name."""
        namespace = template.metadata.namespace or ""
        name = generated(f"{owner.name}-{entry.name}-", namespace, self._generated)
        self._generated += 1
        metadata = self._metadata("ResourceClaim", (namespace, name), template.spec.metadata, [owner])
        metadata.annotations = {**(metadata.annotations or {}), _ENTRY: entry.name or ""}
        self._additions.store(ResourceClaim(metadata=metadata, spec=template.spec.spec))
        return name

    def _note_missing(self, pod: Schedulable, entry: ResourceClaimEntry) -> None:
        """Note a template that does not exist. Raises ReadError if it may exist and could not be read."""
        source = self._additions.brought[name_of(pod)]
        template = f"ResourceClaimTemplate {pod.metadata.namespace}/{entry.resourceClaimTemplateName}"
        unread = self._additions.state.unread.get(Kind.CLAIM_TEMPLATE, NOT_IN_INPUT)
        if unread != NOT_IN_INPUT:
            raise source.document.error(f"names {template}, which was not read ({unread}). Add it")
        self._additions.notes.append(
            f"{source.ref}: {template} not found, so the claim {entry.name} of its pods is never created"
        )

    def _metadata(
        self, kind: str, key: Name, template: ObjectMeta, owners: list[OwnerReference] | None
    ) -> ObjectMeta:
        """Return the metadata of a created claim, with the labels and annotations of its template."""
        return ObjectMeta(
            name=key[1],
            namespace=key[0],
            uid=uid_of(kind, *key),
            creationTimestamp=self._additions.now,
            labels=template.labels,
            annotations=template.annotations,
            ownerReferences=owners,
        )


def _of_group(
    group: PodGroup, entry: ResourceClaimEntry, created: Mapping[tuple[Name, str | None], EntryStatus]
) -> EntryStatus | None:
    """Return the claim of a group's entry, of the cluster or `created` for the file, None for none."""
    stored = next((claim_status for claim_status in group.created if claim_status.name == entry.name), None)
    return stored or created.get(((group.ref.namespace, group.ref.name), entry.name))


def _full_name(obj: PersistentVolumeClaim | ResourceClaim | ResourceClaimTemplate) -> Name:
    return obj.metadata.namespace or "", obj.metadata.name or ""


def _controlled_by(api_version: str, kind: str, metadata: ObjectMeta) -> OwnerReference:
    return OwnerReference(api_version, kind, metadata.name or "", metadata.uid or "", controller=True)


def _claim(added: Added, template: object, field: str) -> PersistentVolumeClaim:
    """Return a claim as its template has it. Raises ReadError."""
    value = {"metadata": value_at(template, "metadata") or {}, "spec": value_at(template, "spec")}
    return converted(added.document, value, PersistentVolumeClaim, field)


# In place of a default class that was not read. No class has the name, so a claim of it cannot be judged.
_UNREAD_DEFAULT = "<default>"


class ClaimBinder:
    """Binds the claims among the objects of a file, to volumes of the file and of the cluster."""

    def __init__(self, additions: Additions) -> None:
        state, objects = additions.state, additions.objects
        self._additions = additions
        self._volumes = dict(state.volumes)
        self._classes = dict(state.storage_classes)
        for index, stored in enumerate(objects):
            if isinstance(stored, PersistentVolume):
                objects[index] = volume = _available(stored)
                self._volumes[volume.metadata.name or ""] = volume
            elif isinstance(stored, StorageClass):
                self._classes[stored.metadata.name or ""] = stored
        self._free = BindableVolumes()
        unread = Kind.STORAGE_CLASS in state.unread
        self._default = default_class(self._classes.values()) or (_UNREAD_DEFAULT if unread else "")
        self._provisioned = Counter[str]()
        # The claims of each class that does not exist.
        self._lacking: dict[str, list[str]] = {}

    def bind(self) -> None:
        """Replace the claims by those that a cluster has a moment later, and add their volumes."""
        objects = self._additions.objects
        claims = [at for at, stored in enumerate(objects) if isinstance(stored, PersistentVolumeClaim)]
        for volume in self._volumes.values() if claims else ():
            if (bindable := bindable_volume(volume)) is not None:
                self._free.put(bindable)
        for at in claims:
            claim = objects[at]
            assert isinstance(claim, PersistentVolumeClaim), "the others were left out"
            objects[at] = self._settled(self._with_class(claim))
        self._additions.notes += self._notes()

    def _notes(self) -> Iterator[str]:
        """Yield the notes on the classes that provision volumes before the plan, or do not exist."""
        for name, number in self._provisioned.items():
            yield (
                f"planned as if StorageClass {name} had provisioned {count(number, 'volume')}, "
                "because it binds claims before their pods are scheduled"
            )
        for name, claims in self._lacking.items():
            why = f"StorageClass {name} not found" if name else "no StorageClass is the default"
            yield f"{why}, so no volume is created for {count(len(claims), 'claim')} ({some(claims)})"

    def _with_class(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return a claim with the default class if it states none; an empty name is none by intent."""
        spec = claim.spec or PersistentVolumeClaimSpec()
        if spec.storageClassName is not None or claim.storage_class or not self._default:
            return claim
        return msgspec.structs.replace(
            claim, spec=msgspec.structs.replace(spec, storageClassName=self._default)
        )

    def _settled(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return a claim, bound if it does not wait for its first pod and there is or will be a volume."""
        storage_class = self._classes.get(claim.storage_class)
        if claim.bound:
            return claim
        bindable = delayed_claim(claim, {})
        if claim.spec is not None and claim.spec.volumeName:
            volume = self._requested(claim.spec.volumeName, bindable)
        elif storage_class is not None and storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER:
            return claim
        else:
            volume = self._suitable(bindable) or self._created(claim, storage_class)
        return claim if volume is None else self._bound(claim, volume)

    def _requested(self, name: str, claim: DelayedClaim) -> PersistentVolume | None:
        """Return the volume that a claim names, None if it does not exist, or does not suit the claim."""
        volume = self._volumes.get(name)
        bindable = bindable_volume(volume) if volume is not None else None
        if bindable is None:
            return None
        if bindable.owner is not None:
            return volume if bindable.owner.means(claim) else None
        same_class = bindable.storage_class == claim.storage_class
        return volume if same_class and bindable.holds(claim) and claim.access <= bindable.access else None

    def _suitable(self, claim: DelayedClaim) -> PersistentVolume | None:
        """Return the volume that names a claim, else the smallest free one that suits it."""
        named = self._free.named_for(claim)
        if named is not None:
            return self._volumes[named.name]
        free = self._free.free(claim.storage_class)
        eligible = free.eligible(claim)
        return self._volumes[free.names[int(eligible.argmax())]] if eligible.any() else None

    def _created(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass | None
    ) -> PersistentVolume | None:
        """Return the volume that a class provisions, None without a provisioner."""
        meta, spec = claim.metadata, claim.spec or PersistentVolumeClaimSpec()
        if storage_class is None:
            if spec.storageClassName != "" and Kind.STORAGE_CLASS not in self._additions.state.unread:
                self._lacking.setdefault(claim.storage_class, []).append(f"{meta.namespace}/{meta.name}")
            return None
        provisioner = storage_class.provisioner or ""
        if provisioner == NO_PROVISIONER:
            return None
        self._provisioned[claim.storage_class] += 1
        name = f"pvc-{uid_of('PersistentVolume', meta.namespace or '', meta.name or '')}"
        return PersistentVolume(
            metadata=ObjectMeta(name=name, creationTimestamp=self._additions.now),
            spec=PersistentVolumeSpec(
                capacity=spec.resources.requests if spec.resources is not None else None,
                accessModes=spec.accessModes,
                storageClassName=claim.storage_class,
                volumeMode=spec.volumeMode,
                volumeAttributesClassName=spec.volumeAttributesClassName,
                nodeAffinity=_topologies(storage_class),
                csi=CSISource(provisioner, name),
            ),
        )

    def _bound(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
        """Return a claim bound to a volume, and store the volume bound to it."""
        bound, taken = bound_pair(claim, volume)
        name = taken.metadata.name or ""
        self._volumes[name] = taken
        self._free.assume(name)
        self._additions.objects.append(taken)
        return bound


def default_class(classes: Iterable[StorageClass]) -> str:
    """Return the default class: the newest of those that are marked, and of these the first by name."""
    marked = [
        storage_class
        for storage_class in sorted(classes, key=lambda storage_class: storage_class.metadata.name or "")
        if any((storage_class.metadata.annotations or {}).get(key) == "true" for key in DEFAULT_CLASS)
    ]
    newest = max(marked, key=lambda candidate: candidate.metadata.creationTimestamp or "", default=None)
    return (newest.metadata.name or "") if newest is not None else ""


def _available(volume: PersistentVolume) -> PersistentVolume:
    """Return a volume of a file with the phase that its controller gives to a new one."""
    if volume.status is not None and volume.status.phase:
        return volume
    return msgspec.structs.replace(volume, status=PersistentVolumeStatus(phase="Available"))


def _topologies(storage_class: StorageClass) -> VolumeNodeAffinity | None:
    """Return the nodes of the topologies that a class allows, None for all nodes."""
    allowed = storage_class.allowedTopologies or ()
    terms = [
        NodeSelectorTerm(
            [
                NodeSelectorRequirement(expression.key, "In", expression.values)
                for expression in term.matchLabelExpressions or ()
            ]
        )
        for term in allowed
    ]
    return VolumeNodeAffinity(NodeSelector(terms)) if terms else None
