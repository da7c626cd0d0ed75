"""The assumptions of a plan: its time, the semantics, and the settings of the scheduler that it is for.

A dump is from the past, and a cluster's version and gates decide which pods are victims. Each default
therefore comes with a text that tells its source.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar

import msgspec

from podium.answers.audits.run import choose_minor
from podium.answers.schedulersettings import (
    ChosenSettings,
    OverridingSettings,
    choose_settings,
    of_scheduler,
)
from podium.answers.whatifreport import Basis, ChosenSemantics
from podium.api.core import DEFAULT_SCHEDULER, Pod
from podium.api.devices import provided_resources
from podium.api.membership import GroupKey
from podium.api.meta import instant
from podium.api.minors import GROUP_MINORS, closest, minor_of
from podium.api.podrequests import devices
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.api.times import written
from podium.cluster.reader import ClusterReader, Target, name_of
from podium.documents.load import NOT_SERVED, STORAGE_KINDS, Loaded
from podium.documents.reading import ClusterReading
from podium.errors import QuestionError
from podium.groups.trees import members_below
from podium.planner.semantics import DEFAULT_SEMANTICS, Semantics

T = TypeVar("T")

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# The kinds of devices that a plan reads: kube-controller-manager creates claims from templates before it.
PLANNED_DEVICES = (Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE)
# The kinds that a plan reads beside nodes, STORAGE_KINDS and PLANNED_DEVICES.
_PLANNED_WITH = (
    *(Kind.POD, Kind.POD_GROUP, Kind.COMPOSITE_GROUP),
    *(Kind.PRIORITY_CLASS, Kind.BUDGET, Kind.NAMESPACE),
)


class PlanTime(NamedTuple):
    """The time of a plan, in UTC, and its source."""

    at: datetime
    why: str

    @property
    def text(self) -> str:
        """Return the time in RFC 3339, as in objects."""
        return written(self.at)


def set_by_argument(field: str) -> str:
    """Return how a caller in Python set a field."""
    return f"set by the argument {field}"


class Choices(NamedTuple):
    """The choices of a question; an empty field has the default of the cluster and its scheduler.

    `now` is a time, or its text in RFC 3339. `set_by` returns, for the name of a field, how it was set.
    """

    now: datetime | str | None = None
    semantics: Semantics | None = None
    settings: OverridingSettings | None = None
    set_by: Callable[[str], str] = set_by_argument


class Assumptions(NamedTuple):
    """The assumptions of an answer: the time, the semantics, and the settings of the target's scheduler.

    `unknown` lists the kinds that the answer lacks, each with the reason.
    """

    moment: PlanTime
    rules: ChosenSemantics
    chosen: ChosenSettings
    unknown: list[str]

    def basis(self, source: str) -> Basis:
        """Return the basis of an answer; `source` is the input in words."""
        (at, at_why), (semantics, why, _, foreign), unknown = self.moment, self.rules, self.unknown
        settings, approximation = self.chosen.sentence, approximation_line(foreign)
        return Basis(semantics, why, written(at), at_why, source, unknown, settings, approximation)


def approximation_line(scheduler: str) -> str:
    """Return the sentence on a scheduler whose rules are not known; empty for an empty name."""
    if not scheduler:
        return ""
    return (
        f"Approximation: the pods are for {scheduler}. Unless it is a profile of kube-scheduler, it may "
        "place and preempt otherwise."
    )


def moment(reading: ClusterReading, choices: Choices) -> PlanTime:
    """Return the time: as chosen, that of the reading for a live cluster, else the newest in the input.

    Raises QuestionError for an invalid time.
    """
    asked, loaded = choices.now, reading.near
    if asked is not None:
        parsed = asked.astimezone(UTC) if isinstance(asked, datetime) else _parsed(asked)
        if parsed is None:
            raise QuestionError("now", f"{asked!r} is not a time, such as 2026-01-31T12:00:00Z")
        return PlanTime(parsed, choices.set_by("now"))
    if reading.live:
        return PlanTime(reading.at, "the time of reading")
    for text in sorted({*_times(loaded.state), *_written(*loaded.event_times)}, reverse=True):
        newest = _parsed(text)
        if newest is not None:
            return PlanTime(newest, "the newest time in the input")
    return PlanTime(reading.at, "now, because the input has no time")


def _times(view: ClusterReader) -> Iterator[str]:
    """Yield every time of the cluster's past, as written.

    A deletionTimestamp is the end of a grace period, which began in the past.
    """
    for pod in view.pods.values():
        status = pod.status if isinstance(pod, Schedulable) else None
        yield from _written(pod.metadata.creationTimestamp, status.startTime if status is not None else None)
        due = _parsed(pod.metadata.deletionTimestamp or "")
        if due is not None:
            with suppress(OverflowError):
                yield written(due - timedelta(seconds=max(0, pod.metadata.deletionGracePeriodSeconds or 0)))
        yield from _written(
            *(condition.lastTransitionTime for condition in (status.conditions if status else None) or ())
        )
    for node in view.nodes.values():
        conditions = (node.status.conditions if node.status is not None else None) or ()
        yield from _written(*(condition.lastTransitionTime for condition in conditions))
    for objects in (view.groups, view.nodes, view.budgets, view.classes):
        yield from _written(*(stored.metadata.creationTimestamp for stored in objects.values()))


def _written(*times: str | None) -> Iterator[str]:
    return (time for time in times if time is not None and _TIME.fullmatch(time))


def _parsed(text: str) -> datetime | None:
    """Return a parsed time, or None if it is invalid or outside the years that can be written in UTC."""
    try:
        return instant(text).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        return None


def server_minor(loaded: Loaded) -> tuple[int, str]:
    """Return the nearest minor to the server's that serves the Workload API, and how it is known."""
    served = minor_of(loaded.server)
    if served is None:
        named, why = choose_minor(loaded.state)
        served = minor_of(named)
        assert served is not None
    else:
        why = f"the API server is {loaded.server}"
    known = closest(served, GROUP_MINORS)
    return known, why if known == served else f"{why}; 1.{known} is the nearest known minor"


