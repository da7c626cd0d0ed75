"""Asks victims to save their work before they are evicted, and says how long the eviction waits for it.

A victim that declares `saves-on-notice` is asked by its mark: the condition DisruptionTarget, and with it the
annotation SAVE_REQUESTED, which a container can read as a file of a downward-API volume. Its eviction waits
until the time of its checkpoint moves, until the declared time is over, or until it is gone. Room and victims
stay assigned to the preemptor in that time, as in any preemption under way. When the mark is withdrawn, the
annotation goes with it, and the workload may go on.

The mark is what the next leader resumes from, and the annotation says since when the victim knows. So no
victim has more time because the leader changes, and none has less.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from podium.api.meta import instant
from podium.api.priority import HIGHEST_USER_PRIORITY
from podium.api.saving import NOT_SAVED, SAVE_REQUESTED
from podium.api.schedulable import Schedulable
from podium.api.times import seconds
from podium.cluster.reader import ClusterReader
from podium.planner.preemption.inflight import is_preempted
from podium.planner.progress import declaration_of
from podium.schedulerplugin.scheduling.effects import Evict, Moment, PodRef


class Notice(NamedTuple):
    """A victim that saves its work on notice: `until` (steady seconds), and its checkpoint before that."""

    pod: PodRef
    until: float
    saved: int


def notices(view: ClusterReader, evict: Evict, longest: int, moment: Moment) -> tuple[Notice, ...]:
    """Return the victims of a preemption to ask; no time is longer than `longest` (seconds).

    Nothing that runs the cluster waits: for a preemptor of a system class no victim is asked.
    """
    if evict.preemptor.priority > HIGHEST_USER_PRIORITY:
        return ()
    return tuple(_asked(view, evict.victims, longest, moment))


def _asked(view: ClusterReader, victims: Iterable[PodRef], longest: int, moment: Moment) -> Iterator[Notice]:
    now = seconds(moment.now)
    for ref in victims:
        pod = _running(view, ref)
        if pod is None:
            continue
        work = declaration_of(view, pod)
        if work.saves_within != NOT_SAVED or work.notice > longest:
            continue
        since = _requested(pod)
        left = work.notice if since is None else min(max(since + work.notice - now, 0), work.notice)
        # A checkpoint since an earlier leader asked is the answer.
        answered = since is not None and work.saved >= since
        yield Notice(ref, moment.seconds if answered else moment.seconds + left, work.saved)


def waits(view: ClusterReader, asked: Iterable[Notice], now: float) -> bool:
    """Return whether a victim may still save its work; `now` is in steady seconds."""
    return any(
        now < notice.until
        and (pod := _running(view, notice.pod)) is not None
        and declaration_of(view, pod).saved == notice.saved
        for notice in asked
    )


def is_requested(pod: Schedulable) -> bool:
    """Return whether a pod has been asked to save its work."""
    return SAVE_REQUESTED in (pod.metadata.annotations or {})


def _running(view: ClusterReader, ref: PodRef) -> Schedulable | None:
    """Return a pod that exists and neither ends nor has ended."""
    pod = view.pods.get(ref.key)
    if not isinstance(pod, Schedulable) or pod.metadata.uid != ref.uid or pod.finished:
        return None
    return pod if pod.metadata.deletionTimestamp is None else None


def _requested(pod: Schedulable) -> int | None:
    """Return since when (seconds since 1970) a marked pod is asked, None if it is not."""
    text = (pod.metadata.annotations or {}).get(SAVE_REQUESTED) if is_preempted(pod) else None
    try:
        return seconds(instant(text)) if text else None
    except msgspec.ValidationError:
        return None
