"""`podium whatif --defragment`: the moves that free whole topology domains, for people and for programs.

Like the report of a plan it opens with three lines: how many domains can be freed, the best one with its
harm, and what becomes free there.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from podium.answers.whatifreport import Basis
from podium.api.podrequests import is_accelerator
from podium.cli.render.data import as_builtins, document
from podium.cli.render.html import section, table, text, whole
from podium.cli.render.text import Layout
from podium.cli.render.threat import amount
from podium.cli.render.whatif_page import rules
from podium.cli.render.whatif_words import PageOrigin, caveats, harm_words, rules_line
from podium.planner.preemption.defragment import Defragmentation, DomainMoves, Freeing, UnitMove
from podium.text import accelerator_time, count, some, visible

# Maximum lengths of the lists in the table, and on the page; docs/whatif.md states these numbers.
MOVES, PAGE_MOVES = 20, 300
STAYS, PAGE_STAYS = 10, 300


def defragment_document(answer: Defragmentation, basis: Basis) -> dict[str, Any]:
    """Return the answer as a DefragmentReport, its JSON contract."""
    body = as_builtins(answer)
    for domain in body["domains"]:
        domain["frees"] = {name: amount(name, value) for name, value in domain["frees"].items()}
    return document("DefragmentReport", semantics=str(basis.semantics), **body, notRead=list(basis.unknown))


def defragment_table(answer: Defragmentation, basis: Basis, layout: Layout) -> str:
    """Return the answer in the layout's width, with the moves of the best domain."""
    layout.paragraph(rules_line(basis), style="dim")
    layout.paragraph(domains_line(answer), style="bold")
    for line in filter(None, (best_line(answer), room_line(answer))):
        layout.paragraph(line)
    for caveat in caveats(basis):
        layout.paragraph(caveat, style="warning")
    for moves in _lists(answer, _freed(answer)[:1]):
        header = [visible(column) for column in moves.header]
        layout.listing(moves.kind, header, moves.rows, tuple, limit=moves.limit, right=moves.right)
    return layout.text()


def defragment_page(answer: Defragmentation, basis: Basis, made: PageOrigin) -> str:
    """Return the answer as one HTML page, with the moves of every listed domain."""
    lines = filter(None, (best_line(answer), room_line(answer)))
    kind = "clear" if _freed(answer) else "blocked"
    header = [
        rules(basis),
        f'<h1 class="{kind} long">{text(domains_line(answer))}</h1>',
        *(f'<p class="caution">{text(caveat)}</p>' for caveat in caveats(basis)),
        *(f"<p>{text(line)}</p>" for line in lines),
    ]
    sections = []
    for number, moves in enumerate(_lists(answer, _freed(answer))):
        title = text(f"{moves.of}: {moves.kind}" if moves.of else moves.kind)
        columns = [text(column.capitalize() if column.isupper() else column) for column in moves.header]
        body = table(
            title,
            columns,
            moves.rows,
            _cells,
            limit=moves.page,
            numbers=moves.right,
            kind="units",
            named=False,
        )
        sections.append(section(f"list-{number}", title, body))
    footer = (
        f"Made by podium {text(made.version)} on {text(made.made)}, from {text(basis.input)}.\n"
        "Long lists are cut; <code>podium whatif -o json</code> has everything."
    )
    return whole(
        f"Podium whatif: {domains_line(answer)}",
        "\n".join(["<header>", *header, "</header>"]),
        sections,
        footer,
    )


def domains_line(answer: Defragmentation) -> str:
    """Return how many domains can be freed, and which are free already."""
    more = "at least " if answer.tried < answer.candidates else ""
    number = f"{more}{answer.movable:,}" if answer.movable else "none"
    already = f"{len(answer.free):,} {'is' if len(answer.free) == 1 else 'are'} free already"
    free = f"; {already}: {some(answer.free)}" if answer.free else ""
    return f"Moves can free {number} of {count(answer.count, 'domain')} of {answer.key}{free}."


