"""Pods with device claims get node, devices, message and victims as from real kube-schedulers.

Two differences are accepted (docs/differences.md). An error on one node ends kube-scheduler's attempt, and
refuses only this node here. A node that cannot use an allocated claim is not asked for other devices here.
"""

import re
from collections import Counter
from functools import cache
from operator import attrgetter
from typing import Any
from unittest import mock

import msgspec
import pytest
from tests.support.preemption.differential import compare, driver, recording
from tests.support.preemption.differential.compare import compared, reasons, refused, without_prefix
from tests.support.preemption.differential.devices import CASES, MIXED, device_case
from tests.support.preemption.differential.explained import CLAIM_ORDER, DEVICE_ERRORS
from tests.support.preemption.differential.generator import Object
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL, exclusive, of_run
from tools.devcluster.controlplane.releases import BUILDABLE, NEWEST, Release

from podium.planner import Settings
from podium.planner.plugins.devices import filter as devicefilter
from podium.planner.plugins.devices.filter import UNALLOCATABLE, UNAVAILABLE, DevicesFilter

_SEED = new_seed()
_ASKED = range(CASES) if FULL else (*range(16), *range(MIXED, MIXED + 8))
_ERROR = 'running "DynamicResources" filter plugin: '
# The texts that a recording has at least once.
_TEXTS = (
    *(UNAVAILABLE, UNALLOCATABLE, "invalid resource pools were encountered", "is being deleted"),
    *("could not find ResourceClaim", "ResourceClaim not created yet", "Pod is not owner"),
    *("does not exist", "CEL runtime error", "exceeds the claim limit", "is currently being updated"),
    "because a claim constraint would not be satisfied",
)
# The fields that the objects of ten cases have at least.
_FIELDS = (
    *("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection", "sharedCounters", "taints"),
    *("allowMultipleAllocations", "requestPolicy", "firstAvailable", "matchAttribute", "adminAccess"),
    *("distinctAttribute", "tolerations", "resourceClaimStatuses", "reservedFor", "consumedCapacity"),
)
_ENOUGH = 10
# Some seconds of our search.
_STEPS = 1_000_000

each_release = pytest.mark.parametrize("release", recording.releases("devices"), ids=attrgetter("version"))


@cache
def _recording(release: Release) -> recording.Recording:
    return recording.read(recording.path_of(release.minor, "devices"))


def _ended(one: recording.Recorded) -> bool:
    """Return whether an error on a node ended the attempt of kube-scheduler."""
    return one.answer.message.startswith(_ERROR)


def _assert_agreement(recorded: recording.Recording) -> None:
    """Compare outcome, node, victims and devices of every case, and the reasons of every refusal."""
    wrong = [text for one in recorded.cases if (text := _difference(recorded.header, one))]
    assert not wrong, f"PODIUM_SEED={recorded.header.seed}:\n" + "\n".join(wrong)


def _difference(header: recording.Header, one: recording.Recorded) -> str:
    """Return how the engine differs from kube-scheduler in a case, empty if it does not."""
    if _ended(one):
        text, ours = without_prefix(one.answer.message), reasons(header, _anywhere(one))
        return "" if {text, _of_any(text)} & ours.keys() else f"{one.namespace}: {text}\n  podium: {ours}"
    found = compared(header, one)
    if not found.agrees:
        return str(found)
    server, ours = refused(header, one) if one.answer.message else (Counter(), Counter())
    if UNAVAILABLE in ours:
        ours = _asked_for_all_claims(header, one, ours)
    server = Counter(
        {reason if reason in ours else _of_any(reason): count for reason, count in server.items()}
    )
    return "" if server == ours else f"{one.namespace}:\n  server: {server}\n  podium: {ours}"


def _of_any(reason: str) -> str:
    """Return a reason in the words for all pods with equal claims, as the engine gives it here."""
    return re.sub(r"^claim [^ ,:]+", "claim of the pod", reason)


def _asked_for_all_claims(
    header: recording.Header, one: recording.Recorded, ours: Counter[str]
) -> Counter[str]:
    """Return our reasons in kube-scheduler's order: devices for other claims come before allocated claims."""
    _, others = refused(header, _anywhere(one))
    found = Counter({reason: count for reason, count in others.items() if reason != UNAVAILABLE})
    found[UNAVAILABLE] = ours.total() - found.total()
    return +found


def _anywhere(one: recording.Recorded) -> recording.Recorded:
    """Return a case in which all nodes can use the allocated claims."""
    return msgspec.structs.replace(one, objects=[*map(_usable, one.objects)])


def _usable(stored: Object) -> Object:
    allocation = stored.get("status", {}).get("allocation")
    if stored["kind"] != "ResourceClaim" or allocation is None:
        return stored
    everywhere = {key: each for key, each in allocation.items() if key != "nodeSelector"}
    return {**stored, "status": {**stored["status"], "allocation": everywhere}}


