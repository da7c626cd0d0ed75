"""Plugins of the administrator in `podium whatif` and `podium why`: named by an option, or by a file."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support.plugins import EXAMPLE, install_example

from podium.cli.commands.scheduler import source
from podium.cli.main import command
from podium.documents.clusterinfo import SchedulerFile
from podium.errors import PodiumUsageError

CLUSTER = EXAMPLE / "cluster.yaml"
REASON = "plugin power-feed: node(s) had no label example.com/power-feed"


def run(*arguments: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(command, list(arguments))


def plan_of(group: str, *arguments: str) -> dict[str, Any]:
    """Return the plan for a group of the example."""
    done = run("whatif", "-f", str(CLUSTER), "--group", f"team-a/{group}", "-o", "json", *arguments)
    assert done.exit_code in {0, 3}, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def configured(folder: Path, *plugins: str) -> str:
    """Write the ConfigMap of a scheduler that uses these plugins, and return its path."""
    settings = {
        "apiVersion": "config.podium.dev/v1", "kind": "SchedulerConfiguration", "plugins": list(plugins),
    }  # fmt: skip
    path = folder / "configmap.yaml"
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "podium-scheduler", "namespace": "podium-system"},
        "data": {"scheduler.yaml": json.dumps(settings)},
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the example, and return a folder."""
    install_example(monkeypatch, tmp_path / "site")
    return tmp_path


@pytest.mark.usefixtures("example")
def test_the_plan_has_the_placement_and_the_reason_of_a_plugin() -> None:
    """Without the plugin both groups use the largest node, which has no feed."""
    nodes = [placed["node"] for placed in plan_of("train", "--plugin", "power-feed")["placements"]]
    assert sorted(name[0] for name in nodes) == ["a", "a", "b", "b"]
    refused = plan_of("render", "--plugin", "power-feed")
    assert (refused["outcome"], [node["reason"] for node in refused["nodes"]]) == (
        "DoesNotFit",
        [REASON, "Insufficient cpu"],
    )
    assert "Pods of group render run on nodes with a power feed only." in refused["message"]
    for group in ("train", "render"):
        assert "unknown" in {placed["node"] for placed in plan_of(group)["placements"]}


def test_a_plugin_of_the_schedulers_file_counts(example: Path) -> None:
    path = configured(example, "power-feed")
    assert plan_of("render", "-f", path)["outcome"] == "DoesNotFit"
    done = run("why", "group", "team-a/render", "-f", str(CLUSTER), "-f", path)
    assert f"refused by 1 node: {REASON}" in done.stdout


def test_an_answer_names_a_plugin_of_the_scheduler_that_is_not_installed_here(tmp_path: Path) -> None:
    answer = plan_of("render", "-f", configured(tmp_path, "power-feed"))
    assert answer["outcome"] == "Fits"
    assert "plugin power-feed: not installed here" in answer["notRead"]


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize(
    "arguments", [("whatif", "--group", "team-a/train"), ("why", "group", "team-a/train")]
)
def test_an_unknown_plugin_is_a_usage_error_that_lists_the_installed_ones(
    arguments: tuple[str, ...],
) -> None:
    done = run(*arguments, "-f", str(CLUSTER), "--plugin", "power")
    assert done.exit_code == 2
    assert 'plugin "power" is not installed. Installed: power-feed.' in done.stderr


def test_the_scheduler_refuses_a_file_with_a_plugin_that_is_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text("apiVersion: config.podium.dev/v1\nkind: SchedulerConfiguration\nplugins: [power-feed]\n")
    with pytest.raises(PodiumUsageError, match=r'"power-feed" is not installed\. Installed: none\.'):
        source(str(path)).read()


def test_the_example_is_a_package_with_the_entry_point() -> None:
    project = tomllib.loads(EXAMPLE.joinpath("pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"] == {"podium.plugins": {"power-feed": "power_feed:PowerFeed"}}


def test_a_shared_dump_says_that_there_are_plugins_under_other_names() -> None:
    """Labels of nodes are not shared, so no plugin could judge them."""
    shared = SchedulerFile(fields={"plugins": ["power-feed"]}).shared(lambda name: f"x-{len(name)}")
    assert shared.fields == {"plugins": ["x-10"]}
