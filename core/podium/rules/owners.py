"""Apply admission to owners as to the pods they would create, because the fix belongs in their template.

The API server accepts a Deployment with any class in its template; the refusal comes later, in an event of a
controller. Here the owner gets the verdict of its pods, with field paths into the template.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from podium.api.findings import Finding, ObjectRef
from podium.api.minors import group_minor, named
from podium.api.podkinds.kind import JOBSET_GATE, is_left_alone
from podium.api.podkinds.table import CLUSTER_SCOPED_OWNERS, OWNER_KINDS
from podium.cluster.reader import ClusterReader
from podium.rules import names
from podium.rules.admission import Operation, Profile, Request, Verdict, review
from podium.rules.lastwave import last_waves_of


def makes_pods(document: Mapping[str, Any]) -> bool:
    """Return whether `review_owner` knows the pod templates of this kind."""
    return (document.get("apiVersion"), document.get("kind")) in OWNER_KINDS


def review_owner(request: Request, view: ClusterReader, profile: Profile) -> Verdict:
    """Return the verdict on the pods that an owner would create; `admitted` is the owner as sent.

    The owner must decode by its read, otherwise msgspec.ValidationError is raised. Warnings and findings are
    those of all templates, code and message those of the first refused template.
    """
    document = request.object
    meta = {**document.get("metadata", {})}
    meta.setdefault("namespace", "default")
    name = meta.get("name") or meta.get("generateName") or ""
    namespace = "" if document["kind"] in CLUSTER_SCOPED_OWNERS else meta["namespace"]
    ref = ObjectRef(document["apiVersion"], document["kind"], namespace, name)
    owner = msgspec.convert(document, OWNER_KINDS[document["apiVersion"], document["kind"]].type)
    neutral = msgspec.structs.replace(owner.neutral(), ref=ref)
    warnings: list[str] = []
    findings: list[Finding] = []
    awaits: list[str] = []
    refusal: Verdict | None = None
    minor = group_minor(profile.minor)
    for path, scheduling in neutral.job_scheduling.items():
        gate = scheduling.gate
        if gate in profile.gates and minor.job_scheduling:
            if is_left_alone(path, scheduling, minor):
                text = f"Kubernetes {named(profile.minor)} creates no group for a Job with an owner"
                warnings.append(f"{path}: {text}; the pods then have no group")
            continue
        if gate == JOBSET_GATE:
            warnings.append(f"{path}: JobSet drops or refuses it unless its gate {gate} is on")
            continue
        when = f" unless the gate {gate} is on" if minor.job_scheduling else ""
        warnings.append(
            f"{path}: Kubernetes {named(profile.minor)} drops it{when}; the pods then have no group"
        )
    if profile.rules == "podium":
        last_waves = last_waves_of(neutral, view, profile.minor)
        warnings += [f"{finding.field}: {finding.message}" for finding in last_waves]
    for path, template in owner.template_documents(document).items():
        pod = _pod(template, meta["namespace"], name)
        verdict = review(Request(operation=Operation.CREATE, object=pod), view, profile)
        warnings += [_placed_warning(warning, path) for warning in verdict.warnings]
        findings += [
            msgspec.structs.replace(
                finding, object=ref, field=_placed(finding.field, path, neutral.spec_path(path))
            )
            for finding in verdict.findings
        ]
        awaits += verdict.awaits
        if not verdict.allowed:
            refusal = refusal or verdict
    return Verdict(
        allowed=refusal is None,
        code=refusal.code if refusal is not None else 200 if request.operation is Operation.UPDATE else 201,
        reason=refusal.reason if refusal is not None else "",
        message=refusal.message if refusal is not None else "",
        warnings=warnings,
        findings=findings,
        admitted={**document, "metadata": meta} if refusal is None else None,
        patch=[],
        awaits=tuple(dict.fromkeys(awaits)),
    )


def _pod(template: Mapping[str, Any], namespace: str, owner: str) -> dict[str, Any]:
    """Return the pod that a controller would send; its name begins with the owner's."""
    given = template.get("metadata") or {}
    meta = {key: given[key] for key in ("labels", "annotations", "finalizers") if key in given}
    # An error in the owner's name is one of the owner.
    named = owner if owner and not names.object_name(owner) else "pod"
    meta |= {"generateName": f"{named}-", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template.get("spec")}


def _placed(field: str, path: str, spec_path: str) -> str:
    if field.startswith("spec."):
        return f"{spec_path}.{field.removeprefix('spec.')}"
    return f"{path}.{field}" if field else path


def _placed_warning(warning: str, path: str) -> str:
    unknown = 'unknown field "'
    if warning.startswith(unknown):
        return f"{unknown}{path}.{warning.removeprefix(unknown)}"
    return f"{path}.{warning}"
