"""The engine under kube-scheduler's rules does what real kube-schedulers did, recorded and live."""

import itertools
import os
import random
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from tests.fixtures.servers import ENOUGH, FULL, exclusive
from tests.preemption.differential import driver, recording
from tests.preemption.differential.compare import compared, refused
from tests.preemption.differential.explained import EXPLAINED
from tests.preemption.differential.generator import case

from podium.controlplane.releases import RELEASES, Release

_SAMPLE = 16
# Of a hundred cases, how many may hang on which of equal nodes was taken in a way that was not tried.
_OPEN_PERCENT = 3
_DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"

each_release = pytest.mark.parametrize(
    "release", RELEASES.values(), ids=[item.version for item in RELEASES.values()]
)


@cache
def _recording(release: Release) -> recording.Recording:
    return recording.read(recording.path_of(release.version))


@each_release
def test_the_engine_does_what_kube_scheduler_did(release: Release) -> None:
    """The same outcome, victims and nodes, but for what docs/differences.md lists, all of which is needed."""
    recorded = _recording(release)
    cases = [compared(recorded.header, one) for one in recorded.cases]
    wrong = [str(one) for one in cases if one.differs]
    assert not wrong, f"Kubernetes {release.version}:\n" + "\n".join(wrong)
    # Little may be left open, so that agreement means something.
    left = [str(one) for one in cases if one.is_open]
    assert len(left) * 100 <= _OPEN_PERCENT * len(cases), "\n".join(left)
    used = {one.explained for one in cases if one.explained}
    assert used == {each.name for each in EXPLAINED if each.minor == release.minor}


@each_release
def test_a_recording_has_every_kind_of_case(release: Release) -> None:
    """As many as were asked for, of the release it is named after; pods and groups, in vain and not."""
    recorded = _recording(release)
    assert (recorded.header.version, recorded.header.minor) == (release.version, release.minor)
    assert len(recorded.cases) == recording.CASES
    ends = Counter((one.preemptor[0], one.end) for one in recorded.cases)
    assert all(ends[kind, end] for kind in ("Pod", "PodGroup") for end in ("bound", "preempts", "waits"))


def test_every_explanation_is_documented() -> None:
    """docs/differences.md has a line for each, and for no other."""
    section = _DIFFERENCES.read_text(encoding="utf-8").partition("## Preemption")[2]
    assert re.findall(r"^- \*\*([a-z-]+)\*\*", section, re.MULTILINE) == [each.name for each in EXPLAINED]


@each_release
def test_the_engine_refuses_nodes_for_the_same_reasons(release: Release) -> None:
    """As many nodes for each reason as kube-scheduler's message counts, whether it preempted then or not."""
    recorded = _recording(release)
    counted = 0
    for one in recorded.cases:
        if one.preemptor[0] == "Pod" and one.answer.message:
            server, ours = refused(recorded.header, one)
            assert server == ours, one.namespace
            counted += 1
    assert counted > len(recorded.cases) // 4


@pytest.mark.server
@each_release
def test_the_engine_does_what_a_live_kube_scheduler_does(release: Release) -> None:
    """Fresh cases every run, and the same again with PODIUM_SEED."""
    seed = _seed()
    with exclusive(release) as server:
        recorded = driver.record(server, seed, range(recording.CASES if FULL else _SAMPLE))
    _assert_the_same(recorded)


@pytest.mark.server
@pytest.mark.parametrize("minor", ENOUGH)
def test_without_gates_groups_are_pods(minor: str) -> None:
    """A scheduler that knows no groups takes single pods out of them, as `--semantics pods` does."""
    seed = _seed()
    pods = (index for index in itertools.count() if case(seed, index, minor).preemptor[0] == "Pod")
    with exclusive(RELEASES[minor]) as server:
        recorded = driver.record(server, seed, list(itertools.islice(pods, _SAMPLE // 2)), gates=False)
    _assert_the_same(recorded)


def _seed() -> int:
    seed = int(os.environ.get("PODIUM_SEED") or random.SystemRandom().randrange(2**32))
    print(f"seed: PODIUM_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    return seed


def _assert_the_same(recorded: recording.Recording) -> None:
    header = recorded.header
    wrong = [str(each) for one in recorded.cases if (each := compared(header, one)).differs]
    assert not wrong, f"Kubernetes {header.version}, PODIUM_SEED={header.seed}:\n" + "\n".join(wrong)
