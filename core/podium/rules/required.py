"""Required fields of pods and of the kinds that create them, and the checks that join some of their fields.

The table of required fields is generated from servers. The schema cannot say that a selector has to match its
template, or which restart policy a kind allows.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from podium.api.meta import LabelSelector
from podium.api.minors import group_minor
from podium.api.selectors import selector_of
from podium.rules import fields, jobscheduling, metadata
from podium.rules.admission import generated_name
from podium.rules.decoding import WrongTypeError, decode
from podium.rules.fields import FieldError, RuleRemedy, refusal
from podium.rules.jobscheduling import NewJob
from podium.rules.specs import fields_of, required_of, specs, validates_pods

MISSING = refusal(
    "required-field",
    title="Required field without a value",
    why="The server refuses the object. An empty text, list or number counts as absent.",
    source="Kubernetes API server: validation",
    fix="Set the field.",
)
# A patch has these fields least often, because it has only the name of an object and what it changes.
_LEFT_OUT = ("selector", "image")
_IN_PATCH = RuleRemedy(
    MISSING.rule,
    "Set the field. The object looks like a kustomize patch. If it is one, build it first: kubectl kustomize "
    "DIR | podium admit -f -",
)
SELECTOR = refusal(
    "selector-mismatch",
    title="Selector that does not match the labels of its template",
    why="The controller would not find the pods that it creates.",
    source="Kubernetes API server: validation of apps/v1",
    fix="Give spec.selector.matchLabels and spec.template.metadata.labels the same labels.",
)
RESTART_POLICY = refusal(
    "restart-policy",
    title="Restart policy that the kind does not allow",
    why="A Job ends, so its pods may not restart always. Pods of the other kinds must.",
    source="Kubernetes API server: validation of apps/v1 and batch/v1",
    fix="Set restartPolicy to a supported value.",
)
RULES = (MISSING.rule, SELECTOR.rule, RESTART_POLICY.rule, *jobscheduling.RULES)

_EMPTY: tuple[Any, ...] = (None, "", 0, [])
_SELECTING = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
# The path of the Job in each kind whose restart policy is limited, and the values for it.
_ENDING = ("OnFailure", "Never")
_JOBS: Mapping[str, tuple[str, ...]] = {"Job": (), "CronJob": ("spec", "jobTemplate")}
_GROUPS = ("apps/v1", "batch/v1")


def missing(
    document: Mapping[str, Any], minor: int, gates: Collection[str] | None = None
) -> list[FieldError]:
    """Return the errors of a Pod or of an owner of pods that decodes; none for other kinds.

    `gates` are those of the server for a new object. An update is judged without them, because the server
    compares it with the stored object.
    """
    if not validates_pods(document):
        return []
    kind, spec = document["kind"], _map(document.get("spec"))
    declared = "spec.selector" if kind == "StatefulSet" and group_minor(minor).declared_fields else ""
    absent = [
        error._replace(declared=error.field == declared)
        for checked in specs(document)
        for error in _missing(checked.value, checked.kind, checked.path, minor)
    ]
    for at, error in enumerate(absent):
        if error.field.rpartition(".")[2] in _LEFT_OUT:
            absent[at] = error._replace(cause=_IN_PATCH)
            break
    if document["apiVersion"] not in _GROUPS or kind not in (*_SELECTING, *_JOBS):
        return absent
    known = group_minor(minor)
    job = _job(document) if kind in _JOBS else None
    # The server looks at the template last, and then at the declarative rules.
    place = f"{job.path if job else ''}spec.template."
    in_template = [error for error in absent if error.field.startswith(place)]
    errors = [
        *_metadata(document, minor),
        *(error for error in absent if error not in in_template),
        *(_selector(kind, spec) if kind in _SELECTING else ()),
        *(jobscheduling.spec_errors(job, known, gates) if job and gates is not None else ()),
        *in_template,
        *_restart_policy(job, spec),
        *(jobscheduling.annotation_errors(job, known, gates) if job and gates is not None else ()),
    ]
    return sorted(errors, key=lambda error: error.declared)


def _metadata(document: Mapping[str, Any], minor: int) -> list[FieldError]:
    try:
        given = decode(metadata.OBJECT_META, document.get("metadata") or {}, [])
    except WrongTypeError:
        return []
    given.setdefault("namespace", "default")
    name = given.get("name") or generated_name(given)
    known = group_minor(minor)
    errors = metadata.check_create(given, name, namespaced=True, minor=known)
    return metadata.declare(errors) if known.declared_fields else errors


def _missing(value: Any, kind: str, path: str, minor: int) -> Iterator[FieldError]:
    """Yield errors for the absent fields of a value of a type; a wrong shape is left to decoding."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _missing(item, kind, f"{path}[{index}]", minor)
        return
    value = {} if value is None else value
    if not isinstance(value, dict):
        return
    required = required_of(minor)
    # The server looks at a name first.
    for name, to in sorted(fields_of(kind, minor).items(), key=lambda field: field[0] != "name"):
        if (kind, name) == ("JobSpec", "scheduling"):
            # The server drops it, or `jobscheduling` has all of its checks.
            continue
        inner, message = value.get(name), required.get(f"{kind}.{name}")
        if message and inner in _EMPTY and inner is not False:
            yield FieldError(MISSING, f"{path}.{name}", message)
        elif to and (inner is not None or message is not None):
            yield from _missing(inner, to, f"{path}.{name}", minor)


def _selector(kind: str, spec: Mapping[str, Any]) -> Iterator[FieldError]:
    template = _map(spec.get("template"))
    labels = _map(template.get("metadata")).get("labels")
    given = spec.get("selector")
    try:
        selector = msgspec.convert(given, LabelSelector | None)
    except msgspec.ValidationError:
        return
    unreadable: dict[str, None] = {}
    canonical = selector_of(selector, unreadable)
    if unreadable:
        return
    if canonical is not None and not canonical.requirements:
        # kube-apiserver calls a ReplicaSet a deployment, too.
        name = "deployment" if kind == "ReplicaSet" else kind.lower()
        yield fields.invalid(SELECTOR, "spec.selector", {}, f"empty selector is invalid for {name}")
    elif canonical is None or not canonical.matches(labels or {}):
        text = "`selector` does not match template `labels`"
        yield fields.invalid(SELECTOR, "spec.template.metadata.labels", labels, text)


def _job(document: Mapping[str, Any]) -> NewJob:
    """Return the Job of a document, or the Job in it."""
    steps = _JOBS[document["kind"]]
    for step in steps:
        document = _map(document.get(step))
    path = "".join(f"{step}." for step in steps)
    return NewJob(_map(document.get("metadata")), _map(document.get("spec")), path)


def _restart_policy(job: NewJob | None, spec: Mapping[str, Any]) -> Iterator[FieldError]:
    template = _map((spec if job is None else job.spec).get("template"))
    given = _map(template.get("spec")).get("restartPolicy") or "Always"
    path = f"{'' if job is None else job.path}spec.template.spec.restartPolicy"
    if job is None:
        if given != "Always":
            yield fields.unsupported(RESTART_POLICY, path, given, ["Always"])
    elif given == "Always":
        yield fields.required(RESTART_POLICY, path, 'valid values: "OnFailure", "Never"')
    elif given not in _ENDING:
        yield fields.unsupported(RESTART_POLICY, path, given, _ENDING)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
