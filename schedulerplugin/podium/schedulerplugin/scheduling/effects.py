"""What the scheduler wants done in the cluster, as values: deciding is pure, and a shell only carries it out.

Everything names pods by UID, so that nothing can hit a pod of the same name that came later.
"""

from datetime import datetime
from typing import NamedTuple

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.membership import GroupKey
from podium.view import Name

# What is scheduled as one: a lone pod, or a group with all its pods.
Key = Name | GroupKey
_GROUPS = {True: NATIVE_GROUP, False: PODIUM_GROUP}


def entry_name(key: Key) -> str:
    """Return the name of an entry: `pod/NAMESPACE/NAME`, or `podgroup.APIGROUP/NAMESPACE/NAME`."""
    if isinstance(key, GroupKey):
        return f"podgroup.{_GROUPS[key.native]}/{key.namespace}/{key.name}"
    return "/".join(("pod", *key))


def entry_of(name: str) -> Key | None:
    """Return the entry of a name that `entry_name` gave; None for any other text."""
    kind, _, rest = name.partition("/")
    namespace, slash, own = rest.partition("/")
    if not slash or not namespace or not own:
        return None
    if kind == "pod":
        return namespace, own
    native = next((native for native, group in _GROUPS.items() if kind == f"podgroup.{group}"), None)
    return None if native is None else GroupKey(native, namespace, own)


class Moment(NamedTuple):
    """Now: `now` is the wall's time in UTC, `seconds` a clock that nobody sets."""

    now: datetime
    seconds: float


class PodRef(NamedTuple):
    """One pod, and no later one of its name."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> Name:
        """Give how a State finds it."""
        return self.namespace, self.name


class Bind(NamedTuple):
    """Put pods on nodes: all of them are assumed there already."""

    key: Key
    pods: tuple[tuple[PodRef, str], ...]


class Preemptor(NamedTuple):
    """For whom room is made; `kind` is `pod` or `podgroup`, the words of kube-scheduler's messages."""

    kind: str
    namespace: str
    name: str
    uid: str
    priority: int


class Unit(NamedTuple):
    """What is evicted together: `kind` is Pod or PodGroup, `pods` its members that go."""

    kind: str
    namespace: str
    name: str
    uid: str
    priority: int
    pods: tuple[PodRef, ...]


class Evict(NamedTuple):
    """One preemption: the nodes reserved for the preemptor's pods, and whose room they take.

    `cleared` are pods of ours of lower priority whose nominations to these nodes end. `domain` is a node's
    name, or `cluster`. `violations` and `work` (accelerator-seconds) are its harm. `resumed` says that an
    earlier process of ours began it, `again` that this one did, and does not know who is going already.
    """

    key: Key
    preemptor: Preemptor
    nominations: tuple[tuple[PodRef, str], ...]
    units: tuple[Unit, ...]
    domain: str
    message: str
    cleared: tuple[PodRef, ...] = ()
    violations: int = 0
    work: int = 0
    resumed: bool = False
    again: bool = False

    @property
    def victims(self) -> tuple[PodRef, ...]:
        """Give all pods that go, unit by unit."""
        return tuple(pod for unit in self.units for pod in unit.pods)


class Report(NamedTuple):
    """Tell pods, or all pods of a group, why they wait; `nominated` gives nodes that are reserved for some.

    A pod that is not in `nominated` has no reserved node any more. `gated` says that no place was looked for.
    """

    key: Key
    pods: tuple[PodRef, ...]
    reason: str
    message: str
    nominated: tuple[tuple[PodRef, str], ...] = ()
    gated: bool = False


class Planned(NamedTuple):
    """A preemption that would be carried out if that were not only observed."""

    evict: Evict


class Held(NamedTuple):
    """A preemption that has to wait: for the rate of evictions, or (`circle`) for a war to cool down."""

    evict: Evict
    circle: bool


class Spare(NamedTuple):
    """Withdraw the marks of pods and groups: an earlier process wrote them, and no preemption needs them."""

    pods: tuple[PodRef, ...]
    groups: tuple[GroupKey, ...] = ()


class Rejected(NamedTuple):
    """A kubelet failed a pod of ours, for its node had no room for it; `reason` is such as OutOfcpu."""

    pod: PodRef
    reason: str


class TimedOut(NamedTuple):
    """A decision that was given up: it took longer than the time budget of so many seconds."""

    key: Key
    seconds: float


class Disagreed(NamedTuple):
    """The condition PodsNotMatchingPriority of a group, of this status, began to contradict its pods."""

    key: Key
    condition: str


Effect = Bind | Evict | Report | Planned | Held | Spare | Rejected | TimedOut | Disagreed
