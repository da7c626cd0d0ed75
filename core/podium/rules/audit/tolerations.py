"""Rules about preemption toleration: annotations on a class that a plugin reads, or silently does not."""

from collections.abc import Iterator

from podium.api.reads import Kind
from podium.findings import ObjectRef, Severity
from podium.priority import (
    MINIMUM_PREEMPTABLE_PRIORITY,
    OTHER_TOLERATION_PREFIX,
    TOLERATION_PREFIX,
    TOLERATION_SECONDS,
    Toleration,
    Unparsed,
    toleration,
)
from podium.rules.audit.classes import class_ref
from podium.rules.audit.commands import annotate_class
from podium.rules.audit.survey import Found, Survey
from podium.rules.rule import Rule
from podium.wording import some

_CLASSES = frozenset({Kind.PRIORITY_CLASS})
_SOURCE = "kubernetes-sigs/scheduler-plugins (preemptiontoleration)"

TOLERATION_UNREADABLE = Rule(
    id="toleration-unreadable",
    severity=Severity.WARNING,
    title="A preemption toleration annotation is no integer",
    why="The plugin then ignores both annotations, logs it, and the class tolerates nothing.",
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
TOLERATION_PREFIX_OTHER = Rule(
    id="toleration-prefix",
    severity=Severity.WARNING,
    title="A preemption toleration annotation carries the prefix that is not read",
    why=f"The plugin reads {TOLERATION_PREFIX} since February 2023; the prefix of its proposal, "
    f"{OTHER_TOLERATION_PREFIX}, is silently ignored.",
    source=_SOURCE,
    needs=_CLASSES,
)


def toleration_unreadable(survey: Survey) -> Iterator[Found]:
    """Find annotations that do not parse."""
    for ref, read in _tolerations(survey):
        if isinstance(read, Unparsed):
            yield Found(
                TOLERATION_UNREADABLE.finding(
                    ref,
                    f"metadata.annotations[{read.key}]",
                    f"{read.text!r} is no integer of its size: both toleration annotations are ignored.",
                    annotate_class(ref.name, f"{read.key}=<integer>"),
                )
            )


def toleration_without_effect(survey: Survey) -> Iterator[Found]:
    """Find tolerations that hold back no preemptor."""
    for ref, read in _tolerations(survey):
        value = survey.view.classes[ref.name].value or 0
        if not isinstance(read, Toleration) or read.can_apply(value):
            continue
        if read.seconds == 0:
            key, wanted = TOLERATION_PREFIX + TOLERATION_SECONDS, "<seconds, or -1 for ever>"
            why = "it lasts 0 seconds"
        else:
            key, wanted = TOLERATION_PREFIX + MINIMUM_PREEMPTABLE_PRIORITY, f"<more than {value + 1}>"
            why = f"every preemptor of value {value} has at least {read.minimum_preemptable_priority}"
        yield Found(
            TOLERATION_WITHOUT_EFFECT.finding(
                ref,
                f"metadata.annotations[{key}]",
                f"the toleration never applies: {why}.",
                annotate_class(ref.name, f"{key}={wanted}"),
            )
        )


def toleration_prefix(survey: Survey) -> Iterator[Found]:
    """Find annotations under the prefix that the plugin does not read."""
    for name, found in survey.view.classes.items():
        annotations = found.metadata.annotations or {}
        keys = sorted(key for key in annotations if key.startswith(OTHER_TOLERATION_PREFIX))
        if keys:
            moves = [key.replace(OTHER_TOLERATION_PREFIX, TOLERATION_PREFIX) for key in keys]
            changes = [f"{move}={annotations[key]}" for move, key in zip(moves, keys, strict=True)]
            yield Found(
                TOLERATION_PREFIX_OTHER.finding(
                    class_ref(name),
                    f"metadata.annotations[{keys[0]}]",
                    f"the plugin does not read {some(keys)}.",
                    annotate_class(name, *changes, *(f"{key}-" for key in keys)),
                )
            )


def _tolerations(survey: Survey) -> Iterator[tuple[ObjectRef, Toleration | Unparsed]]:
    for name, found in survey.view.classes.items():
        read = toleration(found)
        if read is not None:
            yield class_ref(name), read
