"""-o name and --no-headers: reports for pipes."""

import pytest
from tests.support.calling import call
from tests.support.render import sample
from tests.support.render.sample import HOSTILE
from tests.support.ui.running import ROOT, TRAINING

from podium.cli.render.formats import render
from podium.cli.render.text import Layout

CLUSTER = "examples/preemption/cluster.yaml"


def test_an_audit_names_each_object_once_as_kubectl_does() -> None:
    done = call(f"podium audit -f {TRAINING} -n team-vision --select pod-priority-differs -o name", ROOT)
    lines = done.stdout.splitlines()
    assert "podgroup.scheduling.k8s.io/ablation" in lines
    assert len(lines) == len(set(lines)) == done.stdout.count("\n")


def test_a_clean_audit_names_nothing() -> None:
    assert render(sample.clean(), "name", sample.context()) == ""


def test_a_hostile_name_is_one_line() -> None:
    text = render(sample.sick(), "name", sample.context())
    assert HOSTILE not in text
    assert all(line.isprintable() and "/" in line for line in text.splitlines())


def test_a_plan_names_its_victims() -> None:
    done = call(f"podium whatif -f {CLUSTER} --group research/train -o name", ROOT)
    assert sorted(done.stdout.splitlines()) == ["pod/sweep-0", "pod/sweep-1", "pod/tune-0", "pod/tune-1"]


def test_a_threat_has_no_names() -> None:
    done = call(f"podium whatif -f {CLUSTER} --victim team-d/notebook -o name", ROOT)
    assert (done.code, "-o name lists the pods that a plan evicts" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("line", "header"),
    [
        (f"podium audit -f {TRAINING}", "PRIORITY  MEMBERS"),
        (f"podium audit -f {TRAINING} -o wide", "PRIORITY  MEMBERS"),
        (f"podium whatif -f {CLUSTER} --group research/train", "KIND      NAME"),
        ("podium report -f examples/preemption/records.yaml", "NAMESPACE  ENFORCED"),
    ],
)
def test_tables_without_headers_have_the_same_rows(line: str, header: str) -> None:
    whole, without = (call(f"{line} {flag}", ROOT).stdout for flag in ("", "--no-headers"))
    assert header in whole
    assert header not in without
    assert without.count("\n") < whole.count("\n")


def test_a_column_without_a_header_is_as_wide_as_its_cells() -> None:
    layout = Layout(width=60, colour=True, headers=False)
    layout.columns(("A LONG HEADER", "B"), [("a", "b"), ("aa", "b")])
    layout.columns(("NOTHING",), [])
    assert layout.text() == "a   b\naa  b\n"
