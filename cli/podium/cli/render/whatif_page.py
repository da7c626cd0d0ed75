"""`podium whatif` as one HTML file: the domain as nodes, each with the pods that come and those evicted."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from podium.answers.whatifreport import Basis, WhatIf
from podium.api.findings import Finding
from podium.cli.render.html import (
    FIRST,
    Fold,
    finding_item,
    first_of,
    folded,
    section,
    table,
    text,
    whole,
)
from podium.cli.render.pictures.planpicture import plan_picture
from podium.cli.render.pictures.sections import plan_section
from podium.cli.render.whatif_words import (
    PageOrigin,
    caveats,
    domain_words,
    domains_heading,
    harm_line,
    most_line,
    nodes_heading,
    outcome_line,
    outcome_words,
    pods_words,
    rules_line,
    rules_title,
    unit_name,
    victims_words,
)
from podium.planner.preemption.outcome import (
    GOOD,
    DomainVerdict,
    NodeReason,
    Plan,
    PlanTopology,
    UnitVerdict,
    WorkloadPlan,
)
from podium.text import SHOWN, count, natural

# Maximum lengths of the lists on the page; docs/whatif.md states these numbers.
CARDS = 200  # Nodes in the domain view.
PODS = 30  # Of one kind on one node.
UNITS = 300  # Victims and spared units.
REASONS = 50
FINDINGS = 50
# The open entries of a plan for more than FIRST nodes, whose page fits a screen: of a list, of the picture.
_LISTED, _DRAWN = 4, 3

# The namespace of units whose names are hidden from a tenant.
_HIDDEN = "other namespaces"
_BADGE = ' <span class="badge warning">violates a budget</span>'


def whatif_page(report: WhatIf, made: PageOrigin) -> str:
    """Return the whole page."""
    footer = (
        f"Made by podium {text(made.version)} on {text(made.made)}, from {text(report.basis.input)}.\n"
        "Long lists are cut; <code>podium whatif -o json</code> has everything."
    )
    header = f"<header>\n{verdict(report, 'h1')}\n</header>"
    return whole(f"Podium whatif: {outcome_line(report)}", header, plan_sections(report), footer)


def _name(unit: UnitVerdict) -> str:
    return text(unit_name(unit))


def plan_sections(report: WhatIf, *, named: Callable[[UnitVerdict], str] = _name) -> list[str]:
    """Return the lists of a plan, empty texts for those without entries; `named` writes a unit's name."""
    plan, cards = report.plan, _cards(report.plan)
    large = len(cards) > FIRST
    listed, drawn = (_LISTED, _DRAWN) if large else (FIRST, FIRST)
    picture_fold: Fold = "narrow" if large else "never"
    fold: Fold = "always" if large else "never"
    victims = _units("Preempted units, and why", plan.victims, named)
    if large:
        victims = _by_namespace(plan.victims, victims)
    spared = _units("Spared units, and why", plan.spared, named)
    parts = [
        _reasons(nodes_heading(plan), plan.nodes, listed),
        section("victims", f"Victims: {count(len(plan.victims), 'unit')}", victims),
        plan_section(plan_picture(*report.drawn), drawn, picture_fold) if report.drawn is not None else "",
    ]
    if large:
        parts = ['<div class="columns">', *filter(None, parts), "</div>"]
    return [
        _workloads(report.workloads, listed),
        _topology(plan.topology, listed),
        *parts,
        section("domain", "Nodes of the plan", _domain(cards), fold),
        section("spared", f"Spared: {count(len(plan.spared), 'unit')}", spared, fold),
        _findings(plan.findings),
    ]


def verdict(report: WhatIf, heading: str) -> str:
    """Return the first lines of a plan; `heading` is the element of the outcome."""
    plan = report.plan
    style = "clear" if plan.outcome in GOOD else "blocked"
    return "\n".join(
        [
            rules(report.basis),
            f'<{heading} class="{style} long">{text(outcome_line(report))}</{heading}>',
            *(f'<p class="caution">{text(caveat)}</p>' for caveat in caveats(report.basis)),
            f"<p>{text(most)}</p>" if (most := most_line(report)) else "",
            f'<p class="harm">{text(harm_line(report))}</p>',
            f"<p>{text(plan.message)}</p>",
        ]
    )


