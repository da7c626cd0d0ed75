"""The page of a pod or group: the answer of `podium why`, its members, and the plan for it if it waits."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from podium.cli.render.html import first_of, section, table, text
from podium.cli.render.whatif_page import plan_sections, verdict
from podium.cli.render.whatif_words import WhatIf
from podium.cli.render.why_words import departure_line, source_line, values, when
from podium.cli.site.frame import (
    Here,
    Surroundings,
    badge,
    link,
    object_link,
    page,
    pager,
    sliced,
    unit_link,
)
from podium.cli.site.threatened import PATH
from podium.why.account import Account, Counted, Departure, Gain, State, Subject, Wait
from podium.wording import count

# Maximum lengths of the lists on the page; docs/ui.md states these numbers.
DEPARTURES = 20
GAINS = 20

_STYLES = {State.WAITING: "blocked", State.RUNNING: "clear"}


class Member(NamedTuple):
    """A pod of a group."""

    namespace: str
    name: str
    state: State
    node: str
    priority: int


class Kin(NamedTuple):
    """Related objects: the group of a pod (namespace, name), if it is in one; the members of a group."""

    group: tuple[str, str] | None = None
    members: Sequence[Member] = ()


def one(  # noqa: PLR0917 - the content, and its frame
    account: Account, kin: Kin, report: WhatIf | None, now: datetime | None, here: Here, around: Surroundings
) -> str:
    """Return the page; `report` is the plan, if one was made, and `now` None for the past of a file."""
    sections = [
        _waiting(account.waiting, now),
        *_plan(report),
        _priority(account.priority),
        _departures(account, now),
        _gains(account.gains, now),
        _members(kin.members, here),
        _unknown(account.unknown),
    ]
    return page(str(account.object), here, around, _header(account, kin), sections)


def _header(account: Account, kin: Kin) -> str:
    subject = account.object
    about = f"<p>{text('; '.join(subject.about))}.</p>" if subject.about else ""
    group = f"<p>Its group: {object_link('PodGroup', *kin.group)}.</p>" if kin.group is not None else ""
    threat = f"<p>{_threat(subject)}</p>" if account.state is State.RUNNING else ""
    style = _STYLES.get(account.state, "")
    return (
        f'<p class="eyebrow">{badge(account.state)} {text(subject.kind)}</p>\n'
        f'<h1 class="{style} long">{text(account.summary)}</h1>\n{about}{group}{threat}'
    )


def _threat(subject: Subject) -> str:
    kind = "group" if subject.kind == "PodGroup" else "pod"
    return link("What would evict it", PATH, kind=kind, name=f"{subject.namespace}/{subject.name}")


def _fix(fix: str) -> str:
    return f'<p class="fix"><b>To do:</b> {text(fix)}</p>' if fix else ""


def _listed(items: Sequence[str]) -> str:
    return f'<ul class="findings card">{"".join(items)}</ul>'


def _waiting(waiting: Sequence[Wait], now: datetime | None) -> str:
    items = [
        f'<li class="finding"><p>{text(wait.message)}'
        f"{_note('since ' + when(wait.since, now)) if wait.since else ''}</p>{_fix(wait.fix)}</li>"
        for wait in waiting
    ]
    return section("waiting", "Why it waits", _listed(items)) if items else ""


def _plan(report: WhatIf | None) -> Sequence[str]:
    if report is None:
        return ()
    return section("take", "What it would take", verdict(report, "h3")), *plan_sections(
        report.plan, named=unit_link
    )


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
    told = account.departures
    items = [_departure(each, account, now) for each in told[:DEPARTURES]]
    body = _listed(items) + first_of(len(told), DEPARTURES)
    return section("departures", "Who made it go, newest first", body) if items else ""


def _departure(each: Departure, account: Account, now: datetime | None) -> str:
    whom = each.preemptor
    known = f"<p>See {object_link(whom.kind, whom.namespace, whom.name)}.</p>" if whom and whom.name else ""
    return (
        f'<li class="finding"><p>{text(departure_line(each, account, now))}</p>'
        f'<p class="note">{text(source_line(each))}</p>{known}{_fix(each.fix)}</li>'
    )


def _gains(gains: Sequence[Gain], now: datetime | None) -> str:
    rows = [
        f'<tr><th scope="row">{text(when(each.time, now))}</th><td>{text(each.mode)}</td>'
        f'<td>{text(each.result)}</td><td class="number">{each.units:,}</td>'
        f'<td class="number">{each.pods:,}</td><td>{text(each.message)}</td></tr>'
        for each in gains[:GAINS]
    ]
    head = (
        '<th scope="col">Time</th><th scope="col">Mode</th><th scope="col">Result</th>'
        '<th scope="col" class="number">Units</th><th scope="col" class="number">Pods</th>'
        '<th scope="col">Why</th>'
    )
    body = table("By Podium's records, newest first", head, rows, len(gains), GAINS, kind="rows")
    return section("gains", "What was preempted for it", body) if gains else ""


def _members(members: Sequence[Member], here: Here) -> str:
    shown, part = sliced(members, here.query.get("page", ""))
    rows = [
        f'<tr><th scope="row">{object_link("Pod", each.namespace, each.name)}</th>'
        f'<td>{badge(each.state)}</td><td class="number">{each.priority}</td>'
        f"<td>{text(each.node)}</td></tr>"
        for each in shown
    ]
    head = (
        '<th scope="col">Pod</th><th scope="col">State</th><th scope="col" class="number">Priority</th>'
        '<th scope="col">Node</th>'
    )
    body = table("Those that wait first", head, rows, len(rows), len(rows), kind="rows")
    body += pager(here, part, len(shown), len(members))
    return section("members", f"Members: {count(len(members), 'pod')}", body) if members else ""


def _unknown(unknown: Sequence[str]) -> str:
    lines = "".join(f"<li>{text(line)}</li>" for line in unknown)
    return section("unknown", "Not known", f"<ul>{lines}</ul>") if unknown else ""


def _note(words: str) -> str:
    return f' <span class="note">{text(words)}</span>'
