"""The example in Python on the page of `podium whatif` prints what the page shows."""

import re

import pytest
from tests.support.docs.pages import ROOT

_BLOCKS = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def test_the_example_prints_what_the_page_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = (ROOT / "docs/whatif.md").read_text("utf-8").partition("## As a library")[2]
    blocks = dict(_BLOCKS.findall(section))
    monkeypatch.chdir(ROOT)
    exec(compile(blocks["python"], "docs/whatif.md", "exec"), {})
    assert capsys.readouterr().out == blocks["text"]
