"""Pods with volumes get the verdict, message and victims of real kube-schedulers, recorded and live."""

from collections import Counter
from functools import cache
from operator import attrgetter

import msgspec
import pytest
from tests.support.preemption.differential import driver, recording
from tests.support.preemption.differential.compare import Compared, compared, refused
from tests.support.preemption.differential.generator import Object
from tests.support.preemption.differential.volumes import BOUND, CASES, volume_case
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL, exclusive, of_run
from tests.support.volumes.settled import unsettled
from tools.devcluster.controlplane.releases import BUILDABLE, NEWEST, Release

_SEED = new_seed()
# The live cases: a part of those with bound claims only, and of those with delayed ones.
_ASKED = range(CASES) if FULL else range(BOUND - 10, BOUND + 20)
# The texts that a recording has at least once.
_TEXTS = (
    *("already in-use by another pod", "had no available disk", "exceed max volume count"),
    *("node affinity", "no available volume zone", "bound to non-existent persistentvolume"),
    *("persistentvolumeclaim", "waiting for ephemeral volume controller", "is being deleted"),
    *("pod is not owner", "unbound immediate"),
    *("didn't find available persistent volumes to bind", "did not have enough free storage"),
)

each_release = pytest.mark.parametrize("release", recording.releases("volumes"), ids=attrgetter("version"))


@cache
def _recording(release: Release) -> recording.Recording:
    return recording.read(recording.path_of(release.minor, "volumes"))


def _assert_agreement(recorded: recording.Recording) -> None:
    """Compare outcome, node, victims and volumes of every case, and the reasons of every refusal."""
    found = [compared(recorded.header, one) for one in recorded.cases]
    wrong = [str(one) for one in found if not one.agrees]
    assert not wrong, f"PODIUM_SEED={recorded.header.seed}:\n" + "\n".join(wrong)
    messages = {
        one.recorded.namespace: refused(recorded.header, one.recorded) for one in found if _waited(one)
    }
    assert {name: ours for name, (server, ours) in messages.items() if server != ours} == {}


def _waited_for_pod(claim: Object) -> bool:
    return bool(claim["spec"]["storageClassName"])


def _waited(one: Compared) -> bool:
    return bool(one.recorded.answer.message)


@each_release
def test_the_engine_does_what_kube_scheduler_did_with_volumes(release: Release) -> None:
    _assert_agreement(_recording(release))


@each_release
def test_a_recording_of_volumes_has_every_kind_of_case(release: Release) -> None:
    recorded = _recording(release)
    assert (recorded.header.version, len(recorded.cases)) == (release.version, CASES)
    messages = recording.assert_varied(recorded, _TEXTS)
    assert ("CSI driver is not installed" in messages) is (release.minor != "1.36")


@each_release
def test_a_recording_of_delayed_claims_has_every_kind_of_case(release: Release) -> None:
    """Pods with delayed claims fit, preempt and wait; volumes are bound, and others are to be provisioned."""
    recorded = _recording(release).cases[BOUND:]
    ends = Counter(one.end for one in recorded)
    assert all(ends[end] >= len(recorded) // 10 for end in ("bound", "preempts", "waits")), ends
    provisioned = Counter(not volume for one in recorded for volume in one.answer.volumes.values())
    assert all(provisioned[each] >= len(recorded) // 20 for each in (True, False)), provisioned


@each_release
def test_kube_scheduler_decided_when_no_claim_was_left_to_the_controller(release: Release) -> None:
    """In some cases the controller bound a claim that waits for a pod, because a volume names it."""
    early = 0
    for one in _recording(release).cases:
        claims = [each for each in one.objects if each["kind"] == "PersistentVolumeClaim"]
        volumes = [each for each in one.objects if each["kind"] == "PersistentVolume"]
        assert unsettled(claims, volumes) == [], one.namespace
        assert unsettled(claims, []) != [], one.namespace
        early += any(_waited_for_pod(each) and "volumeName" in each["spec"] for each in claims)
    assert early


@pytest.mark.parametrize("volumes", [{"another": ""}, {}], ids=["another", "none"])
def test_a_recording_with_other_volumes_differs(volumes: dict[str, str]) -> None:
    recorded = _recording(NEWEST)
    one = next(each for each in recorded.cases if any(each.answer.volumes.values()))
    answer = msgspec.structs.replace(one.answer, volumes=volumes)
    assert compared(recorded.header, one).agrees
    assert compared(recorded.header, msgspec.structs.replace(one, answer=answer)).differs


@pytest.mark.server
@pytest.mark.parametrize("minor", of_run())
def test_the_engine_does_what_a_live_kube_scheduler_does_with_volumes(minor: str) -> None:
    """New cases in every run agree with the live scheduler; PODIUM_SEED repeats a run."""
    with exclusive(BUILDABLE[minor]) as server:
        _assert_agreement(driver.record(server, _SEED, _ASKED, driver.Options(gates=False), volume_case))
