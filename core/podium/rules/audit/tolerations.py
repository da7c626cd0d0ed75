"""Rules about preemption toleration: annotations that do not parse, contradict or have no effect."""

from collections.abc import Iterator

from podium.api.findings import Severity
from podium.api.priority import (
    MINIMUM_PREEMPTABLE_PRIORITY,
    TOLERATION_PREFIX,
    TOLERATION_SECONDS,
    toleration,
    toleration_key,
)
from podium.api.reads import Kind
from podium.rules.audit.survey import AuditFinding, Survey
from podium.rules.commands import annotate_class, class_ref
from podium.rules.rule import Rule
from podium.rules.tolerations import (
    SOURCE,
    contradicting,
    unreadable,
)

_CLASSES = frozenset({Kind.PRIORITY_CLASS})

TOLERATION_WITHOUT_EFFECT = Rule(
    id="toleration-without-effect",
    severity=Severity.WARNING,
    title="A preemption toleration can never apply",
    why="A toleration holds off preemptors above the class's value and below the minimum, for some "
    "time. With a minimum of value + 1 (the default) there are no such preemptors; with 0 "
    "seconds (the default) there is no time.",
    source=SOURCE,
    needs=_CLASSES,
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
