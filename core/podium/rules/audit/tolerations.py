"""Rules about preemption toleration: annotations that do not parse, contradict or have no effect."""

from collections.abc import Iterator

from podium.api.core import PriorityClass
from podium.api.findings import Finding, Severity
from podium.api.priority import (
    MINIMUM_PREEMPTABLE_PRIORITY,
    PROPOSED_TOLERATION_PREFIX,
    TOLERATION_PREFIX,
    TOLERATION_SECONDS,
    contradictions,
    toleration,
    toleration_key,
)
from podium.api.reads import Kind
from podium.rules.audit.classes import class_ref
from podium.rules.audit.commands import annotate_class
from podium.rules.audit.survey import AuditFinding, Survey
from podium.rules.rule import Rule

_CLASSES = frozenset({Kind.PRIORITY_CLASS})
_SOURCE = "kubernetes-sigs/scheduler-plugins (preemptiontoleration)"

TOLERATION_UNREADABLE = Rule(
    id="toleration-unreadable",
    severity=Severity.WARNING,
    title="A preemption toleration annotation is not an integer",
    why="The toleration of the class is unknown, so Podium assumes the maximum: all preemptors "
    "below system classes, without an end. The plugin ignores both annotations, so the class "
    "has no toleration.",
    source=_SOURCE,
    needs=_CLASSES,
)
TOLERATION_WITHOUT_EFFECT = Rule(
    id="toleration-without-effect",
    severity=Severity.WARNING,
    title="A preemption toleration can never apply",
    why="A toleration holds off preemptors above the class's value and below the minimum, for some "
    "time. With a minimum of value + 1 (the default) there are no such preemptors; with 0 "
    "seconds (the default) there is no time.",
    source=_SOURCE,
    needs=_CLASSES,
)
TOLERATION_CONTRADICTS = Rule(
    id="toleration-prefix",
    severity=Severity.WARNING,
    title="A preemption toleration annotation differs under its two prefixes",
    why=f"Podium reads {TOLERATION_PREFIX}, as the plugin does since February 2023, and "
    f"{PROPOSED_TOLERATION_PREFIX}, the prefix of the proposal. If both are set, the first is "
    "used.",
    source=_SOURCE,
    needs=_CLASSES,
)


def unreadable(found: PriorityClass) -> Iterator[Finding]:
    """Yield findings on the toleration annotations of a class that do not parse, with the value in force."""
    read, name = toleration(found), found.metadata.name or ""
    for key, text in read.unparsed if read is not None else ():
        if key.endswith(TOLERATION_SECONDS):
            why = "is not a 64-bit integer: the toleration has no end."
        else:
            why = "is not a 32-bit integer: during the toleration only system classes preempt."
        yield TOLERATION_UNREADABLE.finding(
            class_ref(name),
            f"metadata.annotations[{key}]",
            f"{text!r} {why}",
            annotate_class(name, f"{key}=<integer>"),
        )


def contradicting(found: PriorityClass) -> Iterator[Finding]:
    """Yield findings on the toleration annotations of a class that differ under the two prefixes."""
    name, annotations = found.metadata.name or "", found.metadata.annotations or {}
    for counts, other in contradictions(annotations):
        yield TOLERATION_CONTRADICTS.finding(
            class_ref(name),
            f"metadata.annotations[{other}]",
            f"is {annotations[other]!r}, but {counts} is {annotations[counts]!r}, which is used.",
            annotate_class(name, f"{other}-"),
        )


def toleration_unreadable(survey: Survey) -> Iterator[AuditFinding]:
    """Find annotations that do not parse."""
    for found in survey.view.classes.values():
        yield from map(AuditFinding, unreadable(found))


def toleration_prefix(survey: Survey) -> Iterator[AuditFinding]:
    """Find annotations that differ under the two prefixes."""
    for found in survey.view.classes.values():
        yield from map(AuditFinding, contradicting(found))


def toleration_without_effect(survey: Survey) -> Iterator[AuditFinding]:
    """Find tolerations that hold back no preemptor."""
    for class_name, found in survey.view.classes.items():
        read, value = toleration(found), found.value or 0
        if read is None or read.unparsed or read.can_apply(value):
            continue
        if read.seconds == 0:
            name, wanted = TOLERATION_SECONDS, "<seconds, or -1 for no end>"
            why = "it lasts 0 seconds"
        else:
            name, wanted = MINIMUM_PREEMPTABLE_PRIORITY, f"<more than {value + 1}>"
            why = f"every preemptor of value {value} has at least {read.minimum_preemptable_priority}"
        key = toleration_key(found.metadata.annotations or {}, name) or TOLERATION_PREFIX + name
        yield AuditFinding(
            TOLERATION_WITHOUT_EFFECT.finding(
                class_ref(class_name),
                f"metadata.annotations[{key}]",
                f"the toleration never applies: {why}.",
                annotate_class(class_name, f"{key}={wanted}"),
            )
        )
