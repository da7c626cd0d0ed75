"""Replays a recorded case on the engine, and reports how its answer differs from kube-scheduler's.

The random choices of kube-scheduler are arranged (`ties`) as its answer shows them. Then the engine must
give the same outcome, victims and nodes. For a lone pod the answer shows all choices. For a group it shows
only some, so other orders are tried too. A case is *open* if the answer depends on the order, and no order
that was tried gave kube-scheduler's answer.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from tests.support.preemption.differential.explained import (
    EXPLAINED,
    FAILED_GROUPS,
    LEAST_OF_TWO,
    failed_groups,
    members_in_plans,
    returns_beside_any_spread,
    spreads_over_victims,
    without_free_room,
)
from tests.support.preemption.differential.generator import ROLE_LABEL, Object
from tests.support.preemption.differential.recording import Header, Recorded
from tests.support.preemption.differential.ties import TieOrder, chances

from podium.api.core import Namespace
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.schedulable import SCHEDULING_READS
from podium.cluster.reader import Name
from podium.cluster.state import ClusterState
from podium.planner import Engine, Outcome, Plan, Semantics, Settings, plan
from podium.planner.preemption.decision import Decision
from podium.planner.settings import DivergencePolicy

# The part of a message before its reasons.
_PREFIX = re.compile(r"^(\d+/\d+ nodes are available|running .*? plugin( \"\w+\")?): ")
# Returns the orders to try for a case and its objects: first the likely ones, then others.
Orders = Callable[[Recorded, Sequence[Object]], tuple[Sequence[TieOrder], Sequence[TieOrder]]]
_ENDS = {Outcome.FITS: "bound", Outcome.FITS_AFTER_PREEMPTION: "preempts"}
# The refusal of a node that belongs to another case.
_ANYWHERE = {
    "node(s) were unschedulable",
    "node(s) had untolerated taint(s)",
    "node(s) didn't match Pod's node affinity/selector",
}


class Seen(NamedTuple):
    """The result for a preemptor that both sides must share; `nodes` are those of its placed pods.

    `volumes` are those of the unbound claims of a pod that fits, by claim, and `devices` those of its claims
    that have none.
    """

    end: str
    nodes: tuple[str, ...]
    victims: tuple[str, ...]
    volumes: tuple[tuple[str, str], ...] = ()
    devices: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Compared(NamedTuple):
    """A case with both answers: ours for each order tried, until one was kube-scheduler's."""

    recorded: Recorded
    server: Seen
    ours: tuple[Seen, ...]
    explained: str | None  # by what in docs/differences.md

    @property
    def agrees(self) -> bool:
        """Return whether one of our answers is the server's."""
        return self.server in self.ours

    @property
    def is_open(self) -> bool:
        """Return whether the answer depends on the order, and no order that was tried gave the server's."""
        return not self.agrees and self.explained is None and len(self.ours) > 1

    @property
    def differs(self) -> bool:
        """Return whether our answer differs for every order without an explanation."""
        return not self.agrees and self.explained is None and len(self.ours) == 1

    def __str__(self) -> str:
        """Return the facts that show which side is right."""
        lines = [f"{self.recorded.namespace} ({self.recorded.preemptor[0]}) {self.recorded.answer.message}"]
        return "\n".join([*lines, f"  server: {self.server}", *(f"  podium: {each}" for each in self.ours)])


def compared(header: Header, recorded: Recorded, orders: Orders | None = None) -> Compared:
    """Compare one case; only the recording, the engine and the orders that are tried decide the result.

    By default these are all that `ties` finds likely.
    """
    if orders is None:
        empty_domain = _settings(header).semantics.rules.empty_domain
        orders = functools.partial(chances, empty_domain=empty_domain)
    whole = [*header.classes, *recorded.objects]
    answer = recorded.answer
    grouped = recorded.preemptor[0] != "Pod"
    if grouped and answer.bound:
        return _bound(header, recorded, whole, orders)
    nodes = answer.nominated or answer.bound
    # 1.36 does not publish where it plans to place a group; a waiting pod may keep an old nomination.
    if recorded.end == "waits" or (grouped and header.minor == "1.36"):
        nodes = {}
    server = _seen(recorded.end, nodes, answer.victims, answer.volumes)._replace(
        devices=tuple(sorted((claim, tuple(found)) for claim, found in answer.devices.items()))
    )
    return _among(header, recorded, whole, server, orders)


