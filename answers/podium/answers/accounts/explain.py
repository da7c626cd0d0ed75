"""Build the report on one pod or group: its state, effective priority, reasons for waiting, and evictions.

Pure: the input is a WhyInput, the result an Account. The account names the unread kinds, so missing data is
not taken for good news. A report needs only the namespace of the queried object and the cluster's classes.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from podium.answers.accounts.disruptions import STORED, Victim, departures, gains
from podium.answers.accounts.effectivepriority import JudgedGroup, PriorityRules, of_group, of_pod
from podium.answers.accounts.model import (
    Account,
    By,
    Counted,
    Departure,
    EvictionPreemptor,
    Of,
    Prospect,
    RunState,
    Subject,
    Wait,
)
from podium.answers.accounts.pending import (
    CLAIM_UNUSABLE,
    NOT_READ,
    MissingInput,
    Pending,
    claim_waits,
    waits,
    with_claims,
)
from podium.answers.accounts.reservations import Surroundings, fits_now, reserved_waits, selected_waits
from podium.api.claims import claim_names
from podium.api.core import Pod
from podium.api.findings import ObjectRef
from podium.api.foreigngroups import ForeignKey, foreign_key
from podium.api.groups import FIRST_SCHEDULED, CompositeGroup, DisruptionMode, PodGroup
from podium.api.membership import GroupKey, key_of, membership
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.audit.gangs import foreign_shortage
from podium.audit.members import policy_fix, priority_fix
from podium.audit.survey import topmost_owners
from podium.cluster.reader import Child, ClusterReader, Target, foreign_keys
from podium.documents.reading import Known, Past
from podium.groups.divergence import measure_divergence
from podium.groups.planned import paused_owner
from podium.groups.trees import group_at, lineage, members_below, root_key, tree, unlike_groups
from podium.history.evictioncycles import identity_of_group, workload_of
from podium.history.trust import FAILURES, declares, distrusted
from podium.planner.engine import Engine, MakeEngine
from podium.planner.preemption.inflight import DISRUPTION_TARGET, stored_nomination
from podium.planner.preemption.outcome import Plan
from podium.planner.preemption.target import Blocker, PlacementTarget, Unplaceable
from podium.text import count, listed

# Maximum number of node reasons in a prospect: they fit one line, and the first apply to most nodes.
_REASONS = 5
# Under these the pod was not evicted.
_STAYS = (By.PODIUM_OBSERVED, By.PODIUM_REFUSED)
_DEVICES = {Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE}


class WhyInput(NamedTuple):
    """The data read for the report on one pod or group, at the time `now`.

    `view` holds at least its namespace, except for the kinds in `unread`, and `cluster` the whole cluster,
    None if only a part was read. `known` says for which namespaces names may be shown, and `name_of` finds a
    preemptor by its UID. `unknown` lists what could not be read, each with the reason. `minor` is the minor
    version of the engine's arithmetic; `engine` makes an engine for a view. `settings` names the settings in
    `rules` and their source. `owners_read` says whether `view` has the owners of pods.
    """

    view: ClusterReader
    unread: frozenset[str]
    past: Past
    known: Known
    name_of: Callable[[str], EvictionPreemptor | None]
    unknown: tuple[str, ...]
    rules: PriorityRules
    minor: int
    now: datetime
    cluster: ClusterReader | None = None
    engine: MakeEngine = Engine
    settings: str = ""
    owners_read: bool = True


def explain_target(target: Target, reading: WhyInput) -> Account | None:
    """Return the report on a pod (namespace, name) or a group, or None if no source mentions it."""
    if isinstance(target, GroupKey):
        return _of_group(target, reading)
    pod = reading.view.pods.get(target)
    if pod is None:
        return _gone(Victim("Pod", *target), reading)
    assert isinstance(pod, Schedulable), "the view holds what scheduling reads"
    return _of_pod(pod, reading)


def wants_room(account: Account) -> bool:
    """Return whether only room in the cluster is missing, so that a plan would add information."""
    blockers = (*Blocker, NOT_READ, CLAIM_UNUSABLE)
    return account.state is RunState.WAITING and not any(wait.cause in blockers for wait in account.waiting)


def unnamed(account: Account) -> bool:
    """Return whether a preemptor in the report is known by its UID only."""
    return any(
        departure.preemptor is not None and not departure.preemptor.name for departure in account.departures
    )


def namespaces(account: Account) -> set[str]:
    """Return the other namespaces that the report names."""
    mentioned = {
        departure.preemptor.namespace for departure in account.departures if departure.preemptor is not None
    }
    return mentioned - {"", account.object.namespace}


def prospect(plan: Plan) -> Prospect:
    """Return the outcome of a plan in numbers; only `podium whatif` names the victims."""
    return Prospect(
        semantics=plan.semantics,
        outcome=plan.outcome,
        message=plan.message,
        units=len(plan.victims),
        pods=sum(len(unit.pods) for unit in plan.victims),
        nodeReasons=tuple(f"{count(node.count, 'node')}: {node.reason}" for node in plan.nodes[:_REASONS]),
    )


def names(views: Iterable[ClusterReader]) -> Callable[[str], EvictionPreemptor | None]:
    """Return a function that finds pods and groups by UID in the views."""
    preemptors: dict[str, EvictionPreemptor] = {}
    for view in views:
        for (namespace, name), pod in view.pods.items():
            uid, priority = pod.metadata.uid or "", pod.spec.priority or 0
            preemptors[uid] = EvictionPreemptor(
                kind="Pod", namespace=namespace, name=name, uid=uid, priority=priority
            )
        groups: list[Child] = [*view.groups.values(), *view.composites.values()]
        for group in groups:
            uid, priority, ref = group.metadata.uid or "", group.priority or 0, group.ref
            preemptors[uid] = EvictionPreemptor(
                kind=ref.kind, namespace=ref.namespace, name=ref.name, uid=uid, priority=priority
            )
    preemptors.pop("", None)
    return preemptors.get


def state_of(pod: Schedulable) -> RunState:
    """Return the state of a pod."""
    if pod.finished:
        return RunState.FINISHED
    target = pod.status.condition(DISRUPTION_TARGET) if pod.status is not None else None
    if pod.metadata.deletionTimestamp is not None or (target is not None and target.status == "True"):
        return RunState.LEAVING
    if not pod.spec.nodeName:
        return RunState.WAITING
    pending = pod.status is not None and pod.status.phase == "Pending"
    return RunState.STARTING if pending else RunState.RUNNING


def group_state(by_state: Mapping[RunState, Sequence[Pod]], group: Child | None) -> RunState:
    """Return the state of a group: waiting if any member waits, or if it is a gang without members."""
    for state in (
        *(RunState.WAITING, RunState.STARTING, RunState.RUNNING),
        *(RunState.LEAVING, RunState.FINISHED),
    ):
        if by_state.get(state):
            return state
    return RunState.EMPTY if group is not None and _least(group) is None else RunState.WAITING


def _of_pod(pod: Schedulable, reading: WhyInput) -> Account:
    view = reading.view
    name = (pod.metadata.namespace or "", pod.metadata.name or "")
    key = membership(pod, native_served=view.native_served)
    group = view.groups.get(key) if key is not None else None
    workload = workload_of(view, pod)
    victims = [Victim("Pod", *name, pod.metadata.uid or "", workload)]
    if group is not None and key is not None:
        groups: list[Child] = [group, *lineage(view, group).above]
        for above in groups:
            uid = above.metadata.uid or ""
            victims.append(Victim(above.ref.kind, key.namespace, above.ref.name, uid, workload, Of.GROUP))
    gone = departures([pod], group, victims, reading.past, reading.known, reading.name_of)
    state = state_of(pod)
    judged = _judged(group, reading) if group is not None else None
    fix = (judged.fix if judged is not None else "") or _tree_fix(view, group)
    peers = list(view.members(key).values()) if key is not None else ()
    unbound = _provisioning([pod], reading)
    pending = Pending([pod], None, fix, unbound, peers, tree=_tree_of(view, group))
    waiting = _waits(name, pending, victims, reading) if state is RunState.WAITING else ()
    foreign = foreign_key(pod) if key is None else None
    if waiting and foreign is not None:
        waiting = (*_foreign_waits(foreign, reading), *waiting)
    subject = Subject(
        kind="Pod",
        namespace=name[0],
        name=name[1],
        uid=pod.metadata.uid or "",
        about=tuple(_about(pod, key, reading)),
    )
    counted = of_pod(pod, judged or _groupless(pod, key, reading), reading.rules)
    return _account(subject, state, counted, waiting, gone, victims, reading)


def _of_group(key: GroupKey, reading: WhyInput) -> Account | None:
    view = reading.view
    root, members = group_at(view, key), list(members_below(view, key))
    group = view.groups.get(key)
    uid = (root.metadata.uid if root is not None else None) or ""
    workload = identity_of_group(root) if root is not None else None
    victim = Victim(key.kind, key.namespace, key.name, uid, workload)
    if root is None and not members:
        return _of_foreign_group(key, reading) or _gone(victim, reading)
    pods = [pod for pod in members if isinstance(pod, Schedulable)]
    by_state: dict[RunState, list[Schedulable]] = defaultdict(list)
    for pod in pods:
        by_state[state_of(pod)].append(pod)
    judged = _judged(group, reading) if group is not None else None
    fix = (judged.fix if judged is not None else "") or _tree_fix(view, root)
    waiting_pods = by_state[RunState.WAITING]
    unbound = _provisioning(waiting_pods, reading)
    paused = None if waiting_pods else paused_owner(view, key)
    pending = Pending(waiting_pods, root, fix, unbound, members, paused, _tree_of(view, root))
    victims = [
        victim,
        *(
            Victim(below.ref.kind, key.namespace, below.ref.name, below.metadata.uid or "", workload)
            for below in (tree(view, key) if key.composite else ())
            if below is not root
        ),
        *(Victim("Pod", key.namespace, pod.metadata.name or "", pod.metadata.uid or "") for pod in pods),
    ]
    gone = departures(pods, group, victims, reading.past, reading.known, reading.name_of)
    state = group_state(by_state, root)
    waiting = _waits(key, pending, victims, reading) if state is RunState.WAITING else ()
    subject = Subject(
        kind=key.kind,
        namespace=key.namespace,
        name=key.name,
        uid=uid,
        about=(*_about_group(root, by_state), *(_about_saving(view, pods[0]) if pods else ())),
    )
    counted = of_group(judged, reading.rules) if judged is not None else None
    return _account(subject, state, counted, waiting, gone, victims, reading)


def _of_foreign_group(named: GroupKey, reading: WhyInput) -> Account | None:
    """Return the report on a group of another project; None if there is none of this name."""
    view = reading.view
    key = next(
        (foreign for foreign in foreign_keys(view) if (foreign.namespace, foreign.name) == named.qualified),
        None,
    )
    if key is None:
        return None
    pods = [pod for pod in _foreign_members(key, view) if isinstance(pod, Schedulable)]
    by_state: dict[RunState, list[Schedulable]] = defaultdict(list)
    for pod in pods:
        by_state[state_of(pod)].append(pod)
    victims = [Victim("Pod", key.namespace, pod.metadata.name or "", pod.metadata.uid or "") for pod in pods]
    gone = departures(pods, None, victims, reading.past, reading.known, reading.name_of)
    state = group_state(by_state, None) if pods else RunState.EMPTY
    waiting: list[Wait] = []
    if state is RunState.WAITING:
        pending = Pending(by_state[RunState.WAITING])
        waiting = [*_foreign_waits(key, reading), *waits(pending, None, ())]
    group = view.foreign_groups.get(key)
    subject = Subject(
        kind="PodGroup",
        namespace=key.namespace,
        name=key.name,
        uid=(group.metadata.uid if group is not None else None) or "",
        about=(*_about_group(None, by_state), f"of {key.kind.project} ({_foreign_size(key, reading)})"),
    )
    return _account(subject, state, None, waiting, gone, victims, reading)


def _foreign_waits(key: ForeignKey, reading: WhyInput) -> Iterator[Wait]:
    """Yield that a group of another project is short of pods."""
    group = reading.view.foreign_groups.get(key)
    short = foreign_shortage(group, _foreign_members(key, reading.view)) if group is not None else None
    if short is not None:
        yield Wait(cause=Blocker.TOO_FEW, message=short.message, fix=short.fix)


def _foreign_members(key: ForeignKey, view: ClusterReader) -> list[Pod]:
    return [pod for pod in view.pods.values() if foreign_key(pod) == key]


def _foreign_size(key: ForeignKey, reading: WhyInput) -> str:
    """Return the API group and the size of a group of another project, or why the size is not known."""
    group = reading.view.foreign_groups.get(key)
    if group is not None:
        return f"{group.object_ref.group}, minMember {group.min_member}"
    unread = reading.view.unread.get(Kind.FOREIGN_GROUP)
    return f"{key.ref.group}, {unread or 'which does not exist'}"


def _gone(victim: Victim, reading: WhyInput) -> Account | None:
    """Return the report on an object that does not exist, from events and records; None if there are none."""
    victims = [victim]
    gone = departures((), None, victims, reading.past, reading.known, reading.name_of)
    gone_subject = Subject(kind=victim.kind, namespace=victim.namespace, name=victim.name)
    account = _account(gone_subject, RunState.GONE, None, (), gone, victims, reading)
    return account if account.departures or account.gains else None


def _account(  # noqa: PLR0917 - the parts of an account, in its order
    subject: Subject,
    state: RunState,
    counted: Counted | None,
    waiting: Sequence[Wait],
    gone: tuple[Departure, ...],
    victims: Sequence[Victim],
    reading: WhyInput,
) -> Account:
    return Account(
        object=subject,
        state=state,
        summary=_summary(subject, state, waiting, gone),
        since=next((wait.since for wait in waiting if wait.since), ""),
        priority=counted,
        waiting=tuple(waiting),
        departures=gone,
        gains=gains(victims, reading.past.records),
        unknown=reading.unknown,
        settings=reading.settings,
    )


def _waits(
    target: Target, pending: Pending, victims: Iterable[Victim], reading: WhyInput
) -> tuple[Wait, ...]:
    view = reading.view
    verdict = _verdict(target, pending, reading)
    uids = {victim.uid for victim in victims} - {""}
    around = _surroundings(reading, needed=bool(pending.provisioning))
    reserved = list(reserved_waits(target, _placed_together(target, pending, view), uids, around))
    engine = around.engine
    if engine is not None and isinstance(verdict, PlacementTarget) and not fits_now(engine, verdict):
        # The scheduler asks for a volume only after it has found room on the node.
        reserved += selected_waits(pending.provisioning, pending.pods[0].metadata.namespace or "")
        pending = pending._replace(provisioning={})
    reasons = list(waits(pending, verdict, reserved))
    return tuple(with_claims(reasons, claim_waits(pending.pods, view, reading.unread)))


def _placed_together(target: Target, pending: Pending, view: ClusterReader) -> Sequence[Schedulable]:
    """Return the pods that wait with those of a target: of its group and tree."""
    native = view.native_served
    key = target if isinstance(target, GroupKey) else membership(pending.pods[0], native_served=native)
    if key is None or group_at(view, key) is None:
        return pending.pods
    members = members_below(view, root_key(view, key))
    return [pod for pod in members if pod.pending and isinstance(pod, Schedulable)]


def _surroundings(reading: WhyInput, *, needed: bool) -> Surroundings:
    """Return what decides on reservations; an engine is made only if it is needed, or a pod has one."""
    view = reading.view if reading.cluster is None else reading.cluster
    pods = (pod for pod in view.pods.values() if isinstance(pod, Schedulable))
    needed = reading.cluster is not None and (needed or any(map(stored_nomination, pods)))
    engine = reading.engine(view, reading.rules.settings, reading.minor) if needed else None
    return Surroundings(view, engine, reading.past.events, reading.known, reading.now)


def _verdict(
    target: Target, pending: Pending, reading: WhyInput
) -> PlacementTarget | Unplaceable | MissingInput:
    """Return the engine's verdict, or Unread if something it depends on was not read."""
    view, pods = reading.view, pending.pods
    native = view.native_served
    key = target if isinstance(target, GroupKey) else membership(pods[0], native_served=native)
    if key is not None and not key.composite and key not in view.groups and Kind.POD_GROUP in reading.unread:
        return MissingInput("its group was", "podgroups")
    if key is not None and Kind.COMPOSITE_GROUP in reading.unread and root_key(view, key).composite:
        return MissingInput("its composite group was", "compositepodgroups")
    if isinstance(target, GroupKey) and group_at(view, target) is None:
        named = f"{count(len(pods), 'pod')} name{'s' if len(pods) == 1 else ''} it"
        return Unplaceable(f"{named}, but the group does not exist", Blocker.GROUP_MISSING)
    verdict = reading.engine(view, reading.rules.settings, reading.minor).placement_target(target)
    if not isinstance(verdict, Unplaceable) or verdict.cause is not Blocker.NOT_JUDGED:
        return verdict
    if any(map(claim_names, pods)) and reading.unread & {Kind.CLAIM, Kind.VOLUME, Kind.STORAGE_CLASS}:
        return MissingInput(
            "its volumes were", "persistentvolumeclaims, persistentvolumes and storageclasses"
        )
    if any(pod.spec.resourceClaims for pod in pods) and reading.unread & _DEVICES:
        return MissingInput(
            "its resource claims or devices were", "resourceclaims, deviceclasses and resourceslices"
        )
    return verdict


