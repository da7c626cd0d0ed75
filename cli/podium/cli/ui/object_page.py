"""The page of a pod or group: the answer of `podium why`, its members, and the plan for it if it waits."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from podium.answers.accounts.model import Account, Counted, Departure, Gain, RunState, Subject, Wait
from podium.answers.whatifreport import WhatIf
from podium.cli.render.html import first_of, fix_markup, folded, section, table, text
from podium.cli.render.whatif_page import plan_sections, verdict
from podium.cli.render.why_words import departure_line, gain_reason, source_line, values, when
from podium.cli.render.words import amounts
from podium.cli.ui import page_parts
from podium.cli.ui.threatened import PATH
from podium.text import count, some

# Maximum lengths of the lists on the page; docs/ui.md states these numbers.
DEPARTURES = 20
GAINS = 20

_STYLES = {RunState.WAITING: "blocked", RunState.RUNNING: "clear"}


class Member(NamedTuple):
    """A pod of a group."""

    namespace: str
    name: str
    state: RunState
    node: str
    priority: int


class Related(NamedTuple):
    """Related objects: the group of a pod (namespace, name), if it is in one; the members of a group.

    `owners` are the topmost controllers of the pods, in words. `held` are the accelerators of running pods
    and `requested` those of waiting ones, by resource.
    """

    group: tuple[str, str] | None = None
    members: Sequence[Member] = ()
    owners: Sequence[str] = ()
    held: Mapping[str, int] = {}
    requested: Mapping[str, int] = {}


def object_page(  # noqa: PLR0917 - the content, and its frame
    account: Account,
    related: Related,
    report: WhatIf | None,
    now: datetime | None,
    here: page_parts.Here,
    around: page_parts.PageContext,
) -> str:
    """Return the page; `report` is the plan, if one was made, and `now` None for the past of a file."""
    sections = [
        _waiting(account.waiting, now),
        _priority(account.priority),
        *_plan_section(report),
        _departures(account, now),
        _gains(account.gains, now),
        _members(related.members, here),
        _unknown(account.unknown),
    ]
    return page_parts.page(str(account.object), here, around, _header(account, related), sections)


def _header(account: Account, related: Related) -> str:
    subject = account.object
    about = f"<p>{text('; '.join(subject.about))}.</p>" if subject.about else ""
    group = (
        f"<p>Its group: {page_parts.object_link('PodGroup', *related.group)}.</p>"
        if related.group is not None
        else ""
    )
    owners = "Owner" if len(related.owners) == 1 else "Owners"
    facts = (
        (owners, some(related.owners)),
        ("Accelerators held", ", ".join(amounts(related.held))),
        ("Accelerators requested", ", ".join(amounts(related.requested))),
    )
    known = "".join(f"<p>{name}: {text(words)}.</p>" for name, words in facts if words)
    threat = f"<p>{_threat(subject)}</p>" if account.state in (RunState.STARTING, RunState.RUNNING) else ""
    style = _STYLES.get(account.state, "")
    return (
        f'<p class="eyebrow">{page_parts.badge(account.state)} {text(subject.kind)}</p>\n'
        f'<h1 class="{style} long">{text(account.summary)}</h1>\n{about}{group}{known}{threat}'
    )


def _threat(subject: Subject) -> str:
    kind = "group" if subject.kind != "Pod" else "pod"
    return page_parts.link("What can preempt it", PATH, kind=kind, name=f"{subject.namespace}/{subject.name}")


def _fix(fix: str) -> str:
    return f'<p class="fix"><b>To do:</b> {fix_markup(fix)}</p>' if fix else ""


def _listed(items: Sequence[str]) -> str:
    return f'<ul class="findings card">{"".join(items)}</ul>'


def _waiting(waiting: Sequence[Wait], now: datetime | None) -> str:
    items = []
    for wait in waiting:
        since = f' <span class="note">{text("since " + when(wait.since, now))}</span>' if wait.since else ""
        items.append(f'<li class="finding"><p>{text(wait.message)}{since}</p>{_fix(wait.fix)}</li>')
    return section("waiting", "Why it waits", _listed(items)) if items else ""


def _plan_section(report: WhatIf | None) -> Sequence[str]:
    if report is None:
        return ()
    room = section("take", "What would make room", verdict(report, "h3"))
    return room, *plan_sections(report, named=page_parts.unit_link)


def _priority(counted: Counted | None) -> str:
    if counted is None:
        return ""
    problems = "".join(f"<p>{text(problem)}</p>" for problem in counted.problems)
    item = (
        f'<li class="finding"><p><b>{values(counted)}</b>: {text(counted.rule)}.</p>'
        f"<p>Its own: {text(counted.source)}.</p>{problems}{_fix(counted.fix)}</li>"
    )
    return section("priority", "Priority", _listed([item]))


def _departures(account: Account, now: datetime | None) -> str:
    departures = account.departures
    items = [_departure(departure, account, now) for departure in departures[:DEPARTURES]]
    body = _listed(items) + first_of(len(departures), DEPARTURES)
    return section("departures", "Evictions, newest first", body) if items else ""


def _departure(departure: Departure, account: Account, now: datetime | None) -> str:
    preemptor = departure.preemptor
    known = (
        f"<p>See {page_parts.object_link(preemptor.kind, preemptor.namespace, preemptor.name)}.</p>"
        if preemptor and preemptor.name
        else ""
    )
    return (
        f'<li class="finding"><p>{text(departure_line(departure, account, now))}</p>'
        f'<p class="note">{text(source_line(departure))}</p>{known}{_fix(departure.fix)}</li>'
    )


def _gains(gains: Sequence[Gain], now: datetime | None) -> str:
    def row(gain: Gain) -> tuple[str | int, ...]:
        told = when(gain.time, now), gain.mode, gain.result, gain_reason(gain)
        time, mode, result, message = map(text, told)
        return time, mode, result, gain.units, gain.pods, message

    header = ("Time", "Mode", "Result", "Units", "Pods", "Why")
    caption = "From Podium's records, newest first"
    return section(
        "gains", "Preemptions for it", table(caption, header, gains, row, limit=GAINS, kind="rows")
    )


def _members(members: Sequence[Member], here: page_parts.Here) -> str:
    shown, position = page_parts.sliced(members, here.query.get("page", ""))

    def row(member: Member) -> tuple[str, ...]:
        pod = page_parts.object_link("Pod", member.namespace, member.name)
        return pod, page_parts.badge(member.state), str(member.priority), text(member.node)

    header = ("Pod", "State", "Priority", "Node")
    body = folded(
        shown,
        lambda some: table("Waiting pods first", header, some, row, numbers=(2,), kind="rows"),
        page_parts.ROWS,
    )
    body += page_parts.pager(here, position, len(shown), len(members))
    return section("members", f"Members: {count(len(members), 'pod')}", body)


def _unknown(unknown: Sequence[str]) -> str:
    lines = "".join(f"<li>{text(line)}</li>" for line in unknown)
    return section("unknown", "Not known", f"<ul>{lines}</ul>") if unknown else ""
