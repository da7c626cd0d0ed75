"""PriorityClass resolution, once: admission stamps by it, the audit checks stored integers against it.

Only integers order pods; class names explain where an integer came from. The two system classes exist on
every server, so they are known even where no object of them was read.

Preemption toleration lives here too, for its two annotations stand on the class: the scheduler-plugins
plugin reads them under the prefix `preemption-toleration.scheduling.x-k8s.io/`, while its proposal and many
manifests write `preemption-toleration.scheduling.sigs.k8s.io/`, which that plugin silently ignores.
"""

from collections.abc import Mapping
from typing import NamedTuple

from podium.api.core import PriorityClass

# A user's class may not be worth more (scheduling.HighestUserDefinablePriority).
HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
SYSTEM_CLASSES: Mapping[str, int] = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
}

PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
NEVER = "Never"
PREEMPTION_POLICIES = (PREEMPT_LOWER_PRIORITY, NEVER)

# Annotations on a PriorityClass begin so: below which priority, and how long, its pods are not preempted.
TOLERATION_PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
# What the proposal calls them, and nobody reads; the audit warns of it.
OTHER_TOLERATION_PREFIX = "preemption-toleration.scheduling.sigs.k8s.io/"
MINIMUM_PREEMPTABLE_PRIORITY = "minimum-preemptable-priority"
TOLERATION_SECONDS = "toleration-seconds"

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)


class Resolved(NamedTuple):
    """What a class name gives; the name is empty where neither a class nor a default was found."""

    name: str
    value: int
    preemption_policy: str


NO_CLASS = Resolved("", 0, PREEMPT_LOWER_PRIORITY)


def effective_policy(policy: str | None) -> str:
    """Give the policy that an absent one means (every version of the API defaults it so)."""
    return policy or PREEMPT_LOWER_PRIORITY


def default_class(classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """Give the globalDefault class; between several (a race, a restored etcd) the smallest value, then name.

    Upstream takes the smallest value too, but leaves a tie to the order of its cache.
    """
    best: PriorityClass | None = None
    for candidate in classes.values():
        if candidate.globalDefault and (best is None or _rank(candidate) < _rank(best)):
            best = candidate
    return best


def resolve(classes: Mapping[str, PriorityClass], name: str) -> Resolved | None:
    """Resolve a class name as the API server does for a new pod; None if there is no such class.

    An empty name is the default class, or no class at all: priority 0, PreemptLowerPriority.
    """
    if not name:
        default = default_class(classes)
        return NO_CLASS if default is None else _resolved(default)
    found = classes.get(name)
    if found is not None:
        return _resolved(found)
    value = SYSTEM_CLASSES.get(name)
    return None if value is None else Resolved(name, value, PREEMPT_LOWER_PRIORITY)


def _resolved(found: PriorityClass) -> Resolved:
    return Resolved(found.metadata.name or "", found.value or 0, effective_policy(found.preemptionPolicy))


def _rank(candidate: PriorityClass) -> tuple[int, str]:
    return candidate.value or 0, candidate.metadata.name or ""


class Toleration(NamedTuple):
    """A class's preemption toleration.

    Preemptors below `minimum_preemptable_priority` wait `seconds` after the victim was scheduled; negative
    seconds are for ever.
    """

    minimum_preemptable_priority: int
    seconds: int

    def can_apply(self, value: int) -> bool:
        """Whether any preemptor of a pod of this value could ever be held back."""
        return self.seconds != 0 and self.minimum_preemptable_priority > value + 1


class Unparsed(NamedTuple):
    """An annotation that is no integer of its size; the plugin then ignores both annotations."""

    key: str
    text: str


def toleration(found: PriorityClass, prefix: str = TOLERATION_PREFIX) -> Toleration | Unparsed | None:
    """Read the toleration annotations under one prefix; None where there are none.

    Defaults are the plugin's: the minimum is the class's value + 1, the seconds are 0.
    """
    annotations = found.metadata.annotations
    if not annotations:
        return None
    minimum_key, seconds_key = prefix + MINIMUM_PREEMPTABLE_PRIORITY, prefix + TOLERATION_SECONDS
    minimum_text, seconds_text = annotations.get(minimum_key), annotations.get(seconds_key)
    if minimum_text is None and seconds_text is None:
        return None
    minimum: int | None = (found.value or 0) + 1
    seconds: int | None = 0
    if minimum_text is not None:
        minimum = _integer(minimum_text, _INT32)
        if minimum is None:
            return Unparsed(minimum_key, minimum_text)
    if seconds_text is not None:
        seconds = _integer(seconds_text, _INT64)
        if seconds is None:
            return Unparsed(seconds_key, seconds_text)
    assert minimum is not None
    assert seconds is not None
    return Toleration(minimum, seconds)


def _integer(text: str, bounds: tuple[int, int]) -> int | None:
    """Parse as Go's strconv.ParseInt in base 10 does: ASCII digits with an optional sign, in range."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Longer than any 64-bit number: out of range, and not worth a quadratic int().
    if not digits.isascii() or not digits.isdigit() or len(digits.lstrip("0")) > 19:
        return None
    value = int(text)
    return value if bounds[0] <= value <= bounds[1] else None
