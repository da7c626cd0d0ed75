"""The requests for which a waiting pod or group finds too few devices, and what excludes each device.

The pods of a group are placed as far as they fit, and the first pod that does not fit for lack of devices is
explained. Then the devices of the other pods of its group count as in use.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from podium.answers.accounts.model import ExcludedDevices, NodeDevices, RequestDevices, Wait
from podium.cluster.reader import Name, Target, name_of
from podium.planner.devices.examining import DeviceExaminer, DeviceNode
from podium.planner.devices.gates import default_gates
from podium.planner.devices.plannedclaims import claim_key
from podium.planner.devices.shortage import (
    DeviceShortage,
    DeviceTally,
    RequestShortage,
    explain_shortage,
)
from podium.planner.engine import Engine
from podium.planner.filters.devices import UNAVAILABLE
from podium.planner.preemption.target import PlacementTarget
from podium.planner.shapes import Shape
from podium.text import count

NO_DEVICES = "NoDevices"
# The most different pods of a group that are explained.
_SHAPES = 3

_FIX = "free devices, add some, or change the request or its selectors"


class PodShortage(NamedTuple):
    """The shortage of a pod of which `placed` of the `pods` pods of its target find a place first."""

    pod: Name
    pods: int
    placed: int
    shortage: DeviceShortage


def lacking_devices(engine: Engine, target: Target) -> PodShortage | None:
    """Return the shortage of the first pod that devices keep from all nodes, None if they keep none."""
    found = engine.placement_target(target)
    if not isinstance(found, PlacementTarget):
        return None
    snapshot, known = engine.snapshot, engine.snapshot.devices
    with engine.placing(found) as placed:
        first = {snapshot.shape.item(row): row for row in reversed(found.rows) if row not in placed}
        for row in sorted(first.values(), key=found.rows.index)[:_SHAPES]:
            shape = snapshot.shape_at(row)
            if not engine.placer.chain.devices.concerns(shape):
                continue
            claims = [each for each in known.unallocated(row) if known.assumed(claim_key(each)) is None]
            gates = default_gates(snapshot.minor)
            examiner = DeviceExaminer(known.slices.values(), known.classes.values(), gates)
            shortage = explain_shortage(examiner, claims, _device_nodes(engine, shape), known.usage)
            if shortage.requests or shortage.error or shortage.unexamined:
                return PodShortage(name_of(snapshot.pod_at(row)), len(found.rows), len(placed), shortage)
    return None


def device_waits(found: PodShortage) -> Iterator[Wait]:
    """Yield a reason for each request that finds too few devices."""
    shortage, about = found.shortage, ""
    if found.pods > 1:
        about = f"{found.placed} of {found.pods} pods find a place, and pod {found.pod[1]} finds none: "
    if shortage.error:
        yield Wait(cause=NO_DEVICES, message=f"{about}{shortage.error}", fix="correct the claim or its class")
    for each in shortage.requests:
        yield Wait(cause=NO_DEVICES, message=f"{about}{_shortage_message(each, shortage)}", fix=_FIX)
    if shortage.unexamined and not shortage.requests:
        left_out = f"the devices of {count(shortage.unexamined, 'node')} were not examined"
        fix = "use fewer requests, or selectors of less cost"
        reason = f"{shortage.costliest} takes too long" if shortage.costliest else "there is too much"
        yield Wait(cause=NO_DEVICES, message=f"{about}{left_out}: {reason} to evaluate", fix=fix)
    if shortage.hidden:
        more = f"{count(shortage.hidden, 'more request')} of its claims find too few devices on other nodes"
        yield Wait(cause=NO_DEVICES, message=more, fix=_FIX)
    for pool in shortage.pools if shortage.requests else ():
        fix = "check the driver that publishes the pool: kubectl get resourceslices"
        yield Wait(cause=NO_DEVICES, message=f"devices do not count: {pool}", fix=fix)


def request_devices(found: PodShortage) -> tuple[RequestDevices, ...]:
    """Return the requests that find too few devices as values."""
    return tuple(
        RequestDevices(
            claim=each.claim,
            request=each.request,
            needed=each.needed,
            nodes=each.nodes,
            devices=each.tally.devices,
            free=each.tally.free,
            excluded=_excluded(each.tally),
            together=each.together,
            nearest=tuple(
                NodeDevices(node=node, devices=one.devices, free=one.free, excluded=_excluded(one))
                for node, one in each.nearest
            ),
        )
        for each in found.shortage.requests
    )


def _device_nodes(engine: Engine, shape: Shape) -> list[DeviceNode]:
    """Return the nodes, with the first reason against each for a pod of a shape that is not its devices."""
    chain, snapshot = engine.placer.chain, engine.snapshot
    by_devices = chain.devices.short(shape).keys() - {UNAVAILABLE}
    refused: dict[int, str] = {}
    for reason, rows in chain.refused_rows(shape, chain.nodes):
        if reason not in by_devices:
            for row in np.flatnonzero(rows).tolist():
                refused.setdefault(row, reason)
    found = []
    for row in chain.by_name().tolist():
        node = snapshot.objects[row]
        labels = (node.metadata.labels if node is not None else None) or {}
        found.append(DeviceNode(snapshot.node_name(row), labels, refused.get(row, "")))
    return found


def _shortage_message(short: RequestShortage, shortage: DeviceShortage) -> str:
    wanted = f"needs {count(short.needed, 'device')}" if short.needed else "needs all matching devices"
    words = _tally_words(short.tally)
    if short.together:
        words += f", but {short.together}"
    elif short.tally.free and short.nearest and short.needed:
        words += f", at most {short.nearest[0][1].free:,} on one node"
    where = f"on {short.nodes:,} of {count(shortage.nodes, 'node')}" if shortage.nodes > 1 else "on one node"
    left_out = f", {count(shortage.unexamined, 'node')} not examined" if shortage.unexamined else ""
    nearest = ""
    if short.nodes > 1 and short.nearest[0][1].free:
        name, tally = short.nearest[0]
        nearest = f"; the nearest is {name}: {_tally_words(tally)}"
    return f"claim {short.claim}, request {short.request} {wanted}: {words} ({where}{left_out}){nearest}"


def _tally_words(tally: DeviceTally) -> str:
    excluded = [f"{devices:,} {reason}" for reason, devices in tally.excluded]
    free = [f"{tally.free:,} free"] if tally.free else []
    return ", ".join([count(tally.devices, "device"), *excluded, *free])


def _excluded(tally: DeviceTally) -> tuple[ExcludedDevices, ...]:
    return tuple(ExcludedDevices(reason=reason, devices=devices) for reason, devices in tally.excluded)
