"""The pictures on the pages of commands: the map of a whole cluster, and a plan before and after."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.ui.clusters import NOW, mixed, page_data

from podium.cli.main import command
from podium.cli.render.pictures.planpicture import plan_picture
from podium.cli.ui.planning import Form

CLUSTER = str(Path(__file__).parents[5] / "examples" / "preemption" / "cluster.yaml")


def page(*arguments: str) -> str:
    return CliRunner().invoke(command, [*arguments, "-o", "html"]).stdout


@pytest.mark.parametrize(
    ("arguments", "drawn"),
    [((), True), (("-A",), True), (("-n", "team-b"), False), (("-l", "app=sweep"), False)],
)
def test_the_audit_maps_a_whole_cluster_only(arguments: tuple[str, ...], drawn: bool) -> None:
    """In a part of a cluster the accelerators of other pods would look free."""
    text = page("audit", "-f", CLUSTER, *arguments)
    assert "<h1" in text
    assert ('id="map"' in text) == drawn
    assert "<script" not in text.partition("<main>")[2].partition("</main>")[0]


def test_an_audit_of_manifests_has_no_map(tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "a"}, "spec": {}}
    (tmp_path / "pod.json").write_text(json.dumps(pod), "utf-8")
    assert 'id="map"' not in page("audit", "-f", str(tmp_path))


@pytest.mark.parametrize("more", [(), ("--tenant", "research")])
def test_a_plan_is_drawn_before_and_after(more: tuple[str, ...]) -> None:
    """Nodes belong to the cluster, so a tenant sees the same picture; it names no pods."""
    text = page("whatif", "-f", CLUSTER, "--group", "research/train", *more)
    picture = text.partition('id="picture"')[2].partition("</section>")[0]
    assert "gpu-1 before: 8 preempted" in picture
    assert "gpu-1 after: 8 placed by the plan" in picture
    assert "team-" not in picture


def test_a_plan_for_a_pod_that_fits_nowhere_has_no_picture(tmp_path: Path) -> None:
    report = page_data(mixed(), tmp_path).plan(Form(target="a/lone"), NOW).report
    assert report is not None
    assert report.drawn is not None
    assert plan_picture(*report.drawn) is None


def test_the_map_of_the_overview_needs_all_pods(tmp_path: Path) -> None:
    made = page_data(mixed(), tmp_path)
    assert made.map is not None
    assert [node.name for node in made.map.nodes] == ["n1"]
    part = page_data(mixed(), tmp_path)
    part.cluster = part.cluster._replace(whole=None)
    assert part.map is None
