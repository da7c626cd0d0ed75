"""Sends the writes that plugins need before a bind, and undoes them, whichever objects these are.

Each step is decided on the object as it is known, and names its version. So it changes nothing if another
scheduler, a user or a controller was first. A step that finds its result there already is not sent: a leader
may write what the one before it wrote.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from podium.cluster.reader import ClusterReader
from podium.kube.reading import decode
from podium.planner.liveplugin import (
    CachedObject,
    Creation,
    Deletion,
    GoneError,
    MergePatch,
    PodStatusPatch,
    PreBindWrite,
    Step,
)
from podium.schedulerplugin.live.writes import StoredObject, Writes
from podium.schedulerplugin.scheduling.effects import PodRef

# The most objects that were created and may be unknown still.
_CREATED = 2**12


class _CreatedObject(NamedTuple):
    """A created object, and the UID of the one that was deleted for it."""

    created: Any
    instead_of: str | None


class PreBindWriter:
    """The writes before binds; each method raises as those of Writes, and ChangedError."""

    def __init__(self, writes: Writes, view: ClusterReader, now: Callable[[], datetime]) -> None:
        self._writes = writes
        self._view = view
        self._now = now
        # Created objects by path, as they were stored last; the view may not have them yet.
        self._created: dict[str, _CreatedObject] = {}

    async def write(self, write: PreBindWrite) -> None:
        """Carry out a write. Raises GoneError if the object is gone, ChangedError if another was first."""
        await self._send(write.steps(self._now()))

    async def undo(self, write: PreBindWrite) -> None:
        """Undo a write, unless something depends on it by now."""
        await self._send(write.undo())

    async def _send(self, steps: Iterable[Step]) -> None:
        before: StoredObject | None = None
        for step in steps:
            match step:
                case MergePatch():
                    before = await self._patch(step, before)
                case Creation():
                    await self._create(step)
                case Deletion():
                    await self._delete(step)
                case PodStatusPatch(namespace, name, uid, status):
                    await self._writes.patch_status(PodRef(namespace, name, uid), status)

    async def _patch(self, step: MergePatch, before: StoredObject | None) -> StoredObject | None:
        """Patch an object as it is known; return it as it is then, None if nothing was to be written.

        After a conflict it is known as it is stored a moment later. `before` is the object after an earlier
        patch of ours, which the watch may not have brought yet.
        """
        path = f"{step.stored.path}{step.subresource}"
        version = before.metadata.resourceVersion if before is not None else None
        spec = bytes(before.spec) if before is not None else b"{}"
        written: StoredObject | None = None

        async def attempt() -> None:
            nonlocal version, written
            known = self._current(step.stored)
            if known is None:
                raise GoneError(f"{path} is gone")
            patch = step.change(known, spec)
            if patch is not None:
                base, version = version or known.metadata.resourceVersion, None
                patch.setdefault("metadata", {}).update(uid=known.metadata.uid, resourceVersion=base)
                written = await self._writes.merge(path, patch)

        await self._writes.perform("claim", attempt)
        remembered = self._created.get(step.stored.path)
        if remembered is not None and written is not None:
            remembered.created.metadata.resourceVersion = written.metadata.resourceVersion
        return written

    async def _create(self, step: Creation) -> None:
        """Create an object, unless a usable one is left from an earlier attempt."""

        async def attempt() -> None:
            known = self._current(step.deletion.stored)
            if known is not None and step.is_usable(known):
                return
            if known is not None:
                await self._delete_known(step.deletion, known)
            path = step.deletion.stored.path
            stored = await self._writes.create(path.rpartition("/")[0], step.document)
            self._remember(path, decode(stored, step.type), known)

        await self._writes.perform("claim", attempt)

    async def _delete(self, step: Deletion) -> None:
        """Delete an object, if it is known."""

        async def attempt() -> None:
            known = self._current(step.stored)
            if known is not None and step.is_meant(known):
                await self._delete_known(step, known)

        try:
            await self._writes.perform("claim", attempt)
        finally:
            self._created.pop(step.stored.path, None)

    async def _delete_known(self, step: Deletion, known: Any) -> None:
        metadata = known.metadata
        finalizers = metadata.finalizers or []
        if step.finalizer in finalizers:
            left = [finalizer for finalizer in finalizers if finalizer != step.finalizer]
            version = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
            await self._writes.merge(step.stored.path, {"metadata": {"finalizers": left or None, **version}})
        await self._writes.remove(step.stored.path, metadata.uid or "")

    def _current(self, stored: CachedObject) -> Any:
        """Return an object as it is known, or as it was created if the watch does not show that yet."""
        known, remembered = stored.cached(self._view), self._created.get(stored.path)
        if remembered is not None and (known is None or known.metadata.uid == remembered.instead_of):
            return remembered.created
        return known

    def _remember(self, path: str, created: Any, before: Any) -> None:
        self._created.pop(path, None)
        if len(self._created) == _CREATED:
            del self._created[next(iter(self._created))]
        self._created[path] = _CreatedObject(created, before.metadata.uid if before is not None else None)
