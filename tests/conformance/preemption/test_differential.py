"""Under kube-scheduler's rules the engine answers as real kube-schedulers do, recorded and live."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest
from tests.support.preemption.differential import driver, recording
from tests.support.preemption.differential.compare import compared, refused
from tests.support.preemption.differential.explained import (
    CLAIM_ORDER,
    DEVICE_ERRORS,
    EXPLAINED,
    FAILED_GROUPS,
    LEAST_OF_TWO,
)
from tests.support.preemption.differential.generator import case
from tests.support.preemption.differential.repeated import lasting
from tests.support.seeds import seed as new_seed
from tests.support.servers import FULL, exclusive, of_run
from tools.devcluster.controlplane.releases import BUILDABLE, NEWEST, Release

_SAMPLE = 16
_SEED = new_seed()
_DIFFERENCES = Path(__file__).parents[3] / "docs" / "differences.md"

each_release = pytest.mark.parametrize("release", recording.releases("preemption"), ids=attrgetter("version"))


@cache
def _recording(release: Release) -> recording.Recording:
    return recording.read(recording.path_of(release.minor))


@each_release
def test_the_engine_does_what_kube_scheduler_did(release: Release) -> None:
    """The same outcome, victims and nodes, except for the list in docs/differences.md."""
    recorded = _recording(release)
    cases = [compared(recorded.header, one) for one in recorded.cases]
    wrong = [str(one) for one in cases if one.differs]
    assert not wrong, f"Kubernetes {release.version}:\n" + "\n".join(wrong)
    left = [str(one) for one in cases if one.is_open]
    assert not left, "\n".join(left)
    used = {one.explained for one in cases if one.explained}
    least_of_two = {LEAST_OF_TWO} if release.minor == "1.38" else set()
    assert used == {each.name for each in EXPLAINED if release.minor in each.minors} | least_of_two


@each_release
def test_a_recording_has_every_kind_of_case(release: Release) -> None:
    """The recording has the requested number of cases: pods and groups, with and without success."""
    recorded = _recording(release)
    assert (recorded.header.version, recorded.header.minor) == (release.version, release.minor)
    assert len(recorded.cases) == recording.CASES
    ends = Counter((one.preemptor[0], one.end) for one in recorded.cases)
    assert all(ends[kind, end] for kind in ("Pod", "PodGroup") for end in ("bound", "preempts", "waits"))


@pytest.mark.parametrize("what", ["victims", "nodes", "end"])
def test_a_changed_recording_differs(what: str) -> None:
    """A recording with one change no longer agrees."""
    recorded = _recording(NEWEST)
    one = next(each for each in recorded.cases if each.preemptor[0] == "Pod" and len(each.answer.victims) > 1)
    nodes = [each["metadata"]["name"] for each in one.objects if each["kind"] == "Node"]
    other = next(name for name in nodes if name not in one.answer.nominated.values())
    answer = {
        "victims": msgspec.structs.replace(one.answer, victims=one.answer.victims[1:]),
        "nodes": msgspec.structs.replace(one.answer, nominated=dict.fromkeys(one.answer.nominated, other)),
        "end": recording.Answer(message="0/3 nodes are available: 3 Insufficient cpu."),
    }[what]
    assert compared(recorded.header, one).agrees
    assert compared(recorded.header, msgspec.structs.replace(one, answer=answer)).differs


@each_release
def test_cases_avoid_random_choices_of_the_scheduler(release: Release) -> None:
    """No two pods start at once or share a host port; in 1.36 a group's pods are alike; one case a number."""
    for index in range(60):
        one = case(1, index, release.minor)
        assert one == case(1, index, release.minor)
        pods = [each for each in one.objects if each["kind"] == "Pod"]
        starts = [each["status"]["startTime"] for each in pods if "nodeName" in each["spec"]]
        assert len(starts) == len(set(starts)), index
        ports = [each["spec"].get("nodeName") for each in pods if "ports" in each["spec"]["containers"][0]]
        assert max(Counter(filter(None, ports)).values(), default=0) <= 1, index
        pending = [each["spec"]["containers"] for each in pods if "nodeName" not in each["spec"]]
        assert release.minor != "1.36" or all(each == pending[0] for each in pending), index


def test_every_explanation_is_documented() -> None:
    """docs/differences.md lists exactly these explanations."""
    section = _DIFFERENCES.read_text(encoding="utf-8").partition("## Preemption")[2]
    listed = re.findall(r"^- \*\*([a-z-]+)\*\*", section, re.MULTILINE)
    assert listed == [
        *(each.name for each in EXPLAINED),
        *(LEAST_OF_TWO, FAILED_GROUPS, DEVICE_ERRORS, CLAIM_ORDER),
    ]


@each_release
def test_the_engine_refuses_nodes_for_the_same_reasons(release: Release) -> None:
    """The numbers of nodes by reason equal kube-scheduler's message, with and without preemption."""
    recorded = _recording(release)
    counted = 0
    for one in recorded.cases:
        if one.preemptor[0] == "Pod" and one.answer.message:
            server, ours = refused(recorded.header, one)
            assert server == ours, one.namespace
            counted += 1
    assert counted > len(recorded.cases) // 4


@pytest.mark.server
@pytest.mark.parametrize("minor", of_run())
def test_the_engine_does_what_a_live_kube_scheduler_does(minor: str) -> None:
    """New cases in every run agree with the live scheduler; PODIUM_SEED repeats a run."""
    _assert_the_same(BUILDABLE[minor], range(recording.CASES if FULL else _SAMPLE))


@pytest.mark.server
@pytest.mark.parametrize("minor", of_run())
def test_without_gates_groups_are_pods(minor: str) -> None:
    """A scheduler that does not know groups evicts single pods of them, as `--semantics pods` does."""
    pods = (index for index in itertools.count() if case(_SEED, index, minor).preemptor[0] == "Pod")
    _assert_the_same(BUILDABLE[minor], list(itertools.islice(pods, _SAMPLE // 2)), gates=False)


def test_an_answer_that_changes_between_runs_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case that the scheduler answers differently in a second run is no difference."""
    recorded = _recording(NEWEST)
    one = next(each for each in recorded.cases if each.preemptor[0] == "Pod" and len(each.answer.victims) > 1)
    wrong = msgspec.structs.replace(one, answer=msgspec.structs.replace(one.answer, victims=[]))
    answers = iter([wrong, one])

    def recording_of(_release: Release, _indices: Sequence[int], *, gates: bool) -> recording.Recording:
        assert gates
        return recording.Recording(header=recorded.header, cases=[next(answers, wrong)])

    monkeypatch.setattr(f"{__name__}._asked", recording_of)
    _assert_the_same(NEWEST, [0])
    with pytest.raises(AssertionError, match="PODIUM_SEED"):
        _assert_the_same(NEWEST, [0])


def _asked(release: Release, indices: Sequence[int], *, gates: bool) -> recording.Recording:
    with exclusive(release) as server:
        return driver.record(server, _SEED, indices, driver.Options(gates=gates))


def _assert_the_same(release: Release, indices: Sequence[int], *, gates: bool = True) -> None:
    """Run cases on a live scheduler; the answers that stay the same equal ours."""
    found = lasting(partial(_asked, release, gates=gates), indices)
    report = "\n".join(str(each) for each in found if each.differs)
    assert not report, f"Kubernetes {release.version}, PODIUM_SEED={_SEED}:\n{report}"
