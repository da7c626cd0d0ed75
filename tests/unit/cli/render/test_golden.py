"""Every format compared with a stored file, so that a change of output is seen in review.

After an intended change run PODIUM_UPDATE_GOLDEN=1 pytest tests/unit/cli/render/test_golden.py, then read the
difference.
"""

import os
from pathlib import Path

import pytest
from tests.support.render import sample

from podium.answers.audits.report import AuditReport
from podium.cli.render.context import Context
from podium.cli.render.formats import FORMATS, render

GOLDEN = Path(__file__).with_name("golden")
REPORTS = {"sick": sample.sick(), "clean": sample.clean(), "triaged": sample.triaged()}


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("output", FORMATS)
def test_format_is_as_kept(output: str, name: str) -> None:
    """A report is rendered to the same characters as in golden/."""
    _compare(GOLDEN / f"{name}.{output}", REPORTS[name], output, sample.context())


@pytest.mark.parametrize("width", [80, 120])
def test_table_of_other_widths_is_as_kept(width: int) -> None:
    """The table's layout at the narrowest and the widest width is as in golden/."""
    _compare(GOLDEN / f"sick-{width}.table", sample.sick(), "table", sample.context(width=width))


def test_coloured_table_is_as_kept() -> None:
    """The table's colours are as in golden/."""
    _compare(GOLDEN / "sick-colour.table", sample.sick(), "table", sample.context(colour=True))


def _compare(kept: Path, report: AuditReport, output: str, context: Context) -> None:
    rendered = render(report, output, context)
    if os.environ.get("PODIUM_UPDATE_GOLDEN"):
        kept.write_text(rendered, "utf-8", newline="")
    assert rendered == kept.read_bytes().decode("utf-8")
