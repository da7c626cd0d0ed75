"""The row of a kind that creates pods, the read of its objects, and their neutral form.

A row says everything about a kind that others ask: its read, the labels by which its pods are found, and the
gangs that its pods form. The neutral form of an object has its pod templates, each with its field path: a
rule for a template checks the pods it would create and must say where to edit. It also has the number of pods
that exist together before any of them runs: a gang that waits for more waits for ever.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from podium.api.core import PodTemplate
from podium.api.fieldpath import at, parse_path
from podium.api.findings import ObjectRef
from podium.api.groups import PODIUM_GROUP
from podium.api.meta import ObjectMeta
from podium.api.podkinds.created import CreatedPods, RequestedGroup
from podium.api.v1alpha2 import SchedulingPolicy, reference
from podium.minors.minor import Minor

# The feature gate of the controller that creates groups for spec.scheduling: of Jobs, and of JobSets.
JOB_GATE, JOBSET_GATE = "WorkloadWithJob", "JobSetWorkloadAwareSchedulingAPI"


class JobRun(NamedTuple):
    """The Jobs of one template, and how the pods of each follow one another.

    `parallelism` pods of a Job run side by side until `completions` have succeeded (None: a work queue, which
    creates no pod after one that has succeeded). `lasting` pods have no end. `role` is the Jobs' role in a
    JobSet.
    """

    jobs: int
    parallelism: int
    completions: int | None
    succeeded: int = 0
    role: str = ""
    lasting: bool = False

    @property
    def left(self) -> int:
        """Return the number of pods that have not succeeded."""
        completions = self.parallelism if self.completions is None else self.completions - self.succeeded
        return self.jobs * max(0, completions)

    @property
    def waves(self) -> int:
        """Return the number of waves in which the pods that are left run, if pods of a wave end together."""
        return -(-self.left // (self.jobs * self.parallelism)) if self.left and self.parallelism else 0

    def wave(self, number: int) -> int:
        """Return the number of pods of a wave, the first of which is 0."""
        full = self.jobs * self.parallelism
        return full if self.lasting else max(0, min(full, self.left - number * full))


class JobScheduling(msgspec.Struct, gc=False):
    """spec.scheduling of a Job (Kubernetes 1.37, gate WorkloadWithJob): the group of its pods."""

    schedulingPolicy: SchedulingPolicy | None = None

    @property
    def gate(self) -> str:
        """Return the gate of the field."""
        return JOB_GATE


def is_left_alone(path: str, scheduling: JobScheduling, minor: Minor) -> bool:
    """Return whether the Job controller creates no group for a field because another object owns the Job."""
    owned = scheduling.gate == JOB_GATE and path != "spec.scheduling"
    return owned and not minor.groups_of_owned_jobs


class Branch(msgspec.Struct, frozen=True, gc=False):
    """Parts of an owner that are alike: the Jobs of a JobSet's role, or the replicas of a LeaderWorkerSet.

    In a tree each part is a group. `role` is empty for a LeaderWorkerSet. `groups` is the number of parts,
    `size` the number of pods with which each begins. `first` says that they wait for no other role. The
    labels and annotations are those of the pod template whose names are Podium's own.
    """

    role: str
    groups: int
    size: int
    labels: dict[str, str]
    annotations: dict[str, str]
    first: bool = True


class PodOwner(msgspec.Struct, frozen=True, gc=False):
    """An object that creates pods, in neutral form: its templates by field path, and its gangs.

    `gangs` is their number (0: the kind has none), `gang_size` the number of pods with which each of them
    begins. `pods` is the number of pods of each template before any of them runs, also for a suspended owner.
    It lacks a template whose number is not known. `runs` are the Jobs of each template of Jobs. `spec_paths`
    are the places of the pods' specs for templates that do not have them under `spec`. `job_scheduling` are
    the groups that the Job controller of Kubernetes 1.37, or the JobSet controller, would create, by field
    path. `branches` are the parts of a JobSet or LeaderWorkerSet. `deadline` is the second since 1970 at
    which the Job controller deletes the pods of a Job; 0 for none.
    """

    ref: ObjectRef
    metadata: ObjectMeta
    templates: dict[str, PodTemplate]
    gangs: int = 0
    gang_size: int = 0
    pods: dict[str, int] = {}
    runs: dict[str, JobRun] = {}
    spec_paths: dict[str, str] = {}
    job_scheduling: dict[str, JobScheduling] = {}
    branches: tuple[Branch, ...] = ()
    suspended: bool = False
    finished: bool = False
    deadline: int = 0

    def spec_path(self, template: str) -> str:
        """Return the field path of the spec of the pods of a template."""
        return self.spec_paths.get(template, f"{template}.spec")


class Spec(NamedTuple):
    """A part of a document: its path, its value, which may be absent, and its type in the API.

    `own` are fields that the kind of the document adds to the type.
    """

    path: str
    value: Any
    own: frozenset[str] = frozenset()
    kind: str = "PodSpec"


class PodCreator(msgspec.Struct, gc=False):
    """An object of a kind that creates pods, as it is read."""

    apiVersion: str
    kind: str
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def ref(self) -> ObjectRef:
        """Return its identity."""
        return reference(self.apiVersion, self.kind, self.metadata)

    def neutral(self) -> PodOwner:
        """Return its neutral form."""
        raise NotImplementedError

    def template_documents(self, document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """Return its whole pod templates by field path; it was decoded from `document`."""
        return {path: at(document, parse_path(path)) for path in self.neutral().templates}

    def pod_specs(self, document: Mapping[str, Any]) -> Iterator[Spec]:
        """Yield the specs of its pods that have fields of their own; it was decoded from `document`."""
        for path, template in self.template_documents(document).items():
            yield Spec(f"{path}.spec", template.get("spec"))

    def numbers(self) -> Iterator[tuple[str, int | None]]:
        """Yield the fields that set numbers of pods and may be negative, with their values."""
        yield from ()

    def unplanned(self) -> tuple[str, str]:
        """Return the field and the reason for which its pods cannot be planned, empty if they can."""
        return "", ""

    def created(self, owner: PodOwner, document: Mapping[str, Any]) -> CreatedPods:
        """Return the pods that are created at once; `owner` is its neutral form. Raises ObjectError."""
        raise NotImplementedError

    def requested_groups(self, document: Mapping[str, Any], pods: CreatedPods) -> Iterator[RequestedGroup]:
        """Yield the groups that spec.scheduling of its document asks for."""
        raise NotImplementedError


def own_metadata(template: PodTemplate | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations of a template whose names are Podium's own."""
    meta = (template.metadata if template is not None else None) or ObjectMeta()
    labels, annotations = (
        {key: text for key, text in (texts or {}).items() if key.startswith(f"{PODIUM_GROUP}/")}
        for texts in (meta.labels, meta.annotations)
    )
    return labels, annotations


