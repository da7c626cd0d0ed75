"""Checks of Podium's own rules, and the fields that they set, around the API server's steps."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec

from kubecel.goquote import go_quote
from podium.api import saving
from podium.api.core import PODIUM_SCHEDULER, Pod, PodSpec, PriorityClass
from podium.api.groups import GROUP_LABEL, RESERVED, DisruptionMode, PodGroup, Template, Workload
from podium.api.membership import GroupKey
from podium.api.priority import resolve
from podium.api.reads import READS
from podium.groups import divergence
from podium.rules import fields, gang, podgroup, podiumrules
from podium.rules.context import Operation, RuleContext
from podium.rules.fields import FieldError
from podium.rules.podiumrule import AdmissionPhase, WriteTarget, breach, level
from podium.rules.policy import RuleLevel
from podium.rules.schema import Document
from podium.rules.tolerations import contradicting, unreadable

# Steps before the Priority plugin.


def mutate(context: RuleContext, new: Document, old: Document | None) -> None:
    """Set fields of a group from its template, of a pod from its group, and the reserved-node toleration."""
    if old is not None:
        return
    if context.ref.kind == "PodGroup" and not context.native:
        _inherit_from_template(context, new)
    elif context.ref.kind == "Pod":
        if level(context, podiumrules.MEMBER_PRIORITY) is RuleLevel.INHERIT:
            _inherit_from_group(context, new)
        tolerate(context, new)


def _inherit_from_template(context: RuleContext, new: Document) -> None:
    # An auto group in a tree names a Workload that no one creates.
    if level(context, podiumrules.UNLIKE_TEMPLATE) is RuleLevel.OFF or gang.asks(new):
        return
    sent = context.request.object.get("spec") or {}
    spec = new["spec"]
    no_policy = not spec["schedulingPolicy"]
    no_mode = sent.get("disruptionMode") is None
    no_class = "priorityClassName" not in spec and "priority" not in spec
    if not spec.get(podgroup.REFERENCE[context.version]) or not (no_policy or no_mode or no_class):
        return
    group = _read(new)
    ref = group.template_ref
    if ref is None or not ref.workload:
        return
    key = GroupKey(context.native, context.ref.namespace, ref.workload)
    if key not in context.view.workloads:
        context.awaits.append(f"Workload {key.namespace}/{key.name}")
    template = _template_of(context, group)
    if template is None:
        return
    if no_policy:
        count = template.min_count
        context.set(
            new, "schedulingPolicy", {"basic": {}} if count is None else {"gang": {"minCount": count}}
        )
    if no_mode and template.disruption_mode is not None:
        whole = template.disruption_mode is DisruptionMode.POD_GROUP
        union: Document = {"all": {}} if whole else {"single": {}}
        older = context.api.older
        context.set(new, "disruptionMode", str(template.disruption_mode) if older else union)
    if no_class and template.priority_class_name:
        context.set(new, "priorityClassName", template.priority_class_name)


def _inherit_from_group(context: RuleContext, new: Document) -> None:
    """Set the group's class on a pod without its own, unless the class's value is not the group's priority.

    The default class counts as no class: the Priority plugin has set it before a webhook sees the pod.
    """
    key = gang.group_key(context, new)
    if key is None:
        return
    spec, classes = new["spec"], context.view.classes
    name = spec.get("priorityClassName", "")
    unchosen = resolve(classes, "")
    assert unchosen is not None
    if name not in ("", unchosen.name):
        # A class that is not visible yet may be the default.
        context.seek_class(name)
        return
    stamps = (("priority", unchosen.value), ("preemptionPolicy", unchosen.preemption_policy))
    if any(spec.get(field, stamp) != stamp for field, stamp in stamps):
        return
    group = context.view.groups.get(key)
    if group is None:
        # An auto group is created after its first pod.
        if not gang.asks(new):
            context.awaits.append(f"PodGroup {key.namespace}/{key.name}")
        return
    resolved = context.seek_class(group.priority_class_name) if group.priority_class_name else None
    if resolved is None or resolved.value != (group.priority or 0):
        return
    context.set(new, "priorityClassName", resolved.name)
    context.set(new, "priority", resolved.value)
    context.set(new, "preemptionPolicy", resolved.preemption_policy)


# Checks beside field validation and the validating plugins.


def check(context: RuleContext, new: Document) -> list[FieldError]:
    """Return errors in the name of a Podium resource."""
    # Pods do not name a composite group.
    unlimited = context.native or context.update or context.ref.kind == "CompositePodGroup"
    if unlimited or len(new["metadata"].get("name", "")) <= podiumrules.NAME_LIMIT:
        return []
    error = fields.too_long(podiumrules.NAME_LENGTH.cause, "metadata.name", podiumrules.NAME_LIMIT)
    if level(context, podiumrules.NAME_LENGTH) is RuleLevel.DENY:
        return [error]
    breach(context, podiumrules.NAME_LENGTH, error.field, error.body)
    return []


def judge(context: RuleContext, new: Document, old: Document | None) -> None:
    """Check an object that the API server would store."""
    _judge_saving(context, new, old)
    match context.ref.kind:
        case "Pod":
            if old is None:
                _judge_pod(context, new)
            else:
                _judge_label(context, new, old)
        case "PodGroup" if old is None:
            _judge_group(context, new)
        case "CompositePodGroup" if old is None:
            _judge_class(context, new["spec"].get("priorityClassName", ""), pods=False)
        case "Workload" if old is None:
            _judge_workload(context, new)
        case "PriorityClass":
            _judge_priority_class(context, new)
        case _:
            pass


def _judge_priority_class(context: RuleContext, new: Document) -> None:
    if "value" not in context.request.object:
        breach(context, podiumrules.CLASS_WITHOUT_VALUE, "value", "is missing and counts as 0")
    priority_class = msgspec.convert(new, PriorityClass)
    for rule, findings in (
        (podiumrules.CLASS_TOLERATION, unreadable(priority_class)),
        (podiumrules.CLASS_PREFIXES, contradicting(priority_class)),
    ):
        for finding in findings:
            breach(context, rule, finding.field, finding.message)


def _judge_pod(context: RuleContext, new: Document) -> None:
    spec = new["spec"]
    label = new["metadata"].get("labels", {}).get(GROUP_LABEL)
    named = spec.get("schedulingGroup", {}).get("podGroupName")
    if label and named and label != named:
        message = f"names PodGroup {go_quote(named)} but the label {GROUP_LABEL} names {go_quote(label)}"
        breach(context, podiumrules.TWO_GROUPS, "spec.schedulingGroup", message)
    _judge_class(context, spec.get("priorityClassName", ""), pods=True)
    key = gang.group_key(context, new)
    group = context.view.groups.get(key) if key is not None else None
    # If the Priority plugin is off, the pod has no integer.
    value = spec.get("priority", 0)
    if (
        group is not None
        and divergence.measure_divergence(group, [Pod(spec=PodSpec(priority=value))]).priority.divergent
    ):
        theirs = _valued(group.priority or 0, group.priority_class_name)
        ours = _valued(value, spec.get("priorityClassName", ""))
        message = (
            f"priority {ours} differs from that of PodGroup {go_quote(group.ref.name)}, which is {theirs}"
        )
        breach(context, podiumrules.MEMBER_PRIORITY, "spec.priority", message)


def _judge_saving(context: RuleContext, new: Document, old: Document | None) -> None:
    """Check what a pod or a group declares about its work, if that changes."""
    kind = context.ref.kind
    if kind not in ("Pod", "PodGroup") or (old is not None and _declared(new) == _declared(old)):
        return
    grace = new["spec"].get("terminationGracePeriodSeconds") if kind == "Pod" else saving.NOT_SAVED
    for key, message in saving.problems(_declared(new), grace):
        breach(context, podiumrules.SAVE_DECLARATION, f"metadata.annotations[{key}]", message)


def _declared(document: Document) -> dict[str, str]:
    annotations = document["metadata"].get("annotations") or {}
    return {key: annotations[key] for key in saving.KEYS if key in annotations}


def _judge_label(context: RuleContext, new: Document, old: Document) -> None:
    stored = old["metadata"].get("labels", {}).get(GROUP_LABEL)
    label = new["metadata"].get("labels", {}).get(GROUP_LABEL)
    if label == stored:
        return
    if label is None:
        change = "removed"
    else:
        change = f"{'added as' if stored is None else 'changed to'} {go_quote(label)}"
    was = "it has none" if stored is None else f"it is {go_quote(stored)}"
    message = f"the label {GROUP_LABEL} may not be {change} once the pod exists, {was}"
    breach(context, podiumrules.LABEL_FIXED, f"metadata.labels[{GROUP_LABEL}]", message)


def _judge_group(context: RuleContext, new: Document) -> None:
    group = _read(new)
    _judge_mode(context, "spec", group.min_count, group.disruption_mode)
    _judge_class(context, group.priority_class_name, pods=False)
    template = _template_of(context, group)
    if template is None:
        return
    for field, have, want in differences(group, template):
        message = f"is {'unset' if have is None else have}, template {go_quote(template.name)} has {want}"
        breach(context, podiumrules.UNLIKE_TEMPLATE, f"spec.{field}", message)


def _judge_workload(context: RuleContext, new: Document) -> None:
    workload: Workload = _read(new)
    for path, template in unlike_parents(workload):
        message = f"is not `all`, but that of the composite template {go_quote(template.name)} above it is"
        breach(context, podiumrules.CHILD_MODE, f"{path}.disruptionMode", message)
    for path, template in workload.templates.items():
        if not template.composite:
            _judge_mode(context, path, template.min_count, template.disruption_mode)
        name = template.priority_class_name
        value = unresolved(context.view.classes, name, template.priority)
        if value is not None:
            breach(
                context,
                podiumrules.TEMPLATE_PRIORITY,
                f"{path}.priority",
                unresolved_message(template, value),
            )
        if not name:
            continue
        field = f"{path}.priorityClassName"
        resolved = context.seek_class(name)
        if resolved is None:
            breach(context, podiumrules.TEMPLATE_CLASS, field, f"no PriorityClass with name {name} was found")
        elif context.api.maximum is not None and resolved.value > context.api.maximum:
            message = f"class {name} has {resolved.value}, more than a PodGroup may have"
            breach(context, podiumrules.TEMPLATE_SYSTEM_CLASS, field, message)


def _judge_mode(context: RuleContext, path: str, min_count: int | None, mode: DisruptionMode | None) -> None:
    if min_count is None and mode is DisruptionMode.POD_GROUP:
        message = "a basic group cannot be disrupted as a whole"
        breach(context, podiumrules.BASIC_MODE, f"{path}.disruptionMode", message)


def _judge_class(context: RuleContext, name: str, *, pods: bool) -> None:
    patterns = context.profile.policy.allowed(context.ref.namespace, pods=pods)
    if not name or patterns is None or _matches(name, patterns):
        return
    plural = "pods" if pods else "PodGroups"
    listed = ", ".join(patterns) or "none"
    message = f"{plural} in namespace {context.ref.namespace} may not use class {name} (allowed: {listed})"
    breach(context, podiumrules.CLASS_ALLOWED, "spec.priorityClassName", message)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _read(document: Document) -> Any:
    """Return the neutral form of a decoded PodGroup or Workload."""
    read = READS[document["apiVersion"], document["kind"]]
    return read.neutral(msgspec.convert(document, read.type))


def _template_of(context: RuleContext, group: PodGroup) -> Template | None:
    """Return the template that a group refers to, or None if it is not visible."""
    ref = group.template_ref
    if ref is None:
        return None
    workload = context.view.workloads.get(GroupKey(context.native, context.ref.namespace, ref.workload))
    return workload.template(ref.template) if workload is not None else None


def _valued(value: int, name: str) -> str:
    return f"{value} (class {name})" if name else f"{value} (no class)"


# Comparisons that the audit makes on stored objects too.


class Difference(NamedTuple):
    """A field under spec in which a group differs from its template; None is unset."""

    field: str
    have: object
    want: object


def differences(group: PodGroup, template: Template) -> list[Difference]:
    """Return the differences of a group from its template in fields that the template sets.

    A template always sets the scheduling policy.
    """
    group_class, template_class = group.priority_class_name or None, template.priority_class_name or None
    pairs = (
        Difference("priorityClassName", group_class, template_class),
        Difference("priority", group.priority, template.priority),
        Difference("preemptionPolicy", group.preemption_policy, template.preemption_policy),
        Difference("disruptionMode", group.disruption_mode, template.disruption_mode),
        Difference("schedulingPolicy", _policy_text(group.min_count), _policy_text(template.min_count)),
    )
    return [pair for pair in pairs if pair.want is not None and pair.want != pair.have]


def _policy_text(min_count: int | None) -> str:
    return "basic" if min_count is None else f"gang with minCount {min_count}"


def unresolved(classes: Mapping[str, PriorityClass], name: str, priority: int | None) -> int | None:
    """Return the value that a group of a class gets in place of `priority`.

    None if it gets `priority`, or if the class does not exist.
    """
    resolved = resolve(classes, name) if priority is not None else None
    return resolved.value if resolved is not None and resolved.value != priority else None


def unresolved_message(template: Template, value: int) -> str:
    """Return what happens to the groups of a template, which get `value`."""
    name = template.priority_class_name
    named = f"class {name} has" if name else "it names no class, which gives"
    return (
        f"priority {template.priority} is set, but {named} {value}. Groups of template {template.name} have "
        f"priority {value}, or are refused if they repeat {template.priority}."
    )


def unlike_parents(workload: Workload) -> Iterator[tuple[str, Template]]:
    """Yield the paths of templates that are not `all` below one that is, with the template above."""
    for path, template in workload.templates.items():
        above = workload.templates.get(path.rpartition(".")[0])
        whole = above is not None and above.disruption_mode is DisruptionMode.POD_GROUP
        if above is not None and whole and template.disruption_mode is not DisruptionMode.POD_GROUP:
            yield path, above


# The toleration of reserved nodes, which admission writes into new pods of Podium's scheduler. The scheduler
# places its pods there whether they tolerate the taint or not, but other programs read only the pod. Cluster
# Autoscaler and Karpenter add no node whose taint a pending pod does not tolerate, and the descheduler's
# RemovePodsViolatingNodeTaints evicts a running pod.


TOLERATION_TARGETS = (WriteTarget("Pod", Operation.CREATE, AdmissionPhase.MUTATE),)
TOLERATION = {"key": RESERVED, "operator": "Exists", "effect": "NoSchedule"}


def tolerate(context: RuleContext, new: Document) -> None:
    """Add the toleration to a new pod of Podium's scheduler, unless it tolerates the taint already.

    Does nothing if the policy reserves no nodes, and for pods of other schedulers.
    """
    if not context.profile.policy.reserved_nodes or new["spec"].get("schedulerName") != PODIUM_SCHEDULER:
        return
    tolerations = new["spec"].get("tolerations") or []
    # The API server has already refused a value that is not a list of objects.
    if isinstance(tolerations, list) and not any(_covers(toleration) for toleration in tolerations):
        context.append(new, "tolerations", dict(TOLERATION))


def _covers(toleration: Any) -> bool:
    """Return whether a toleration covers the taint with any value."""
    return (
        isinstance(toleration, dict)
        and toleration.get("operator") == "Exists"
        and toleration.get("key") in (None, "", RESERVED)
        and toleration.get("effect") in (None, "", "NoSchedule")
    )
