"""The use of nodes by priority: the common input of the pictures of a cluster and of a plan.

A picture shows one resource a node: the accelerator that the pods of the cluster request most, or cpu if no
node has accelerators.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from podium.api.core import Node, PriorityClass
from podium.api.podrequests import CPU, allocatable, is_accelerator, pod_requests
from podium.cli.render.pictures.drawing import Parts, Style
from podium.cluster.reader import ClusterReader, Name
from podium.text import listed

BANDS = (Style.BAND_1, Style.BAND_2, Style.BAND_3, Style.BAND_4, Style.BAND_5)
_MILLI = 1000


class Holding(NamedTuple):
    """A pod that holds resources of a node: amounts by resource, in milli for cpu."""

    pod: Name
    node: str
    priority: int
    terminating: bool
    amounts: Mapping[str, int]


class Band(NamedTuple):
    """A range of priorities that share a style; `classes` are those of the only priority of a band."""

    style: Style
    lowest: int
    highest: int
    classes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the range in words: `100 to 700`, `1000 (research)`."""
        if self.lowest != self.highest:
            return f"{self.lowest} to {self.highest}"
        return f"{self.lowest} ({', '.join(self.classes)})" if len(self.classes) == 1 else str(self.lowest)


def holdings(view: ClusterReader) -> Iterator[Holding]:
    """Yield the pods that hold resources of a node."""
    for name, pod in view.pods.items():
        if pod.holding:
            terminating = bool(pod.metadata.deletionTimestamp)
            amounts = pod_requests(pod).amounts
            yield Holding(name, pod.spec.nodeName or "", pod.spec.priority or 0, terminating, amounts)


def resource_order(nodes: Iterable[Node], held: Iterable[Holding]) -> list[str]:
    """Return the accelerators of nodes, those that pods hold most first; cpu alone if there are none."""
    supply: Counter[str] = Counter()
    for node in nodes:
        supply.update({name: amount for name, amount in allocatable(node)[0].items() if is_accelerator(name)})
    demand: Counter[str] = Counter()
    for holding in held:
        demand.update({name: amount for name, amount in holding.amounts.items() if name in supply})
    return sorted(supply, key=lambda name: (-demand[name], -supply[name], name)) or [CPU]


def shown_resources(nodes: Iterable[Node], order: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the first resource of an order that each node has, and its amount; other nodes are left out."""
    shown = {}
    for node in nodes:
        room = allocatable(node)[0]
        resource = next((name for name in order if room.get(name)), "")
        if resource:
            shown[node.metadata.name or ""] = (resource, room[resource])
    return shown


def bands_of(held: Mapping[int, int], classes: Mapping[str, PriorityClass]) -> tuple[Band, ...]:
    """Return at most five bands for amounts by priority, the highest first.

    If there are more priorities, the neighbours that hold least are put together.
    """
    ranges = [(priority, priority, amount) for priority, amount in sorted(held.items(), reverse=True)]
    while len(ranges) > len(BANDS):
        at = min(range(len(ranges) - 1), key=lambda at: ranges[at][2] + ranges[at + 1][2])
        (_, high, amount), (low, _, more) = ranges[at : at + 2]
        ranges[at : at + 2] = [(low, high, amount + more)]
    names: dict[int, list[str]] = {}
    for name, priority_class in sorted(classes.items()):
        names.setdefault(priority_class.value or 0, []).append(name)
    return tuple(
        Band(style, low, high, tuple(names.get(low, ())) if low == high else ())
        for style, (low, high, _) in zip(BANDS, ranges, strict=False)
    )


def style_of(priority: int, bands: Sequence[Band]) -> Style:
    """Return the style of a priority that is in one of the bands."""
    return next(band.style for band in bands if band.lowest <= priority <= band.highest)


def parts_of(amounts: Mapping[Style, int]) -> Parts:
    """Return amounts as parts in the order of styles: the highest priority first, then what is leaving."""
    return tuple((style, amounts[style]) for style in Style if amounts.get(style))


def style_words(style: Style, bands: Sequence[Band]) -> str:
    """Return the meaning of a style in words."""
    for band in bands:
        if band.style is style:
            return f"priority {band}"
    return {
        Style.CORDONED: "free, but the node is cordoned",
        Style.PLACED: "placed by the plan",
    }.get(style, str(style))


def amount_words(resource: str, amount: int) -> str:
    """Return an amount for a person: cpu in cores, to a tenth."""
    return f"{amount / _MILLI:,.1f}".removesuffix(".0") if resource == CPU else f"{amount:,}"


def parts_words(parts: Parts, resource: str, bands: Sequence[Band]) -> str:
    """Return the parts of a whole in words: `4 priority 100, 4 free`."""
    return listed(
        [f"{amount_words(resource, amount)} {style_words(style, bands)}" for style, amount in parts]
    )
