"""Invariants of a run, checked against the objects of the API server, which are the truth.

Some hold at each change: a pod is bound once, to a node that has room for it, and a victim has a preemptor of
higher priority. Others hold once nothing has changed for a while: whoever can be scheduled is, no unit was
split, nothing is nominated, and every condition is right.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from podium import jsontext
from podium.api.events import PREEMPTOR
from podium.api.membership import GroupKey, membership
from podium.api.quantity import Scale, parse
from podium.api.schedulable import SCHEDULING_READS, Schedulable
from podium.cluster.state import ClusterState
from podium.groups.divergence import PODS_NOT_MATCHING_PRIORITY, measure_divergence
from podium.planner.engine import Engine
from podium.planner.preemption.outcome import GOOD
from podium.planner.settings import Settings
from podium.simulation.actors import GROUPS, Object, group_of
from podium.simulation.apiserver.storage import Change, ObjectVersion
from podium.simulation.network import Network


class Judge:
    """Follows the objects of a server; `broken` has one line for each invariant that did not hold."""

    def __init__(self, network: Network, settings: Settings) -> None:
        self.broken: list[str] = []
        self.binds = 0
        self.victims = 0
        self._world = network.world
        self._server = network.server
        self._settings = settings
        self._node_of: dict[str, str] = {}
        self._marked: set[str] = set()
        # By the UID of a pod: the unit that its eviction began to evict.
        self._torn: dict[str, str] = {}
        network.server.changed.append(self._follow)

    def quiet(self) -> None:
        """Check what must be true of a cluster in which nothing has changed for a while."""
        state = self._state()
        now = self._world.now
        engine = Engine(state, self._settings)
        waiting: dict[str | GroupKey, Any] = {}
        for pod in state.pods.values():
            assert isinstance(pod, Schedulable)
            meta = pod.metadata
            if meta.deletionTimestamp is not None or pod.finished:
                if meta.deletionTimestamp is not None:
                    self._break(f"pod {meta.name} is deleted and stays")
                continue
            if meta.uid in self._torn:
                self._break(f"pod {meta.name} stays, but {self._torn[meta.uid or '']} was evicted")
            if pod.spec.nodeName:
                continue
            if pod.status is not None and pod.status.nominatedNodeName:
                self._break(f"pod {meta.name} stays nominated for {pod.status.nominatedNodeName}")
            key = membership(pod, native_served=True)
            waiting[key or f"{meta.namespace}/{meta.name}"] = key or (meta.namespace or "", meta.name or "")
        for name, target in waiting.items():
            plan = engine.plan(target, now)
            if plan.outcome in GOOD:
                self._break(f"{name} waits: {plan.outcome}: {plan.message}")
        for key, group in state.groups.items():
            divergent = measure_divergence(group, state.members(key).values()).priority.divergent
            kind = PODS_NOT_MATCHING_PRIORITY
            stored = next((stored.status for stored in group.conditions if stored.type == kind), "False")
            if stored != str(divergent):
                self._break(f"{key}: {kind} is {stored}, but divergent is {divergent}")

    def _break(self, text: str) -> None:
        self.broken.append(f"{self._world.seconds:.3f} s: {text}")

    def _follow(self, resource: str, change: Change) -> None:
        if resource != "pods":
            return
        obj = change.document
        uid: str = obj["metadata"]["uid"]
        if change.type == "DELETED":
            self._node_of.pop(uid, None)
            self._torn.pop(uid, None)
            self._marked.discard(uid)
            return
        node = obj["spec"].get("nodeName", "")
        if node and uid not in self._node_of:
            self.binds += 1
            self._node_of[uid] = node
            self._check_room(node, obj)
        elif self._node_of.get(uid, node) != node:
            self._break(f"pod {obj['metadata']['name']} was bound twice")
        target = _condition(obj, "DisruptionTarget")
        if target.get("status") != "True" or target.get("reason") != "PreemptionByScheduler":
            self._marked.discard(uid)
        elif uid not in self._marked:
            self._marked.add(uid)
            self._check_preemptor(obj, target["message"])
        if uid in self._marked and "deletionTimestamp" in obj["metadata"]:
            self._evicted(obj)

    def _check_room(self, node: str, bound: Object) -> None:
        stored = self._objects("nodes").get(f"/{node}")
        if stored is None:
            return
        room = parse(stored.document["status"]["allocatable"]["cpu"], Scale.MILLI)
        there = [pod for pod in self._pods() if pod["spec"].get("nodeName") == node and not _finished(pod)]
        used = sum(parse(request, Scale.MILLI) for pod in there for request in _requests(pod))
        if used > room:
            name = bound["metadata"]["name"]
            self._break(f"pod {name} was bound to {node}, which has {room} m of cpu for {used} m")

    def _check_preemptor(self, victim: Object, message: str) -> None:
        name = victim["metadata"]["name"]
        group = self._group_of(victim)
        priority = (victim if group is None else group)["spec"].get("priority", 0)
        match = PREEMPTOR.search(message)
        if match is None:
            self._break(f"victim {name} names no preemptor: {message}")
            return
        uid = match[2]
        for preemptor in (*self._pods(), *self._documents(GROUPS)):
            if preemptor["metadata"]["uid"] == uid:
                if preemptor["spec"].get("priority", 0) <= priority:
                    self._break(f"victim {name} has no lower priority than {preemptor['metadata']['name']}")
                return
        # It may have gone while the mark was on its way.

    def _evicted(self, victim: Object) -> None:
        """Remember the other pods of a unit that is evicted as a whole."""
        self.victims += 1
        group = self._group_of(victim)
        if group is None or "all" not in (group["spec"].get("disruptionMode") or {}):
            return
        name = group["metadata"]["name"]
        for pod in self._pods():
            if group_of(pod) == name and pod["spec"].get("nodeName") and not _finished(pod):
                self._torn.setdefault(pod["metadata"]["uid"], f"{name} at {self._world.seconds:.1f} s")

    def _group_of(self, pod: Object) -> Object | None:
        stored = self._objects(GROUPS).get(f"{pod['metadata']['namespace']}/{group_of(pod)}")
        return None if stored is None else stored.document

    def _pods(self) -> Iterable[Object]:
        return self._documents("pods")

    def _objects(self, resource: str) -> Mapping[str, ObjectVersion]:
        return self._server.store.resources[resource].now

    def _documents(self, resource: str) -> Iterator[Object]:
        return (version.document for version in self._objects(resource).values())

    def _state(self) -> ClusterState:
        state = ClusterState(native_served=True)
        for held in self._server.store.resources.values():
            read = SCHEDULING_READS.get((held.row.api_version(held.row.stored), held.row.kind))
            if read is not None:
                for version in held.now.values():
                    state.apply(read.neutral(jsontext.parse(version.body, read.type)))
        return state


def _condition(pod: Object, kind: str) -> Object:
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _finished(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _requests(pod: Object) -> list[str]:
    return [
        (container.get("resources") or {}).get("requests", {}).get("cpu", "0")
        for container in pod["spec"]["containers"]
    ]