def workload_api(loaded: Loaded, *, live: bool) -> str | None:
    """Return why the cluster does not serve the native Workload API, or None if it does.

    A live server says so itself. A dump shows it by its native groups, and by pods that name one.
    """
    state = loaded.state
    if live:
        return None if state.native_served else "the cluster does not serve the Workload API"
    if state.unread.get(Kind.POD_GROUP) == NOT_SERVED:
        return "the cluster of the dump does not serve the Workload API"
    if any(key.native for key in state.groups) or any(key.native for key in state.referenced_groups()):
        return None
    return "no object of the Workload API in the input"


def choose_rules(reading: ClusterReading, target: Target, choices: Choices) -> ChosenSemantics:
    """Return the semantics: as chosen, Podium's scheduler's for its pods, else the cluster's own."""
    loaded, semantics = reading.near, choices.semantics
    minor, version = server_minor(loaded)
    name = scheduler(target, loaded.state)
    own = of_scheduler(name, loaded)
    foreign = name if own is None and name != DEFAULT_SCHEDULER else ""
    if semantics is not None:
        set_by = choices.set_by("semantics")
        return ChosenSemantics(semantics, set_by, _named_minor(semantics, minor), foreign)
    if own is not None:
        semantics = own.live.engine.semantics
        why = f"its scheduler is {name}" if semantics is DEFAULT_SEMANTICS else f"{own.source}, for {name}"
        return ChosenSemantics(semantics, why, _named_minor(semantics, minor))
    closed = workload_api(loaded, live=reading.live)
    if closed is not None:
        return ChosenSemantics(Semantics.PODS, closed, minor, foreign)
    return ChosenSemantics(Semantics(f"1.{minor}"), version, minor, foreign)


def _named_minor(semantics: Semantics, minor: int) -> int:
    """Return the minor whose arithmetic counts: that of a kube-scheduler release, else the cluster's."""
    return minor_of(semantics) or minor