def best_line(answer: Defragmentation) -> str:
    """Return the domain that costs least and its harm; without one, why the first is not freed."""
    freed = _freed(answer)
    if freed:
        return f"{freed[0].name} costs least: {_cost(freed[0])}."
    return f"{answer.domains[0].name}: {answer.domains[0].message}." if answer.domains else ""


def room_line(answer: Defragmentation) -> str:
    """Return what becomes free in the best domain; empty without one."""
    freed = _freed(answer)
    return f"It leaves free {count(freed[0].nodes, 'node')} with {_room_words(freed[0])}." if freed else ""


class _MovesList(NamedTuple):
    """A list: its `kind` of entries, the domain that it is `of` (empty for all), and the columns of numbers.

    `limit` and `page` are its maximum lengths in the table and on the page. A heading of the table is in
    capitals, so only the page's has the name of the domain.
    """

    kind: str
    of: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | int]]
    limit: int | None
    page: int | None
    right: Sequence[int] = ()


def _lists(answer: Defragmentation, freed: Sequence[DomainMoves]) -> Iterator[_MovesList]:
    """Yield the list of domains, the moves of the `freed` ones, and the units that stay."""
    header = (answer.key, "NODES", "UNITS", "RESULT", "FREE AFTERWARDS")
    rows = [
        (domain.name, domain.nodes, len(domain.moves), _cost(domain), _room_words(domain))
        for domain in answer.domains
    ]
    yield _MovesList("Domains, the least harm first", "", header, rows, None, None, (1, 2))
    columns = ("KIND", "NAME", "PRIORITY", "PODS", "FROM", "TO", "HARM")
    for domain in freed:
        kind = f"Moves that free the domain: {count(len(domain.moves), 'unit')}"
        yield _MovesList(
            kind, domain.name, columns, list(map(_move, domain.moves)), MOVES, PAGE_MOVES, (2, 3)
        )
    stays = [
        (domain.name, unit.kind, f"{unit.namespace}/{unit.name}", unit.reason)
        for domain in answer.domains
        for unit in domain.stays
    ]
    yield _MovesList("Units that stay", "", (answer.key, "KIND", "NAME", "WHY"), stays, STAYS, PAGE_STAYS)


def _freed(answer: Defragmentation) -> list[DomainMoves]:
    return [domain for domain in answer.domains if domain.outcome is Freeing.MOVABLE]


def _cost(domain: DomainMoves) -> str:
    """Return the harm of the moves of a domain, or why none free it."""
    if domain.outcome is not Freeing.MOVABLE or domain.harm is None:
        return domain.message
    fills = f"fills {some(domain.fills)}, free until then" if domain.fills else ""
    return "; ".join(filter(None, (f"evicts {harm_words(domain.harm)}", fills, domain.message)))


def _room_words(domain: DomainMoves) -> str:
    """Return the room of a domain once the moves are made; empty for a domain that is not freed."""
    if domain.outcome is not Freeing.MOVABLE:
        return ""
    names = sorted(domain.frees, key=lambda name: (not is_accelerator(name), name))
    return ", ".join(f"{amount(name, domain.frees[name])} {name}" for name in names)


def _move(unit: UnitMove) -> tuple[str | int, ...]:
    lost = f"{accelerator_time(unit.acceleratorSeconds)} lost" if unit.acceleratorSeconds else ""
    budgets = f"{count(unit.violations, 'pod')} against a budget" if unit.violations else ""
    name = f"{unit.namespace}/{unit.name}"
    places = some({pod.node for pod in unit.pods}), some({pod.to for pod in unit.pods})
    harm = ", ".join(filter(None, (lost, budgets))) or "no work lost"
    return unit.kind, name, str(unit.priority), len(unit.pods), *places, harm


def _cells(row: Sequence[str | int]) -> list[str | int]:
    return [cell if isinstance(cell, int) else text(cell) for cell in row]
