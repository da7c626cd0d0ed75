"""`podium explain`: the rules of the audit and of admission, and Podium's own terms, from their tables."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import groupby
from typing import Any, NamedTuple

import click

from podium.cli.main import examples
from podium.cli.render.data import document
from podium.cli.render.output import Output, output_options
from podium.cli.render.text import Layout
from podium.documents.files import folder
from podium.errors import PodiumUsageError

_AUDIT, _ADMISSION, _TERM = "audit rule", "admission rule", "term"


class Explained(NamedTuple):
    """A rule or a term; `title` is its meaning, `kubernetes` the term there, `page` its documentation."""

    kind: str
    name: str
    title: str
    severity: str = ""
    why: str = ""
    needs: Sequence[str] = ()
    source: str = ""
    kubernetes: str = ""
    page: str = ""


@click.command(
    epilog=examples(
        ("List all rules and terms", "podium explain"),
        ("Explain a rule of the audit", "podium explain class-missing"),
    )
)
@click.argument("name", metavar="[RULE|TERM]", required=False)
@output_options("table", "json", "yaml")
def command(*, name: str | None, output: Output) -> None:
    """Explain a rule of podium audit or podium admit, or a term. Without a name, list all of them.

    Exit code: 0; 2 unknown rule or term.
    """
    known = list(_all())
    entries = known if name is None else [entry for entry in known if name.lower() in _names(entry)]
    if not entries:
        names = [term for entry in known for term in _names(entry)]
        close = get_close_matches(name or "", names, n=1)
        hint = f"Did you mean {close[0]}?" if close else "podium explain lists all of them."
        raise PodiumUsageError(f"rule or term {name!r} does not exist. {hint}")
    table = _list if name is None else _details
    output.report(lambda layout: table(entries, layout), lambda: _document(entries))


def _names(entry: Explained) -> list[str]:
    """Return the names by which a user may ask; a row of the glossary may define two terms."""
    return entry.name.split(", ")


def _all() -> Iterator[Explained]:
    from podium.audit.table import CHECKS  # noqa: PLC0415 - `--help` does not need the rules
    from podium.rules.podiumrules import CLASS_RULES, OWN_RULES  # noqa: PLC0415 - as above
    from podium.rules.table import ADMISSION_RULES  # noqa: PLC0415 - as above

    for rule in (check.rule for check in CHECKS):
        needs = sorted(rule.needs)
        page = f"docs/rules.md#{rule.id}"
        yield Explained(
            _AUDIT, rule.id, rule.title, str(rule.severity), rule.why, needs, rule.source, page=page
        )
    own = (own_rule.cause.rule for own_rule in (*OWN_RULES, *CLASS_RULES))
    for rule in dict.fromkeys((*own, *ADMISSION_RULES)):
        page = "docs/admission-rules.md"
        yield Explained(_ADMISSION, rule.id, rule.title, why=rule.why, source=rule.source, page=page)
    yield from _terms((folder("docs") / "glossary.md").read_text("utf-8"))


def _terms(glossary: str) -> Iterator[Explained]:
    """Yield the terms of docs/glossary.md: rows of a term, its meaning, Kubernetes' word, and a link."""
    for line in glossary.splitlines():
        cells = [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] not in ("Term", "---"):
            term, meaning, upstream, link = cells
            page = f"docs/{link.partition('](')[2].removesuffix(')')}"
            yield Explained(_TERM, term, meaning, kubernetes=upstream, page=page)


def _list(entries: Sequence[Explained], layout: Layout) -> str:
    for kind, rows in groupby(entries, key=lambda entry: entry.kind):
        header = ("RULE", "SEVERITY", "FINDS") if kind == _AUDIT else (kind.split()[-1].upper(), "MEANING")

        def row(entry: Explained) -> tuple[str, ...]:
            return entry.name, *((entry.severity,) if entry.kind == _AUDIT else ()), entry.title

        layout.listing(f"{kind}s", header, list(rows), row)
    return layout.text()


def _details(entries: Sequence[Explained], layout: Layout) -> str:
    for number, entry in enumerate(entries):
        if number:
            layout.paragraph("")
        kind = f"{entry.kind}, {entry.severity}" if entry.severity else entry.kind
        layout.paragraph(f"{entry.name} ({kind})", style="bold")
        layout.paragraph(entry.title.rstrip(".") + ".")
        facts = (
            ("Why", entry.why),
            ("Reads", ", ".join(entry.needs)),
            ("Source", entry.source),
            ("In Kubernetes", entry.kubernetes),
            ("Page", entry.page),
        )
        for label, text in facts:
            if text:
                layout.paragraph(f"{label}: {text}", hang="  ")
    return layout.text()


def _document(entries: Sequence[Explained]) -> dict[str, Any]:
    return document("Explanation", entries=[entry._asdict() for entry in entries])
