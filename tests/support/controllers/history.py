"""Every write about a namespace's groups, checked afterwards against the cluster at the time of the write.

A test of the final state does not see a condition that was wrong for a moment and corrected. So every version
of every group and pod is kept in the order of their resourceVersions, which etcd assigns to both. A
reconciler may be late, since changes of pods reach it later than they happen, but its knowledge never goes
back. So the statuses written for one group must be those of successive moments of its pods.
"""

import contextlib
import http.client
import json
import socket
import ssl
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.support.controllers.running import PRIORITY, Found, Space, conditions
from tests.support.servers import Server
from tests.support.waiting import until

from podium.api.groups import GROUP_LABEL

_START = -1


class Seen(NamedTuple):
    """A change of one object."""

    version: int
    type: str
    object: dict[str, Any]

    @property
    def uid(self) -> str:
        uid: str = self.object["metadata"]["uid"]
        return uid


def truth(group: dict[str, Any], pods: Iterable[dict[str, Any]]) -> str:
    """Return the status that a group's condition should have; `pods` contains all of its members."""
    spec, name = group["spec"], group["metadata"]["name"]
    if spec.get("priorityClassName") and "priority" not in spec:
        return "Unknown"
    differing = [
        pod
        for pod in pods
        if group_of(pod) == name
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
        and "deletionTimestamp" not in pod["metadata"]
        and pod["spec"].get("priority", 0) != spec.get("priority", 0)
    ]
    return "True" if differing else "False"


def group_of(pod: dict[str, Any]) -> str | None:
    """Return the name of the group in a pod's spec or label."""
    native: str | None = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    label: str | None = pod["metadata"].get("labels", {}).get(GROUP_LABEL)
    return native or label


@dataclass
class Watch:
    """A resource, watched on a thread of its own until closed."""

    server: Server
    path: str
    seen: list[Seen] = field(default_factory=list)
    # Moments between which changes may have been missed: a restarted server forgets events.
    gaps: list[tuple[int, int]] = field(default_factory=list)

    def start(self) -> None:
        self._over = threading.Event()
        self._socket: socket.socket | None = None
        self._version = self._list()
        self._thread = threading.Thread(target=self._run, name=f"history of {self.path}")
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def now(self) -> dict[str, dict[str, Any]]:
        """Return the objects that exist in the known history, by UID."""
        there: dict[str, dict[str, Any]] = {}
        for each in list(self.seen):
            there[each.uid] = each.object
            if each.type == "DELETED":
                del there[each.uid]
        return there

    def _list(self) -> int:
        """Read the current objects; return the version."""
        with contextlib.closing(self.server.access.client()) as client:
            code, listed = client.request("GET", self.path)
        if code != 200:
            raise OSError(str(listed))
        moment = int(listed["metadata"]["resourceVersion"])
        known = self.now()
        for each in listed["items"]:
            before = known.pop(each["metadata"]["uid"], None)
            if before is None or before["metadata"]["resourceVersion"] != each["metadata"]["resourceVersion"]:
                self.seen.append(Seen(moment, "MODIFIED" if before else "ADDED", each))
        self.seen += [Seen(moment, "DELETED", each) for each in known.values()]
        return moment

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                self._follow()
            self._over.wait(0.05)

    def _follow(self) -> None:
        access = self.server.access
        parts = urlsplit(access.url)
        trusted = ssl.create_default_context(cafile=str(access.authority))
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=trusted)
        with contextlib.closing(connection):
            connection.connect()
            self._socket = connection.sock
            query = f"?watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
            connection.request("GET", self.path + query, headers={"Authorization": f"Bearer {access.token}"})
            response = connection.getresponse()
            while not self._over.is_set() and (line := response.readline()):
                self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        # An error comes as an event, or as the whole answer.
        if event.get("type", "ERROR") == "ERROR":
            before = self._version
            self._version = self._list()
            self.gaps.append((before, self._version))
            raise OSError("watch again")
        version = int(event["object"]["metadata"]["resourceVersion"])
        if event["type"] != "BOOKMARK":
            self.seen.append(Seen(version, event["type"], event["object"]))
        self._version = version


