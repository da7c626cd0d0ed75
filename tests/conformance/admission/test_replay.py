"""The recorded answers of real servers, replayed in full against the rules; needs no server."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from tests.support.admission import recording
from tests.support.admission.compare import Compared, compared
from tests.support.admission.explained import EXPLAINED

from podium.controlplane.releases import RELEASES, Release
from podium.rules.table import ADMISSION_RULES

_CHUNKS = 16
# Behind gates that are off on these servers; Podium's own resources have them. A write to an absent namespace
# has no path. The last three have recordings of their own, see tests/support/rules/incomplete.py.
_OUT_OF_REACH = {
    "group-preemption-policy",
    "group-preemption-policy-mismatch",
    "scheduling-constraints",
    "resource-claims",
    "claim-status",
    "gate-off",
    "version-not-served",
    "namespace-not-found",
    "required-field",
    "restart-policy",
    "selector-mismatch",
}
_DIFFERENCES = Path(__file__).parents[3] / "docs" / "differences.md"

each_release = pytest.mark.parametrize(
    "release", RELEASES.values(), ids=[item.version for item in RELEASES.values()]
)


@cache
def _recording(release: Release) -> recording.Recording:
    return recording.read(recording.path_of(release.version))


def _replayed(release: Release, scenarios: Sequence[recording.Recorded]) -> Iterator[Compared]:
    for scenario in scenarios:
        yield from compared(_recording(release).header, scenario)


@each_release
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_the_rules_answer_as_the_server_did(release: Release, chunk: int) -> None:
    """Every recorded operation has the same answer, except for the differences in docs/differences.md."""
    scenarios = _recording(release).scenarios
    for scenario in scenarios[chunk::_CHUNKS]:
        wrong = [str(one) for one in compared(_recording(release).header, scenario) if one.unexplained]
        assert not wrong, f"Kubernetes {release.version}, {scenario.namespace}:\n" + "\n".join(wrong)


@each_release
def test_a_recording_is_whole(release: Release) -> None:
    """The recording is of the release in its name and has the requested number of operations."""
    recorded = _recording(release)
    assert recorded.header.version == release.version
    assert recorded.header.minor == release.minor
    assert sum(scenario.compared for scenario in recorded.scenarios) >= recording.OPERATIONS


def test_every_explanation_is_needed_and_documented() -> None:
    """The recordings contain each explained difference; docs/differences.md has a section for each."""
    used = {
        difference.explained
        for release in RELEASES.values()
        for one in _replayed(release, _recording(release).scenarios)
        for difference in one.differences
    }
    names = {explanation.name for explanation in EXPLAINED}
    assert used - {None} == names
    assert (
        set(re.findall(r"^### ([a-z-]+)$", _DIFFERENCES.read_text(encoding="utf-8"), re.MULTILINE)) == names
    )


def test_every_rule_of_the_server_is_exercised() -> None:
    """Each admission rule that comes from the server fires in the recordings, or cannot on these servers."""
    fired = {
        finding.rule
        for release in RELEASES.values()
        for one in _replayed(release, _recording(release).scenarios)
        for finding in one.verdict.findings
    }
    upstream = {rule.id for rule in ADMISSION_RULES if rule.source.startswith("Kubernetes API server")}
    assert upstream - fired == _OUT_OF_REACH


def test_every_refusal_names_its_rules() -> None:
    """Every refusal comes from a rule with a name."""
    for release in RELEASES.values():
        for one in _replayed(release, _recording(release).scenarios):
            assert one.verdict.allowed or one.verdict.findings, str(one)
