"""The choice of the Go toolchain: the one on PATH if it is new enough."""

from pathlib import Path

import pytest
from tools.devcluster.controlplane import gobuild
from tools.devcluster.controlplane.releases import BUILDABLE


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go1.26.8", (1, 26, 8)),
        ("1.26.0", (1, 26, 0)),
        ("go1.27", (1, 27)),
        ("go1.27rc1", (1, 27)),
        ("go1.26.8-X:nodwarf5", (1, 26, 8)),
        ("devel go1.28-abcdef", None),
        ("", None),
    ],
)
def test_parse(text: str, version: tuple[int, ...] | None) -> None:
    assert gobuild.parse_go(text) == version


@pytest.mark.parametrize(
    ("found", "is_enough"),
    [
        pytest.param((1, 26, 0), True, id="the same"),
        pytest.param((1, 26, 8), True, id="a later patch"),
        pytest.param((1, 27), True, id="a later minor without a patch"),
        pytest.param((1, 25, 9), False, id="an earlier minor"),
        pytest.param(None, False, id="a development build of unknown age"),
    ],
)
def test_new_enough(found: tuple[int, ...] | None, is_enough: bool) -> None:
    assert gobuild.new_enough(found, (1, 26, 0)) is is_enough


@pytest.mark.parametrize("minor", BUILDABLE)
def test_a_wheel_is_new_enough_for_every_module(minor: str) -> None:
    """A downloaded toolchain can build every module of this repository."""
    go_mod = Path(gobuild.__file__).with_name(f"v{minor}") / "go.mod"
    needed = gobuild.required_go(go_mod.read_text(encoding="utf-8"))
    assert gobuild.new_enough(gobuild.parse_go(gobuild.WHEELS[-1]), needed)
