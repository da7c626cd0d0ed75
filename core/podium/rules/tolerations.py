"""The annotations of preemption toleration on a class: those that do not parse, and those that contradict."""

from collections.abc import Iterator

from podium.api.core import PriorityClass
from podium.api.findings import Finding, Severity
from podium.api.priority import (
    PROPOSED_TOLERATION_PREFIX,
    TOLERATION_PREFIX,
    TOLERATION_SECONDS,
    contradictions,
    toleration,
)
from podium.api.reads import Kind
from podium.rules.commands import annotate_class, class_ref
from podium.rules.rule import Rule

_CLASSES = frozenset({Kind.PRIORITY_CLASS})
SOURCE = "kubernetes-sigs/scheduler-plugins (preemptiontoleration)"

TOLERATION_UNREADABLE = Rule(
    id="toleration-unreadable",
    severity=Severity.WARNING,
    title="A preemption toleration annotation is not an integer",
    why="The toleration of the class is unknown, so Podium assumes the maximum: all preemptors "
    "below system classes, without an end. The plugin ignores both annotations, so the class "
    "has no toleration.",
    source=SOURCE,
    needs=_CLASSES,
)
TOLERATION_CONTRADICTS = Rule(
    id="toleration-prefix",
    severity=Severity.WARNING,
    title="A preemption toleration annotation differs under its two prefixes",
    why=f"Podium reads {TOLERATION_PREFIX}, as the plugin does since February 2023, and "
    f"{PROPOSED_TOLERATION_PREFIX}, the prefix of the proposal. If both are set, the first is "
    "used.",
    source=SOURCE,
    needs=_CLASSES,
)


def unreadable(priority_class: PriorityClass) -> Iterator[Finding]:
    """Yield findings on the toleration annotations of a class that do not parse, with the value in force."""
    read, name = toleration(priority_class), priority_class.metadata.name or ""
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


def contradicting(priority_class: PriorityClass) -> Iterator[Finding]:
    """Yield findings on the toleration annotations of a class that differ under the two prefixes."""
    name, annotations = priority_class.metadata.name or "", priority_class.metadata.annotations or {}
    for counts, ignored in contradictions(annotations):
        yield TOLERATION_CONTRADICTS.finding(
            class_ref(name),
            f"metadata.annotations[{ignored}]",
            f"is {annotations[ignored]!r}, but {counts} is {annotations[counts]!r}, which is used.",
            annotate_class(name, f"{ignored}-"),
        )