def _provisioning(pods: Iterable[Schedulable], reading: WhyInput) -> dict[str, str]:
    """Return the unbound claims of pods that have a selected node, with the nodes."""
    claims = reading.view.claims
    names = (claim for pod in pods for claim in claim_names(pod))
    existing = ((name, claims[name]) for name in names if name in claims)
    return {
        claim: volume_claim.selected_node
        for (_, claim), volume_claim in existing
        if volume_claim.selected_node and not volume_claim.bound
    }


def _tree_of(view: ClusterReader, group: Child | None) -> list[Child]:
    """Return a group and its ancestors, nearest first, then the other groups of their tree."""
    if group is None:
        return []
    above = [group, *lineage(view, group).above]
    return [*above, *(child for child in tree(view, key_of(above[-1])) if child not in above)]


def _tree_fix(view: ClusterReader, group: Child | None) -> str:
    """Return the fix for groups of a tree that do not match, empty if they match."""
    root = lineage(view, group).root if group is not None else None
    if isinstance(root, CompositeGroup) and any(unlike_groups(view, root, None)):
        return "recreate the groups of the tree that do not match: podium audit lists them"
    return ""


def _judged(group: PodGroup, reading: WhyInput) -> JudgedGroup:
    view = reading.view
    members = view.members(key_of(group)).values()
    divergence = measure_divergence(group, members, view.classes)
    staying = [pod for pod in members if not pod.finished and pod.metadata.deletionTimestamp is None]
    # Without the owners of owners, the fix would name a ReplicaSet where the Deployment must be edited.
    owners_of = functools.partial(topmost_owners, view) if reading.owners_read else _no_owners
    fix = ""
    if divergence.priority.divergent:
        fix, _ = priority_fix(view, group, divergence, staying, owners_of)
    elif divergence.policy.divergent:
        fix = policy_fix(divergence, staying, owners_of)
    return JudgedGroup(group, divergence, fix)


