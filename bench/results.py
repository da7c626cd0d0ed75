"""RESULTS.md: a section for each part of the bench, and each part rewrites only its own.

Parts take minutes and are measured when their subject changes, so each section names its machine, and figures
of other parts stay as they are.
"""

import math
import os
import platform
import re
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROUNDS = 5
_HEAD = f"""# Bench

`make bench`: median of {ROUNDS} rounds (least to most), after one more that does not count. What is compared
runs in turns (A B A B ...). The machine is shared and noisy: read ratios, not seconds.
`.venv/bin/python -m bench PART` measures one section again.
"""


class Row(NamedTuple):
    """A line of a table: the thing measured, the figure, and those of further columns."""

    what: str
    figure: str
    more: tuple[str, ...] = ()


class Section(NamedTuple):
    """The results of one part: rows under a title, and a note for readers."""

    title: str
    rows: Sequence[Row]
    note: str = ""
    columns: tuple[str, ...] = ("what", "figure")


def spread(values: Iterable[float], unit: str, digits: int = 2) -> str:
    """Return a median with its extremes."""
    given = list(values)
    low, middle, high = min(given), statistics.median(given), max(given)
    return f"{middle:,.{digits}f} {unit} ({low:,.{digits}f} to {high:,.{digits}f})"


def quantile(ascending: Sequence[float], share: float) -> float:
    """Return the least value that this share of all does not exceed (nearest rank)."""
    return ascending[max(math.ceil(share * len(ascending)), 1) - 1]


def machine() -> str:
    """Describe the machine in a line."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} x {model}, {platform.system()}, Python {platform.python_version()}"


def render(section: Section, on: str) -> str:
    """Return a section as text."""
    lines = [f"## {section.title}", "", f"On {on}.", ""]
    if section.note:
        lines += [section.note.strip(), ""]
    cells = [section.columns, ("---",) * len(section.columns)]
    cells += [(row.what, row.figure, *row.more) for row in section.rows]
    lines += [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join(lines) + "\n"


def merged(text: str, section: str) -> str:
    """Replace the section of the same title in the text of the file; other sections stay."""
    _, *sections_before = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    sections = {_title(block): block.rstrip() + "\n" for block in [*sections_before, section]}
    return "\n".join([_HEAD, *sections.values()])


def _title(section: str) -> str:
    return section.partition("\n")[0]
