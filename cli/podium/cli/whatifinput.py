"""The defaults of a plan: its time, the semantics, and the pod or group to plan for.

A dump is from the past, and a cluster's version and gates decide which pods are victims. Each default
therefore comes with a text that tells its source.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click
import msgspec

from podium.answers.audits.run import choose_minor
from podium.api.core import DEFAULT_SCHEDULER, Pod
from podium.api.devices import provided_resources
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey, membership
from podium.api.meta import instant
from podium.api.minors import WORKLOAD_VERSIONS, minor_of, nearest
from podium.api.podrequests import devices
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.api.selectors import parse_selector
from podium.api.times import written
from podium.cli.config.schedulersettings import (
    ChosenSettings,
    OverridingSettings,
    choose_settings,
    of_scheduler,
)
from podium.cli.naming import with_namespace
from podium.cli.render.whatif_words import Basis, approximation_line, target_words
from podium.cluster.reader import ClusterReader, Name, Target, foreign_keys, name_of
from podium.documents.load import NOT_IN_INPUT, NOT_SERVED, STORAGE_KINDS, Loaded
from podium.documents.scope import Scope
from podium.errors import PodiumError, PodiumUsageError
from podium.groups.trees import group_at, members_below, root_key
from podium.planner.semantics import Semantics
from podium.text import some

if TYPE_CHECKING:
    from podium.answers.expansion.expand import Expansion
    from podium.documents.document import Document

T = TypeVar("T")

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# The kinds of devices that a plan reads: kube-controller-manager creates claims from templates before it.
PLANNED_DEVICES = (Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE)
# The kinds that a plan reads beside nodes, STORAGE_KINDS and PLANNED_DEVICES.
_PLANNED_WITH = (
    *(Kind.POD, Kind.POD_GROUP, Kind.COMPOSITE_GROUP),
    *(Kind.PRIORITY_CLASS, Kind.BUDGET, Kind.NAMESPACE),
)
# The minor that each kube-scheduler release uses for its arithmetic.
_NAMED_MINORS = {Semantics.V1_36: 36, Semantics.V1_37: 37}
# Maximum number of pending groups and pods in an error.
_NAMED = 5


class PlanTime(NamedTuple):
    """The time of a plan, in UTC, and its source."""

    at: datetime
    why: str

    @property
    def text(self) -> str:
        """Return the time in RFC 3339, as in objects."""
        return written(self.at)


class ChosenSemantics(NamedTuple):
    """The semantics, how they were chosen, and the minor for the arithmetic.

    `approximates` is the scheduler that the plan is for, if its own rules are not known.
    """

    semantics: Semantics
    why: str
    minor: int
    approximates: str = ""


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
        (at, at_why), (semantics, why, _, other), unknown = self.moment, self.rules, self.unknown
        settings, approximation = self.chosen.sentence, approximation_line(other)
        return Basis(semantics, why, written(at), at_why, source, unknown, settings, approximation)


def moment(asked: str | None, loaded: Loaded, clock: datetime, *, live: bool) -> PlanTime:
    """Return the time: as requested, now for a live cluster, else the newest in the input.

    Raises click.UsageError for an invalid time.
    """
    if asked is not None:
        parsed = _parsed(asked)
        if parsed is None:
            raise click.UsageError(f"--now: {asked!r} is not a time, such as 2026-01-31T12:00:00Z.")
        return PlanTime(parsed, "set by --now")
    if live:
        return PlanTime(clock, "the time of reading")
    for text in sorted({*_times(loaded.state), *_written(*loaded.event_times)}, reverse=True):
        newest = _parsed(text)
        if newest is not None:
            return PlanTime(newest, "the newest time in the input")
    return PlanTime(clock, "now, because the input has no time")


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
            *(each.lastTransitionTime for each in (status.conditions if status else None) or ())
        )
    for node in view.nodes.values():
        conditions = (node.status.conditions if node.status is not None else None) or ()
        yield from _written(*(each.lastTransitionTime for each in conditions))
    for objects in (view.groups, view.nodes, view.budgets, view.classes):
        yield from _written(*(each.metadata.creationTimestamp for each in objects.values()))


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
    known = minor_of(nearest(served, WORKLOAD_VERSIONS))
    assert known is not None
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


def choose_rules(asked: str | None, target: Target, loaded: Loaded, *, live: bool) -> ChosenSemantics:
    """Return the semantics: as requested, Podium's scheduler's for its pods, else the cluster's own."""
    minor, version = server_minor(loaded)
    name = scheduler(target, loaded.state)
    own = of_scheduler(name, loaded)
    other = name if own is None and name != DEFAULT_SCHEDULER else ""
    if asked is not None:
        semantics = Semantics(asked)
        return ChosenSemantics(semantics, "set by --semantics", _NAMED_MINORS.get(semantics, minor), other)
    if own is not None:
        semantics = own.live.engine.semantics
        why = f"its scheduler is {name}" if semantics is Semantics.KEP else f"{own.source}, for {name}"
        return ChosenSemantics(semantics, why, _NAMED_MINORS.get(semantics, minor))
    closed = workload_api(loaded, live=live)
    if closed is not None:
        return ChosenSemantics(Semantics.PODS, closed, minor, other)
    return ChosenSemantics(Semantics(f"1.{minor}"), version, minor, other)


