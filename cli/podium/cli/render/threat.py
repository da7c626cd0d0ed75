"""`podium whatif --victim`: what would evict a pod or group, for people and for programs.

Like the report of a plan it opens with three lines: the priority that evicts it, the size, and its
protection.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from podium.answers.whatifreport import Basis
from podium.api.times import written_at
from podium.cli.render.data import document
from podium.cli.render.html import section, table, text, whole
from podium.cli.render.text import Layout
from podium.cli.render.whatif_page import rules
from podium.cli.render.whatif_words import PageOrigin, caveats, rules_line
from podium.planner.threat import BudgetCharge, ExemptPod, NodeRoom, Threat
from podium.text import count, some

# Maximum lengths of the lists; docs/whatif.md states these numbers.
NODES = 10
TOLERATIONS = 5
BUDGETS = 5
CLASSES = 10
# The factor by which the lists on the page are longer.
PAGE = 20

_BINARY = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_BYTES = ("memory", "ephemeral-storage", "hugepages-")


def threat_document(threat: Threat) -> dict[str, Any]:
    """Return the answer as a ThreatReport, its JSON contract."""
    return document(
        "ThreatReport",
        semantics=str(threat.semantics),
        unit={
            "kind": threat.kind,
            "namespace": threat.namespace,
            "name": threat.name,
            "priority": threat.priority,
            "pods": [{"name": pod.name, "node": pod.node} for pod in threat.pods],
        },
        protection=threat.protection,
        minimalPriority=threat.minimal,
        minimalPriorityLater=threat.later,
        tolerations=[
            {
                "pod": toleration.pod,
                "minimum": toleration.minimum,
                "until": toleration.until and written_at(toleration.until),
            }
            for toleration in threat.tolerations
        ],
        budgets=[
            {
                "name": budget.name,
                "allowed": budget.allowed,
                "charged": budget.charged,
                "violated": budget.violated,
            }
            for budget in threat.budgets
        ],
        nodes=[
            {
                "node": room.node,
                "spared": {name: amount(name, value) for name, value in room.spared.items()},
                "without": {name: amount(name, value) for name, value in room.without.items()},
                "frees": {name: amount(name, value) for name, value in room.frees.items()},
            }
            for room in threat.rooms
        ],
        classes=[{"name": name, "value": value} for name, value in threat.classes],
    )


def threat_table(threat: Threat, basis: Basis, layout: Layout) -> str:
    """Return the answer in the layout's width."""
    layout.paragraph(rules_line(basis), style="dim")
    layout.paragraph(priority_line(threat), style="bold")
    layout.paragraph(size_line(threat))
    layout.paragraph(shield_line(threat))
    for caveat in caveats(basis):
        layout.paragraph(caveat, style="warning")
    for heading, header, rows, limit, right in _lists(threat):
        layout.listing(heading, [cell.upper() for cell in header], rows, tuple, limit=limit, right=right)
    return layout.text()


def threat_page(threat: Threat, basis: Basis, made: PageOrigin) -> str:
    """Return the answer as one HTML page."""
    header = f"<header>\n{threat_verdict(threat, basis)}\n</header>"
    footer = f"Made by podium {text(made.version)} on {text(made.made)}, from {text(basis.input)}."
    return whole(f"Podium whatif: {priority_line(threat)}", header, threat_sections(threat), footer)


def threat_verdict(threat: Threat, basis: Basis) -> str:
    """Return the first lines of the answer."""
    lines = [size_line(threat), shield_line(threat)]
    kind = "clear" if threat.minimal is None else "blocked"
    return "\n".join(
        [
            rules(basis),
            f'<h1 class="{kind} long">{text(priority_line(threat))}</h1>',
            *(f'<p class="caution">{text(caveat)}</p>' for caveat in caveats(basis)),
            *(f"<p>{text(line)}</p>" for line in lines if line),
        ]
    )


def threat_sections(threat: Threat) -> list[str]:
    """Return the lists below them, empty for a list without entries."""
    sections = []
    for heading, names, rows, limit, right in _lists(threat):
        body = table(
            heading, names, rows, _cells, limit=limit * PAGE, numbers=right, kind="units", named=False
        )
        sections.append(section(names[0].lower().replace(" ", "-"), heading, body))
    return sections


def _cells(row: Sequence[str]) -> list[str]:
    return list(map(text, row))


def priority_line(threat: Threat) -> str:
    """Return the victim's name, and the priority that evicts it."""
    pods = f"{count(len(threat.pods), 'pod')} on {some({pod.node for pod in threat.pods})}"
    subject = f"{threat.kind} {threat.namespace}/{threat.name} (priority {threat.priority}, {pods})"
    if threat.minimal is None:
        return f"Nothing can preempt {subject}."
    classes = [f"{name} ({value})" for name, value in threat.classes[:1]]
    lowest = f", that is class {classes[0]} and above" if classes else ", which no class of the cluster has"
    return f"{subject} can be preempted by priority {threat.minimal} or higher{lowest}."


