"""Findings count, are known, or are ignored; none is lost, and each ignored one has a reason."""

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.audit.builders import owner, pod, pod_group, pods, priority_class, report

from podium.answers.audits.baseline import Baseline, Ignore, Looked, Triage, baseline_of
from podium.answers.audits.report import IgnoreState
from podium.api.findings import Finding, ObjectRef, Severity
from podium.api.meta import OwnerReference
from podium.cluster.state import Readable

TODAY = date(2026, 11, 22)
RULES = ("pod-priority-differs", "group-missing", "class-unused")
EVERYTHING = Looked(frozenset(RULES))


def found(rule: str = RULES[0], name: str = "train", namespace: str = "team-a") -> Finding:
    """Make a finding of one place."""
    ref = ObjectRef("scheduling.k8s.io/v1beta1", "PodGroup", namespace, name)
    return Finding(rule=rule, severity=Severity.ERROR, object=ref, field="", message="m", fix="f")


def ignoring(rule: str = RULES[0], *objects: str, until: date | None = None) -> Ignore:
    return Ignore(rule=rule, objects=objects, reason="agreed", expires=until)


def before(*findings: Finding, partly: frozenset[str] = frozenset()) -> Baseline:
    """Make a baseline of findings."""
    known = {each.fingerprint: each for each in findings}
    return Baseline(name="old.json", kubernetes="1.36", findings=known, partly=partly)


PATTERNS = {
    "all objects": ([], "team-a", "train", True),
    "its name": (["team-a/train"], "team-a", "train", True),
    "another": (["team-a/other", "team-b/train"], "team-a", "train", False),
    "one of several": (["team-b/*", "team-a/t*"], "team-a", "train", True),
    "any namespace": (["*/train"], "team-a", "train", True),
    "case counts": (["team-a/Train"], "team-a", "train", False),
    "no namespace, by a name alone": (["gold*"], "", "gold-2", True),
    "no namespace, by a pattern with one": (["*/gold"], "", "gold", False),
    "a namespace, by a name alone": (["train"], "team-a", "train", False),
    "what ends alike": (["team-a/rain"], "team-a", "train", False),
}


@pytest.mark.parametrize(("objects", "namespace", "name", "covered"), PATTERNS.values(), ids=list(PATTERNS))
def test_patterns(objects: Sequence[str], namespace: str, name: str, covered: bool) -> None:
    """A pattern is namespace/name, or the name of a cluster-scoped object."""
    assert ignoring(RULES[0], *objects).covers(found(name=name, namespace=namespace)) == covered


def test_an_ignore_is_of_one_rule() -> None:
    assert not ignoring("group-missing").covers(found("class-unused"))


DAYS = {
    "for ever": (None, IgnoreState.ACTIVE),
    "to a later day": (TODAY + timedelta(1), IgnoreState.ACTIVE),
    "to the end of today": (TODAY, IgnoreState.ACTIVE),
    "to yesterday": (TODAY - timedelta(1), IgnoreState.EXPIRED),
}


@pytest.mark.parametrize(("until", "state"), DAYS.values(), ids=list(DAYS))
def test_an_ignore_holds_to_the_end_of_its_last_day(until: date | None, state: IgnoreState) -> None:
    """After the last day of an ignore the finding counts again, and the report notes it."""
    result = Triage(ignores=[ignoring(until=until)], today=TODAY).sort([found()], EVERYTHING)
    held = state is IgnoreState.ACTIVE
    assert (len(result.ignored), len(result.counting)) == (int(held), int(not held))
    (share,) = result.ignores
    assert (share.state, share.findings) == (state, 1)
    assert share.expires == ("" if until is None else until.isoformat())


def test_without_a_day_every_last_day_is_over() -> None:
    """A caller that passes no date hides no finding."""
    ignore = ignoring(until=date(9999, 12, 30))
    assert Triage(ignores=[ignore]).sort([found()], EVERYTHING).counting == [found()]


