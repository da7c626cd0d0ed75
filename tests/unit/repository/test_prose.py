"""The prose linter reads every page and every help text."""

from tools.prose.__main__ import cli_texts, pages

from podium.cli.main import COMMANDS


def test_every_command_and_its_options_are_read() -> None:
    text = cli_texts()
    assert {name for name in COMMANDS if f"`podium {name}`: " in text} == set(COMMANDS)
    assert "`podium audit --config`: " in text


def test_every_page_is_read() -> None:
    names = {path.name for path in pages()}
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "architecture.md", "scheduler.md"} <= names
