"""Plugins of an administrator: what they see and decide, and what their failures decide."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters.builders import node, pod
from tests.support.plugins import TeamPlugin, always, install, install_example
from tests.support.preemption.clusters import NOW, NS, state_of
from tests.support.preemption.scene import engine_of, gang, group, of, placed

from podium.errors import PodiumUsageError
from podium.planner.comparer import Comparer
from podium.planner.engine import Engine
from podium.planner.placement import Placer
from podium.planner.plugins import outoftree, plugins_with
from podium.planner.plugins.noderesources import NodeResourcesPlugin
from podium.planner.plugins.outoftree import OutOfTreePlugin
from podium.planner.preemption import planningstate
from podium.planner.snapshot import Snapshot
from podium.plugins import NodePlugin, load_plugin


@dataclass
class Scene:
    """A snapshot with one plugin, and the time that its calls have taken."""

    own: NodePlugin
    seconds: float = 0.0

    def __post_init__(self) -> None:
        factory = partial(OutOfTreePlugin, "teams", self.own, clock=lambda: self.seconds)
        self.snapshot = Snapshot(plugins=(NodeResourcesPlugin, factory))
        self.placer = Placer(self.snapshot, {})
        self.plugin = self.snapshot.plugin(OutOfTreePlugin)
        for name, feed in (("a1", "a"), ("a2", "a"), ("b1", "b")):
            self.snapshot.apply(None, node(name, labels={"feed": feed}))

    def add(self, name: str, team: str | None = "red", **fields: Any) -> int:
        """Add a pod and return its row."""
        labels = {"team": team, "index": name} if team else {}
        self.snapshot.apply(None, pod(name, {"cpu": "100m"}, labels=labels, **fields))
        return self.snapshot.pod_row[NS, name]

    def place(self, *rows: int) -> list[str]:
        """Place pods in a decision, which is undone, and return their nodes."""
        self.snapshot.catch_up()
        with self.snapshot.trial():
            nodes = self.placer.place_many(rows)
        return [self.snapshot.node_name(nodes[row]) if row in nodes else "" for row in rows]

    def sentence(self, row: int) -> str:
        """Return why a pod fits nowhere."""
        refusals = self.placer.chain.refusals(self.snapshot.shape_at(row))
        return f"{refusals.sentence} {refusals.remark}".rstrip()


# The values that it sees, and its decisions.


def test_a_plugin_sees_plain_values_and_the_labels_that_it_names() -> None:
    own = TeamPlugin()
    scene = Scene(own)
    taint = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
    scene.snapshot.apply(None, node("tainted", {"cpu": "1500m"}, taints=[taint]))
    scene.place(scene.add("p", group="train", priority=7))
    ((seen,),) = own.called("need")
    assert seen._replace(labels=dict(seen.labels), requests=dict(seen.requests)) == (
        *(NS, "train", {"team": "red"}, 7),
        {"cpu": 100, "pods": 1},
    )
    with pytest.raises(TypeError):
        seen.labels["team"] = "blue"
    own.calls.clear()
    scene.place(scene.add("q", team="blue"))
    info = next(info for need, info in own.called("filter") if info.name == "tainted")
    assert (info.taints, info.allocatable["cpu"]) == ((("k", "v", "PreferNoSchedule"),), 1500)


def test_a_plugin_is_called_once_for_pods_that_are_alike() -> None:
    """The pods of an indexed Job differ in a label that the plugin does not name."""
    own = TeamPlugin()
    scene = Scene(own)
    rows = [scene.add(f"p{number}") for number in range(20)]
    scene.place(*rows)
    calls = [method for method, *_ in own.calls]
    assert (calls.count("need"), calls.count("filter"), calls.count("domain")) == (1, 3, 3)
    own.calls.clear()
    scene.place(*rows)
    assert {method for method, *_ in own.calls} == {"score"}


CHANGES: list[tuple[str, dict[str, Any], int]] = [
    ("labels", {"labels": {"feed": "c"}}, 3),
    ("taints", {"labels": {"feed": "a"}, "taints": [{"key": "k", "effect": "NoSchedule"}]}, 3),
    ("allocatable", {"labels": {"feed": "a"}, "allocatable": {"cpu": "8"}}, 3),
    ("nothing", {"labels": {"feed": "a"}}, 0),
]


@pytest.mark.parametrize(
    ("fields", "asked"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES]
)
def test_nodes_are_asked_for_again_once_one_of_them_changed(fields: dict[str, Any], asked: int) -> None:
    own = TeamPlugin()
    scene = Scene(own)
    row = scene.add("p")
    scene.place(row)
    own.calls.clear()
    changed = node("a1", **fields)
    scene.snapshot.apply(None, changed)
    scene.place(row)
    seen = [facts for _, facts in own.called("filter")]
    assert len(seen) == asked
    assert all(facts.labels == changed.metadata.labels for facts in seen if facts.name == "a1")


def test_a_pod_without_a_need_is_not_judged() -> None:
    own = TeamPlugin(always("never"))
    scene = Scene(own)
    row = scene.add("p", team=None)
    assert scene.place(row) != [""]
    assert {method for method, *_ in own.calls} == {"need"}


def test_a_reason_names_the_plugin_and_its_explanation_follows() -> None:
    own = TeamPlugin(
        lambda need, node: f"feed {node.labels['feed']} is full\nfor {need}",
        explain=lambda need: f"Team {need}.",
    )
    scene = Scene(own)
    row = scene.add("p")
    assert scene.place(row) == [""]
    assert scene.sentence(row) == (
        "0/3 nodes are available: 1 plugin teams: feed b is full for red, "
        "2 plugin teams: feed a is full for red. Team red."
    )


def test_a_score_counts_the_pods_of_the_need_by_domain_and_follows_each_placement() -> None:
    own = TeamPlugin(score=lambda _need, domain, pods: 100 - 10 * pods[domain])
    own.weight = 10  # type: ignore[misc] # of this instance
    scene = Scene(own)
    scene.add("running", node="a1")
    scene.add("blue", team="blue", node="b1")
    rows = [scene.add(f"p{number}") for number in range(3)]
    nodes = scene.place(*rows)
    assert [name[0] for name in nodes] == ["b", "a", "b"] or [name[0] for name in nodes] == ["b", "b", "a"]
    assert own.called("score")[0][2] == {"a": 1, "b": 0}
    scene.snapshot.apply(None, node("c1", labels={"feed": "c"}))
    scene.place(*rows)
    assert own.called("score")[0][2] == {"a": 1, "b": 0, "c": 0}


def test_nodes_without_a_domain_have_a_score_of_0() -> None:
    own = TeamPlugin(domain=lambda _need, node: None if node.name[0] == "a" else "b")
    own.weight = 10  # type: ignore[misc] # of this instance
    scene = Scene(own)
    rows = [scene.add(f"p{number}") for number in range(3)]
    assert set(scene.place(*rows)) == {"b1"}


def test_the_engine_is_in_step_with_the_cluster_while_a_plugin_answers_and_fails() -> None:
    """The comparison of the live scheduler computes needs again, also those that failed."""
    needs = ["a", {}, "b", {}, {}, "c"]
    pods = [pod(f"p{number}", labels={"team": str(number)}) for number in range(len(needs))]
    engine = Engine(state_of([node("n"), *pods]))
    own = TeamPlugin(need=lambda _pod: needs.pop() if needs else "another answer")
    engine.snapshot = Snapshot(plugins=(NodeResourcesPlugin, partial(OutOfTreePlugin, "teams", own)))
    for made in (*engine.view.nodes.values(), *engine.view.pods.values()):
        engine.snapshot.apply(None, made)
    engine.snapshot.catch_up()
    assert [line for line in Comparer(engine, dict).step(10) if "shape" in line] == []


def test_reasons_that_are_cut_to_one_text_count_together() -> None:
    scene = Scene(TeamPlugin(lambda _need, node: f"{'x' * 300} {node.name}"))
    row = scene.add("p")
    (reason,) = scene.placer.chain.refusals(scene.snapshot.shape_at(row)).reasons
    assert (reason[1], len(reason[0].encode())) == (3, 256)


# Failures.


def _fails(*_arguments: Any) -> Any:
    raise ZeroDivisionError("a\nbug")


def _exits(*_arguments: Any) -> Any:
    raise SystemExit(1)


class Failure(NamedTuple):
    """An answer that is a failure of a method, and the text about it."""

    title: str
    method: str
    answer: Callable[..., Any]
    text: str


FAILURES = [
    Failure("a need with an exception", "need", _fails, "pre_filter: ZeroDivisionError: a bug"),
    Failure("a need that ends the process", "need", _exits, "pre_filter: SystemExit: 1"),
    Failure(
        "a need that can change", "need", always(("x", [])),
        "pre_filter: TypeError: list is not text, a number, or a tuple of these",
    ),
    Failure("a filter with an exception", "refuses", _fails, "filter: ZeroDivisionError: a bug"),
    Failure(
        "a filter whose answer is an object", "refuses", always(object()),
        "filter: TypeError: object is not text, a number, or a tuple of these",
    ),
]  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES, ids=[failure.title for failure in FAILURES])
def test_no_node_takes_a_pod_for_which_the_plugin_fails(failure: Failure) -> None:
    scene = Scene(TeamPlugin(**{failure.method: failure.answer}))
    row, other = scene.add("p"), scene.add("other", team=None)
    failed = failure.method == "need"
    assert scene.place(row, other)[0] == ""
    assert (scene.place(other) == [""]) is failed
    assert f"plugin teams: failed in {failure.text}" in scene.sentence(row)


SCORES = [
    ("an exception", {"score": _fails}),
    ("more than 100", {"score": always(101)}),
    ("less than 0", {"score": always(-1)}),
    ("not a number", {"score": always("100")}),
    ("a domain with an exception", {"domain": _fails}),
]


@pytest.mark.parametrize("answers", [case[1] for case in SCORES], ids=[case[0] for case in SCORES])
def test_a_score_that_fails_is_0_and_keeps_no_pod_from_a_node(answers: dict[str, Any]) -> None:
    scene, plain = Scene(TeamPlugin(**answers)), Scene(TeamPlugin(score=always(0)))
    rows = [scene.add(f"p{number}") for number in range(4)]
    assert scene.place(*rows) == plain.place(*(plain.add(f"p{number}") for number in range(4)))


def test_a_filter_over_its_time_budget_refuses_all_nodes() -> None:
    slow = [0.02] * 3

    def refuses(_need: str, _node: object) -> None:
        scene.seconds += slow.pop() if slow else 0.0

    scene = Scene(TeamPlugin(refuses))
    row = scene.add("p")
    assert scene.place(row) == [""]
    assert "plugin teams: failed in filter: TimeoutError: no answer within 50 ms" in scene.sentence(row)
    assert scene.place(row) == [""]
    scene.seconds += outoftree.RETRY_SECONDS
    assert scene.place(row) != [""]


def test_the_budget_of_a_score_is_for_all_placements_of_a_decision() -> None:
    def score(_need: str, _domain: str, _pods: object) -> int:
        scene.seconds += 0.01
        return 50

    own = TeamPlugin(score=score)
    scene = Scene(own)
    rows = [scene.add(f"p{number}") for number in range(20)]
    assert "" not in scene.place(*rows)
    assert len(own.called("score")) < 10


@pytest.mark.parametrize("method", ["need", "refuses"])
def test_a_plugin_that_failed_is_asked_again_a_second_later(method: str) -> None:
    errors = [ZeroDivisionError()]

    def answer(*_arguments: Any) -> Any:
        if errors:
            raise errors.pop()
        return "x" if method == "need" else None

    scene = Scene(TeamPlugin(**{method: answer}))
    row = scene.add("p")
    assert scene.place(row) == [""]
    scene.seconds += outoftree.RETRY_SECONDS / 2
    assert scene.place(row) == [""]
    scene.seconds += outoftree.RETRY_SECONDS / 2
    assert scene.place(row) != [""]
    assert scene.plugin.calls.failures.total() == 0


def test_several_failures_in_a_row_are_a_fault() -> None:
    scene = Scene(TeamPlugin(_fails))
    row = scene.add("p")
    faults = []
    for _ in range(outoftree.REPORTED):
        scene.place(row)
        faults.append(scene.plugin.fault())
        scene.seconds += outoftree.RETRY_SECONDS
    assert faults == ["", "", "plugin teams: failed in filter: ZeroDivisionError: a bug"]
    assert isinstance(scene.own, TeamPlugin)
    scene.own.answers["filter"] = always(None)
    assert scene.place(row) != [""]
    assert scene.plugin.fault() == ""


def test_a_decision_is_made_again_once_the_plugin_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine keeps the decision that a pod fits nowhere; a failure is no reason to keep it."""
    own = TeamPlugin(_fails, need=always("x"))
    seconds = [0.0]
    factory = partial(OutOfTreePlugin, "teams", own, clock=lambda: seconds[0])
    monkeypatch.setattr(planningstate, "plugins_with", always((*plugins_with(()), factory)))
    engine = engine_of(node("n"), pod("p"))
    assert engine.decide((NS, "p"), NOW).placed == {}
    own.answers["filter"] = always(None)
    assert engine.decide((NS, "p"), NOW).placed == {}
    seconds[0] += outoftree.RETRY_SECONDS
    assert engine.decide((NS, "p"), NOW).placed != {}