def _seen(
    end: str, nodes: Mapping[str, str], victims: Sequence[str], volumes: Mapping[str, str] | None = None
) -> Seen:
    written = sorted((volumes or {}).items())
    return Seen(end, tuple(sorted(nodes.values())), tuple(victims), tuple(written))


def _bound(header: Header, recorded: Recorded, whole: Sequence[Object], orders: Orders) -> Compared:
    """Compare a group of which some members fitted at once; the others were handled afterwards.

    Whether that had happened when the answer was read depends on timing. So a missing nomination proves
    nothing.
    """
    answer = recorded.answer
    fits = _among(header, recorded, whole, _seen("bound", answer.bound, ()), orders)
    if not answer.nominated or not fits.agrees:
        return fits
    later = [_running(each, answer.bound) for each in whole]
    if recorded.is_barred:
        return _among(header, recorded, later, _seen("waits", {}, answer.victims), orders)
    # Members get their nominations one after another, and those of a tree group by group.
    waiting = sum(ROLE_LABEL in each["metadata"].get("labels", ()) for each in later) - len(answer.bound)
    complete = recorded.preemptor[0] == "PodGroup" and len(answer.nominated) == waiting
    nodes = answer.nominated if complete else {}
    return _among(header, recorded, later, _seen("preempts", nodes, answer.victims), orders)


def _running(stored: Object, bound: Mapping[str, str]) -> Object:
    """Return a pod after its bind."""
    node = bound.get(stored["metadata"]["name"])
    if stored["kind"] != "Pod" or node is None:
        return stored
    return {**stored, "spec": {**stored["spec"], "nodeName": node}}


def _among(
    header: Header, recorded: Recorded, objects: Sequence[Object], server: Seen, orders: Orders
) -> Compared:
    """Return the server's answer if it is among ours, or the explanation that makes ours equal."""
    ours: dict[Seen, None] = {}
    changed = {
        each.name: cluster
        for each in EXPLAINED
        if header.minor in each.minors
        and server.end == "preempts"
        and (cluster := each.without(recorded, objects, header.minor)) is not None
    }
    for part in orders(recorded, objects):
        ours |= dict.fromkeys(_tried(header, recorded, objects, server, part))
        if server in ours:
            return Compared(recorded, server, tuple(ours), None)
        for name, cluster in changed.items():
            with without_free_room():
                found = server in _tried(header, recorded, cluster, server, part)
            if found:
                return Compared(recorded, server, tuple(ours), name)
    if server.end == "preempts" and spreads_over_victims(recorded, objects):
        for part in orders(recorded, objects):
            with returns_beside_any_spread():
                found = server in _tried(header, recorded, objects, server, part)
            if found:
                return Compared(recorded, server, tuple(ours), LEAST_OF_TWO)
    failed = failed_groups(recorded, objects)
    for part in orders(recorded, objects) if failed else ():
        if server in _tried(header, recorded, objects, server, part, failed):
            return Compared(recorded, server, tuple(ours), FAILED_GROUPS)
    return Compared(recorded, server, tuple(ours), None)


def _tried(  # noqa: PLR0917 - what a comparison is made of
    header: Header,
    recorded: Recorded,
    objects: Sequence[Object],
    server: Seen,
    some: Sequence[TieOrder],
    failed: Mapping[str, str] = {},
) -> Iterator[Seen]:
    """Return our answers for these orders, up to the one that equals the server's.

    `failed` are members of groups that fail, whose nodes kube-scheduler counts as taken.
    """
    for order in some:
        on = {member: f"node-{order.nodes.index(node):03}" for member, node in failed.items()}
        with members_in_plans(recorded.namespace, on):
            made = _ours(header, recorded, objects, order)
        if failed:
            made = made._replace(nodes=tuple(sorted([*made.nodes, *failed.values()])))
        if not server.nodes:
            made = made._replace(nodes=())
        yield made
        if made == server:
            return


def _ours(header: Header, recorded: Recorded, objects: Sequence[Object], order: TieOrder) -> Seen:
    """Return the engine's answer for an order, in the names of the recording."""
    state = _state(recorded.namespace, order.written(objects))
    made = plan(
        state,
        _target(recorded),
        datetime.fromisoformat(recorded.now),
        _settings(header),
        minor=int(header.minor[2:]),
    )
    gone = {each["metadata"]["name"] for each in objects if "deletionTimestamp" in each["metadata"]}
    victims = {pod.name.rpartition("/")[2] for unit in made.victims for pod in unit.pods}
    return Seen(
        _ENDS.get(made.outcome, "waits"),
        tuple(sorted(_nodes(made, order))),
        tuple(sorted(victims - gone)),
        tuple(sorted(_volumes(made))),
        tuple(sorted(_devices(made))),
    )


