"""Carries out one preemption, in the order of KEP-4832.

First the announcements are written, all at the same time. They are what a reader needs before the first
delete, and include the record from which the next leader resumes. If the preemption is still wanted then, all
victims but the last are deleted, and then the last. A scheduler that sees room while some victims are not yet
deleted would mistake too little room for enough.

The first failure ends the preemption. Victims that were not deleted by then stay, and their marks are
withdrawn. An API server that does not answer has refused nothing, and another plan in place of this one would
evict more pods than necessary. So deletes are sent again until the server is back.

Announcements inform, and a pod must not protect itself by a status that takes no more. So an announcement
that the API server refuses for good is left out. A victim that it does not delete is returned, and the next
plan is without it. Pods that a policy keeps, or that are full, are seldom alone. So later deletes in its
namespace are tried without effect first, and carried out before all others, which would go in vain.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from podium.api.events import CANNOT_EVICT
from podium.api.meta import Condition
from podium.errors import PodiumError
from podium.kube.connection import RefusedError, SilentError
from podium.kube.preconditions import LeaseOverError, StaleError
from podium.planner.liveplugin import GoneError
from podium.schedulerplugin.live.writes import Job, Writes, is_final, together
from podium.schedulerplugin.scheduling.effects import Evict, PodRef, RefusedVictim, Unit
from podium.schedulerplugin.scheduling.preemptions import Announcements

# How often a delete is sent, for some seconds each time, while the API server is away: about a minute.
_ROUNDS = 20
# Status codes of an API server that is away (_AWAY). From _TROUBLE on, the write may or may not have been
# done.
_TROUBLE, _AWAY = 500, (502, 503, 504)

# Returns the reason why the preemption is no longer wanted; empty if it is still wanted.
Still = Callable[[], Awaitable[str]]


class Carried(NamedTuple):
    """The result of one preemption: the deleted pods, and in one line why it stopped (empty if it did not).

    `error` is true if a write failed; it is false for a preemption that was no longer wanted. `unsure` is
    true if other victims may be terminating too, because a delete got no answer. That delete may be of the
    attempt that this one repeats. It is false once a delete was sent again in vain, because another plan may
    then cost no more. `still_marked` are pods that stay, and whose marks could not be withdrawn. `refused`
    are the victims whose eviction failed.
    """

    deleted: tuple[PodRef, ...]
    failed: str = ""
    error: bool = False
    unsure: bool = False
    still_marked: tuple[PodRef, ...] = ()
    refused: tuple[RefusedVictim, ...] = ()


class Conditions(NamedTuple):
    """The conditions to write in this preemption; None where there is nothing to write or the pod is gone.

    `waiting` goes with a nomination. `target` is DisruptionTarget True (None: the victim has it already), and
    `withdrawn` is DisruptionTarget False. `group` marks a group, and returns whether the API server took the
    write. `requested` is the time that a victim gets that is asked to save its work.
    """

    waiting: Callable[[PodRef], Condition | None]
    target: Callable[[PodRef], Condition | None]
    withdrawn: Callable[[PodRef], Condition | None]
    group: Callable[[Unit], Awaitable[bool]]
    requested: str = ""


async def carry_out(
    evict: Evict, first: Announcements, writes: Writes, conditions: Conditions, *, still: Still
) -> Carried:
    """Write the announcements (`first`) and delete the victims; `still` is called before the first delete.

    A victim that is gone counts as deleted. A nomination of another pod that is not cleared stops nothing.
    A preemptor's pod that is gone is a failure: nothing is evicted for a preemptor that no longer exists.
    Nominations and the marks of groups stay in every case; the caller removes them. If it is cancelled, the
    record stays for the next leader.
    """
    return await _PreemptionTask(evict, first, writes, conditions).carry_out(still)


class _PreemptionTask:
    def __init__(self, evict: Evict, first: Announcements, writes: Writes, conditions: Conditions) -> None:
        self._evict = evict
        self._first = first
        self._writes = writes
        self._conditions = conditions
        # Victims with a mark that are not known to be deleted, gone or unmarked.
        self._marked: dict[PodRef, None] = {}
        self._gone: set[PodRef] = set()
        self._deleted: list[PodRef] = []
        self._still_marked: list[PodRef] = []
        self._refused: list[RefusedVictim] = []
        self._asked = self._unanswered = False

    async def carry_out(self, still: Still) -> Carried:
        failed = await self._all(self._announcements())
        unwanted = "" if failed is not None else await still()
        if failed is None and not unwanted:
            failed = await self._delete_all()
        if failed is not None or unwanted:
            await self._unmark()
        final = next((refusal for refusal in self._refused if refusal.final), None)
        why = unwanted if failed is None else str(failed)
        if final is not None:
            why = f"pod {final.pod.namespace}/{final.pod.name} {CANNOT_EVICT}{final.why}"
        unsure = not self._asked if self._evict.again else self._unanswered
        return Carried(
            tuple(self._deleted),
            why,
            error=failed is not None,
            unsure=unsure,
            still_marked=tuple(self._still_marked),
            refused=tuple(self._refused),
        )

    async def _delete_all(self) -> PodiumError | None:
        """Delete the victims: first those that may stay, last a single one; return the first error."""
        ranks = dict.fromkeys(self._evict.refused, 0) | dict.fromkeys(self._evict.doubted, 1)
        left = [pod for pod in self._evict.victims if pod not in self._gone]
        victims = sorted(left, key=lambda pod: ranks.get(pod, 2))
        stages = [[pod for pod in victims[:-1] if ranks.get(pod, 2) == rank] for rank in range(3)]
        jobs = [[self._deletion(pod) for pod in stage] for stage in (*stages, victims[-1:])]
        for stage in ([self._trial(pod) for pod in victims if pod in ranks], *jobs):
            failed = await self._all(stage)
            if failed is not None:
                return failed
        return None

    def _announcements(self) -> list[Job]:
        nominations = [self._nomination(pod, node) for pod, node in self._first.nominations]
        clears = [self._clear(pod) for pod in self._evict.cleared]
        groups = [self._mark_group(unit) for unit in self._first.groups]
        return [*nominations, *clears, *groups, *(self._mark(pod) for pod in self._first.marks)]

    def _nomination(self, pod: PodRef, node: str) -> Job:
        async def nominate() -> None:
            try:
                await self._writes.nominate(pod, node, self._conditions.waiting(pod))
            except PodiumError as error:
                if not is_final(error):
                    raise

        return nominate

    def _clear(self, pod: PodRef) -> Job:
        async def clear() -> None:
            try:
                await self._writes.nominate(pod, None, None)
            except LeaseOverError:
                raise
            except PodiumError:
                # Its scheduler has reserved the node for others already; kube-scheduler goes on, too.
                pass

        return clear

    def _mark(self, pod: PodRef) -> Job:
        async def work() -> None:
            self._marked[pod] = None
            condition = self._conditions.target(pod)
            if condition is None:
                return
            try:
                requested = self._conditions.requested if pod in self._first.asked else ""
                await self._writes.mark(pod, condition, requested=requested)
            except GoneError:
                self._gone.add(pod)
            except PodiumError as error:
                final = is_final(error) or pod in self._evict.refused
                if isinstance(error, LeaseOverError) or not final:
                    self._note_failure(pod, error)
                    raise
            else:
                return
            self._marked.pop(pod, None)

        return work

    def _mark_group(self, unit: Unit) -> Job:
        async def work() -> None:
            if not await self._conditions.group(unit):
                failed = await self._all([self._mark(pod) for pod in unit.pods])
                if failed is not None:
                    raise failed

        return work

    def _trial(self, pod: PodRef) -> Job:
        async def judge() -> None:
            try:
                await self._writes.try_delete(pod)
            except PodiumError as error:
                # Any other error is the delete's to judge.
                if is_final(error):
                    self._note_failure(pod, error)
                    raise

        return judge

    def _deletion(self, pod: PodRef) -> Job:
        async def work() -> None:
            self._asked = True
            try:
                await self._delete(pod)
            except PodiumError as error:
                answered = isinstance(error, RefusedError) and (error.code < _TROUBLE or is_final(error))
                self._unanswered |= not answered
                self._note_failure(pod, error)
                raise
            self._marked.pop(pod, None)
            self._deleted.append(pod)

        return work

    def _note_failure(self, pod: PodRef, error: PodiumError) -> None:
        """Record that the eviction of a pod failed."""
        if not isinstance(error, LeaseOverError):
            why = error.message if isinstance(error, RefusedError) else str(error)
            self._refused.append(RefusedVictim(pod, why, is_final(error)))

    async def _delete(self, pod: PodRef) -> None:
        for left in reversed(range(_ROUNDS)):
            try:
                await self._writes.delete(pod)
            except LeaseOverError:
                raise
            except PodiumError as error:
                answered = isinstance(error, RefusedError | StaleError) and not _is_away(error)
                # Silence has lasted for about a minute by now.
                if answered or isinstance(error, SilentError) or not left:
                    raise
            else:
                return

    async def _unmark(self) -> None:
        """Withdraw the marks of the victims that stay, without waiting for a server that is away."""

        def job(pod: PodRef) -> Job:
            async def work() -> None:
                condition = self._conditions.withdrawn(pod)
                if condition is None:
                    return
                try:
                    if not self._still_marked:
                        await self._writes.mark(pod, condition)
                        return
                except GoneError:
                    return
                except PodiumError:
                    pass
                self._still_marked.append(pod)

            return work

        await self._all([job(pod) for pod in self._marked])

    async def _all(self, jobs: list[Job]) -> PodiumError | None:
        return await together(jobs, self._writes.limit)


def _is_away(error: PodiumError) -> bool:
    return isinstance(error, RefusedError) and error.code in _AWAY and not is_final(error)