def size_line(threat: Threat) -> str:
    """Return the size that evicts it, in words."""
    if threat.minimal is None:
        return f"{threat.protection[:1].upper()}{threat.protection[1:]}."
    first = ""
    if threat.one_by_one:
        units = count(threat.one_by_one, "member")
        first = f"{units} of the group are preempted one by one; this is the first. "
    elif threat.kind != "Pod":
        first = "The group is preempted as a whole. "
    group = "A group preempts it if the group cannot reach its minCount otherwise."
    return f"{first}{_size(threat)}{group}"


def _size(threat: Threat) -> str:
    """Return the size that decides on the first node: in accelerators if it holds some, else in cpu."""
    for room in threat.rooms:
        for name in sorted(room.frees, key=lambda name: ("/" not in name, name)):
            spared, without, frees = room.spared[name], room.without[name], room.frees[name]
            least, most = amount(name, without), amount(name, without + frees)
            size = (
                f"On {room.node} a pod that requests more than {least} and at most {most} {name} "
                "preempts it. "
            )
            if spared == without:
                return size
            return (
                f"{size}Up to {amount(name, spared)} does not; between these amounts the least harm decides. "
            )
    return ""


def shield_line(threat: Threat) -> str:
    """Return what protects it at present, in words."""
    parts = []
    if threat.tolerations:
        ends = [toleration.until for toleration in threat.tolerations]
        until = (
            "permanently"
            if None in ends
            else f"until {written_at(max(end for end in ends if end is not None))}"
        )
        below = threat.tolerations[0].minimum
        doubt = f" {threat.doubt}, which" if threat.doubt else ""
        held = f"Its PriorityClass{doubt} holds back priorities below {below} {until}"
        parts.append(f"{held}; without it, priority {threat.later} is enough.")
    violated = [budget.name for budget in threat.budgets if budget.violated]
    if violated:
        loss = f"Its eviction would violate PodDisruptionBudget {some(violated)}"
        parts.append(f"{loss}: it is spared if preempting others makes enough room.")
    if not parts and threat.minimal is not None:
        parts.append("No toleration and no PodDisruptionBudget protects it.")
    return " ".join(parts)


_List = tuple[str, Sequence[str], list[Sequence[str]], int, Sequence[int]]


def _lists(threat: Threat) -> Iterator[_List]:
    """Yield each list: heading, column names, rows, maximum number of rows, columns of numbers."""
    rooms = list(_rooms(threat.rooms))
    columns = ("Nodes", "Resource", "Spared up to", "Preempted above", "And up to")
    yield "Requests of a pod on its nodes", columns, rooms, NODES, (2, 3, 4)
    tolerations = [_toleration(toleration) for toleration in threat.tolerations]
    yield "Tolerations", ("Pod", "Below", "Until"), tolerations, TOLERATIONS, (1,)
    budgets = [_budget(budget) for budget in threat.budgets]
    yield (
        "PodDisruptionBudgets",
        ("Budget", "Allows", "Its pods", "If it is preempted"),
        budgets,
        BUDGETS,
        (1, 2),
    )
    classes: list[Sequence[str]] = [(name, str(value)) for name, value in threat.classes]
    yield "Classes that may preempt it", ("Class", "Priority"), classes, CLASSES, (1,)


def _rooms(rooms: Sequence[NodeRoom]) -> Iterator[Sequence[str]]:
    """Yield one row per resource; nodes with equal values share their rows."""
    alike: dict[tuple[tuple[str, int], ...], list[NodeRoom]] = {}
    for room in rooms:
        alike.setdefault((*room.spared.items(), *room.without.items(), *room.frees.items()), []).append(room)
    for same in alike.values():
        nodes = some(room.node for room in same)
        room = same[0]
        for name in room.frees:
            limits = (room.spared[name], room.without[name], room.without[name] + room.frees[name])
            yield nodes, name, *(amount(name, limit) for limit in limits)


def _toleration(held: ExemptPod) -> Sequence[str]:
    ends = "permanently" if held.until is None else written_at(held.until)
    return held.pod, str(held.minimum), ends if held.scheduled else "it is scheduled"


def _budget(budget: BudgetCharge) -> Sequence[str]:
    return budget.name, str(budget.allowed), str(budget.charged), "violated" if budget.violated else "kept"


def amount(resource: str, value: int) -> str:
    """Return an amount of a resource as an exact quantity."""
    if resource == "cpu":
        return f"{value // 1000}" if value % 1000 == 0 else f"{value}m"
    if resource.startswith(_BYTES):
        for suffix, size in _BINARY:
            if value and value % size == 0:
                return f"{value // size}{suffix}"
    return str(value)