class Rank(IntEnum):
    """The order in which labels name the group of a pod: that of the lowest rank counts."""

    REPLICA = 0
    """One replica of its owner."""
    SCHEDULER = 1
    """A gang of a scheduler that the user chose."""
    OWNER = 2
    """The topmost owner of the pod."""
    FAMILY = 3
    """The topmost owner, if the label is that of several kinds."""
    GROUPER = 4
    """A group that a scheduler creates for an owner of any kind."""
    JOB = 5
    """A Job, which may have an owner."""


class GroupLabel(NamedTuple):
    """A label of pods whose value names their group, an object of this kind.

    Pods need the label `needed` too. `role` is the label of a pod's role in the group, and `number` that of a
    number that follows the name. An `annotation` counts like the label. A label without the domain of its
    project counts for pods of one `scheduler` only. `through` is the kind of an object with the same label
    that the group's object creates.
    """

    key: str
    api_version: str
    kind: str
    rank: Rank = Rank.OWNER
    role: str = ""
    needed: str = ""
    number: str = ""
    annotation: bool = False
    scheduler: str = ""
    through: str = ""


class OwnerLabel(NamedTuple):
    """A label with the name of a pod's owner, if a controller of another kind stands between them.

    Pods need the label `needed` too.
    """

    key: str
    controller: str
    needed: str = ""


class GangPart(NamedTuple):
    """The place of a pod in the gangs of an owner: the owner's name, and a number among its parts."""

    owner: str
    number: str = ""
    role: str | None = None


class GangForm(NamedTuple):
    """The gangs of a kind, for which Podium creates groups if pods ask for them.

    `suffix` is the end of a group's name, unique to the kind. `controller` is the controller of the pods.
    `part` reads the place of a pod from its labels, its name and its controller's name; it returns None if
    they do not agree, because any user can set a label. `labels` are those it reads. An object has a gang for
    each replica if it is `replicated`. In a tree it needs all its Jobs if it is `whole`.
    """

    suffix: str
    controller: tuple[str, str]
    part: Callable[[Mapping[str, str], str, str], GangPart | None]
    labels: tuple[str, ...] = ()
    replicated: bool = False
    whole: bool = False


class Number(NamedTuple):
    """A factor of the number of pods: the first of some fields that is set, else a default."""

    fields: tuple[str, ...]
    default: int = 1


class Role(NamedTuple):
    """The pods of one template.

    `path` is the place of the template, with `*` for each item. `numbers` are the factors of the number of
    pods, with the same items; without factors the number is not known. `name` is the field of its name, and
    `default_name` the name without such a field. `times` reads one more factor from the object, as the value
    of a field. `build` makes a pod template of an item that is none, and `spec` is then the place of the
    fields of the pod's spec in the item. `own` are fields that the kind adds to the pod's spec.
    """

    path: str
    numbers: tuple[Number, ...] = ()
    name: str = ""
    default_name: str = ""
    times: Callable[[Mapping[str, Any], str], tuple[str, Any]] | None = None
    build: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]] | None = None
    spec: str = "spec"
    own: frozenset[str] = frozenset()


class OwnerKind(NamedTuple):
    """A kind that creates pods.

    A kind that is `listed` is read from clusters. The others are read from manifests only: a cluster has
    their pods, and listing needs more rights. `replicas` is the field with the number of replicas. `groups`
    and `owner` are labels of its pods, and `gang` the groups that Podium creates for it.

    The other fields are for a kind without a type of its own. `roles` are its pods. `suspend` is the field
    that keeps it from creating them. `together` means that its pods belong together. `label` is the label of
    the pods with its name, `role_label` that with the name of their role. `elsewhere` says where the pods are
    described if not in the object.
    """

    api_version: str
    kind: str
    type: type[PodCreator]
    listed: bool = False
    namespaced: bool = True
    replicas: str = ""
    groups: tuple[GroupLabel, ...] = ()
    owner: OwnerLabel | None = None
    gang: GangForm | None = None
    roles: tuple[Role, ...] = ()
    suspend: str = ""
    together: bool = True
    label: str = ""
    role_label: str = ""
    elsewhere: str = ""

    @property
    def api_kind(self) -> tuple[str, str]:
        """Return its apiVersion and kind."""
        return self.api_version, self.kind

    @property
    def plural(self) -> str:
        """Return its name in URLs."""
        return f"{self.kind.lower()}s"