def assume(reading: ClusterReading, target: Target, at: PlanTime, choices: Choices) -> Assumptions:
    """Return the assumptions for a target; the choices override the settings of its scheduler."""
    rules = choose_rules(reading, target, choices)
    name = scheduler(target, reading.near.state)
    chosen = choose_settings(rules.semantics, name, reading.near, choices.settings)
    plugins = (f"plugin {name}: not installed here" for name in chosen.lacking)
    return Assumptions(at, rules, chosen, [*_lacking(reading.near), *plugins])


def assume_moves(reading: ClusterReading, at: PlanTime, choices: Choices) -> Assumptions:
    """Return the assumptions for moves of running pods: Podium's rules, for pods of any scheduler."""
    minor, _ = server_minor(reading.near)
    rules = ChosenSemantics(Semantics.KEP, choices.set_by("moves"), minor)
    chosen = choose_settings(Semantics.KEP, "", reading.near, choices.settings)
    return Assumptions(at, rules, chosen, _lacking(reading.near))


def _lacking(loaded: Loaded) -> list[str]:
    """Return the kinds that a plan lacks, each with the reason."""
    return not_known(loaded, (*_PLANNED_WITH, *claims_for(loaded.state.pods.values(), loaded)))


def by_scheduler(view: ClusterReader, choose: Callable[[Target], T]) -> Callable[[Target], T]:
    """Return the function that calls `choose` once for each scheduler, because only the scheduler matters."""
    known: dict[str, T] = {}

    def of(target: Target) -> T:
        name = scheduler(target, view)
        if name not in known:
            known[name] = choose(target)
        return known[name]

    return of


def scheduler(target: Target, view: ClusterReader) -> str:
    """Return the scheduler of a pod, or of the first of a group's pods by name."""
    if isinstance(target, GroupKey):
        pod = min(members_below(view, target), key=name_of, default=None)
    else:
        pod = view.pods.get(target)
    return pod.scheduler if pod is not None else DEFAULT_SCHEDULER


def claims_for(pods: Collection[Pod], loaded: Loaded) -> tuple[Kind, ...]:
    """Return the kinds of volumes and devices that the answer for some pods needs, if it lacks any."""
    return (*storage_for(pods, loaded), *devices_for(pods, loaded))


def storage_for(pods: Iterable[Pod], loaded: Loaded) -> tuple[Kind, ...]:
    """Return STORAGE_KINDS if one of them was not read and a pod has a claim or a disk, else no kind."""
    if not not_known(loaded, STORAGE_KINDS):
        return ()
    volumes = (volume for pod in pods if isinstance(pod, Schedulable) for volume in pod.spec.volumes or ())
    return STORAGE_KINDS if any(volume.places for volume in volumes) else ()


def devices_for(pods: Iterable[Pod], loaded: Loaded) -> tuple[Kind, ...]:
    """Return PLANNED_DEVICES if one of them was not read and pods may need devices of claims, else no kind.

    Such pods have claims, or request an extended resource of a class. An unread class may provide any that no
    node offers.
    """
    if not not_known(loaded, PLANNED_DEVICES):
        return ()
    given = [pod for pod in pods if isinstance(pod, Schedulable)]
    if any(pod.spec.resourceClaims for pod in given):
        return PLANNED_DEVICES
    state = loaded.state
    provided = provided_resources(state.device_classes.values())
    offers = (node.status.allocatable for node in state.nodes.values() if node.status is not None)
    offered = {name for resources in offers for name in resources or ()}
    extended = any(name in provided or name not in offered for name in devices(given))
    return PLANNED_DEVICES if extended else ()


def not_known(loaded: Loaded, kinds: Iterable[Kind]) -> list[str]:
    """Return the kinds of these that an answer lacks, each with the reason."""
    unread = loaded.state.unread
    return [f"{kind}: {unread[kind]}" for kind in kinds if unread.get(kind, NOT_SERVED) != NOT_SERVED]