def _no_owners(_pods: Iterable[Pod]) -> list[ObjectRef]:
    return []


def _groupless(pod: Pod, key: GroupKey | None, reading: WhyInput) -> str:
    """Return the reason why only the pod's own priority is used."""
    foreign = foreign_key(pod) if key is None else None
    if foreign is not None:
        project = foreign.kind.project
        return f"its PodGroup is of {project}: for kube-scheduler and Podium its own priority counts"
    if key is None:
        return "it is in no group: its own priority counts"
    if Kind.POD_GROUP in reading.unread:
        return "its group was not read, so whether its own priority counts is not known"
    return "its group does not exist: its own priority counts until it does"


def _about(pod: Schedulable, key: GroupKey | None, reading: WhyInput) -> Iterable[str]:
    if pod.spec.nodeName:
        began = (pod.status.startTime if pod.status is not None else None) or ""
        yield f"on node {pod.spec.nodeName}{f' since {began}' if began else ''}"
    yield f"scheduled by {pod.scheduler}"
    owner = pod.metadata.controller()
    if owner is not None:
        yield f"created by {owner.kind} {pod.metadata.namespace}/{owner.name}"
    yield from _about_saving(reading.view, pod)
    foreign = foreign_key(pod) if key is None else None
    if foreign is not None:
        number = len(_foreign_members(foreign, reading.view))
        yield (
            f"member of PodGroup {foreign.namespace}/{foreign.name} of {foreign.kind.project} "
            f"({_foreign_size(foreign, reading)}; {count(number, 'pod')})"
        )
    if key is not None:
        group = reading.view.groups.get(key)
        none = "was not read" if Kind.POD_GROUP in reading.unread else "does not exist"
        about = _size(group) if group is not None else none
        yield f"member of PodGroup {key.namespace}/{key.name} ({about})"
        root = root_key(reading.view, key)
        if root.composite:
            yield f"placed together with the tree of CompositePodGroup {root.namespace}/{root.name}"


