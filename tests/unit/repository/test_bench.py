"""The bench measures as described: its requests get a patch, and a section replaces only itself."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench import __main__ as bench
from bench import pages, results, reviews, stages, workloads
from bench.results import Row, Section
from tests.support.shell import run

from podium.runtime.messages import HTTPRequest, HTTPResponse

REVIEWS = {"Pod": (reviews.pod_review(), 5_300), "PodGroup": (reviews.group_review(), 1_650)}


@pytest.mark.parametrize("kind", REVIEWS)
def test_reviews_are_of_the_size_that_is_quoted(kind: str) -> None:
    """A pod of 5.3 KB, a PodGroup of 1.6 KB: the figures in the README name these sizes."""
    body, size = REVIEWS[kind]
    assert abs(len(body) - size) < 60
    request = msgspec.json.decode(body)["request"]
    assert (request["kind"]["kind"], request["operation"]) == (kind, "CREATE")


@pytest.mark.parametrize("kind", REVIEWS)
def test_podium_patches_what_it_is_timed_with(kind: str) -> None:
    """The hand-made state of the stages is enough to patch the requests."""
    body, _ = REVIEWS[kind]
    reply = stages.judged()(HTTPRequest("/mutate", body, deadline=float("inf"), began=0.0))
    assert isinstance(reply, HTTPResponse)
    response = msgspec.json.decode(reply.body)["response"]
    assert (reply.status, response["allowed"], response["patchType"]) == (200, True, "JSONPatch")


def test_canned_answers_carry_the_uid_that_was_sent() -> None:
    """The load checks the uid in each answer, so a server without rules must return it."""
    for body, _ in REVIEWS.values():
        reply = stages.canned()(HTTPRequest("/mutate", body, deadline=0.0, began=0.0))
        sent, got = (msgspec.json.decode(text) for text in (body, reply.body))
        assert got["response"]["uid"] == sent["request"]["uid"]


class TestResults:
    def test_a_section_takes_the_place_of_its_own(self) -> None:
        """A part that is measured again leaves the others, and their order, unchanged."""
        text = ""
        for title, figure in (("Start", "1 ms"), ("Audit", "2 s"), ("Start", "3 ms")):
            text = results.merged(text, results.render(Section(title, [Row("it", figure)]), "a machine"))
        assert [line for line in text.splitlines() if line.startswith(("## ", "| it"))] == [
            "## Start",
            "| it | 3 ms |",
            "## Audit",
            "| it | 2 s |",
        ]

    def test_the_file_is_one_that_parts_can_be_put_into(self) -> None:
        """Writing a section of the checked-in file again changes nothing."""
        text = bench.RESULTS.read_text(encoding="utf-8")
        start = text.index("## ")
        assert results.merged(text, text[start : text.index("## ", start + 1)]) == text

    @pytest.mark.parametrize(
        ("count", "share", "value"),
        [(1, 0.99, 1), (100, 0.99, 99), (200, 0.5, 100), (3, 0.5, 2), (10, 0.99, 10)],
    )
    def test_quantiles_are_values_that_were_measured(self, count: int, share: float, value: int) -> None:
        """The nearest rank, never a mean of two."""
        assert results.quantile(range(1, count + 1), share) == value

    def test_a_part_that_is_not_there_is_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        """`python -m bench tea` lists the parts, and measures nothing."""
        assert bench.main(["tea"]) == 2
        assert capsys.readouterr().err == f"no part tea: there are {', '.join(bench.PARTS)}\n"


def _milli(pod: Any) -> int:
    """Return the cpu request of a pod in millicores."""
    text = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(text.removesuffix("m")) if text.endswith("m") else int(text) * 1000


@pytest.mark.parametrize(
    "workload",
    [workloads.basic(3, 12), workloads.lone(5), workloads.gang(4, 7)],
    ids=["basic", "lone", "gang"],
)
def test_the_bare_loop_writes_what_a_scheduler_must(workload: workloads.Workload) -> None:
    """Its decisions place every pod, overload no node, and no victim could have stayed."""
    standing = {pod["metadata"]["name"]: pod for pod in workload.standing}
    wanted = {pod["metadata"]["name"]: pod for pod in workload.wanted}
    load = Counter[str]()
    for pod in standing.values():
        load[pod["spec"]["nodeName"]] += _milli(pod)
    placed = [place for places, _ in workload.steps for place in places]
    gone = [standing[name] for _, victims in workload.steps for name in victims]
    assert sorted(name for name, _ in placed) == sorted(wanted)
    for victim in gone:
        load[victim["spec"]["nodeName"]] -= _milli(victim)
    for name, node in placed:
        load[node] += _milli(wanted[name])
    assert max(load.values()) <= 4000
    assert len(load) <= workload.nodes
    assert all(load[victim["spec"]["nodeName"]] + _milli(victim) > 4000 for victim in gone)


def test_pages_are_asked_for_on_a_full_cluster(tmp_path: Path) -> None:
    """Each page is served, and the pending groups need preemption, so the bench times the planner."""
    dump = tmp_path / "cluster.json"
    pages.write(dump, pages.Size(nodes=4, running=2, waiting=2, waiting_pods=8))
    visit = pages.visit(dump)
    assert set(visit.pages) == set(pages.PAGES)
    assert visit.peak > 0
    done = run(["podium", "whatif", "-f", str(dump), "--group", "team/wait-1", "-o", "json"], tmp_path)
    assert json.loads(done.stdout)["outcome"] == "FitsAfterPreemption", done.stderr
