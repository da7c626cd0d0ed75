"""One preemption carried out, in the order of KEP-4832.

First the announcements are written, all at the same time: they are what a reader needs before the first
delete, the record included from which the next leader goes on. Then, if the preemption is still wanted, all
victims but the last are deleted, and then the last: a scheduler that sees room while some victims are not
yet deleted would take too little for enough.

The first failure ends it. Victims that were not deleted then stay, and their marks are withdrawn. But an API
server that is away has refused nothing: another plan in place of this one would take more than it needs, so
deletes are sent again until the server is back.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from podium.api.meta import Condition
from podium.errors import PodiumError
from podium.kube.connection import RefusedError
from podium.kube.fenced import LeaseOverError
from podium.schedulerplugin.live.together import Job, together
from podium.schedulerplugin.live.writes import GoneError, Writes
from podium.schedulerplugin.scheduling.announcements import Announcements
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, Unit

# How often a delete is asked for, each time for some seconds, while there is no server: about a minute.
_ROUNDS = 20
# What stands in for a server that is away; from the first on nobody knows what was done.
_TROUBLE, _AWAY = 500, (502, 503, 504)

# Says why a preemption is not wanted any more, or nothing.
Still = Callable[[], Awaitable[str]]


class Carried(NamedTuple):
    """How it ended: which pods we have told to go, and in one line why no more, or nothing.

    `error` says that a write failed; a preemption that was not wanted any more is none.
    `unsure` says that others may be going, too, for nobody answered whether they were deleted: here, or in
    what this goes on with. Asked a second time in vain, there may be another way that costs no more.
    `untold` are pods that stay and could not be told so.
    """

    deleted: tuple[PodRef, ...]
    failed: str = ""
    error: bool = False
    unsure: bool = False
    untold: tuple[PodRef, ...] = ()


class Conditions(NamedTuple):
    """What pods are told in this preemption; None where there is nothing to tell, or nobody any more.

    `waiting` goes with a nomination, `target` is DisruptionTarget True (None: the victim has it already),
    `spared` is its end. `group` marks a group, and returns whether the API server took it.
    """

    waiting: Callable[[PodRef], Condition | None]
    target: Callable[[PodRef], Condition | None]
    spared: Callable[[PodRef], Condition | None]
    group: Callable[[Unit], Awaitable[bool]]


async def carry_out(
    evict: Evict, first: Announcements, writes: Writes, told: Conditions, *, still: Still
) -> Carried:
    """Write what comes `first`, and make room; `still` says before the first delete why not to go on.

    A victim that has gone is done, and so is a lower nomination of a pod that has; a preemptor's pod that has
    gone is a failure, for nothing is evicted for whoever is no more. Nominations and the marks of groups
    stay, whatever happens: they are the caller's to end. Cancelled, it leaves the record for the next leader.
    """
    return await _Preemption(evict, first, writes, told).carry_out(still)


class _Preemption:
    def __init__(self, evict: Evict, first: Announcements, writes: Writes, told: Conditions) -> None:
        self._evict = evict
        self._first = first
        self._writes = writes
        self._told = told
        # Victims that say that they go, and are not known to be told so or to have gone.
        self._marked: dict[PodRef, None] = {}
        self._gone: set[PodRef] = set()
        self._deleted: list[PodRef] = []
        self._untold: list[PodRef] = []
        self._asked = self._unanswered = False

    async def carry_out(self, still: Still) -> Carried:
        failed = await self._all(self._announcements())
        unwanted = "" if failed is not None else await still()
        if failed is None and not unwanted:
            deletions = [self._deletion(pod) for pod in self._evict.victims if pod not in self._gone]
            failed = await self._all(deletions[:-1]) or await self._all(deletions[-1:])
        if failed is not None or unwanted:
            await self._spare()
        why = unwanted if failed is None else str(failed)
        unsure = not self._asked if self._evict.again else self._unanswered
        untold = tuple(self._untold)
        return Carried(tuple(self._deleted), why, error=failed is not None, unsure=unsure, untold=untold)

    def _announcements(self) -> list[Job]:
        nominations = [self._nomination(pod, node) for pod, node in self._first.nominations]
        clears = [self._clear(pod) for pod in self._evict.cleared]
        groups = [self._mark_group(unit) for unit in self._first.groups]
        return [*nominations, *clears, *groups, *(self._mark(pod) for pod in self._first.marks)]

    def _nomination(self, pod: PodRef, node: str) -> Job:
        return lambda: self._writes.nominate(pod, node, self._told.waiting(pod))

    def _clear(self, pod: PodRef) -> Job:
        async def work() -> None:
            await _or_gone(self._writes.nominate(pod, None, None))

        return work

    def _mark(self, pod: PodRef) -> Job:
        async def work() -> None:
            self._marked[pod] = None
            condition = self._told.target(pod)
            if condition is not None and not await _or_gone(self._writes.mark(pod, condition)):
                self._marked.pop(pod, None)
                self._gone.add(pod)

        return work

    def _mark_group(self, unit: Unit) -> Job:
        async def work() -> None:
            if not await self._told.group(unit):
                failed = await self._all([self._mark(pod) for pod in unit.pods])
                if failed is not None:
                    raise failed

        return work

    def _deletion(self, pod: PodRef) -> Job:
        async def work() -> None:
            self._asked = True
            try:
                await self._delete(pod)
            except PodiumError as error:
                self._unanswered |= not isinstance(error, RefusedError) or error.code >= _TROUBLE
                raise
            self._marked.pop(pod, None)
            self._deleted.append(pod)

        return work

    async def _delete(self, pod: PodRef) -> None:
        for left in reversed(range(_ROUNDS)):
            try:
                await self._writes.delete(pod)
            except LeaseOverError:
                raise
            except PodiumError as error:
                refused = isinstance(error, RefusedError) and error.code not in _AWAY
                if refused or not left:
                    raise
            else:
                return

    async def _spare(self) -> None:
        """Take back what victims that stay were told; a server that is away is not waited for."""

        def job(pod: PodRef) -> Job:
            async def work() -> None:
                condition = self._told.spared(pod)
                if condition is None:
                    return
                try:
                    if not self._untold:
                        await self._writes.mark(pod, condition)
                        return
                except GoneError:
                    return
                except PodiumError:
                    pass
                self._untold.append(pod)

            return work

        await self._all([job(pod) for pod in self._marked])

    async def _all(self, jobs: list[Job]) -> PodiumError | None:
        return await together(jobs, self._writes.limit)


async def _or_gone(write: Awaitable[None]) -> bool:
    """Say whether there was somebody to write to."""
    try:
        await write
    except GoneError:
        return False
    return True
