"""The cluster as a map: nodes and their accelerators by priority, free or terminating.

The level of detail depends on the number of nodes, so that the picture of any cluster stays small: a few
nodes are rows with their names, some hundreds are blocks, and of more nodes each row is a domain (a rack, a
block, a zone) or, without such labels, all nodes that are in the same state.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from podium.api.core import Node
from podium.api.podrequests import CPU
from podium.cli.render.pictures import use
from podium.cli.render.pictures.drawing import (
    WIDTH,
    Anchor,
    Box,
    Drawing,
    Label,
    Panel,
    Parts,
    Rectangle,
    Spot,
    Style,
    bar,
    cells,
    filled,
    short,
)
from podium.cluster.reader import ClusterReader
from podium.text import count, natural, some

# Maximum number of nodes as rows with names, and as blocks; docs/reports.md states these numbers.
NAMED = 24
BLOCKS = 256
# Maximum number of rows of domains, or of groups of equal nodes.
ROWS = 48
# Maximum number of accelerators that are drawn one by one; more are a bar.
CELLS = 16
# The number of rows and of blocks in a panel, unless it is a domain.
_PANEL_ROWS, _PANEL_BLOCKS = 8, 48
# A row: the baseline of its label, the place and height of its bar, and its whole height.
_BASE, _TOP, _BAR, _ROW = 12, 17, 16, 42
# A block: its columns of cells, the size of a cell, and the space between blocks.
_COLUMNS, _CELL, _GAP = 4, 12, 6
# The words in the last segment of a label key that names a domain of nodes; docs/reports.md lists them.
DOMAIN = frozenset({"rack", "leaf", "subblock", "block", "spine", "zone"})
# The share of nodes that must have a label.
_COVERED = 0.9
_NO_DOMAIN = "without the label"


# Maximum length of the name in a row, and in the row of many equal nodes, in characters.
_NAME_COLUMNS, _SAMPLE_COLUMNS = 24, 16

T = TypeVar("T")


class NodeUse(NamedTuple):
    """A node: the shown resource, its amounts by style (they sum up to the allocatable), and its domain."""

    name: str
    resource: str
    parts: Parts
    domain: str = ""

    @property
    def capacity(self) -> int:
        """Return the allocatable amount."""
        return sum(amount for _, amount in self.parts)


class ClusterMap(NamedTuple):
    """The nodes in order of domain and name; `label` is the label of the domains, or empty.

    `unshown` is the number of nodes without accelerators in a cluster that has some.
    """

    bands: Sequence[use.Band]
    nodes: Sequence[NodeUse]
    label: str = ""
    unshown: int = 0

    @property
    def total(self) -> Counter[Style]:
        """Return the amounts of all nodes by style, in milli for cpu."""
        totals: Counter[Style] = Counter()
        for node in self.nodes:
            totals.update(dict(node.parts))
        return totals

    @property
    def resource(self) -> str:
        """Return the resources of the nodes in words."""
        return ", ".join(sorted({node.resource for node in self.nodes}))


def cluster_map(view: ClusterReader) -> ClusterMap | None:
    """Return the map of a whole cluster, or None if no node has anything to show."""
    held = list(use.holdings(view))
    rooms = use.shown_resources(view.nodes.values(), use.resource_order(view.nodes.values(), held))
    if not rooms:
        return None
    by_priority: Counter[int] = Counter()
    for holding in held:
        resource, most = rooms.get(holding.node, ("", 0))
        if amount := min(holding.amounts.get(resource, 0), most):
            by_priority[holding.priority] += amount * (not holding.terminating)
    bands = use.bands_of(+by_priority, view.classes)
    amounts: dict[str, Counter[Style]] = defaultdict(Counter)
    for holding in held:
        resource, most = rooms.get(holding.node, ("", 0))
        if amount := min(holding.amounts.get(resource, 0), most):
            style = Style.TERMINATING if holding.terminating else use.style_of(holding.priority, bands)
            amounts[holding.node][style] += amount
    label = _domain_label(view.nodes.values())
    nodes = []
    for name, (resource, capacity) in rooms.items():
        node = view.nodes[name]
        rest = Style.CORDONED if node.spec is not None and node.spec.unschedulable else Style.FREE
        domain = (node.metadata.labels or {}).get(label, "") if label else ""
        nodes.append(NodeUse(name, resource, filled(use.parts_of(amounts[name]), capacity, rest), domain))
    nodes.sort(key=lambda node: (natural(node.domain), natural(node.name)))
    return ClusterMap(bands, nodes, label, len(view.nodes) - len(nodes))


def _domain_label(nodes: Iterable[Node]) -> str:
    """Return the label of the smallest domains of which there are at most ROWS, or an empty text."""
    values: dict[str, Counter[str]] = defaultdict(Counter)
    number = 0
    for node in nodes:
        number += 1
        for key, value in (node.metadata.labels or {}).items():
            if not DOMAIN.isdisjoint(re.split(r"[^a-z]+", key.rpartition("/")[2])):
                values[key][value] += 1
    good = [
        key
        for key, counts in values.items()
        if 2 <= len(counts) <= min(ROWS - 1, number / 2) and counts.total() >= number * _COVERED
    ]
    return max(good, key=lambda key: (len(values[key]), key), default="")


def panels(made: ClusterMap) -> list[Panel]:
    """Return the drawings of a map with their headings, in the level of detail for the number of nodes."""
    nodes, bands = made.nodes, made.bands
    if len(nodes) > BLOCKS and made.label:
        slices = _slices(list(_domains(nodes)), 2 * _PANEL_ROWS)
        return [_row_panel(span([row.name for row in rows]), rows, bands) for rows in slices]
    if len(nodes) > BLOCKS:
        slices = _slices(list(_alike(nodes)), 2 * _PANEL_ROWS)
        return [_row_panel(_ranks(at, rows), rows, bands) for at, rows in enumerate(slices)]
    if made.label:
        domains = groupby(nodes, key=lambda node: node.domain)
        parts = [(short(domain or _NO_DOMAIN), list(group)) for domain, group in domains]
    else:
        limit = _PANEL_ROWS if len(nodes) <= NAMED else _PANEL_BLOCKS
        parts = [(span([node.name for node in group]), list(group)) for group in _slices(nodes, limit)]
    if len(nodes) <= NAMED:
        return [_row_panel(heading, [_node_row(node) for node in group], bands) for heading, group in parts]
    return [_block_panel(heading, group, bands) for heading, group in parts]


class _Row(NamedTuple):
    """A row: a node, a domain, or one of several equal nodes (`nodes` are all of them)."""

    name: str
    note: str
    parts: Parts
    nodes: Sequence[NodeUse]


def _node_row(node: NodeUse) -> _Row:
    return _Row(node.name, free_words([node]), node.parts, [node])


def _domains(nodes: Sequence[NodeUse]) -> Iterator[_Row]:
    """Yield a row for each domain: its nodes summed up."""
    for domain, group in groupby(nodes, key=lambda node: node.domain):
        yield _sum_row(domain or _NO_DOMAIN, list(group))


def _sum_row(name: str, nodes: Sequence[NodeUse]) -> _Row:
    total: Counter[Style] = Counter()
    for node in nodes:
        total.update(dict(node.parts))
    return _Row(name, f"{count(len(nodes), 'node')}, {free_words(nodes)}", use.parts_of(total), nodes)


def _alike(nodes: Sequence[NodeUse]) -> Iterator[_Row]:
    """Yield a row for each state of a node, that of most nodes first, and one for the rare states."""
    states: dict[tuple[str, Parts], list[NodeUse]] = defaultdict(list)
    for node in nodes:
        states[node.resource, node.parts].append(node)
    rows = sorted(states.values(), key=lambda alike: -len(alike))
    limit = ROWS if len(rows) <= ROWS else ROWS - 1
    for group in rows[:limit]:
        yield _Row(
            f"{count(len(group), 'node')} such as {short(group[0].name, _SAMPLE_COLUMNS)}",
            free_words(group[:1]),
            group[0].parts,
            group,
        )
    if rest := [node for alike in rows[limit:] for node in alike]:
        yield _sum_row("other states", rest)


def _row_panel(heading: str, rows: Sequence[_Row], bands: Sequence[use.Band]) -> Panel:
    boxes: list[Box] = []
    labels: list[Label] = []
    spots: list[Spot] = []
    for number, row in enumerate(rows):
        top = number * _ROW
        note = Label(row.note, WIDTH, top + _BASE, Anchor.END, muted=True)
        labels += [Label(short(row.name, _NAME_COLUMNS), 0, top + _BASE), note]
        boxes += row_boxes(row.parts, row.nodes[0].resource, Rectangle(0, top + _TOP, WIDTH, _BAR))
        spots.append(Spot(_spot_words(row, bands), 0, top, WIDTH, _ROW - _GAP))
    nodes = [node for row in rows for node in row.nodes]
    note_, words = _words(nodes, bands)
    return Panel(heading, note_, Drawing(heading, words, len(rows) * _ROW, boxes, spots, labels))


def row_boxes(parts: Parts, resource: str, place: Rectangle) -> Iterable[Box]:
    """Return the boxes of a row: a cell for each accelerator, and a bar for many of them or for cpu."""
    units = sum(amount for _, amount in parts)
    if resource != CPU and units <= CELLS:
        return cells(parts, place._replace(width=place.width // units), units)
    return bar(parts, place)


def _block_panel(heading: str, nodes: Sequence[NodeUse], bands: Sequence[use.Band]) -> Panel:
    boxes: list[Box] = []
    spots: list[Spot] = []
    most = max((node.capacity for node in nodes if _in_cells(node)), default=2 * _COLUMNS)
    width, height = _COLUMNS * _CELL, -(-most // _COLUMNS) * _CELL
    columns = (WIDTH + _GAP) // (width + _GAP)
    for number, node in enumerate(nodes):
        row, column = divmod(number, columns)
        x, y = column * (width + _GAP), row * (height + _GAP)
        if _in_cells(node):
            boxes += cells(node.parts, Rectangle(x, y, _CELL, _CELL), _COLUMNS)
        else:
            boxes += bar(node.parts, Rectangle(x, y, width, height))
        spots.append(Spot(_spot_words(_node_row(node), bands), x, y, width, height))
    lines = -(-len(nodes) // columns)
    note, words = _words(nodes, bands)
    return Panel(heading, note, Drawing(heading, words, lines * (height + _GAP), boxes, spots))


def _in_cells(node: NodeUse) -> bool:
    return node.resource != CPU and node.capacity <= CELLS


def _words(nodes: Sequence[NodeUse], bands: Sequence[use.Band]) -> tuple[str, str]:
    """Return the note of a panel, and the description of its drawing."""
    total = _sum_row("", nodes)
    return total.note, f"{total.note}: {use.parts_words(total.parts, nodes[0].resource, bands)}"


def span(names: Sequence[str]) -> str:
    """Return the first and the last name of a panel."""
    first, last = short(names[0], _NAME_COLUMNS), short(names[-1], _NAME_COLUMNS)
    return first if len(names) == 1 else f"{first} to {last}"


def _ranks(at: int, rows: Sequence[_Row]) -> str:
    first = at * 2 * _PANEL_ROWS + 1
    last = first + len(rows) - 1
    return f"{f'States {first} to {last}' if rows[1:] else f'State {first}'}, by number of nodes"


def _spot_words(row: _Row, bands: Sequence[use.Band]) -> str:
    name = short(row.name) if len(row.nodes) == 1 else f"{row.name}: {some(short(n.name) for n in row.nodes)}"
    resource = row.nodes[0].resource
    return f"{name}: {short(resource)}: {use.parts_words(row.parts, resource, bands)}"


def free_words(nodes: Sequence[NodeUse]) -> str:
    """Return the free amount of nodes and their capacity: `12 of 256 free`."""
    resource = nodes[0].resource
    free = sum(amount for node in nodes for style, amount in node.parts if style is Style.FREE)
    whole = use.amount_words(resource, sum(node.capacity for node in nodes))
    return f"{use.amount_words(resource, free)} of {whole} {'cpu ' * (resource == CPU)}free"


def _slices(items: Sequence[T], length: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), length):
        yield items[start : start + length]