UNMATCHED = {
    "it has nothing to ignore": (EVERYTHING, IgnoreState.UNUSED),
    "its rule did not run": (Looked(frozenset({"class-unused"})), IgnoreState.NOT_CHECKED),
    "one namespace was read": (EVERYTHING._replace(namespace="team-a"), IgnoreState.NOT_CHECKED),
    "a selection was read": (EVERYTHING._replace(selector="a=b"), IgnoreState.NOT_CHECKED),
}


@pytest.mark.parametrize(("looked", "state"), UNMATCHED.values(), ids=list(UNMATCHED))
def test_an_ignore_that_matches_nothing_is_said(looked: Looked, state: IgnoreState) -> None:
    """An ignore is not reported as unused for kinds that were not read; an expired one is unused too."""
    for until in (None, TODAY - timedelta(1)):
        (share,) = Triage(ignores=[ignoring(until=until)], today=TODAY).sort([], looked).ignores
        assert (share.state, share.findings) == (state, 0)


def test_the_first_ignore_that_holds_gives_the_reason() -> None:
    """Each ignore has the number of findings it covers, also if another one gives the reason."""
    expired, first, second = (
        msgspec.structs.replace(ignoring(until=until), reason=reason)
        for reason, until in (("expired", TODAY - timedelta(1)), ("first", None), ("second", TODAY))
    )
    result = Triage(ignores=[expired, first, second], today=TODAY).sort([found()], EVERYTHING)
    assert [each.reason for each in result.ignored] == ["first"]
    assert [share.findings for share in result.ignores] == [1, 1, 1]


def test_an_ignored_finding_is_neither_known_nor_gone() -> None:
    result = Triage(baseline=before(found()), ignores=[ignoring()], today=TODAY).sort([found()], EVERYTHING)
    assert (result.counting, result.known, result.gone) == ([], [], [])
    assert len(result.ignored) == 1
    assert result.compared is not None
    assert (result.compared.known, result.compared.gone, result.compared.notLookedFor) == (0, 0, 0)


GONE = {
    "all was read": (EVERYTHING, True),
    "its namespace was read": (EVERYTHING._replace(namespace="team-a"), True),
    "another namespace was read": (EVERYTHING._replace(namespace="team-b"), False),
    "a selection was read": (EVERYTHING._replace(selector="a=b"), False),
    "its rule did not run": (Looked(frozenset({"class-unused"})), False),
}


@pytest.mark.parametrize(("looked", "gone"), GONE.values(), ids=list(GONE))
def test_only_what_was_looked_for_is_gone(looked: Looked, gone: bool) -> None:
    """A finding that this audit could not make is not fixed."""
    result = Triage(baseline=before(found())).sort([], looked)
    assert result.gone == ([found()] if gone else [])
    assert result.compared is not None
    assert (result.compared.gone, result.compared.notLookedFor) == (int(gone), int(not gone))


def test_rules_that_the_baseline_could_not_check_are_named() -> None:
    """Their findings may be old; rules without a new finding are left out."""
    baseline = before(partly=frozenset(RULES[:2]))
    compared = Triage(baseline=baseline).sort([found(RULES[0]), found(RULES[2])], EVERYTHING).compared
    assert compared is not None
    assert compared.newlyChecked == [RULES[0]]


def test_rules_that_neither_could_check_wholly_are_not_named() -> None:
    baseline = before(partly=frozenset(RULES))
    compared = (
        Triage(baseline=baseline).sort([found()], EVERYTHING._replace(partly=frozenset(RULES))).compared
    )
    assert compared is not None
    assert compared.newlyChecked == []


FINDINGS = st.builds(
    found, st.sampled_from(RULES), st.sampled_from("abc"), st.sampled_from(["team-a", "team-b", ""])
)
IGNORES = st.builds(
    Ignore,
    rule=st.sampled_from(RULES),
    reason=st.just("agreed"),
    objects=st.lists(st.sampled_from(["a", "*", "team-a/*", "*/b"]), max_size=2).map(tuple),
    expires=st.none() | st.dates(TODAY - timedelta(2), TODAY + timedelta(2)),
)
LOOKED = st.builds(
    Looked,
    st.frozensets(st.sampled_from(RULES)),
    st.just(frozenset[str]()),
    st.sampled_from(["", "team-a"]),
    st.sampled_from(["", "a=b"]),
)