def assume(
    target: Target,
    loaded: Loaded,
    moment: PlanTime,
    given: OverridingSettings | None = None,
    *,
    live: bool,
    semantics: str | None = None,
) -> Assumptions:
    """Return the assumptions for a target; `given` settings and `semantics` override its scheduler's."""
    rules = choose_rules(semantics, target, loaded, live=live)
    chosen = choose_settings(rules.semantics, scheduler(target, loaded.state), loaded, given)
    planned_with = (*_PLANNED_WITH, *claims_for(loaded.state.pods.values(), loaded))
    return Assumptions(moment, rules, chosen, not_known(loaded, planned_with))


def assume_moves(loaded: Loaded, moment: PlanTime, given: OverridingSettings | None) -> Assumptions:
    """Return the assumptions for moves of running pods: Podium's rules, for pods of any scheduler."""
    minor, _ = server_minor(loaded)
    rules = ChosenSemantics(Semantics.KEP, "the rules of --defragment", minor)
    chosen = choose_settings(Semantics.KEP, "", loaded, given)
    planned_with = (*_PLANNED_WITH, *claims_for(loaded.state.pods.values(), loaded))
    return Assumptions(moment, rules, chosen, not_known(loaded, planned_with))


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


def find_group(view: ClusterReader, name: Name) -> GroupKey | None:
    """Return the key of a group by name, including groups that only pods name, or None.

    Native groups come first, and composite groups last.
    """
    keys = [GroupKey(native, *name, composite) for composite in (False, True) for native in (True, False)]
    return next((key for key in keys if group_at(view, key) is not None or view.members(key)), None)


def group_names(view: ClusterReader) -> set[Name]:
    """Return the names of all groups, including groups that only pods name, and those of other projects."""
    names = {key.qualified for key in (*view.groups, *view.composites, *view.referenced_groups())}
    return names | {(key.namespace, key.name) for key in foreign_keys(view)}


def choose_targets(
    pod: Name | None, group: Name | None, added: Iterable[Target], view: ClusterReader, tenant: str | None
) -> list[Target]:
    """Return the preemptors: the named pod or group, else all that were added.

    With a `tenant` only objects in its namespace count. Raises PodiumError with the possible choices.
    """
    if pod is not None:
        pod = with_namespace("--pod", pod, view.pods)
    if group is not None:
        group = with_namespace("--group", group, group_names(view))
    named = pod or group
    if named is not None:
        target = find_group(view, named) if group is not None else named if named in view.pods else None
        if target is None:
            kind = Kind.POD_GROUP if group is not None else Kind.POD
            raise PodiumError(f"{_not_found(view, named, kind)}; {_pending(view, tenant)}")
        return [target]
    targets = [each for each in added if tenant is None or namespace_of(each) == tenant]
    if not targets:
        raise PodiumUsageError(f"no target: use --pod or --group, or -A for all; {_pending(view, tenant)}")
    return targets


def pending_targets(view: ClusterReader, scope: Scope) -> dict[Target, ObjectRef]:
    """Return the pods that wait in a scope, and the groups or trees of such pods, by name.

    Each comes with the object that its plan is counted for: the root or group, the pod's controller, or the
    pod.
    """
    selector = parse_selector(scope.selector)
    found: dict[Target, ObjectRef] = {}
    for name, pod in sorted(view.pods.items()):
        if scope.namespace not in ("", name[0]) or not pod.pending:
            continue
        if not selector.matches(pod.metadata.labels or {}):
            continue
        key = membership(pod, native_served=view.native_served)
        if key is not None:
            root = root_key(view, key)
            group = group_at(view, root)
            found[root] = group.ref if group is not None else ObjectRef("", root.kind, *root.qualified)
        else:
            owner = pod.metadata.controller()
            api, kind, own = (owner.apiVersion, owner.kind, owner.name) if owner else ("v1", "Pod", name[1])
            found[name] = ObjectRef(api, kind, name[0], own)
    return found


def find_victim(name: Name, kind: str | None, view: ClusterReader) -> Target:
    """Return a pod or group by name. Raises PodiumError, and click.UsageError if both exist."""
    pods, groups = (view.pods if kind != "group" else ()), (group_names(view) if kind != "pod" else ())
    name = with_namespace("--victim", name, (*pods, *groups))
    pod = name if name in view.pods and kind != "group" else None
    group = find_group(view, name) if kind != "pod" else None
    if pod is not None and group is not None:
        raise click.UsageError(f"--victim: {'/'.join(name)} is a pod and a PodGroup. Choose one with --kind.")
    found = pod or group
    if found is None:
        kinds = {"pod": (Kind.POD,), "group": (Kind.POD_GROUP,)}
        raise PodiumError(_not_found(view, name, *kinds.get(kind or "", (Kind.POD, Kind.POD_GROUP))))
    return found


