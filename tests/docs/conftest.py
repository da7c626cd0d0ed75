"""Fixtures of the pages: the test of docs/NAME.md is `test_name`, and README's is `test_readme`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.docs.pages import commands, pages
from tests.support.docs.play import Play


@pytest.fixture
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Play]:
    """Yield the page named by the test; at the end all of its commands must have run."""
    page = pages()[request.node.originalname.removeprefix("test_")]
    playing = Play(tmp_path, *commands(page))
    yield playing
    playing.given("podium cluster down")
    assert not playing.left
