"""`python -m tools.prose` runs Vale on the documentation and the help texts, actionlint on the workflows.

Both are Go programs of tools/prose/go.mod, whose go.sum pins each module by hash. They are built once for a
go.sum into podium's cache, which takes a minute and a half and needs a C compiler. A run takes a second.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from podium.cli.main import COMMANDS
from podium.cli.main import command as podium
from podium.controlplane import folders, golang
from podium.controlplane.folders import alone
from podium.errors import PodiumError

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
# The page name of the CLI's texts.
CLI = ROOT / "out" / "prose" / "cli.md"
PROGRAMS = ("vale", "actionlint")


def programs() -> Path:
    """Return the folder with the built programs. Raises PodiumError if they cannot be built."""
    digest = hashlib.sha256((FOLDER / "go.sum").read_bytes()).hexdigest()[:16]
    folder = folders.cache(os.environ) / f"prose-{digest}"
    with alone(folder.with_suffix(".lock"), lambda: _echo("waiting for another build to end")):
        if not all((folder / name).exists() for name in PROGRAMS):
            _build(folder)
    return folder


def pages() -> list[Path]:
    """Return the pages that the prose linter reads."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").glob("*.md")),
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
        for each in of.list_commands(context):
            if name == "podium":
                yield f"`{each}`: {COMMANDS[each].help}"
            found = of.get_command(context, each)
            assert found is not None
            yield from _texts(f"{name} {each}", found)


def _paragraphs(text: str) -> str:
    """Return a help text without click's mark of a paragraph that is not wrapped, which holds commands."""
    return "\n\n".join(each for each in text.split("\n\n") if not each.lstrip().startswith("\b"))


def _build(folder: Path) -> None:
    if not any(shutil.which(each) for each in ("cc", "gcc", "clang")):
        raise PodiumError("the prose linter needs a C compiler once (Debian and Ubuntu: apt install gcc)")
    go = golang.find(FOLDER, os.environ, _echo)
    _echo(f"building {' and '.join(PROGRAMS)} once, which takes two minutes ({folder})")
    temporary = folder.with_suffix(".new")
    environ = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "CGO_CFLAGS": "-w -O1"}
    done = subprocess.run(
        [go, "build", "-trimpath", "-o", f"{temporary}/", "tool"], cwd=FOLDER, env=environ, check=False
    )
    if done.returncode:
        raise PodiumError("the prose linter did not build; the lines above are Go's")
    temporary.replace(folder)


def _echo(line: str) -> None:
    sys.stderr.write(f"prose: {line}\n")


def main() -> int:
    """Run both programs and return the exit code."""
    folder = programs()
    CLI.parent.mkdir(parents=True, exist_ok=True)
    CLI.write_text(cli_texts(), encoding="utf-8")
    texts = (*pages(), CLI)
    vale = [f"{folder / 'vale'}", "--config", f"{FOLDER / 'vale.ini'}", "--output=line", *map(str, texts)]
    actionlint = [f"{folder / 'actionlint'}", "-shellcheck=", "-pyflakes="]
    return max(subprocess.run(each, cwd=ROOT, check=False).returncode for each in (vale, actionlint))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PodiumError as error:
        _echo(f"{error}")
        sys.exit(1)