def check_group(target: Target, view: ClusterReader, semantics: Semantics) -> None:
    """Raise PodiumError for members of a group that may exist and was not read.

    If the cluster serves no PodGroups, the group does not exist, and the engine reports that.
    """
    if isinstance(target, GroupKey):
        key: GroupKey | None = target
    else:
        pod = view.pods.get(target) if semantics is not Semantics.PODS else None
        key = membership(pod, native_served=view.native_served) if pod is not None else None
    if key is None or key.composite or key in view.groups:
        return
    if view.unread.get(Kind.POD_GROUP, NOT_SERVED) == NOT_SERVED:
        return
    prefix = "" if isinstance(target, GroupKey) else f"{target_words(target)} is in a group, but "
    missing = _not_found(view, key.qualified, Kind.POD_GROUP)
    raise PodiumError(f"{prefix}{missing}; add podgroups to the input, or get permission to list them")


def _not_found(view: ClusterReader, name: Name, *kinds: Kind) -> str:
    """Return that no object of these kinds has the name, with the kinds that were not read and why."""
    foreign = next((each for each in foreign_keys(view) if (each.namespace, each.name) == name), None)
    if foreign is not None and Kind.POD_GROUP in kinds:
        return (
            f"{foreign.ref} is of {foreign.kind.project}, whose groups have no plan. podium why group tells "
            "what it waits for, and --pod plans one of its pods"
        )
    unread = "; ".join(f"{kind}: {view.unread[kind]}" for kind in kinds if kind in view.unread)
    what = " or ".join(kind.lower() if kind is Kind.POD else kind for kind in kinds)
    return f"{what} {'/'.join(filter(None, name))} not found{f' ({unread})' if unread else ''}"


def namespace_of(target: Target) -> str:
    """Return the namespace of a preemptor."""
    return target.namespace if isinstance(target, GroupKey) else target[0]


def _pending(view: ClusterReader, tenant: str | None) -> str:
    """Return some of the pending groups and pods in words."""
    targets = pending_targets(view, Scope(tenant or ""))
    groups = {"/".join(each.qualified) for each in targets if isinstance(each, GroupKey)}
    pods = {"/".join(each) for each in targets if not isinstance(each, GroupKey)}
    parts = [
        f"pending {what}: {some(names, _NAMED)}"
        for what, names in (("groups", groups), ("pods", pods))
        if names
    ]
    return "; ".join(parts) or f"no pod is pending{f' in {tenant}' if tenant is not None else ''}"


def check_whole(loaded: Loaded) -> None:
    """Raise PodiumError if a plan for the input would be wrong, as for a part of the cluster."""
    if loaded.scope.partial:
        part = loaded.scope.partial
        raise PodiumError(f"the input holds {part}; a plan needs all pods of the cluster (podium dump -A)")
    unread = loaded.state.unread
    for kind in (Kind.NODE, Kind.POD):
        why = unread.get(kind)
        if why is not None and why != NOT_IN_INPUT:
            raise PodiumError(f"a plan needs every {kind}: {why}")
    if Kind.NODE in unread or not loaded.state.nodes:
        raise PodiumUsageError("the input has no nodes. Add them with -f")


def claims_for(pods: Collection[Pod], loaded: Loaded) -> tuple[Kind, ...]:
    """Return the kinds of volumes and devices that the answer for some pods needs, if it lacks any."""
    return (*storage_for(pods, loaded), *devices_for(pods, loaded))


def storage_for(pods: Iterable[Pod], loaded: Loaded) -> tuple[Kind, ...]:
    """Return STORAGE_KINDS if one of them was not read and a pod has a claim or a disk, else no kind."""
    if not not_known(loaded, STORAGE_KINDS):
        return ()
    volumes = (each for pod in pods if isinstance(pod, Schedulable) for each in pod.spec.volumes or ())
    return STORAGE_KINDS if any(each.places for each in volumes) else ()


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
    offered = {name for each in offers for name in each or ()}
    extended = any(name in provided or name not in offered for name in devices(given))
    return PLANNED_DEVICES if extended else ()


def not_known(loaded: Loaded, kinds: Iterable[Kind]) -> list[str]:
    """Return the kinds of these that an answer lacks, each with the reason."""
    unread = loaded.state.unread
    return [f"{kind}: {unread[kind]}" for kind in kinds if unread.get(kind, NOT_SERVED) != NOT_SERVED]


def expanded(
    documents: "Iterable[Document]", loaded: Loaded, moment: PlanTime, *, strict: bool = False
) -> "Expansion":
    """Return what documents would add to the cluster, after its own admission. Raises PodiumError."""
    from podium.answers.expansion.expand import expand  # noqa: PLC0415 - few plans add objects
    from podium.rules.admission import Profile  # noqa: PLC0415 - as above

    minor, _ = server_minor(loaded)
    profile = Profile(kubernetes=f"1.{minor}", rules="podium", workload_api=loaded.state.native_served)
    return expand(documents, loaded.state, moment.text, profile, loaded.labels, strict=strict)