def _about_saving(view: ClusterReader, pod: Schedulable) -> Iterator[str]:
    """Yield that what a pod declares about its work does not count."""
    if distrusted(view, pod) and declares(view, pod):
        yield (
            f"declares to save its work, but failed to {FAILURES} times in a row, so its eviction costs as "
            "much as without that (docs/saving.md)"
        )


def _about_group(group: Child | None, by_state: Mapping[RunState, Sequence[Schedulable]]) -> Iterable[str]:
    words = {
        RunState.RUNNING: ("runs", "run"),
        RunState.STARTING: ("has a node and has not started", "have a node and have not started"),
        RunState.WAITING: ("waits", "wait"),
        RunState.LEAVING: ("is terminating", "are terminating"),
        RunState.FINISHED: ("has ended", "have ended"),
    }
    pods = [pod for state in words for pod in by_state.get(state, ())]
    parts = [
        f"{len(by_state[state])} {singular if len(by_state[state]) == 1 else many}"
        for state, (singular, many) in words.items()
        if by_state.get(state)
    ]
    yield f"{count(len(pods), 'pod')}{f': {listed(parts)}' if parts else ''}"
    schedulers = sorted({pod.scheduler for pod in pods})
    if schedulers:
        yield f"scheduled by {listed(schedulers)}"
    if group is not None:
        whole = group.disruption_mode is DisruptionMode.POD_GROUP
        yield f"{_size(group)}; preempted {'as a whole' if whole else 'pod by pod'}"
        for condition in group.conditions:
            if condition.type in FIRST_SCHEDULED and condition.status == "True":
                yield f"first scheduled at {condition.lastTransitionTime}"


