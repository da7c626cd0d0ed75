"""A plan before and after: the nodes of its placements and victims, with what each pod holds there.

Of many nodes, those that look the same before and after are one row, so a plan for a thousand nodes stays
readable.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from podium.api.podrequests import CPU, is_accelerator, pod_requests
from podium.cli.render.pictures.clustermap import row_boxes, span
from podium.cli.render.pictures.drawing import (
    WIDTH,
    Box,
    Drawing,
    Label,
    Panel,
    Parts,
    Rectangle,
    Spot,
    Style,
    filled,
    short,
)
from podium.cli.render.pictures.use import (
    Band,
    Holding,
    bands_of,
    holdings,
    parts_of,
    parts_words,
    shown_resources,
    style_of,
)
from podium.cluster.reader import ClusterReader, Name
from podium.planner.preemption.outcome import Plan
from podium.text import count, natural

# Maximum number of rows, each for all nodes that look the same; docs/whatif.md states the number.
ROWS = 24
_PANEL = 8
# A row: the baseline of its label, its two bars with their words, and its whole height.
_BASE, _BEFORE, _AFTER, _BAR, _ROW = 12, 18, 37, 16, 66
_BARS = 44
_NAME_COLUMNS = 40


class NodeChange(NamedTuple):
    """Nodes that the plan changes in the same way: the shown resource, and its amounts before and after."""

    nodes: Sequence[str]
    resource: str
    before: Parts
    after: Parts


class PlanPicture(NamedTuple):
    """The nodes of a plan, in order of their names, or the row of most nodes first."""

    bands: Sequence[Band]
    changes: Sequence[NodeChange]


def plan_picture(plan: Plan, view: ClusterReader) -> PlanPicture | None:
    """Return the picture of a plan with plain names in the cluster it was made for; None without nodes.

    It shows the accelerators that the placed pods request, or cpu if they request none.
    """
    victims = {(unit.namespace, pod.name) for unit in plan.victims for pod in unit.pods}
    names = {placed.node for placed in plan.placements}
    names |= {pod.node for unit in plan.victims for pod in unit.pods}
    nodes = [view.nodes[name] for name in sorted(names, key=natural) if name in view.nodes]
    held = [holding for holding in holdings(view) if holding.node in names]
    held_by: dict[str, list[Holding]] = defaultdict(list)
    for holding in held:
        held_by[holding.node].append(holding)
    placed = _placed(plan, view)
    requested: Counter[str] = Counter()
    for holding in (pod for pods in placed.values() for pod in pods):
        requested.update({name: amount for name, amount in holding.amounts.items() if is_accelerator(name)})
    rooms = shown_resources(nodes, [name for name, _ in requested.most_common()] or [CPU])
    if not rooms:
        return None
    by_priority: Counter[int] = Counter()
    for holding in held:
        if holding.node in rooms and holding.pod not in victims and not holding.terminating:
            by_priority[holding.priority] += holding.amounts.get(rooms[holding.node][0], 0)
    bands = bands_of(+by_priority, view.classes)
    changes = []
    for name, (resource, capacity) in rooms.items():
        before, after = _change(held_by[name], placed[name], resource, victims, bands)
        changes.append(NodeChange([name], resource, filled(before, capacity), filled(after, capacity)))
    return PlanPicture(bands, changes if len(changes) <= ROWS else _merged(changes))


def _merged(changes: Iterable[NodeChange]) -> list[NodeChange]:
    """Return one change for all nodes that look the same."""
    alike: dict[tuple[str, Parts, Parts], list[str]] = defaultdict(list)
    for change in changes:
        alike[change[1:]] += change.nodes
    merged = [NodeChange(nodes, *key) for key, nodes in alike.items()]
    return sorted(merged, key=lambda change: -len(change.nodes))


def _placed(plan: Plan, view: ClusterReader) -> Mapping[str, list[Holding]]:
    """Return the pods that the plan places, by node."""
    by_node: dict[str, list[Holding]] = defaultdict(list)
    for placement in plan.placements:
        namespace, _, name = placement.pod.partition("/")
        pod = view.pods.get((namespace, name))
        amounts = pod_requests(pod).amounts if pod is not None else {}
        by_node[placement.node].append(
            Holding((namespace, name), placement.node, 0, terminating=False, amounts=amounts)
        )
    return by_node


def _change(
    held: Sequence[Holding],
    placed: Sequence[Holding],
    resource: str,
    victims: set[Name],
    bands: Sequence[Band],
) -> tuple[Parts, Parts]:
    """Return the amounts of a node before and after."""
    kept: Counter[Style] = Counter()
    leaving: Counter[Style] = Counter()
    for holding in held:
        amount = holding.amounts.get(resource, 0)
        if holding.pod in victims:
            leaving[Style.PREEMPTED] += amount
        elif holding.terminating:
            leaving[Style.TERMINATING] += amount
        elif amount:
            kept[style_of(holding.priority, bands)] += amount
    coming = sum(holding.amounts.get(resource, 0) for holding in placed)
    terminating = (Style.TERMINATING, leaving[Style.TERMINATING])
    return (*parts_of(kept), *parts_of(leaving)), (*parts_of(kept), (Style.PLACED, coming), terminating)


def panels(picture: PlanPicture) -> Iterator[Panel]:
    """Yield the drawings of a plan with their headings."""
    changes = picture.changes
    for start in range(0, len(changes), _PANEL):
        some = changes[start : start + _PANEL]
        boxes: list[Box] = []
        labels: list[Label] = []
        spots: list[Spot] = []
        for number, change in enumerate(some):
            top = number * _ROW
            labels.append(Label(_name(change), 0, top + _BASE))
            for words, at, parts in (("before", _BEFORE, change.before), ("after", _AFTER, change.after)):
                labels.append(Label(words, 0, top + at + _BASE, muted=True))
                boxes += row_boxes(parts, change.resource, Rectangle(_BARS, top + at, WIDTH - _BARS, _BAR))
                title = f"{_name(change)} {words}: {parts_words(parts, change.resource, picture.bands)}"
                spots.append(Spot(title, 0, top + at, WIDTH, _BAR))
        merged = len(some[0].nodes) > 1
        heading = "Equal nodes, most first" if merged else span([change.nodes[0] for change in some])
        numbers = count(sum(len(change.nodes) for change in some), "node")
        words = "; ".join(spot.title for spot in spots)
        title = f"{heading}, before and after"
        yield Panel(heading, numbers, Drawing(title, words, len(some) * _ROW, boxes, spots, labels))


def _name(change: NodeChange) -> str:
    first = short(change.nodes[0], _NAME_COLUMNS - 14)
    more = len(change.nodes) - 1
    return f"{first} and {more:,} like it" if more else short(change.nodes[0], _NAME_COLUMNS)
