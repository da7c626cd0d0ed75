"""Small random clusters for the oracle of devices: kinds, taints, partitions, gangs, shared claims."""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from tests.support.devices.scene import DRIVER, uid_of
from tests.support.oracle.devices import DeviceCase, RunningPod
from tests.support.preemption.clusters import NS

from podium.api.devices import DeviceCounter, ResourceClaim, ResourceSlice


def generated(seed: int) -> DeviceCase:
    """Return the case of a seed."""
    return _Generator(random.Random(seed)).case()


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._claims: dict[str, ResourceClaim] = {}
        self._running: list[RunningPod] = []
        self._whole: set[str] = set()

    def case(self) -> DeviceCase:
        """Return a case."""
        rng = self._rng
        nodes = tuple(f"n{at}" for at in range(rng.randint(1, 3)))
        sort = rng.choice(("plain", "plain", "kinds", "partitions"))
        slices = list(chain.from_iterable(self._slices(each, sort) for each in nodes))
        self._fill(nodes, slices, partitions=sort == "partitions")
        grouped = rng.random() < 0.6
        size = rng.choice((2, 2, 3, 3, 4)) if grouped else 1
        wanted: list[tuple[str, ...]] = []
        for at in range(size):
            name = f"want-{at}"
            if wanted and rng.random() < 0.15:
                wanted.append(wanted[0])
                continue
            names = (name, f"{name}-more") if rng.random() < 0.15 else (name,)
            for each in names:
                self._claims[each] = self._claim(each, self._request())
            wanted.append(names)
        return DeviceCase(
            nodes,
            tuple(slices),
            self._claims,
            tuple(self._running),
            frozenset(self._whole),
            tuple(wanted),
            grouped,
        )

    def _slices(self, where: str, sort: str) -> Iterator[ResourceSlice]:
        rng, count = self._rng, self._rng.randint(2, 5)
        devices: list[dict[str, Any]] = []
        for at in range(count):
            kind = rng.choice("ab") if sort == "kinds" else "a"
            attributes = {"kind": {"string": kind}, "board": {"int": rng.randint(0, 1)}}
            devices.append({"name": f"gpu-{at}", "attributes": attributes})
            if rng.random() < 0.1:
                devices[-1]["taints"] = [{"key": "hot", "effect": "NoSchedule"}]
        pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
        if sort == "partitions":
            pool["resourceSliceCount"] = 2
            for each in devices:
                memory = {"memory": {"value": str(rng.choice((1, 1, 2, 4)))}}
                each["consumesCounters"] = [{"counterSet": "card", "counters": memory}]
            sets = [{"name": "card", "counters": {"memory": {"value": str(rng.choice((2, 4)))}}}]
            yield _slice(f"{where}-sets", {"nodeName": where, "pool": pool, "sharedCounters": sets})
        yield _slice(where, {"nodeName": where, "pool": pool, "devices": devices})

    def _fill(self, nodes: Sequence[str], slices: Sequence[ResourceSlice], *, partitions: bool) -> None:
        """Give most devices to running pods: alone, in gangs, or with a shared claim."""
        rng = self._rng
        free = {each.spec.pool.name: _allocatable(each, slices) for each in slices if each.spec.devices}
        room = dict.fromkeys(nodes, 4)
        for at in range(rng.randint(3, 7)):
            open_nodes = [each for each in nodes if free[each]]
            if not open_nodes:
                return
            priority, ago = rng.choice((0, 0, 0, 0, 3, 3, 20)), rng.choice((60, 300, 600, 3_600))
            unit, gang = f"low-{at}", rng.random() < 0.25
            members = rng.randint(2, 3) if gang else 1
            shared = rng.random() < 0.25
            for member in range(members):
                where = rng.choice(open_nodes)
                most = 1 if partitions else 2
                taken = [free[where].pop(0) for _ in range(min(rng.randint(1, most), len(free[where])))]
                name = f"{unit}-{member}"
                claims = (f"{name}-claim",) if taken and room[where] else ()
                if claims:
                    users = [name, *([f"{unit}-other-0"] if shared and not gang else ())]
                    self._claims[claims[0]] = self._claim(
                        claims[0], _exactly(len(taken)), where, taken, users
                    )
                self._running.append(RunningPod(name, unit if gang else name, priority, where, ago, claims))
                if claims and shared and not gang:
                    other, younger = f"{unit}-other-0", rng.choice((30, ago))
                    level = rng.choice((priority, 0, 20))
                    self._running.append(RunningPod(other, other, level, where, younger, claims))
            if gang:
                self._whole.add(unit)

    def _request(self) -> dict[str, Any]:
        """Return the devices of a claim of the preemptor."""
        rng, sort = self._rng, self._rng.randrange(8)
        count = rng.choice((1, 1, 1, 2, 2, 3))
        if sort == 0:
            first = [
                {"name": "best", "deviceClassName": "fast", "allocationMode": "ExactCount", "count": count},
                {"name": "any", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count},
            ]
            return {"requests": [{"name": "r", "firstAvailable": first}]}
        if sort == 1:
            board = {"matchAttribute": f"{DRIVER}/board"}
            return {**_exactly(count), "constraints": [board]}
        if sort == 4:
            board = {"distinctAttribute": f"{DRIVER}/board"}
            return {**_exactly(2), "constraints": [board]}
        if sort == 2:
            return _exactly(count, tolerations=[{"operator": "Exists"}])
        return _exactly(count, "fast" if sort == 3 else "gpu")

    def _claim(
        self,
        name: str,
        devices: dict[str, Any],
        where: str = "",
        held: Sequence[str] = (),
        users: Sequence[str] = (),
    ) -> ResourceClaim:
        status = None
        if held:
            results = [{"request": "r", "driver": DRIVER, "pool": where, "device": each} for each in held]
            field = {"key": "metadata.name", "operator": "In", "values": [where]}
            allocation = {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            }
            consumers = [{"resource": "pods", "name": each, "uid": uid_of(each)} for each in users]
            status = {"allocation": allocation, "reservedFor": consumers}
        metadata = {"name": name, "namespace": NS, "uid": f"claim-{name}"}
        body = {"metadata": metadata, "spec": {"devices": devices}, "status": status}
        return msgspec.convert(body, ResourceClaim)


def _exactly(count: int, requested: str = "gpu", **more: Any) -> dict[str, Any]:
    exactly = {"deviceClassName": requested, "allocationMode": "ExactCount", "count": count, **more}
    return {"requests": [{"name": "r", "exactly": exactly}]}


def _slice(name: str, spec: Mapping[str, Any]) -> ResourceSlice:
    body = {"metadata": {"name": name}, "spec": {"driver": DRIVER, **spec}}
    return msgspec.convert(body, ResourceSlice)


def _allocatable(of: ResourceSlice, slices: Sequence[ResourceSlice]) -> list[str]:
    """Return the first devices of a slice whose counters suffice for all of them together."""
    sets = next((each.spec.sharedCounters for each in slices if _counts_for(each, of)), None)
    left = _memory(sets[0].counters) if sets else 0
    found = []
    for each in of.spec.devices or ():
        left -= sum(_memory(one.counters) for one in each.consumesCounters or ())
        if left >= 0:
            found.append(each.name)
    return found


def _counts_for(counters: ResourceSlice, of: ResourceSlice) -> bool:
    return bool(counters.spec.sharedCounters) and counters.spec.pool.name == of.spec.pool.name


def _memory(counters: Mapping[str, DeviceCounter] | None) -> int:
    return int(str((counters or {})["memory"].value))
