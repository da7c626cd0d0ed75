"""PriorityClass resolution for all callers: admission sets integers by it, and the audit checks stored ones.

Only integers order pods; class names explain where an integer came from. The two system classes exist on
every server, so they are known even if their objects were not read.

Preemption toleration is here too, because its two annotations are on the class. The scheduler-plugins plugin
reads them under the prefix `preemption-toleration.scheduling.x-k8s.io/` since February 2023. Its proposal and
many manifests use `preemption-toleration.scheduling.sigs.k8s.io/`, which the plugin ignores. Podium reads
both.
"""

from collections.abc import Mapping
from typing import NamedTuple

from podium.api.core import PriorityClass
from podium.minors.minor import USER_MAXIMUM

# The maximum value of a user's class (scheduling.HighestUserDefinablePriority).
HIGHEST_USER_PRIORITY = USER_MAXIMUM
SYSTEM_PREFIX = "system-"
SYSTEM_CLASSES: Mapping[str, int] = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}

PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
NEVER = "Never"
PREEMPTION_POLICIES = (PREEMPT_LOWER_PRIORITY, NEVER)

# Annotations on a PriorityClass: below which priority, and how long, its pods are not preempted. Each is read
# under the plugin's prefix, and under the proposal's if the class has none there.
TOLERATION_PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
PROPOSED_TOLERATION_PREFIX = "preemption-toleration.scheduling.sigs.k8s.io/"
TOLERATION_PREFIXES = (TOLERATION_PREFIX, PROPOSED_TOLERATION_PREFIX)
MINIMUM_PREEMPTABLE_PRIORITY = "minimum-preemptable-priority"
TOLERATION_SECONDS = "toleration-seconds"

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)


class Resolved(NamedTuple):
    """The result of resolving a class name; the name is empty if there is neither a class nor a default."""

    name: str
    value: int
    preemption_policy: str


NO_CLASS = Resolved("", 0, PREEMPT_LOWER_PRIORITY)


def effective_policy(policy: str | None) -> str:
    """Return a preemptionPolicy, with the default of every API version for an absent value."""
    return policy or PREEMPT_LOWER_PRIORITY


def default_class(classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """Return the globalDefault class; of several (a race, a restored etcd) the smallest value, then name.

    Upstream also uses the smallest value, but decides a tie by the order of its cache.
    """
    best: PriorityClass | None = None
    for candidate in classes.values():
        if candidate.globalDefault and (best is None or _rank(candidate) < _rank(best)):
            best = candidate
    return best


def newer_default(
    classes: Mapping[str, PriorityClass], name: str, stored: int | None
) -> PriorityClass | None:
    """Return the default class if it is newer than a pod with these stored values, None otherwise.

    Admission writes the name of the default class into each new pod without a class. A pod that has been
    through admission and names no class is therefore older than the default class.
    """
    return default_class(classes) if not name and stored is not None else None


def resolve(classes: Mapping[str, PriorityClass], name: str) -> Resolved | None:
    """Return a class name resolved as the API server does for a new pod; None if there is no such class.

    An empty name resolves to the default class. Without a default it resolves to priority 0 and
    PreemptLowerPriority.
    """
    if not name:
        default = default_class(classes)
        return NO_CLASS if default is None else _resolved(default)
    priority_class = classes.get(name)
    if priority_class is not None:
        return _resolved(priority_class)
    value = SYSTEM_CLASSES.get(name)
    return None if value is None else Resolved(name, value, PREEMPT_LOWER_PRIORITY)


def _resolved(priority_class: PriorityClass) -> Resolved:
    return Resolved(
        priority_class.metadata.name or "",
        priority_class.value or 0,
        effective_policy(priority_class.preemptionPolicy),
    )


def _rank(candidate: PriorityClass) -> tuple[int, str]:
    return candidate.value or 0, candidate.metadata.name or ""


class Unparsed(NamedTuple):
    """A toleration annotation that is not an integer of its size."""

    key: str
    text: str


class PreemptionToleration(NamedTuple):
    """The preemption toleration of a class.

    Preemptors below `minimum_preemptable_priority` wait `seconds` after the victim was scheduled; negative
    seconds mean for ever. `unparsed` are the annotations whose value is taken from UNKNOWN_TOLERATION.
    """

    minimum_preemptable_priority: int
    seconds: int
    unparsed: tuple[Unparsed, ...] = ()

    def can_apply(self, value: int) -> bool:
        """Return whether this toleration could ever hold back a preemptor of a pod with this priority."""
        return self.seconds != 0 and self.minimum_preemptable_priority > value + 1


# The toleration of a class that does not exist or does not parse: the maximum that a user's class can grant.
# System classes can still preempt, so that a mistake does not keep system components waiting.
UNKNOWN_TOLERATION = PreemptionToleration(HIGHEST_USER_PRIORITY + 1, -1)


def toleration(priority_class: PriorityClass) -> PreemptionToleration | None:
    """Return the preemption toleration of a class, or None if it has no such annotation.

    Defaults are the plugin's: the minimum is the class's value + 1, the seconds are 0. An annotation that
    does not parse has the value of UNKNOWN_TOLERATION.
    """
    annotations = priority_class.metadata.annotations
    if not annotations:
        return None
    minimum_key = toleration_key(annotations, MINIMUM_PREEMPTABLE_PRIORITY)
    seconds_key = toleration_key(annotations, TOLERATION_SECONDS)
    if minimum_key is None and seconds_key is None:
        return None
    minimum = _value(annotations, minimum_key, _INT32, (priority_class.value or 0) + 1)
    seconds = _value(annotations, seconds_key, _INT64, 0)
    unknown = UNKNOWN_TOLERATION
    return PreemptionToleration(
        unknown.minimum_preemptable_priority if isinstance(minimum, Unparsed) else minimum,
        unknown.seconds if isinstance(seconds, Unparsed) else seconds,
        tuple(bound for bound in (minimum, seconds) if isinstance(bound, Unparsed)),
    )


def toleration_key(annotations: Mapping[str, str], name: str) -> str | None:
    """Return the key of the toleration annotation of this name that is in force, or None if there is none."""
    keys = (prefix + name for prefix in TOLERATION_PREFIXES)
    return next((key for key in keys if key in annotations), None)


def contradictions(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the toleration annotations that differ under the two prefixes.

    Each pair is the key in force, and the other key.
    """
    names = (MINIMUM_PREEMPTABLE_PRIORITY, TOLERATION_SECONDS)
    pairs = [(TOLERATION_PREFIX + name, PROPOSED_TOLERATION_PREFIX + name) for name in names]
    return [
        (counts, ignored)
        for counts, ignored in pairs
        if counts in annotations and annotations.get(ignored, annotations[counts]) != annotations[counts]
    ]


def _value(
    annotations: Mapping[str, str], key: str | None, bounds: tuple[int, int], default: int
) -> int | Unparsed:
    if key is None:
        return default
    value = _integer(annotations[key], bounds)
    return Unparsed(key, annotations[key]) if value is None else value


def _integer(text: str, bounds: tuple[int, int]) -> int | None:
    """Return an integer parsed as Go's strconv.ParseInt in base 10 does, or None.

    The text has ASCII digits with an optional sign, in range.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Longer than any 64-bit number: out of range, and int() would take quadratic time.
    if not digits.isascii() or not digits.isdigit() or len(digits.lstrip("0")) > 19:
        return None
    value = int(text)
    return value if bounds[0] <= value <= bounds[1] else None
