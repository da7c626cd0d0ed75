"""The invariants of pods and nodes, checked afterwards at every version of every object.

A test of the final state does not see a node that was overcommitted for a second. Nor does it see a victim
that was deleted before its reason could be read. etcd orders all versions of all objects by their
resourceVersions.
"""

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from tests.support.controllers.history import Seen, Watch
from tests.support.proxy import Call
from tests.support.servers import Server
from tests.support.waiting import until

from podium.api.quantity import Scale, parse

MARKED = ("DisruptionTarget", "True", "PreemptionByScheduler")
OVER = ("Succeeded", "Failed")


class Ledger:
    """All versions of all pods and nodes of a server since it was opened."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.pods = Watch(server, "/api/v1/pods")
        self.nodes = Watch(server, "/api/v1/nodes")

    @contextlib.contextmanager
    def open(self) -> Iterator["Ledger"]:
        """Watch while the block runs."""
        with contextlib.ExitStack() as stack:
            for watch in (self.pods, self.nodes):
                watch.start()
                stack.callback(watch.close)
            yield self

    def catch_up(self) -> None:
        """Wait until everything written so far is in the history."""
        until(lambda: all(map(self._is_complete, (self.pods, self.nodes))), "the ledger is complete")

    def forget(self) -> None:
        """Drop the history, and keep the current state as if all objects were created now."""
        self.catch_up()
        past = [(watch, len(watch.seen)) for watch in (self.nodes, self.pods)]
        moment = max((each.version for watch, count in past for each in watch.seen[:count]), default=0)
        for watch, count in past:
            there = {each.uid: each for each in watch.seen[:count]}
            # A bind may be in flight to a node that was just deleted and had room.
            watch.seen[:count] = [
                each._replace(version=moment)
                for each in there.values()
                if each.type != "DELETED" or watch is self.nodes
            ]

    def problems(self, deletes: Iterable[Call] = (), namespace: str = "") -> list[str]:
        """Return the violations by a namespace's pods, or by all; `deletes` are a scheduler's."""
        self.catch_up()
        pods, nodes = list(self.pods.seen), list(self.nodes.seen)
        found = over_commits(pods, nodes)
        found += unannounced(pods, accepted(deletes))
        return [each for each in found if namespace in each]

    def _is_complete(self, watch: Watch) -> bool:
        code, listed = self._server.request("GET", watch.path)
        assert code == 200, listed
        there = {uid: each["metadata"]["resourceVersion"] for uid, each in watch.now().items()}
        return there == {
            each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in listed["items"]
        }


def accepted(deletes: Iterable[Call]) -> list[str]:
    """Return the UIDs of the accepted deletes, without a repeated delete whose answer was lost.

    The API server accepts a second delete of a pod that is still terminating.
    """
    calls = [call for call in deletes if call.code == 200]
    known = [deleted(call) for call in calls if not call.lost]
    return known + sorted({deleted(call) for call in calls if call.lost}.difference(known))


def deleted(call: Call) -> str:
    """Return the UID in the preconditions of a delete; every delete of ours has one."""
    uid: str = msgspec.json.decode(call.body)["preconditions"]["uid"]
    return uid


def milli(pod: dict[str, Any]) -> int:
    """Return the millicores that a pod requests."""
    return sum(
        parse(each.get("resources", {}).get("requests", {}).get("cpu", "0"), Scale.MILLI)
        for each in pod["spec"]["containers"]
    )


def is_marked(pod: dict[str, Any]) -> bool:
    """Return whether a pod's status reports that it is preempted."""
    return any(
        (each["type"], each["status"], each.get("reason")) == MARKED
        for each in pod.get("status", {}).get("conditions", ())
    )


class _Held(NamedTuple):
    node: str
    milli: int


def over_commits(pods: Iterable[Seen], nodes: Iterable[Seen]) -> list[str]:
    """Return each pod whose arrival exceeded its node's capacity."""
    found: list[str] = []
    room: dict[str, int] = {}
    held: dict[str, _Held] = {}
    used: dict[str, int] = defaultdict(int)
    for each in sorted([*nodes, *pods], key=lambda seen: seen.version):
        name, spec = each.object["metadata"]["name"], each.object["spec"]
        if "containers" not in spec:
            room[name] = parse(each.object["status"]["allocatable"]["cpu"], Scale.MILLI)
            continue
        before = held.pop(each.uid, None)
        if before is not None:
            used[before.node] -= before.milli
        stays = each.type != "DELETED" and each.object["status"].get("phase") not in OVER
        if not stays or not spec.get("nodeName"):
            continue
        after = held[each.uid] = _Held(spec["nodeName"], milli(each.object))
        used[after.node] += after.milli
        if before is None and used[after.node] > room.get(after.node, 0):
            found.append(
                f"{each.object['metadata']['namespace']}/{name} at {each.version}: "
                f"{used[after.node]}m on {after.node} of {room.get(after.node, 0)}m"
            )
    return found


def unannounced(pods: Iterable[Seen], deletes: Iterable[str], others: Collection[str] = ()) -> list[str]:
    """Return a Job's pods that were deleted without a reason in their status, and pods deleted twice.

    A Job's podFailurePolicy reads the reason; no other reader depends on it. `others` names pods that another
    client also deleted, perhaps first: they had a reason at some time.
    """
    ours = list(deletes)
    unmarked: dict[str, str] = {}
    going: set[str] = set()
    for each in pods:
        leaves = each.type == "DELETED" or "deletionTimestamp" in each.object["metadata"]
        if not leaves or each.uid not in ours:
            continue
        if is_marked(each.object):
            if each.object["metadata"]["name"] in others:
                unmarked.pop(each.uid, None)
        elif each.uid not in going and _of_job(each.object):
            unmarked[each.uid] = _name(each)
        going.add(each.uid)
    found = [f"{name} was deleted and had not been marked" for name in unmarked.values()]
    names = {each.uid: _name(each) for each in pods}
    return found + [f"{names[uid]} was deleted twice" for uid in set(ours) if ours.count(uid) > 1]


def _of_job(pod: dict[str, Any]) -> bool:
    owners = pod["metadata"].get("ownerReferences", ())
    return any(each.get("controller") and each["kind"] == "Job" for each in owners)


def _name(each: Seen) -> str:
    return f"{each.object['metadata']['namespace']}/{each.object['metadata']['name']}"
