"""The reason why a component is not ready: the relevant lines of its log, and nodes that take no pods."""

from typing import Any

import pytest
from tools.devcluster.controlplane.readiness import grave_lines, unready


@pytest.mark.parametrize(
    ("log", "wanted"),
    [
        pytest.param([], [], id="nothing was written"),
        pytest.param(["one", "", "two", "three", "four"], ["two", "three", "four"], id="no line stands out"),
        pytest.param(
            ["I1121 10:00:00 starting", "E1121 10:00:01 port in use", "I1121 10:00:02 stopping"],
            ["E1121 10:00:01 port in use"],
            id="klog",
        ),
        pytest.param(
            ["Usage:", "Error: unknown flag: --x", "  --y"], ["Error: unknown flag: --x"], id="flags"
        ),
        pytest.param(
            ['{"level":"warn","msg":"a"}', '{"level":"fatal","msg":"b"}'],
            ['{"level":"fatal","msg":"b"}'],
            id="etcd",
        ),
        pytest.param(
            ["panic: boom", "goroutine 1 [running]:", "main.go:1"], ["panic: boom"], id="a Go panic"
        ),
    ],
)
def test_grave_lines(log: list[str], wanted: list[str]) -> None:
    assert grave_lines(log) == wanted


def test_a_line_is_cut_to_what_a_reader_takes_in() -> None:
    assert grave_lines(["x" * 1000]) == ["x" * 300]


def kept(*, ready: str, taints: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "metadata": {"name": "n"},
        "spec": {"taints": taints} if taints else {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


@pytest.mark.parametrize(
    ("node", "names"),
    [
        pytest.param(kept(ready="True", taints=[]), [], id="ready"),
        pytest.param(kept(ready="False", taints=[]), ["n"], id="not ready"),
        pytest.param(
            kept(ready="True", taints=[{"key": "node.kubernetes.io/not-ready"}]), ["n"], id="still tainted"
        ),
        pytest.param({"metadata": {"name": "n"}, "spec": {}}, ["n"], id="just made"),
    ],
)
def test_unready_nodes(node: dict[str, Any], names: list[str]) -> None:
    assert unready([node]) == names