class History:
    """The changes of the groups and pods of a namespace."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._groups = Watch(space.server, space.groups_path())
        self._pods = Watch(space.server, space.pods_path())
        self._edits: set[str] = set()

    @contextlib.contextmanager
    def running(self) -> Iterator["History"]:
        """Watch while the block runs."""
        with contextlib.ExitStack() as stack:
            for watch in (self._groups, self._pods):
                watch.start()
                stack.callback(watch.close)
            yield self

    def excuse(self, group: dict[str, Any]) -> None:
        """Leave out a version of a group that the test itself has written."""
        self._edits.add(group["metadata"]["resourceVersion"])

    def catch_up(self) -> None:
        """Wait until everything written so far is in the history."""
        until(lambda: all(map(self._is_complete, (self._groups, self._pods))), "the history is complete")

    def _is_complete(self, watch: Watch) -> bool:
        listed = self.space.ask("GET", watch.path)["items"]
        there = {uid: each["metadata"]["resourceVersion"] for uid, each in watch.now().items()}
        return there == {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in listed}

    def statuses(self, name: str, axis: str = PRIORITY) -> list[str]:
        """Return the statuses of a condition in order, groups of one name one after the other."""
        found: list[str] = []
        last: dict[str, str] = {}
        for each in self._groups.seen:
            condition = conditions(each.object).get(axis)
            if each.object["metadata"]["name"] == name and condition is not None:
                if last.get(each.uid) != condition.status:
                    found.append(condition.status)
                last[each.uid] = condition.status
        return found

    @property
    def groups(self) -> list[Seen]:
        """Return all versions of all groups."""
        return list(self._groups.seen)

    def problems(self) -> list[str]:
        """Return the conditions that were wrong when they were written, or had the wrong time."""
        self.catch_up()
        return problems(self._groups.seen, self._pods.seen, self._pods.gaps, self._edits)


def problems(
    groups: list[Seen], pods: list[Seen], gaps: Iterable[tuple[int, int]] = (), edits: Collection[str] = ()
) -> list[str]:
    """Return the wrong writes of groups, given all changes of the groups and their pods in order.

    In `gaps` changes of pods may be missing; `edits` are the resourceVersions of groups with conditions that
    another client has written.
    """
    versions: dict[str, list[Seen]] = defaultdict(list)
    for each in groups:
        if each.type != "DELETED":
            versions[each.uid].append(each)
    members: dict[str | None, list[Seen]] = defaultdict(list)
    for each in pods:
        members[group_of(each.object)].append(each)
    found: list[str] = []
    for each_group in versions.values():
        group = each_group[0].object
        moments = _moments(group, members[group["metadata"]["name"]], gaps)
        found += _problems(each_group, moments, edits)
    return found


def _problems(versions: list[Seen], moments: list[tuple[int, str]], edits: Collection[str]) -> Iterator[str]:
    known = _START
    before: dict[str, Found] = {}
    for each in versions:
        after = conditions(each.object)
        edited = each.object["metadata"]["resourceVersion"] in edits
        found = after.get(PRIORITY)
        if not edited and found is not None and found != before.get(PRIORITY):
            at = _first(moments, found.status, known, each.version)
            if at is None:
                yield f"{_change(each, PRIORITY, before, after)}: not so since {known}: {moments}"
            else:
                known = max(known, at)
        if not edited:
            yield from _times(each, before, after)
        before = after


def _moments(
    group: dict[str, Any], pods: list[Seen], gaps: Iterable[tuple[int, int]]
) -> list[tuple[int, str]]:
    """Return the true statuses of a group, each with its first version; `?` where it was not seen."""
    there: dict[str, dict[str, Any]] = {}
    found = [(_START, truth(group, ()))]
    for each in pods:
        there[each.uid] = each.object
        if each.type == "DELETED":
            del there[each.uid]
        found.append((each.version, truth(group, there.values())))
    for first, last in gaps:
        after = [value for version, value in found if version <= last][-1]
        found = [each for each in found if not first < each[0] < last]
        found += [(first, "?"), (last, after)]
    found.sort(key=lambda each: each[0])
    return [each for last, each in zip([(_START, ""), *found], found, strict=False) if each[1] != last[1]]


def _first(moments: list[tuple[int, str]], status: str, known: int, written: int) -> int | None:
    """Return the first moment, from `known` on and before `written`, at which a status was true."""
    begins = [version for version, _ in moments]
    for index in range(max(bisect_right(begins, known) - 1, 0), len(moments)):
        version, value = moments[index]
        if version >= written:
            return None
        if value in (status, "?"):
            return version
    return None


def _times(each: Seen, before: dict[str, Found], after: dict[str, Found]) -> Iterator[str]:
    """Yield the times that changed without their status, or did not advance with it."""
    for axis in before.keys() & after.keys():
        was, found = before[axis], after[axis]
        if found.status == was.status and found.since != was.since:
            yield f"{_change(each, axis, before, after)}: the time moved, the status did not"
        if found.since < was.since:
            yield f"{_change(each, axis, before, after)}: the time went back"


def _change(each: Seen, axis: str, before: dict[str, Found], after: dict[str, Found]) -> str:
    name = each.object["metadata"]["name"]
    return f"{name} at {each.version}: {axis} was {before.get(axis)}, became {after.get(axis)}"
