"""The table fits its width, cuts long lists with a count, and shows no control characters."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.render import sample

from podium.answers.audits.report import AuditSummary, Blocked, NotChecked
from podium.cli.render.formats import render
from podium.cli.render.text import Layout
from podium.cli.render.words import headline, is_all_clear
from podium.text import visible

# Half surrogate pairs too, as in a file name whose bytes are not text.
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=50)

HEADLINES = {
    "all three": (
        Blocked(2, 9, {"a/x": 3, "b/y": 4}),
        "2 groups, 9 pods and 7 accelerators will not schedule on",
    ),
    "one of each": (Blocked(1, 1, {"a/x": 1}), "1 group, 1 pod and 1 accelerator will not schedule on"),
    "no accelerators": (Blocked(1200, 9000, {}), "1,200 groups and 9,000 pods will not schedule on"),
    "groups alone": (Blocked(3, 0, {}), "3 groups will not schedule on"),
    "nothing": (Blocked(0, 0, {}), "All checked groups and pods can be scheduled on"),
}


@pytest.mark.parametrize(("blocked", "want"), HEADLINES.values(), ids=list(HEADLINES))
def test_headline(blocked: Blocked, want: str) -> None:
    """The main sentence leaves out zero counts and has correct plurals."""
    summary = sample.clean().summary
    fields = {name: getattr(summary, name) for name in AuditSummary.__struct_fields__}
    assert headline(AuditSummary(**{**fields, "blocked": blocked})) == f"{want} Kubernetes 1.37."


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        ({"objects": {"Node": 3}}, "No pod and no group was read, so no scheduling was checked for"),
        (
            {"errors": 2},
            "2 errors must be fixed; no rule found that a pod or group which exists cannot be scheduled on",
        ),
    ],
)
def test_the_headline_is_no_all_clear_if_something_is_wrong(changed: dict[str, Any], want: str) -> None:
    summary = msgspec.structs.replace(sample.clean().summary, **changed)
    assert headline(summary) == f"{want} Kubernetes 1.37."
    assert not is_all_clear(summary)


@pytest.mark.parametrize(
    ("changed", "doubt"),
    [
        ({"waiting": 1}, "1 group waits, or will wait, for more pods"),
        ({"waiting": 3}, "3 groups wait, or will wait, for more pods"),
        ({"waitingPods": 1}, "1 pod waits (podium why tells the reason)"),
        ({"strayPods": 2}, "2 pods name a group that was not read"),
        ({"objects": {"Pod": 1}}, "no node was read"),
        ({"notChecked": [NotChecked("Node", "only a sample", ["a"])]}, "its nodes were not checked"),
        (
            {"waiting": 1, "waitingPods": 2},
            "1 group waits, or will wait, for more pods and 2 pods wait (podium why tells the reason)",
        ),
    ],
)
def test_the_headline_claims_only_what_was_checked(changed: dict[str, Any], doubt: str) -> None:
    summary = msgspec.structs.replace(sample.clean().summary, **changed)
    assert headline(summary) == f"No rule found a reason against scheduling on Kubernetes 1.37, but {doubt}."
    assert not is_all_clear(summary)


def test_the_table_says_in_one_line_what_was_not_checked() -> None:
    """Each kind with its rules is in the wide table and in JSON."""
    missing = [NotChecked("Node", "not in the input", ["a", "b"]), NotChecked("Pod", "forbidden", ["b", "c"])]
    summary = msgspec.structs.replace(sample.clean().summary, notChecked=missing)
    report = msgspec.structs.replace(sample.clean(), summary=summary)
    table, wide = (render(report, output, sample.context()) for output in ("table", "wide"))
    line = (
        "3 rules not or not fully checked (Node: not in the input; Pod: forbidden). -o wide lists the rules."
    )
    assert line in " ".join(table.split())
    assert "Node: not in the input (leaves out a and b)" in wide


def test_opens_with_what_counts() -> None:
    """The first line of table and wide is the sentence; the next ones have completeness and counts."""
    for output in ("table", "wide"):
        lines = render(sample.sick(), output, sample.context()).splitlines()
        assert lines[:3] == [
            "24 groups, 1,296 pods and 768 accelerators will not schedule on Kubernetes 1.37.",
            "Not read and not counted: Node (reasons at the end).",
            "9 errors, 1 warning and 1 info; 24 divergent groups.",
        ]


@pytest.mark.parametrize("output", ["table", "wide"])
def test_a_release_without_known_rules_is_said_first_and_once(output: str) -> None:
    """replicatedhq/troubleshoot has a dump of kubelets 1.29, whose reader must know that 1.35 is judged."""
    chosen_by = "the newest kubelet of 7 nodes is 1.29; the nearest known minor"
    summary = msgspec.structs.replace(sample.clean().summary, kubernetes="1.35", chosenBy=chosen_by)
    text = render(msgspec.structs.replace(sample.clean(), summary=summary), output, sample.context())
    assert text.splitlines()[0] == f"Kubernetes 1.35: {chosen_by}."
    assert text.count("1.29") == 1


@pytest.mark.parametrize("width", [80, 100, 120])
def test_table_fits_its_width(width: int) -> None:
    """No line is wider than the requested width."""
    lines = render(sample.sick(), "table", sample.context(width=width)).splitlines()
    assert max(map(len, lines)) <= width


def test_table_of_thousands_is_short_and_counts_the_cut() -> None:
    """10,000 findings need about as many lines as a few dozen, and each cut has the number of the others."""
    text = render(sample.large(10_000), "table", sample.context())
    assert len(text.splitlines()) < 200
    assert "  ... and 1,662 more (-o wide shows all)" in text  # of a rule's 1,667
    assert "  ... and 4,980 more (-o wide shows all)" in text  # of 5,000 groups


def test_wide_has_everything() -> None:
    """Every finding and every divergent pod of a large report is shown, each on one line."""
    report = sample.large(1_000)
    lines = render(report, "wide", sample.context()).splitlines()
    assert "more (-o wide" not in "\n".join(lines)
    found = [line for line in lines if line.startswith("  PodGroup ")]
    assert len(found) == len(report.findings)
    for finding in report.findings:
        assert f"  {finding.object}  {finding.field}  {finding.message}  fix: {finding.fix}" in lines
    for group in report.groups:
        assert sum(line.startswith(f"{group.namespace}/{group.name} ") for line in lines) == 1


def test_colour_only_when_asked_for() -> None:
    """Without colour there is no escape; with it, the text without styles equals the plain table."""
    plain = render(sample.sick(), "table", sample.context())
    coloured = render(sample.sick(), "table", sample.context(colour=True))
    assert "\x1b" not in plain
    assert coloured.startswith("\x1b[1m24 groups")
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


@pytest.mark.parametrize("output", ["table", "wide"])
def test_names_cannot_act_on_the_terminal(output: str) -> None:
    """A terminal escape, a right-to-left override and a line break in a name are shown as escapes."""
    text = render(sample.sick(), output, sample.context(width=120))
    assert "\\x1b[31m\\u202egnp\\x0a" in text.replace("\n", "")
    assert visible(text.replace("\n", "")) == text.replace("\n", "")


@given(ANY_TEXT)
def test_visible_text_prints_on_one_line(text: str) -> None:
    """The result of `visible` has no control character, and plain text is unchanged."""
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    shown.encode("utf-8")  # raises for half a surrogate pair
    assert visible(shown) == shown


@given(
    st.lists(st.tuples(*[st.text("ab- /", max_size=60)] * 3), max_size=6),
    st.sampled_from([40, 80, 120, None]),
)
def test_columns_lose_no_text(rows: list[tuple[str, str, str]], width: int | None) -> None:
    """At any width every letter of every cell is shown, and no line exceeds the width."""
    layout = Layout(width=width, colour=False)
    layout.columns(("A", "B", "C"), rows, right=(1,))
    letters = sorted(letter for row in rows for cell in row for letter in cell if letter in "ab-/")
    assert sorted(letter for line in layout.lines[1:] for letter in line if letter in "ab-/") == letters
    if width is not None:
        assert max(map(len, layout.lines)) <= width


def test_a_name_is_broken_only_where_nothing_else_helps() -> None:
    """Sentences wrap first; a word that needs half of the width gets its own."""
    rows = [("team-ranking/retrain-0", "it has a toleration until tomorrow")]
    layout = Layout(width=50, colour=False)
    layout.columns(("NAME", "WHY"), rows)
    assert [line.split("  ")[0].rstrip() for line in layout.lines[1:]] == ["team-ranking/retrain-0", ""]
    layout = Layout(width=50, colour=False)
    layout.columns(("NAME", "WHY"), [("x" * 90, "it has a toleration")])
    assert layout.lines[1].endswith("  it has a toleration")
