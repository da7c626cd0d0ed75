"""Puts a recorded case to the engine, and says where its answer is another than kube-scheduler's.

What kube-scheduler leaves to chance (`chance`) is arranged as its answer tells that it fell, and then the
engine must do exactly the same: the same outcome, victims and nodes. For a lone pod that is the whole story.
Of a group not all is told: there other arrangements are tried as well, and a case is *open* where the answer
depends on them and none that was tried gave kube-scheduler's.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from tests.preemption.differential.chance import Chance, chances
from tests.preemption.differential.explained import EXPLAINED
from tests.preemption.differential.generator import Object
from tests.preemption.differential.recording import Header, Recorded

from podium.api.core import Namespace
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta
from podium.api.schedulable import SCHEDULING_READS
from podium.schedulerplugin import Engine, Outcome, Plan, Semantics, Settings, plan
from podium.schedulerplugin.settings import DivergencePolicy
from podium.state import State

_POLICIES = {"1.36": DivergencePolicy.USE_GROUP_PRIORITY, "1.37": DivergencePolicy.HOLD}
_ENDS = {Outcome.FITS: "bound", Outcome.FITS_AFTER_PREEMPTION: "preempts"}
# What a node of another case is refused for.
_ANYWHERE = {
    "node(s) were unschedulable",
    "node(s) had untolerated taint(s)",
    "node(s) didn't match Pod's node affinity/selector",
}


class Seen(NamedTuple):
    """What became of a preemptor, as far as both sides must agree: `nodes` in order, of its placed pods."""

    end: str
    nodes: tuple[str, ...]
    victims: tuple[str, ...]


class Compared(NamedTuple):
    """A case with both answers: ours for every arrangement that was tried, until one was kube-scheduler's."""

    recorded: Recorded
    server: Seen
    ours: tuple[Seen, ...]
    explained: str | None  # by what in docs/differences.md

    @property
    def agrees(self) -> bool:
        """One of our answers is the server's."""
        return self.server in self.ours

    @property
    def is_open(self) -> bool:
        """The answer hangs on chance, and nothing that was tried gave the server's."""
        return not self.agrees and self.explained is None and len(self.ours) > 1

    @property
    def differs(self) -> bool:
        """However chance falls, our answer is another, and nothing explains it."""
        return not self.agrees and self.explained is None and len(self.ours) == 1

    def __str__(self) -> str:
        """What a reader needs to see who is right."""
        lines = [f"{self.recorded.namespace} ({self.recorded.preemptor[0]}) {self.recorded.answer.message}"]
        return "\n".join([*lines, f"  server: {self.server}", *(f"  podium: {each}" for each in self.ours)])


def compared(header: Header, recorded: Recorded) -> Compared:
    """Compare one case; nothing but the recording and the engine decides the result."""
    whole = [*header.classes, *recorded.objects]
    answer = recorded.answer
    grouped = recorded.preemptor[0] == "PodGroup"
    if grouped and answer.bound:
        return _bound(header, recorded, whole)
    nodes = answer.nominated or answer.bound
    # 1.36 does not tell where it means to put a group; who waits may keep an old nomination.
    if recorded.end == "waits" or (grouped and header.minor == "1.36"):
        nodes = {}
    return _among(header, recorded, whole, _seen(recorded.end, nodes, answer.victims))


def _seen(end: str, nodes: Mapping[str, str], victims: Sequence[str]) -> Seen:
    return Seen(end, tuple(sorted(nodes.values())), tuple(victims))


def _bound(header: Header, recorded: Recorded, whole: Sequence[Object]) -> Compared:
    """Compare a group of which some fitted at once; what was done for the others came afterwards.

    Whether it had come when the answer was read is a matter of time, so no nomination proves nothing.
    """
    answer = recorded.answer
    fits = _among(header, recorded, whole, _seen("bound", answer.bound, ()))
    if not answer.nominated or not fits.agrees:
        return fits
    later = [_running(each, answer.bound) for each in whole]
    return _among(header, recorded, later, _seen("preempts", answer.nominated, answer.victims))