@given(
    refused=st.frozensets(st.tuples(st.sampled_from("rb"), st.integers(0, 3))),
    raised=st.frozensets(st.tuples(st.sampled_from("rb"), st.integers(0, 3)), max_size=1),
    teams=st.lists(st.sampled_from(["r", "b", None]), min_size=1, max_size=8),
)
def test_no_pod_gets_a_node_that_the_plugin_refuses_or_fails_for(
    refused: frozenset[tuple[str, int]], raised: frozenset[tuple[str, int]], teams: list[str | None]
) -> None:
    def refuses(need: str, info: Any) -> str | None:
        if (need, int(info.name)) in raised:
            raise ValueError(need)
        return "refused" if (need, int(info.name)) in refused else None

    scene = Scene(TeamPlugin(refuses))
    for name in ("a1", "a2", "b1"):
        scene.snapshot.remove_node(name)
    for number in range(4):
        scene.snapshot.apply(None, node(str(number), {"cpu": "300m"}))
    names = scene.place(*(scene.add(f"p{at}", team=team) for at, team in enumerate(teams)))
    failed = {need for need, _ in raised}
    for team, name in zip(teams, names, strict=True):
        assert team is None or not name or (team not in failed and (team, int(name)) not in refused)


# How it is loaded.


CODE = """
from podium.plugins import NodePlugin
class P(NodePlugin):
    interface = {}
    weight = {}
    def pre_filter(self, pod): return None
"""
LOADS: list[tuple[str, str, str, str]] = [
    ("a missing module", "absent:P", "", "(absent:P) cannot be loaded: ModuleNotFoundError: No module"),
    ("an import that fails", "mine:P", "1 / 0", "(mine:P) cannot be loaded: ZeroDivisionError: division"),
    ("another class", "mine:P", "class P: pass", "mine:P is no subclass of podium.plugins.NodePlugin."),
    (
        "another version of the interface", "mine:P", CODE.format(2, 1),
        "is written for version 2 of the interface. This Podium has version 1: install a version of",
    ),
    ("no version", "mine:P", CODE.replace("interface", "other").format(2, 1), "is written for version None"),
    ("a weight", "mine:P", CODE.format(1, 101), "its weight is not within 0 and 100."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text", "error"), [case[1:] for case in LOADS], ids=[case[0] for case in LOADS]
)
def test_a_plugin_that_cannot_be_used_is_refused_in_one_line(
    value: str, text: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, "my-plugin", value, {"mine": text})
    with pytest.raises(PodiumUsageError) as raised:
        load_plugin("my-plugin")
    assert 'plugin "my-plugin"' in str(raised.value)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_plugin_that_is_not_named_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path, "my-plugin", "mine:P", {"mine": "raise SystemExit"})
    with pytest.raises(PodiumUsageError, match=r'"other" is not installed\. Installed: .*my-plugin'):
        plugins_with(["other"])


def test_a_gang_is_spread_by_a_plugin_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_example(monkeypatch, tmp_path)
    feed = "example.com/power-feed"
    cluster = [
        *(node(f"a{number}", {"cpu": "64"}, labels={feed: "a"}) for number in range(3)),
        *(node(f"b{number}", labels={feed: "b"}) for number in range(3)),
        node("none", {"cpu": "128"}),
        group("train", least=6),
        *gang("train", [None] * 6),
    ]
    engine = engine_of(*cluster, plugins=("power-feed",))
    nodes = placed(engine.plan(of("train"), NOW))
    assert sorted(name[0] for name in nodes.values()) == ["a"] * 3 + ["b"] * 3
    assert "none" in placed(engine_of(*cluster).plan(of("train"), NOW)).values()
