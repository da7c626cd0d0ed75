"""Plugins of an administrator for tests: their values, and packages as pip leaves them in a folder."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from podium.plugins import NodeFacts, NodePlugin, PodFacts

Filter = Callable[[Any, NodeFacts], Any]


def always(answer: Any) -> Callable[..., Any]:
    """Return a function with one answer."""
    return lambda *_arguments: answer


class TeamPlugin(NodePlugin):
    """A plugin whose need is the value of the label `team`; its answers are those of functions."""

    interface = 1
    labels = ("team",)

    def __init__(
        self,
        refuses: Filter = lambda _need, _node: None,
        *,
        need: Callable[[PodFacts], Any] = lambda pod: pod.labels.get("team"),
        domain: Filter = lambda _need, node: node.labels.get("feed"),
        score: Callable[[Any, Any, Mapping[Any, int]], Any] = lambda _need, domain, pods: 100 - pods[domain],
        explain: Callable[[Any], Any] = lambda _need: "",
    ) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers: dict[str, Callable[..., Any]] = {
            "filter": refuses,
            "need": need,
            "domain": domain,
            "score": score,
            "explain": explain,
        }

    def pre_filter(self, pod: PodFacts) -> Any:
        """Return the need."""
        return self._call("need", pod)

    def filter(self, need: Any, node: NodeFacts) -> Any:
        """Return a reason."""
        return self._call("filter", need, node)

    def domain(self, need: Any, node: NodeFacts) -> Any:
        """Return the domain."""
        return self._call("domain", need, node)

    def score(self, need: Any, domain: Any, pods: Mapping[Any, int]) -> Any:
        """Return the score."""
        return self._call("score", need, domain, dict(pods))

    def explain(self, need: Any) -> Any:
        """Return the sentence."""
        return self._call("explain", need)

    def called(self, method: str) -> list[tuple[Any, ...]]:
        """Return the arguments of the calls of a method since the last time."""
        called = [arguments for name, *arguments in self.calls if name == method]
        self.calls.clear()
        return [tuple(arguments) for arguments in called]

    def _call(self, method: str, *arguments: Any) -> Any:
        self.calls.append((method, *arguments))
        return self.answers[method](*arguments)


def install(
    path: pytest.MonkeyPatch, folder: Path, name: str, value: str, modules: Mapping[str, str]
) -> None:
    """Install a plugin for one test: a package of these modules, whose entry point is `value`."""
    info = folder / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[podium.plugins]\n{name} = {value}\n")
    for module, text in modules.items():
        path.delitem(sys.modules, module, raising=False)
        (folder / f"{module}.py").write_text(text)
    path.syspath_prepend(folder)


EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "power-feed"


def install_example(path: pytest.MonkeyPatch, folder: Path) -> None:
    """Install the example, whose plugin is `power-feed`."""
    code = EXAMPLE.joinpath("power_feed.py").read_text("utf-8")
    install(path, folder, "power-feed", "power_feed:PowerFeed", {"power_feed": code})
