"""The choice of the Go toolchain: the one on PATH if it is new enough."""

import pytest

from podium.controlplane import golang
from podium.controlplane.releases import RELEASES
from podium.documents import packagedata


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
    assert golang.parse(text) == version


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
    assert golang.new_enough(found, (1, 26, 0)) is is_enough


@pytest.mark.parametrize("minor", RELEASES)
def test_the_wheel_is_new_enough_for_every_module(minor: str) -> None:
    """The downloaded toolchain can build every module of this repository."""
    go_mod = packagedata.folder("controlplane") / f"v{minor}" / "go.mod"
    needed = golang.required(go_mod.read_text(encoding="utf-8"))
    assert golang.new_enough(golang.parse(golang.WHEEL), needed)