@given(
    st.lists(FINDINGS, unique=True), st.lists(FINDINGS, unique=True), st.lists(IGNORES, max_size=3), LOOKED
)
def test_nothing_is_lost(
    now: list[Finding], earlier: list[Finding], ignores: list[Ignore], looked: Looked
) -> None:
    """Every finding is in exactly one of: counting, known, ignored; so is every one of the baseline."""
    result = Triage(baseline=before(*earlier), ignores=ignores, today=TODAY).sort(now, looked)
    places = Counter(each.fingerprint for each in (*result.counting, *result.known, *result.ignored))
    assert places == Counter(each.fingerprint for each in now)
    assert result.compared is not None
    still = {each.fingerprint for each in now} & {each.fingerprint for each in earlier}
    assert len(still) + result.compared.gone + result.compared.notLookedFor == len(earlier)
    assert not {each.fingerprint for each in result.counting} & {each.fingerprint for each in earlier}


DIVIDED: list[Readable] = [
    priority_class("gold", 1000),
    pod_group(priority=1000, class_name="gold"),
    *pods(3),
    pod("lost", group="nowhere"),
]


def test_an_audit_against_itself_finds_nothing_new() -> None:
    """A baseline from a report with a baseline equals the first one."""
    first = report(*DIVIDED)
    second = report(*DIVIDED, triage=Triage(baseline=baseline_of(first, "old.json")))
    assert (second.findings, second.gone, second.summary.fixes) == ([], [], [])
    assert second.known == first.findings
    assert [second.summary.errors, second.summary.warnings, second.summary.infos] == [0, 0, 0]
    assert baseline_of(second, "") == baseline_of(first, "")


def test_findings_ignored_by_a_report_are_in_no_baseline() -> None:
    """After its last day the finding counts, and is not known."""
    ignore = ignoring(until=TODAY)
    first = report(*DIVIDED, triage=Triage(ignores=[ignore], today=TODAY))
    later = Triage(ignores=[ignore], today=TODAY + timedelta(1), baseline=baseline_of(first, ""))
    assert [each.rule for each in report(*DIVIDED, triage=later).findings] == ["pod-priority-differs"]


def test_the_run_of_tomorrow_is_known() -> None:
    """A finding on a group of a CronJob's Job is the same on the group of its next Job."""

    def night(number: int) -> list[Readable]:
        name = f"nightly-{number}"
        group = pod_group(f"{name}-job", podium=True, priority=1000)
        group.metadata.ownerReferences = [OwnerReference("batch/v1", "Job", name, controller=True)]
        job = owner("Job", name, made_by=("batch/v1", "CronJob", "nightly"))
        return [group, job, pod("a", podium=f"{name}-job", scheduler="podium-scheduler")]

    baseline = baseline_of(report(*night(29384750)), "")
    tomorrow = report(*night(29386190), triage=Triage(baseline=baseline))
    assert (tomorrow.findings, tomorrow.gone) == ([], [])
    assert "nightly-*-job" in {each.lasting_name for each in tomorrow.known}


def test_a_severity_of_ones_own_is_counted_and_sorted_by() -> None:
    """The configured severity is the finding's everywhere; the fingerprint stays."""
    own = report(*DIVIDED, triage=Triage(severities={"group-missing": Severity.INFO}))
    plain = report(*DIVIDED)
    assert own.summary.errors == plain.summary.errors - 1
    assert own.summary.infos == plain.summary.infos + 1
    assert {each.fingerprint for each in own.findings} == {each.fingerprint for each in plain.findings}
    ranks = [each.severity.rank for each in own.findings]
    assert ranks == sorted(ranks)