@each_release
def test_the_engine_does_what_kube_scheduler_did_with_devices(release: Release) -> None:
    _assert_agreement(_recording(release))


@each_release
def test_a_recording_of_devices_has_every_kind_of_case(release: Release) -> None:
    recorded = _recording(release)
    assert (recorded.header.version, len(recorded.cases)) == (release.version, CASES)
    recording.assert_varied(recorded, _TEXTS)
    fields = Counter(field for one in recorded.cases for field in _FIELDS if _has(one.objects, field))
    assert [field for field in _FIELDS if fields[field] < _ENOUGH] == []


def _has(objects: list[Object], field: str) -> bool:
    return f'"{field}"' in msgspec.json.encode(objects).decode()


@each_release
def test_few_recorded_cases_have_an_accepted_difference(release: Release) -> None:
    """Each difference of docs/differences.md occurs, and most cases have none."""
    recorded = _recording(release)
    accepted = Counter(_accepted(recorded.header, one) for one in recorded.cases)
    assert set(accepted) == {DEVICE_ERRORS, CLAIM_ORDER, ""}
    assert accepted[""] >= CASES * 7 // 8, accepted


def _accepted(header: recording.Header, one: recording.Recorded) -> str:
    """Return the accepted difference of a case that agrees, empty for none."""
    if _ended(one):
        return DEVICE_ERRORS
    server, ours = refused(header, one) if one.answer.message else (Counter(), Counter())
    return CLAIM_ORDER if server != ours else ""


@pytest.mark.parametrize("what", ["devices", "node", "message"])
def test_a_changed_recording_of_devices_differs(what: str) -> None:
    recorded = _recording(NEWEST)
    fits = next(one for one in recorded.cases if one.answer.devices)
    waits = next(one for one in recorded.cases if UNALLOCATABLE in one.answer.message)
    nodes = [each["metadata"]["name"] for each in fits.objects if each["kind"] == "Node"]
    other = next(name for name in nodes if name not in fits.answer.bound.values())
    changes: dict[str, tuple[recording.Recorded, dict[str, Any]]] = {
        "devices": (fits, {"devices": {claim: ["r0 other pool dev"] for claim in fits.answer.devices}}),
        "node": (fits, {"bound": dict.fromkeys(fits.answer.bound, other)}),
        "message": (waits, {"message": waits.answer.message.replace(UNALLOCATABLE, UNAVAILABLE)}),
    }
    one, change = changes[what]
    assert _difference(recorded.header, one) == ""
    answer = msgspec.structs.replace(one.answer, **change)
    assert _difference(recorded.header, msgspec.structs.replace(one, answer=answer))


@each_release
def test_first_alternatives_decide_between_nodes(release: Release) -> None:
    """Without the score for alternatives, some pods would get other nodes."""
    recorded = _recording(release)
    bound = [one for one in recorded.cases if one.end == "bound"]
    with mock.patch.object(DevicesFilter, "prefers", return_value=False):
        others = [one.namespace for one in bound if _difference(recorded.header, one)]
    assert len(others) >= 3


def test_only_podium_frees_devices() -> None:
    """By its own rules Podium evicts pods for devices in some cases in which kube-scheduler never does."""
    recorded = _recording(NEWEST)
    waiting = [one for one in recorded.cases if UNALLOCATABLE in one.answer.message and one.end == "waits"]
    with mock.patch.object(compare, "_settings", return_value=Settings()):
        found = [compared(recorded.header, one) for one in waiting]
    assert sum(one.ours[0].end == "preempts" for one in found) >= _ENOUGH


def test_a_number_gives_one_case_of_devices() -> None:
    """A case is a function of seed and number; no two of its pods start at once."""
    for index in range(40):
        one = device_case(1, index, NEWEST.minor)
        assert one == device_case(1, index, NEWEST.minor)
        starts = [
            each["status"]["startTime"] for each in one.objects if "startTime" in each.get("status", {})
        ]
        assert len(starts) == len(set(starts)), index


@pytest.mark.server
@pytest.mark.parametrize("minor", of_run())
def test_the_engine_does_what_a_live_kube_scheduler_does_with_devices(
    monkeypatch: pytest.MonkeyPatch, minor: str
) -> None:
    """New cases in every run agree with the live scheduler; PODIUM_SEED repeats a run.

    kube-scheduler searches for ten seconds on a node, so the engine takes more steps here than it does else.
    """
    monkeypatch.setattr(devicefilter, "NODE_STEPS", _STEPS)
    monkeypatch.setattr(devicefilter, "ALL_STEPS", _STEPS)
    with exclusive(BUILDABLE[minor]) as server:
        _assert_agreement(driver.record(server, _SEED, _ASKED, driver.Options(gates=False), device_case))
