"""The commands in the README and the pages of docs/.

Commands are in two kinds of fenced blocks. In `console` each line after `$ ` is a command by itself, with its
output, if shown, below it. A block of `sh` is one session. A whole kubectl command in a sentence counts too,
because readers copy it. A command in any other place is a mistake, which `stray` finds.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
# A word in capitals is a value that the reader replaces, and dots are an omission.
_KUBECTL = re.compile(r"`(kubectl(?:\s+(?!(?:[A-Z/]{2,}|\.\.\.)[\s`])[^\s`]+){2,})`")
_PROGRAMS = r"(?:podium|kubectl|make|helm|cosign|kind|docker|curl|export|git|kustomize|argocd|openssl|python)"
_TYPED = re.compile(rf"^ *(?:\$ +)?{_PROGRAMS} +[\w$~.<(-].*$", re.MULTILINE)


class Command(NamedTuple):
    """A command, or a session of several lines; `shown` is the output that the page shows."""

    heading: str
    text: str
    shown: tuple[str, ...] = ()
    session: bool = False


INDEX = ROOT / "docs" / "README.md"


@cache
def pages() -> dict[str, Path]:
    """Return each page by the name of its test: README.md is `readme`, docs/README.md `index`."""
    found = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").glob("*.md") if path != INDEX)]
    return {path.stem.lower().replace("-", "_"): path for path in found} | {"index": INDEX}


@cache
def texts() -> tuple[Path, ...]:
    """Return each Markdown file that people read: those at the top, in docs/ and in .github/."""
    return (
        *sorted(ROOT.glob("*.md")),
        ROOT / "kubecel" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / ".github").rglob("*.md")),
    )


@cache
def commands(path: Path) -> tuple[Command, ...]:
    """Return the commands of a page in its order."""
    text = path.read_text(encoding="utf-8")
    found = [
        (fence.start(), each)
        for fence in _FENCE.finditer(text)
        if fence["language"] in ("console", "sh")
        for each in _block(_heading(text, fence.start()), fence)
    ]
    prose = _FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
    found += [
        (match.start(), Command(_heading(text, match.start()), " ".join(match[1].split())))
        for match in _KUBECTL.finditer(prose)
    ]
    return tuple(command for _, command in sorted(found, key=lambda each: each[0]))


def _heading(text: str, end: int) -> str:
    before = re.findall(r"^#+ (.*)$", _FENCE.sub("", text[:end]), re.MULTILINE)
    return before[-1] if before else ""


def _block(heading: str, fence: "re.Match[str]") -> list[Command]:
    lines = [line.removeprefix(fence["indent"]) for line in fence["text"].splitlines()]
    if fence["language"] == "sh":
        return [Command(heading, "\n".join(lines), session=True)]
    found: list[Command] = []
    while lines:
        line = lines.pop(0).removeprefix("$ ")
        while line.endswith("\\"):
            line = f"{line}\n{lines.pop(0)}"
        shown = []
        while lines and not lines[0].startswith("$ "):
            shown.append(lines.pop(0))
        found.append(Command(heading, line, tuple(shown)))
    return found


def stray(path: Path) -> list[str]:
    """Return lines like commands in blocks that no test runs: indented, or fenced as another language."""
    text = path.read_text(encoding="utf-8")
    rest = _FENCE.sub(lambda fence: "" if fence["language"] in ("console", "sh") else fence[0], text)
    indented = re.findall(r"^(?: {4}.*\n)+", rest, re.MULTILINE)
    fenced = [fence["text"] for fence in _FENCE.finditer(rest)]
    return [line.strip() for block in (*indented, *fenced) for line in _TYPED.findall(block)]
