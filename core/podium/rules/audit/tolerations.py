"""Rules about preemption toleration: annotations that do not parse, contradict or have no effect."""

from collections.abc import Iterator

from podium.api.core import PriorityClass
from podium.api.reads import Kind
from podium.findings import Finding, Severity
from podium.priority import (
    MINIMUM_PREEMPTABLE_PRIORITY,
    PROPOSED_TOLERATION_PREFIX,
    TOLERATION_PREFIX,
    TOLERATION_SECONDS,
    contradictions,
    toleration,
    toleration_key,
)
from podium.rules.audit.classes import class_ref
from podium.rules.audit.commands import annotate_class
from podium.rules.audit.survey import Found, Survey
from podium.rules.rule import Rule

_CLASSES = frozenset({Kind.PRIORITY_CLASS})
_SOURCE = "kubernetes-sigs/scheduler-plugins (preemptiontoleration)"

TOLERATION_UNREADABLE = Rule(
    id="toleration-unreadable",
    severity=Severity.WARNING,
    title="A preemption toleration annotation is no integer",
    why="The toleration of the class is unknown, so Podium counts the most that it could be: preemptors "
    "below system classes, for ever. The plugin ignores both annotations, and the class tolerates nothing.",
    source=_SOURCE,
    needs=_CLASSES,
)
TOLERATION_WITHOUT_EFFECT = Rule(
    id="toleration-without-effect",
    severity=Severity.WARNING,
    title="A preemption toleration can never apply",
    why="A toleration holds back preemptors above the class's value and below the minimum, for some time. "
    "With a minimum of value + 1 (the default) there are none; 0 seconds (the default) are no time.",
    source=_SOURCE,
    needs=_CLASSES,
)
TOLERATION_CONTRADICTS = Rule(
    id="toleration-prefix",
    severity=Severity.WARNING,
    title="A preemption toleration annotation differs under its two prefixes",
    why=f"Podium reads {TOLERATION_PREFIX}, as the plugin does since February 2023, and "
    f"{PROPOSED_TOLERATION_PREFIX}, the prefix of the proposal. If both are there, the first counts.",
    source=_SOURCE,
    needs=_CLASSES,
)


def unreadable(found: PriorityClass) -> Iterator[Finding]:
    """Yield findings on the toleration annotations of a class that do not parse, with the value in force."""
    read, name = toleration(found), found.metadata.name or ""
    for key, text in read.unparsed if read is not None else ():
        if key.endswith(TOLERATION_SECONDS):
            why = "is no integer of 64 bits: the toleration has no end."
        else:
            why = "is no integer of 32 bits: while the toleration lasts, only system classes preempt."
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
            f"is {annotations[other]!r}, but {counts} is {annotations[counts]!r}, which counts.",
            annotate_class(name, f"{other}-"),
        )


def toleration_unreadable(survey: Survey) -> Iterator[Found]:
    """Find annotations that do not parse."""
    for found in survey.view.classes.values():
        yield from map(Found, unreadable(found))


def toleration_prefix(survey: Survey) -> Iterator[Found]:
    """Find annotations that differ under the two prefixes."""
    for found in survey.view.classes.values():
        yield from map(Found, contradicting(found))


def toleration_without_effect(survey: Survey) -> Iterator[Found]:
    """Find tolerations that hold back no preemptor."""
    for class_name, found in survey.view.classes.items():
        read, value = toleration(found), found.value or 0
        if read is None or read.unparsed or read.can_apply(value):
            continue
        if read.seconds == 0:
            name, wanted = TOLERATION_SECONDS, "<seconds, or -1 for ever>"
            why = "it lasts 0 seconds"
        else:
            name, wanted = MINIMUM_PREEMPTABLE_PRIORITY, f"<more than {value + 1}>"
            why = f"every preemptor of value {value} has at least {read.minimum_preemptable_priority}"
        key = toleration_key(found.metadata.annotations or {}, name) or TOLERATION_PREFIX + name
        yield Found(
            TOLERATION_WITHOUT_EFFECT.finding(
                class_ref(class_name),
                f"metadata.annotations[{key}]",
                f"the toleration never applies: {why}.",
                annotate_class(class_name, f"{key}={wanted}"),
            )
        )
