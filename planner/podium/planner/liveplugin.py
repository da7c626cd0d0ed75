"""The extension points of a scheduler that acts, in the words of kube-scheduler's framework.

A plugin says which kinds it reads and writes, and what of their objects is kept (`transform`). It says
which pods a change of an object may help (`events`), and what is written before a bind (`pre_bind`). All
answers are values, and the scheduler carries them out by the same code for every plugin.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, Self

import msgspec

from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.cluster.reader import ClusterReader
from podium.errors import PodiumError

# A merge patch without its preconditions; None if nothing has to be written.
Patch = dict[str, Any] | None


class GoneError(PodiumError):
    """The object is gone, terminating or replaced by a namesake, or the write came too late."""


class ChangedError(PodiumError):
    """The object has changed since this was decided."""


class FollowedKind(NamedTuple):
    """A kind that a plugin reads.

    Without the right to read an `optional` kind, other pods are placed. If it is `written`, a new leader
    waits until its cache has what an earlier leader wrote.
    """

    kind: Kind
    optional: bool = True
    written: bool = False


class ObjectKey(NamedTuple):
    """An object that a plugin follows; the namespace is empty if its kind has none."""

    kind: Kind
    namespace: str
    name: str


class Wakeup(NamedTuple):
    """The pods that a change of an object may help, beside those whose need it changes.

    `restricted` says that it may help every pod whose nodes a plugin restricts, and `gated` that every entry
    that is held back is looked at. `nodes` (rows) may suit more pods than before, and `attaching` may attach
    more. Decisions that await one of the `objects` are looked at, and stop if its controller `gave_up`.
    The entries of the users of an object in `used` are looked at.
    """

    restricted: bool = False
    gated: bool = False
    nodes: Iterable[int] = ()
    attaching: Iterable[int] = ()
    objects: tuple[ObjectKey, ...] = ()
    gave_up: bool = False
    used: tuple[ObjectKey, ...] = ()


class CachedObject(NamedTuple):
    """An object at a path of the API; `cached` returns it as the cache has it, None if it has none."""

    path: str
    cached: Callable[[ClusterReader], Any]


class MergePatch(NamedTuple):
    """A patch of an object, or of its subresource, decided on the object as it is known.

    `change` returns it. It also gets the spec of the object as the patch before left it, as JSON. It may
    raise GoneError and ChangedError.
    """

    stored: CachedObject
    change: Callable[[Any, bytes], Patch]
    subresource: str = ""


class Deletion(NamedTuple):
    """The end of an object if it `is_meant`; its `finalizer` is removed first."""

    stored: CachedObject
    is_meant: Callable[[Any], bool]
    finalizer: str


class Creation(NamedTuple):
    """A new object of a type, unless one of its name `is_usable`; another is deleted first.

    `is_usable` may raise ChangedError.
    """

    deletion: Deletion
    document: dict[str, Any]
    type: type[msgspec.Struct]
    is_usable: Callable[[Any], bool]


class PodStatusPatch(NamedTuple):
    """Fields of the status of a pod."""

    namespace: str
    name: str
    uid: str
    status: dict[str, Any]


Step = MergePatch | Creation | Deletion | PodStatusPatch


class PreBindWrite(ABC):
    """A write that must be stored before pods are bound; equal values are one write."""

    # The word for the object in the status of a pod.
    NOUN: ClassVar[str] = "object"

    @property
    @abstractmethod
    def awaited(self) -> ObjectKey:
        """The object that is awaited."""

    @property
    def avoided(self) -> str:
        """The node to be avoided for a while if the controller of the object gives up; empty for none."""
        return ""

    @property
    def gave_up(self) -> str:
        """Why it cannot take effect once that controller gave up; empty if it still may."""
        return ""

    @abstractmethod
    def cached(self, view: ClusterReader) -> Any:
        """Return the object that is meant; None if it is gone, or another has its name."""

    @abstractmethod
    def is_done(self, known: Any) -> bool:
        """Return whether nothing has to be awaited for the object, None for none."""

    def obstacle(self, known: Any, *, seen: bool) -> str:  # noqa: ARG002 - it is there from the start
        """Return why the object cannot become what is awaited; empty if it may.

        `known` is the object, None if it is gone; `seen` says that it was known before.
        """
        return "" if known is not None else f"{self.NOUN} {self.awaited.name} is gone"

    @abstractmethod
    def is_stored(self, view: ClusterReader) -> bool:
        """Return whether a write that is to be undone is still known."""

    def merged(self, other: Self) -> Self:  # noqa: ARG002 - it is the same
        """Return one write for both writes to an object."""
        return self

    @abstractmethod
    def steps(self, now: datetime) -> Sequence[Step]:
        """Return what is sent, one step after the other."""

    @abstractmethod
    def undo(self) -> Sequence[Step]:
        """Return what is sent to undo the write, as far as nothing depends on it."""


class LivePlugin:
    """One capability of a scheduler that acts; each method has the answer of one that has nothing to say."""

    KINDS: ClassVar[Sequence[FollowedKind]] = ()
    # Reasons that refuse a pod for a moment while its writes take effect.
    PASSING: ClassVar[AbstractSet[str]] = frozenset()

    @staticmethod
    def transform(obj: object) -> bool:  # noqa: ARG004 - it keeps all
        """Reduce an object that was just read to what is kept; return whether the plugin reads its kind."""
        return False

    def events(self, before: object, after: object) -> Wakeup | None:  # noqa: ARG002 - it reads none
        """Return what one change of an object may help; None for an object of another kind."""
        return None

    def users(self, key: ObjectKey) -> Iterable[int]:  # noqa: ARG002 - as above
        """Return the pods (rows) that use an object."""
        return ()

    def used_alone(self, pod: Schedulable) -> Collection[Hashable]:  # noqa: ARG002 - as above
        """Return what a pod that is gone may have used alone, as `PodNeed.used_alone` has it."""
        return ()

    def pre_bind(self, pod_row: int) -> Sequence[PreBindWrite] | None:  # noqa: ARG002 - as above
        """Return what is written before an assumed pod is bound; None if the pod lacks something."""
        return ()

    def reserve(self, write: PreBindWrite) -> None:
        """Keep what a write takes from other pods, wherever its own pods count."""

    def unreserve(self, write: PreBindWrite) -> None:
        """Undo one `reserve`."""

    def withdrawn(
        self, write: PreBindWrite, known: Any, pods: AbstractSet[int], *, shared: bool
    ) -> PreBindWrite | None:
        """Return the part of a write to undo for its pods (rows); None for nothing.

        `known` is its object, None if it is gone. `shared` says that another decision waits for it.
        """

    def stranded(self, pod_rows: Collection[int]) -> Sequence[PreBindWrite]:  # noqa: ARG002 - as above
        """Return earlier writes to undo, because these pods found no node that can use them."""
        return ()


class PluginWrite(NamedTuple):
    """A write, and the plugin that it is of."""

    plugin: LivePlugin
    write: PreBindWrite