def _least(group: Child) -> int | None:
    return group.min_count if isinstance(group, PodGroup) else group.min_group_count


def _size(group: Child) -> str:
    name, least = "minCount" if isinstance(group, PodGroup) else "minGroupCount", _least(group)
    return f"no {name}" if least is None else f"{name} {least}"


def _summary(subject: Subject, state: RunState, waiting: Sequence[Wait], gone: Sequence[Departure]) -> str:
    """Return the report in one sentence."""
    own = next(
        (departure for departure in gone if departure.of is Of.ITSELF and departure.by not in _STAYS), None
    )
    if own is not None and state is not RunState.GONE and not STORED.intersection(own.told):
        own = None  # The group was recreated after its eviction.
    ended = "" if own is None else f": {own.words}{f' at {own.time}' if own.time else ''}"
    ended += f" for {own.preemptor}" if own is not None and own.preemptor is not None else ""
    match state:
        case RunState.WAITING if waiting:
            return f"{subject} waits: {waiting[0].message.rstrip('.')}."
        case RunState.WAITING:
            return f"{subject} waits."
        case RunState.STARTING if subject.kind == "Pod":
            return f"{subject} has a node and has not started."
        case RunState.STARTING:
            return f"{subject} has nodes, and some of its pods have not started."
        case RunState.RUNNING:
            return f"{subject} runs."
        case RunState.LEAVING:
            return f"{subject} is terminating{ended}."
        case RunState.FINISHED:
            return f"{subject} has ended{ended}."
        case RunState.EMPTY:
            return f"{subject} has no pods{ended}."
        case RunState.GONE:
            return f"{subject} no longer exists{ended}."
