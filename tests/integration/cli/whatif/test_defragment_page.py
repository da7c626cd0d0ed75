"""The page of `podium whatif --defragment` in a real browser."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser
from tests.support.browser import looks_right, opened

from podium.cli.main import command

EXAMPLE = Path(__file__).parents[4] / "examples" / "preemption" / "fragments.yaml"


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_the_page_of_moves_looks_right(browser: Browser, tmp_path: Path, width: int, scheme: Any) -> None:
    """In a browser no text is too faint, nothing scrolls sideways, and nothing is requested."""
    file = tmp_path / "moves.html"
    arguments = ["whatif", "-f", str(EXAMPLE), "--defragment", "example.com/rack", "-o", "html"]
    done = CliRunner().invoke(command, [*arguments, "--output-file", str(file)])
    assert done.exit_code == 0, done.output
    tab, console, requests = opened(
        browser, file, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    looks_right(tab, width)
    assert (console, requests) == ([], [file.as_uri()])