def rules(basis: Basis) -> str:
    """Return the rules of an answer; a click shows how they and the time were chosen."""
    return _opened(text(rules_title(basis)), f"<p>{text(rules_line(basis))}</p>", "eyebrow")


def _workloads(workloads: Sequence[WorkloadPlan], first: int) -> str:
    def row(workload: WorkloadPlan) -> tuple[str, ...]:
        placed = f"{workload.placed:,} of {workload.pods:,}"
        return (
            text(str(workload)),
            str(workload.priority),
            placed,
            text(victims_words(workload.harm)),
            text(outcome_words(workload)),
        )

    header = ("Workload", "Priority", "Pods placed", "Preempts", "Result")
    caption = "In the order of their plans"
    body = folded(workloads, lambda some: table(caption, header, some, row, numbers=(1, 2)), UNITS, first)
    return section("workloads", count(len(workloads), "workload"), body) if len(workloads) > 1 else ""


def _topology(topology: PlanTopology | None, first: int) -> str:
    if topology is None:
        return ""

    def row(domain: DomainVerdict) -> tuple[str | int, ...]:
        name = f"<strong>{text(domain.name)}</strong>" if domain.chosen else text(domain.name)
        free, most, result = domain_words(domain)
        return name, domain.nodes, free, most, text(result)

    header = (text(topology.key), "Nodes", "Room now", "Room at most", "Result")
    caption = "Members of the group that have room, and the result if the group could use no other domain"
    body = folded(
        topology.domains, lambda some: table(caption, header, some, row, numbers=(1, 2, 3)), UNITS, first
    )
    return section("domains", domains_heading(topology), body)


class _Card:
    """A node: pods that are placed, pods that are evicted, and candidates that are spared."""

    def __init__(self) -> None:
        self.placed: list[str] = []
        self.victims: list[str] = []
        self.spared: list[str] = []

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Return the numbers of its pods."""
        return len(self.placed), len(self.victims), len(self.spared)


def _cards(plan: Plan) -> dict[str, _Card]:
    """Return the nodes with pods of the preemptor or victims."""
    cards: dict[str, _Card] = {}
    for placed in plan.placements:
        cards.setdefault(placed.node, _Card()).placed.append(placed.pod)
    for name, node in _pods(plan.victims):
        cards.setdefault(node, _Card()).victims.append(name)
    for name, node in _pods(plan.spared):
        if node in cards:
            cards[node].spared.append(name)
    return cards


def _domain(cards: Mapping[str, _Card]) -> str:
    key = (
        '<p class="key"><ins>is placed</ins> <del>is preempted</del> <span>could be preempted, and '
        "is spared</span></p>"
    )
    alike: dict[object, list[str]] = {}
    for node in sorted(cards, key=natural):
        # A plan for many nodes repeats itself, so nodes with the same numbers of pods are one card.
        alike.setdefault(cards[node].numbers if len(cards) > FIRST else node, []).append(node)
    groups = sorted(alike.values(), key=len, reverse=True)
    body = folded(
        groups,
        lambda some: f'<ul class="nodes">{"".join(_card(nodes, cards[nodes[0]]) for nodes in some)}</ul>',
        CARDS,
    )
    return f"{key}\n{body}" if cards else ""


def _card(nodes: Sequence[str], card: _Card) -> str:
    """Return a node; of equal nodes the first as an example, with a few of its pods."""
    limit = PODS if len(nodes) == 1 else SHOWN
    lines = [
        *_lines("ins", card.placed, limit, "is placed", "are placed"),
        *_lines("del", card.victims, limit, "is preempted", "are preempted"),
        *_lines("span", card.spared, limit, "stays", "stay"),
    ]
    numbers = f"{len(card.placed):,} in, {len(card.victims):,} out"
    title, others = text(nodes[0]), ""
    if len(nodes) > 1:
        title, numbers = f"{len(nodes):,} nodes like {title}", f"{numbers} on each"
        names = text(", ".join(nodes[:CARDS]))
        others = _opened("Names", f"{names}{first_of(len(nodes), CARDS)}")
    heading = f'<h3>{title}</h3> <span class="note">{numbers}</span>'
    return f'<li class="node">{heading}<ul>{"".join(lines)}</ul>{others}</li>'


def _lines(element: str, pods: Sequence[str], limit: int, singular: str, many: str) -> Iterator[str]:
    for name in pods[:limit]:
        yield f"<li><{element}>{text(name)}</{element}></li>"
    if (rest := len(pods) - limit) > 0:
        yield f'<li class="cut">{rest:,} more {singular if rest == 1 else many}</li>'


def _pods(units: Iterable[UnitVerdict]) -> Iterable[tuple[str, str]]:
    for unit in units:
        for pod in unit.pods:
            yield (f"{unit.namespace}/{pod.name}" if unit.namespace else pod.name), pod.node


def _opened(summary: str, body: str, kind: str = "") -> str:
    """Return a body behind a line that opens it."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<details{attribute}><summary>{summary}</summary>{body}</details>"


