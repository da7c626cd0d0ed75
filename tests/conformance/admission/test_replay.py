"""The recorded answers of real servers, replayed in full against the rules; needs no server."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.admission import recording
from tests.support.admission.compare import Compared, compared
from tests.support.admission.explained import EXPLAINED
from tests.support.admission.gated import gate_sets
from tools.devcluster.controlplane.releases import BUILDABLE, Release

from podium.rules.table import ADMISSION_RULES

_CHUNKS = 16
# Every server has either no gate or all, so no field is stored and then gated. A write to an absent namespace
# has no path. Tests of their own compare the last five (incomplete.py and jobs.py of tests/support/rules).
_OUT_OF_REACH = {
    "gate-off",
    "resource-claims",
    "version-not-served",
    "namespace-not-found",
    "required-field",
    "restart-policy",
    "selector-mismatch",
    "job-scheduling",
    "job-delegation",
}
_DIFFERENCES = Path(__file__).parents[3] / "docs" / "differences.md"


class _Source(NamedTuple):
    """A recorded server: its release and its gates."""

    release: Release
    gates: tuple[str, ...]


_SOURCES = [_Source(release, gates) for release in BUILDABLE.values() for gates in gate_sets(release)]
each_recording = pytest.mark.parametrize(
    "source", _SOURCES, ids=[f"{each.release.version}{'-gates' if each.gates else ''}" for each in _SOURCES]
)


@cache
def _recording(source: _Source) -> recording.Recording:
    return recording.read(recording.path_of(source.release.minor, source.gates))


def _replayed() -> Iterator[Compared]:
    for source in _SOURCES:
        for scenario in _recording(source).scenarios:
            yield from compared(_recording(source).header, scenario)


@each_recording
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_the_rules_answer_as_the_server_did(source: _Source, chunk: int) -> None:
    """Every recorded operation has the same answer, except for the differences in docs/differences.md."""
    scenarios = _recording(source).scenarios
    for scenario in scenarios[chunk::_CHUNKS]:
        wrong = [str(one) for one in compared(_recording(source).header, scenario) if one.unexplained]
        assert not wrong, f"{source}, {scenario.namespace}:\n" + "\n".join(wrong)


@each_recording
def test_a_recording_is_whole(source: _Source) -> None:
    """The recording is of the release in its name and has the requested number of operations."""
    recorded = _recording(source)
    assert recorded.header.version == source.release.version
    assert recorded.header.minor == source.release.minor
    assert recorded.header.gates == list(source.gates)
    assert sum(scenario.compared for scenario in recorded.scenarios) >= recording.OPERATIONS


def test_every_explanation_is_needed_and_documented() -> None:
    """The recordings contain each explained difference; docs/differences.md has a section for each."""
    used = {difference.explained for one in _replayed() for difference in one.differences}
    names = {explanation.name for explanation in EXPLAINED}
    assert used - {None} == names
    assert (
        set(re.findall(r"^### ([a-z-]+)$", _DIFFERENCES.read_text(encoding="utf-8"), re.MULTILINE)) == names
    )


def test_every_rule_of_the_server_is_exercised() -> None:
    """Each admission rule that comes from the server fires in the recordings, or cannot on these servers."""
    fired = {finding.rule for one in _replayed() for finding in one.verdict.findings}
    upstream = {rule.id for rule in ADMISSION_RULES if rule.source.startswith("Kubernetes API server")}
    assert upstream - fired == _OUT_OF_REACH


def test_every_refusal_names_its_rules() -> None:
    """Every refusal comes from a rule with a name."""
    for one in _replayed():
        assert one.verdict.allowed or one.verdict.findings, str(one)
