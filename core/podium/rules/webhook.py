"""What a webhook adds to the API server: the server's rules on Podium's kinds, Podium's own rules on all.

`podium.rules.admission.review` answers for the whole server; here the server has done its part already, or
will do it after us. So storage and metadata are not judged again (but for the names of finalizers, which the
server looks at on its own kinds only), native kinds and pods meet own rules only, and the mutating phase
leaves what only field validation judges to the schema (422), which comes after it. The validating phase
judges fields none the less, so that nothing hangs on the schema alone.

v1alpha2 objects come as they were written, so the field that this version lacks is looked after here, too,
see podium.rules.kept.
"""

from collections.abc import Mapping
from typing import Any

from podium.api.convert import KEPT
from podium.api.reads import READS
from podium.rules import admission, gang, groupspec, kept, metadata, own, podgroup, workload
from podium.rules.admission import (
    KINDS,
    KindRules,
    Verdict,
    allowed,
    canonical,
    judged,
    reference,
    refused,
    stored,
)
from podium.rules.case import DROPPED, Case, Operation, Profile, Request
from podium.rules.fields import Refused
from podium.rules.patch import spec_patch
from podium.rules.rule import Rule
from podium.rules.shape import Document
from podium.rules.target import Phase, Target
from podium.view import View

__all__ = ["NO_OPINION", "PARITY", "Phase", "Target", "judge"]

# Where the API server's rules are applied to Podium's kinds.
PARITY = (
    Target("PodGroup", Operation.CREATE, Phase.MUTATE),
    Target("PodGroup", Operation.UPDATE, Phase.MUTATE),
    Target("Workload", Operation.UPDATE, Phase.MUTATE),
    Target("PodGroup", Operation.CREATE, Phase.VALIDATE),
    Target("PodGroup", Operation.UPDATE, Phase.VALIDATE),
    Target("Workload", Operation.CREATE, Phase.VALIDATE),
    Target("Workload", Operation.UPDATE, Phase.VALIDATE),
)
# Which of the API server's rules may speak there, by kind.
PARITY_RULES: Mapping[str, tuple[Rule, ...]] = {
    kind: (*admission.RULES, DROPPED.rule, *metadata.RULES, *groupspec.RULES, *rules)
    for kind, rules in (("PodGroup", podgroup.RULES), ("Workload", workload.RULES))
}
# What is said of anything that no rule is for.
NO_OPINION = Verdict(
    allowed=True, code=200, reason="", message="", warnings=[], findings=[], admitted=None, patch=[]
)
# By (apiVersion, kind) as an object carries them.
_RULES: Mapping[tuple[Any, Any], KindRules] = {
    (api_version, kind): KINDS[kind]
    for api_version, kind in READS
    if kind in ("Pod", "PodGroup", "Workload") and judged({"apiVersion": api_version, "kind": kind})
}


def judge(phase: Phase, request: Request, view: View, profile: Profile) -> Verdict:
    """Judge one write in one phase; pure, and a bad object is a verdict, not an exception.

    `admitted` is always None. An update of an object that is being deleted is let through, whatever it does:
    finalizers must be able to go.
    """
    api_version, kind = request.object.get("apiVersion"), request.object.get("kind")
    named = isinstance(api_version, str) and isinstance(kind, str)
    rules = _RULES.get((api_version, kind)) if named else None
    if rules is None:
        return NO_OPINION
    case = Case(request, view, profile, reference(request.object, rules), rules.PLURAL)
    patch: list[dict[str, Any]] = []
    try:
        match phase:
            case Phase.MUTATE:
                patch = _mutate(case, rules)
            case Phase.VALIDATE:
                _validate(case, rules)
            case Phase.GANG | Phase.SCHEDULED_GANG:
                patch = _join(case, rules, scheduled=phase is Phase.SCHEDULED_GANG)
    except Refused as error:
        return refused(case, error)
    return allowed(case, None, patch)


def _mutate(case: Case, rules: KindRules) -> list[dict[str, Any]]:
    try:
        new = canonical(case, rules, case.request.object, [])
        old = stored(case, rules) if case.update else None
    except Refused:
        # The schema refuses it after us, with 422.
        return []
    if case.status or (old is not None and "deletionTimestamp" in old["metadata"]):
        return []
    own.mutate(case, new, old)
    if case.native:
        return spec_patch(case.request.object, case.changes, case.appended)
    rules.mutate(case, new, old)
    if rules is podgroup:
        _default_mode(case, new)
    return spec_patch(case.request.object, case.changes, case.appended) + kept.patch(case, new)


def _join(case: Case, rules: KindRules, *, scheduled: bool) -> list[dict[str, Any]]:
    try:
        new = canonical(case, rules, case.request.object, [])
    except Refused:
        # The API server refuses it after us.
        return []
    labels = gang.join(case, new, scheduled=scheduled)
    return labels + spec_patch(case.request.object, case.changes, case.appended)


def _default_mode(case: Case, new: Document) -> None:
    """Default the disruption mode as native decoding does, unless the stored group has none either.

    The schema has no default: it would hide from us what was left out, which the template may give.
    """
    old = case.request.old if case.update else None
    sent, before = (_raw_mode(document) for document in (case.request.object, old))
    if sent is None and (old is None or before is not None):
        case.changes.setdefault("disruptionMode", new["spec"]["disruptionMode"])


def _raw_mode(document: Document | None) -> Any:
    return ((document or {}).get("spec") or {}).get("disruptionMode")


def _validate(case: Case, rules: KindRules) -> None:
    try:
        new = canonical(case, rules, case.request.object, [])
        old = stored(case, rules) if case.update else None
    except Refused:
        if case.native:
            return
        raise
    if old is not None and "deletionTimestamp" in old["metadata"]:
        return
    if not case.native:
        if case.status:
            return
        case.name = case.ref.name
        errors = metadata.check_finalizers(new["metadata"]) + own.check(case, new)
        errors += rules.check(case, new, old) + kept.check(case, new, old)
        if errors:
            raise case.invalid(errors)
        if old is None and rules is podgroup:
            _check_stamped(case, new)
    own.judge(case, new, old)


def _check_stamped(case: Case, new: Document) -> None:
    """Refuse a new group that lost, to a webhook behind ours, what its class gives it.

    A stamp that does not fit is awaited, too: the replica that put it there may know more than this one, of a
    class made anew or another default.
    """
    try:
        _compare_stamp(case, new)
    except Refused:
        name = new["spec"].get("priorityClassName", "")
        if not case.awaits:
            case.awaits.append(f"another PriorityClass {name}" if name else "another default PriorityClass")
        raise


def _compare_stamp(case: Case, new: Document) -> None:
    given = dict(new["spec"])
    podgroup.mutate(case, new, None)
    for field, value in case.changes.items():
        if field not in given:
            message = f"{field} is not set, but the priority admission controller computed {value}"
            raise case.forbid(podgroup.MISMATCH, f"spec.{field}", message)
    if kept.patch(case, new):
        message = f"the annotation {KEPT} does not hold the computed preemptionPolicy"
        raise case.forbid(podgroup.POLICY_MISMATCH, "metadata.annotations", message)