def _by_namespace(units: Sequence[UnitVerdict], listed: str) -> str:
    """Return the namespaces of units, that with most pods first; a click opens the rest, and `listed`."""
    by_namespace: dict[str, list[UnitVerdict]] = defaultdict(list)
    pods: Counter[str] = Counter()
    for unit in units:
        by_namespace[unit.namespace].append(unit)
        pods[unit.namespace] += len(unit.pods)

    def row(namespace: str) -> tuple[str | int, ...]:
        theirs = by_namespace[namespace]
        badge = _BADGE if any(unit.violatesBudget for unit in theirs) else ""
        lowest, highest = (choose(unit.priority for unit in theirs) for choose in (min, max))
        priority = str(lowest) if lowest == highest else f"{lowest} to {highest}"
        return text(namespace or _HIDDEN) + badge, priority, len(theirs), pods[namespace]

    header = ("Namespace", "Priority", "Units", "Pods")
    ordered = sorted(by_namespace, key=lambda namespace: (-pods[namespace], natural(namespace)))

    def drawn(some: Sequence[str]) -> str:
        return table("Preempted units by namespace", header, some, row, limit=UNITS, numbers=(1,))

    if not units:
        return ""
    rest = ordered[_LISTED:]
    others = f"{count(len(rest), 'other namespace')}, and all " if rest else "all "
    opened = _opened(f"Show {others}{count(len(units), 'unit')}", drawn(rest) + listed, "more")
    return drawn(ordered[:_LISTED]) + opened


def _units(caption: str, units: Sequence[UnitVerdict], named: Callable[[UnitVerdict], str]) -> str:
    def row(unit: UnitVerdict) -> tuple[str, ...]:
        named_unit = f'{named(unit)} <span class="note">{text(unit.kind)}</span>'
        badge = _BADGE if unit.violatesBudget else ""
        return named_unit + badge, str(unit.priority), text(pods_words(unit.pods)), text(unit.reason)

    header = ("Unit", "Priority", "Pods", "Why")
    return folded(units, lambda some: table(caption, header, some, row, numbers=(1,), kind="units"), UNITS)


def _reasons(heading: str, nodes: Sequence[NodeReason], first: int) -> str:
    def row(reason: NodeReason) -> tuple[int, str]:
        examples = text(", ".join(reason.examples))
        return reason.count, f'{text(reason.reason)} <span class="note">{examples}</span>'

    header = ("Nodes", "Reason")
    caption = "Filter results by reason"
    body = folded(nodes, lambda some: table(caption, header, some, row), REASONS, first)
    return section("nodes", heading, body)


def _findings(findings: Sequence[Finding]) -> str:
    rows = "".join(map(finding_item, findings[:FINDINGS]))
    body = f'<ul class="findings">{rows}</ul>{first_of(len(findings), FINDINGS)}'
    return section("findings", "Findings", body) if findings else ""
