"""`python -m tools.prose` runs Vale on the documentation and the help texts, actionlint on the workflows.

Both are Go programs of tools/prose/go.mod, whose go.sum pins each module by hash. They are built once for a
go.sum into podium's cache, which takes a minute and a half and needs a C compiler. A run takes a second.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from tools.gotools import GoTools

from podium.cli.main import COMMANDS
from podium.cli.main import command as podium
from podium.errors import PodiumError

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
# The page name of the CLI's texts.
CLI = ROOT / "out" / "prose" / "cli.md"
PROSE = GoTools(FOLDER, ("vale", "actionlint"), minutes=2, needs_c=True)


def pages() -> list[Path]:
    """Return the pages that the prose linter reads."""
    return [
        *sorted(ROOT.glob("*.md")),
        ROOT / "kubecel" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / ".github").glob("*.md")),
    ]


def cli_texts() -> str:
    """Return the help of every command and option in Markdown, a paragraph each."""
    return "\n\n".join(["# Help texts", *_texts("podium", podium)]) + "\n"


def _texts(name: str, of: click.Command) -> Iterator[str]:
    yield f"`{name}`: {_paragraphs(of.help or '')}"
    for option in of.params:
        if isinstance(option, click.Option) and option.help:
            yield f"`{name} {option.opts[0]}`: {option.help}"
    if isinstance(of, click.Group):
        context = click.Context(of)
        for subcommand_name in of.list_commands(context):
            if name == "podium":
                yield f"`{subcommand_name}`: {COMMANDS[subcommand_name].help}"
            subcommand = of.get_command(context, subcommand_name)
            assert subcommand is not None
            yield from _texts(f"{name} {subcommand_name}", subcommand)


def _paragraphs(text: str) -> str:
    """Return a help text without click's mark of a paragraph that is not wrapped, which holds commands."""
    return "\n\n".join(
        paragraph for paragraph in text.split("\n\n") if not paragraph.lstrip().startswith("\b")
    )


def main() -> int:
    """Run both programs and return the exit code."""
    folder = PROSE.programs()
    CLI.parent.mkdir(parents=True, exist_ok=True)
    CLI.write_text(cli_texts(), encoding="utf-8")
    texts = (*pages(), CLI)
    vale = [f"{folder / 'vale'}", "--config", f"{FOLDER / 'vale.ini'}", "--output=line", *map(str, texts)]
    actionlint = [f"{folder / 'actionlint'}", "-shellcheck=", "-pyflakes="]
    return max(subprocess.run(command, cwd=ROOT, check=False).returncode for command in (vale, actionlint))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PodiumError as error:
        sys.exit(f"prose: {error}")
