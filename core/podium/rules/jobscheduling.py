"""spec.scheduling of a new Job, from which its controller creates a Workload and a PodGroup.

The server drops the field while its gate is off. From 1.38 on the field excludes the two other ways to a
group: a group in the pod template, and the annotations that name a template of an existing Workload. Without
the gate, too, these annotations come together.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from podium.api.groups import NATIVE_GROUP
from podium.api.minors import GROUP_MINORS, group_api
from podium.api.podkinds.kind import JOB_GATE
from podium.minors.minor import TOPOLOGY, Minor
from podium.rules import fields
from podium.rules.checks import minimum, union
from podium.rules.decoding import WrongTypeError, decode, integer, pointer
from podium.rules.fields import FieldError, refusal
from podium.rules.groupspec import is_whole
from podium.rules.schema import StructSchema, WriteContext, optional, validate
from podium.rules.templates import TEMPLATE

SCHEDULING = refusal(
    "job-scheduling",
    title="Invalid spec.scheduling of a Job",
    why="The Job controller creates the group of the pods from it.",
    source="Kubernetes API server: validation of batch/v1, with the gate WorkloadWithJob",
    fix="Use one policy, a minCount of at most the parallelism, mode all for gangs only, and no other way "
    "to a group beside it.",
)
DELEGATION = refusal(
    "job-delegation",
    title="A Job names a template without its Workload, or the reverse",
    why="From 1.38 on the two annotations are valid only together, whatever the gate.",
    source="Kubernetes API server: validation of batch/v1, from 1.38 on",
    fix="Set both annotations, or none.",
)
RULES = (SCHEDULING.rule, DELEGATION.rule)

# The annotations in the order of the server.
DELEGATION_ANNOTATIONS = (
    f"{NATIVE_GROUP}/workload-name",
    f"{NATIVE_GROUP}/group-template-name",
)

_ROW = group_api("v1beta1", max(GROUP_MINORS))
_COUNT = integer("minCount", pointer=True, stops=(optional,), checks=(minimum(SCHEDULING, 1),))
_POLICY = StructSchema(
    "WorkloadPodGroupSchedulingPolicy",
    (
        pointer("basic", StructSchema("", ()), "v1.WorkloadPodGroupBasicSchedulingPolicy"),
        pointer("gang", StructSchema("", (_COUNT,)), "v1.WorkloadPodGroupGangSchedulingPolicy"),
    ),
    checks=(union(SCHEDULING, "basic", "gang"),),
)
# The other fields are those of a template.
_SHAPE = StructSchema(
    "JobSchedulingConfiguration",
    (
        pointer("schedulingPolicy", _POLICY, f"v1.{_POLICY.go}", stops=(optional,)),
        *(
            TEMPLATE[_ROW].by_name[name]
            for name in ("schedulingConstraints", "disruptionMode", "resourceClaims")
        ),
    ),
)
_CREATE = WriteContext(update=False, gates=frozenset((TOPOLOGY,)))


class NewJob(NamedTuple):
    """A Job, or the template of a CronJob's Jobs: its metadata and spec, and the path of both."""

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    path: str = ""

    def scheduling(self, minor: Minor, gates: Collection[str]) -> Mapping[str, Any] | None:
        """Return spec.scheduling unless the server drops it."""
        known = minor.job_scheduling and JOB_GATE in gates
        value = self.spec.get("scheduling") if known else None
        return value if isinstance(value, dict) else None


def spec_errors(job: NewJob, minor: Minor, gates: Collection[str]) -> Iterator[FieldError]:
    """Yield errors in spec.scheduling: those of code, then the declared ones."""
    given = job.scheduling(minor, gates)
    if given is None:
        return
    path = f"{job.path}spec.scheduling"
    try:
        scheduling = decode(_SHAPE, given, [])
    except WrongTypeError:
        return
    policy = scheduling.get("schedulingPolicy") or {}
    count = (policy.get("gang") or {}).get("minCount")
    parallelism = job.spec.get("parallelism")
    most = parallelism if isinstance(parallelism, int) else 1
    if count is not None and count > most:
        detail = f"must not be greater than parallelism ({most})"
        yield fields.invalid(SCHEDULING, f"{path}.schedulingPolicy.gang.minCount", count, detail)
    if minor.exclusive_job_scheduling and _in_template(job):
        detail = "must not be set together with template.spec.schedulingGroup"
        yield fields.invalid_field(SCHEDULING, path, detail)
    if ("basic" in policy or "gang" not in policy) and is_whole(_ROW, scheduling):
        detail = "the disruptionMode `all` is not supported with the Basic scheduling policy"
        yield fields.invalid(SCHEDULING, f"{path}.disruptionMode", "", detail)
    yield from validate(_SHAPE, path, scheduling, None, _CREATE)


def annotation_errors(job: NewJob, minor: Minor, gates: Collection[str]) -> Iterator[FieldError]:
    """Yield errors in the annotations that name a template of a Workload."""
    given = job.metadata.get("annotations")
    annotations = given if isinstance(given, dict) else {}
    named = [key for key in DELEGATION_ANNOTATIONS if annotations.get(key) is not None]
    if not minor.paired_annotations or not named:
        return
    if job.scheduling(minor, gates) is not None:
        detail = f"must not be set together with the {named[0]} annotation"
        yield fields.invalid_field(SCHEDULING, f"{job.path}spec.scheduling", detail)
    for key in DELEGATION_ANNOTATIONS:
        if not annotations.get(key):
            pair = " or ".join(DELEGATION_ANNOTATIONS)
            detail = f"must be set to a non-empty value when {pair} is set"
            yield fields.required(DELEGATION, f"{job.path}metadata.annotations[{key}]", detail)


def _in_template(job: NewJob) -> bool:
    template = job.spec.get("template")
    spec = template.get("spec") if isinstance(template, dict) else None
    return isinstance(spec, dict) and spec.get("schedulingGroup") is not None