def _target(recorded: Recorded) -> Name | GroupKey:
    kind, name = recorded.preemptor
    key = (recorded.namespace, name)
    return key if kind == "Pod" else GroupKey(True, *key, composite=kind == "CompositePodGroup")


def decided(header: Header, recorded: Recorded) -> Decision:
    """Return the engine's decision on a case as it was recorded."""
    state = _state(recorded.namespace, [*header.classes, *recorded.objects])
    engine = Engine(state, _settings(header), minor=int(header.minor[2:]))
    return engine.decide(_target(recorded), datetime.fromisoformat(recorded.now))


def _nodes(made: Plan, order: TieOrder) -> Iterator[str]:
    """Return the nodes of a plan in the names of the recording."""
    if made.outcome in _ENDS:
        for each in made.placements:
            yield order.nodes[int(each.node.rpartition("-")[2])]


def _volumes(made: Plan) -> Iterator[tuple[str, str]]:
    """Return the volumes that are written for the claims of pods that fit, by claim."""
    if made.outcome is Outcome.FITS:
        for placed in made.placements:
            yield from ((each.claim, each.volume) for each in placed.volumes)


def _devices(made: Plan) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return the devices for the claims of pods that fit, by claim, in the form of a recording."""
    if made.outcome is Outcome.FITS:
        for claim in (each for placed in made.placements for each in placed.claims):
            yield (
                claim.name,
                tuple(f"{each.request} {each.driver} {each.pool} {each.device}" for each in claim.results),
            )


def _settings(header: Header) -> Settings:
    semantics = Semantics(header.minor) if header.gates else Semantics.PODS
    older = semantics is Semantics.V1_36
    divergence = DivergencePolicy.USE_GROUP_PRIORITY if older else DivergencePolicy.HOLD
    return Settings(semantics=semantics, divergence=divergence)


def _state(namespace: str, objects: Sequence[Object]) -> ClusterState:
    """Return the state of a cluster that holds these objects."""
    state = ClusterState(native_served=True)
    state.apply(Namespace(metadata=ObjectMeta(name=namespace)))
    for each in objects:
        read = SCHEDULING_READS[each["apiVersion"], each["kind"]]
        state.apply(read.neutral(msgspec.convert(each, read.type)))
    return state


def refused(header: Header, recorded: Recorded) -> tuple[Counter[str], Counter[str]]:
    """Return how many nodes refuse a lone pod, by reason: in kube-scheduler's message, and in ours.

    Its message also counts the nodes of other cases, so the reasons that refuse those are left out.
    """
    listed, _, _ = recorded.answer.message.partition(". ")
    return _here(_counted(without_prefix(listed.rstrip(".")))), _here(reasons(header, recorded))


def without_prefix(message: str) -> str:
    """Return a message of kube-scheduler from its first reason on."""
    return _PREFIX.sub("", message)


def reasons(header: Header, recorded: Recorded) -> dict[str, int]:
    """Return how many nodes refuse a lone pod here, by reason; 0 for a refusal of the pod as a whole."""
    state = _state(recorded.namespace, [*header.classes, *recorded.objects])
    engine = Engine(state, _settings(header), minor=int(header.minor[2:]))
    snapshot = engine.snapshot
    row = snapshot.pod_row[recorded.namespace, recorded.preemptor[1]]
    found = engine.placer.chain.refusals(snapshot.shapes[snapshot.shape.item(row)])
    return {found.pod: 0} if found.pod else {reason: count for reason, count, _ in found.reasons}


# A reason may have commas of its own.
_NEXT_REASON = re.compile(r", (?=\d+ )")


def _counted(listed: str) -> dict[str, int]:
    """Return the reasons of a message with their nodes; a refusal of the pod as a whole counts no nodes."""
    if not listed[:1].isdigit():
        return {listed: 0}
    counted = (each.partition(" ") for each in _NEXT_REASON.split(listed))
    return {reason: int(count) for count, _, reason in counted}


def _here(reasons: Mapping[str, int]) -> Counter[str]:
    return Counter({reason: count for reason, count in reasons.items() if reason not in _ANYWHERE})
