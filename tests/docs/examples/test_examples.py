"""The audit of the dumps in examples/, from real control planes, agrees with their schedulers."""

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.calling import invoke

EXAMPLES = Path(__file__).parents[3] / "examples"


class Audited(NamedTuple):
    """The audit's report on a dump, and its exit code."""

    code: int
    report: Any


def audited(file: str, *args: str) -> Audited:
    done = invoke(["audit", "-f", file, "-o", "json", *args], EXAMPLES)
    return Audited(done.code, done.json)


def waiting(file: str) -> dict[str, int]:
    """Return the number of pods of each group that the real scheduler left pending."""
    with gzip.open(EXAMPLES / file) as text:
        items = json.load(text)["items"]
    counts: dict[str, int] = {}
    for item in items:
        if item["kind"] == "Pod" and item["status"]["phase"] == "Pending":
            group = f"{item['metadata']['namespace']}/{item['spec']['schedulingGroup']['podGroupName']}"
            counts[group] = counts.get(group, 0) + 1
    return counts


@pytest.mark.parametrize("file", ["training-1.36.json.gz", "training-1.37.json.gz"])
def test_blocked_is_what_the_real_scheduler_left_pending(file: str) -> None:
    """The report blocks as many groups and pods as the scheduler of that minor left pending."""
    pending = waiting(file)
    code, report = audited(file)
    blocked = report["summary"]["blocked"]
    assert code == 3
    assert (blocked["groups"], blocked["pods"]) == (len(pending), sum(pending.values()))


def test_the_older_cluster_judged_for_the_newer_minor() -> None:
    """Groups that 1.36 runs wait on 1.37: the audit predicts the real 1.37 scheduler."""
    newer = waiting("training-1.37.json.gz")
    foreseen = audited("training-1.36.json.gz", "--kubernetes", "1.37")
    assert foreseen.report["summary"]["blocked"]["groups"] == len(newer)


@pytest.mark.parametrize(
    ("file", "divergent"),
    [
        ("training-1.36.json.gz", {"ablation": 6, "finetune": 1, "nightly-asr": 4, "retrain": 12}),
        ("training-1.37.json.gz", {"ablation": 6, "finetune": 1, "nightly-asr": 4, "retrain": 12}),
        ("clean-1.37.json.gz", {}),
    ],
)
def test_divergent_groups(file: str, divergent: dict[str, int]) -> None:
    """The groups with injected divergence are found, with their number of divergent pods, and no others."""
    found = {group["name"]: len(group["divergent"]) for group in audited(file).report["groups"]}
    assert found == divergent


def test_a_clean_cluster_has_no_findings() -> None:
    """The report has no finding, and the exit code is 0."""
    code, report = audited("clean-1.37.json.gz", "--fail-on", "warning")
    assert code == 0
    assert [finding["rule"] for finding in report["findings"] if finding["severity"] != "info"] == []
