"""The claims that controllers create for the pods of a file: for their volumes, and for their devices.

A StatefulSet has a claim for each pod and template, which is used again if it exists. A generic ephemeral
volume has a claim that belongs to its pod. An entry of spec.resourceClaims with a template has a claim that
belongs to the pod, or to the pod's native PodGroup if the group has an equal entry.

Sources: the StatefulSet, ephemeral volume and resource claim controllers of Kubernetes 1.36 and 1.37.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from podium.answers.expansion.added import Added, converted
from podium.answers.expansion.additions import Additions
from podium.answers.expansion.boundclaims import ClaimBinder
from podium.answers.expansion.makers import generated, uid_of, value_at
from podium.api.claims import ClaimSource
from podium.api.core import EntryStatus, ResourceClaimEntry
from podium.api.devices import ResourceClaim, ResourceClaimTemplate
from podium.api.groups import PodGroup
from podium.api.membership import membership
from podium.api.meta import ObjectMeta, OwnerReference
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable, SchedulableSpec, SchedulableStatus, Volume
from podium.api.storage import PersistentVolumeClaim
from podium.cluster.reader import Name, name_of
from podium.documents.load import NOT_IN_INPUT

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
    own = {each.volume: ClaimSource(f"{each.volume}-{pod}") for each in templates}
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
        claims = [(f"{each.volume}-{pod_name}", each.claim, None) for each in stateful]
        for name, template, owners in (
            *claims,
            *((f"{pod_name}-{each.volume}", each.claim, [owner]) for each in ephemeral),
        ):
            key = namespace, name
            metadata = self._metadata("PersistentVolumeClaim", key, template.metadata, owners)
            self._volumes.setdefault(key, msgspec.structs.replace(template, metadata=metadata))

    def create(self) -> None:
        """Add the claims that neither the file nor the cluster has, bound as controllers would bind them."""
        additions = self._additions
        stored = {_full_name(each) for each in additions.objects if isinstance(each, PersistentVolumeClaim)}
        for key, claim in self._volumes.items():
            if key not in stored and key not in additions.state.claims:
                additions.store(claim)
        ClaimBinder(additions).bind()
        self._create_resource_claims()

    def _create_resource_claims(self) -> None:
        pods = [each for each in self._additions.objects if isinstance(each, Schedulable)]
        if not any(pod.spec.resourceClaims for pod in pods):
            return
        state, objects = self._additions.state, self._additions.objects
        templates = dict(state.claim_templates)
        templates |= {_full_name(each): each for each in objects if isinstance(each, ResourceClaimTemplate)}
        claims = set(state.resource_claims)
        claims |= {_full_name(each) for each in objects if isinstance(each, ResourceClaim)}
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
            each.name: each
            for each in status.resourceClaimStatuses or ()
            if each.resourceClaimName is None or (namespace, each.resourceClaimName) in claims
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
    stored = next((each for each in group.created if each.name == entry.name), None)
    return stored or created.get(((group.ref.namespace, group.ref.name), entry.name))


def _full_name(obj: PersistentVolumeClaim | ResourceClaim | ResourceClaimTemplate) -> Name:
    return obj.metadata.namespace or "", obj.metadata.name or ""


def _controlled_by(api_version: str, kind: str, metadata: ObjectMeta) -> OwnerReference:
    return OwnerReference(api_version, kind, metadata.name or "", metadata.uid or "", controller=True)


def _claim(added: Added, template: object, field: str) -> PersistentVolumeClaim:
    """Return a claim as its template has it. Raises ReadError."""
    value = {"metadata": value_at(template, "metadata") or {}, "spec": value_at(template, "spec")}
    return converted(added.document, value, PersistentVolumeClaim, field)