def _running(stored: Object, bound: Mapping[str, str]) -> Object:
    """Give a pod as it is once it was bound."""
    node = bound.get(stored["metadata"]["name"])
    if stored["kind"] != "Pod" or node is None:
        return stored
    return {**stored, "spec": {**stored["spec"], "nodeName": node}}


def _among(header: Header, recorded: Recorded, objects: Sequence[Object], server: Seen) -> Compared:
    """Look for the server's answer among ours, or for what would have made it ours."""
    ours: dict[Seen, None] = {}
    changed = {
        each.name: cluster
        for each in EXPLAINED
        if each.minor == header.minor and (cluster := each.without(recorded, objects)) is not None
    }
    for part in chances(recorded, objects):
        ours |= dict.fromkeys(_tried(header, recorded, objects, server, part))
        if server in ours:
            return Compared(recorded, server, tuple(ours), None)
        for name, cluster in changed.items():
            if server in _tried(header, recorded, cluster, server, part):
                return Compared(recorded, server, tuple(ours), name)
    return Compared(recorded, server, tuple(ours), None)


def _tried(
    header: Header, recorded: Recorded, objects: Sequence[Object], server: Seen, some: Sequence[Chance]
) -> Iterator[Seen]:
    """Give our answers where chance falls so, up to the one that is the server's."""
    for chance in some:
        made = _ours(header, recorded, objects, chance)
        if not server.nodes:
            made = made._replace(nodes=())
        yield made
        if made == server:
            return


def _ours(header: Header, recorded: Recorded, objects: Sequence[Object], chance: Chance) -> Seen:
    """Give the engine's answer where chance falls so, in the names of the recording."""
    kind, name = recorded.preemptor
    key = (recorded.namespace, name)
    target = key if kind == "Pod" else GroupKey(True, *key)
    state = _state(recorded.namespace, chance.written(objects))
    made = plan(
        state, target, datetime.fromisoformat(recorded.now), _settings(header), minor=int(header.minor[2:])
    )
    gone = {each["metadata"]["name"] for each in objects if "deletionTimestamp" in each["metadata"]}
    victims = {pod.name.rpartition("/")[2] for unit in made.victims for pod in unit.pods}
    return Seen(
        _ENDS.get(made.outcome, "waits"), tuple(sorted(_nodes(made, chance))), tuple(sorted(victims - gone))
    )


def _nodes(made: Plan, chance: Chance) -> Iterator[str]:
    """Give the nodes of a plan in the names of the recording."""
    if made.outcome in _ENDS:
        for each in made.placements:
            yield chance.nodes[int(each.node.rpartition("-")[2])]


def _settings(header: Header) -> Settings:
    semantics = Semantics(header.minor) if header.gates else Semantics.PODS
    return Settings(semantics=semantics, divergence=_POLICIES[header.minor])


def _state(namespace: str, objects: Sequence[Object]) -> State:
    """Give the state of a cluster that holds these objects."""
    state = State(native_served=True)
    state.apply(Namespace(metadata=ObjectMeta(name=namespace)))
    for each in objects:
        read = SCHEDULING_READS[each["apiVersion"], each["kind"]]
        state.apply(read.neutral(msgspec.convert(each, read.type)))
    return state


def refused(header: Header, recorded: Recorded) -> tuple[Counter[str], Counter[str]]:
    """Count the nodes that refuse a lone pod, by reason: in kube-scheduler's message, and ours.

    The other cases' nodes are in its message, too, so what refuses one of these is left out.
    """
    listed, _, _ = recorded.answer.message.partition(". ")
    reasons = listed.rstrip(".").partition(": ")[2].split(", ")
    server = {reason: int(count) for count, _, reason in (each.partition(" ") for each in reasons)}
    state = _state(recorded.namespace, [*header.classes, *recorded.objects])
    engine = Engine(state, _settings(header), minor=int(header.minor[2:]))
    snapshot = engine.snapshot
    row = snapshot.pod_row[recorded.namespace, recorded.preemptor[1]]
    found = engine.placer.chain.refusals(snapshot.shapes[snapshot.shape.item(row)])
    ours = {reason: count for reason, count, _ in found.reasons}
    return _here(server), _here(ours)


def _here(reasons: Mapping[str, int]) -> Counter[str]:
    return Counter({reason: count for reason, count in reasons.items() if reason not in _ANYWHERE})
