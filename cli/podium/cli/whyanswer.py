"""The answer of `podium why` from the data that was read, shared by the command and the UI.

podium.answers.accounts computes an account from values. This module chooses the semantics as `podium whatif`
does, and adds a plan if the object waits for room.
"""

from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from podium.api.core import Pod
from podium.api.foreigngroups import foreign_key
from podium.api.membership import GroupKey
from podium.api.reads import Kind
from podium.cli import whatifinput
from podium.cli.config.schedulersettings import choose_settings, of_file
from podium.cli.naming import with_namespace
from podium.cli.whatifinput import Assumptions, ChosenSemantics, assume
from podium.cluster.reader import ClusterReader, Name, Target
from podium.errors import PodiumError
from podium.groups.trees import group_at, members_below
from podium.text import some

if TYPE_CHECKING:
    from podium.answers.accounts.explain import Begin, WhyInput
    from podium.answers.accounts.model import Account
    from podium.cli.whyinput import WhyData
    from podium.planner.preemption.outcome import Plan
    from podium.planner.settings import Settings

# The kinds that an account needs beside pods; a plan needs more.
_FACTS = (Kind.POD_GROUP, Kind.COMPOSITE_GROUP, Kind.PRIORITY_CLASS)
# Maximum number of suggested names in an error.
_OFFERED = 3


class WhyQuery(NamedTuple):
    """The queried pod or group, and the options; `tenant` is a namespace, None for all names."""

    kind: str
    name: Name
    config: str | None
    tenant: str | None
    live: bool


class ProspectPlan(NamedTuple):
    """A plan with its target and assumptions."""

    plan: "Plan"
    target: Target
    assumed: Assumptions


class WhyAnswer(NamedTuple):
    """The account of one pod or group, None if nothing is known, and the plan behind its prospect."""

    account: "Account | None"
    planned: ProspectPlan | None = None


def placed_query(question: WhyQuery, read: "WhyData") -> WhyQuery:
    """Return a query with the namespace of its name, which may be that of events and records alone.

    Raises PodiumUsageError if the name is in several namespaces.
    """
    if question.name[0]:
        return question
    view, is_pod = read.near.state, question.kind == "pod"
    stored = view.pods if is_pod else whatifinput.group_names(view)
    name = with_namespace(question.kind, question.name, stored)
    if not name[0]:
        kinds = ("Pod",) if is_pod else ("PodGroup", "CompositePodGroup")
        events, records = read.past
        plans = [plan for record in records for plan in record.plans]
        parties = (party for plan in plans for party in (plan.preemptor, *plan.units))
        past = [(each.namespace, each.name) for each in parties if each.kind in kinds]
        past += [
            (about.namespace or "", about.name or "")
            for about in (event.involvedObject for event in events)
            if about.kind in kinds
        ]
        name = with_namespace(question.kind, name, past)
    return question._replace(name=name)


def draft_account(
    question: WhyQuery, read: "WhyData", now: datetime, begin: "Begin | None" = None
) -> "Account | None":
    """Return the account at a time, from the data read so far."""
    from podium.answers.accounts import explain  # noqa: PLC0415 - numpy takes 0.1 s to import

    target = _target(question, read.near.state)
    rules = whatifinput.choose_rules(None, target, read.near, live=question.live)
    found = account_input(question, read, rules, now)
    found = found if begin is None else found._replace(engine=begin)
    return explain.explain_target(target, found)


def explain_query(
    question: WhyQuery, read: "WhyData", clock: datetime, begin: "Begin | None" = None
) -> WhyAnswer:
    """Return the account from all data, with a plan if that adds information.

    `begin` makes engines; without it they are created here. The plan is for the time of the `clock` on a live
    cluster, else for the newest time of the input. Raises PodiumError.
    """
    from podium.answers.accounts import devices, explain  # noqa: PLC0415 - numpy takes 0.1 s to import
    from podium.planner.engine import Engine  # noqa: PLC0415 - numpy takes 0.1 s to import
    from podium.planner.preemption.outcome import Outcome, TenantNames, full_name  # noqa: PLC0415 - numpy takes 0.1 s to import

    engines: dict[tuple[int, Settings, int], Engine] = {}

    def engine_of(view: ClusterReader, settings: "Settings", minor: int) -> Engine:
        """Return one engine for the account and the plan, because making one takes seconds."""
        key = id(view), settings, minor
        if key not in engines:
            engines[key] = (begin or Engine)(view, settings, minor)
        return engines[key]

    moment = whatifinput.moment(None, read.whole or read.near, clock, live=question.live)
    account = draft_account(question, read, moment.at, engine_of)
    target = _target(question, read.near.state)
    if account is None or not explain.wants_room(account) or not _is_planned(target, read.near.state):
        return WhyAnswer(account)
    if read.whole is None:
        return WhyAnswer(_without_plan(account, read.why_not))
    state = read.whole.state
    namer = TenantNames(state, question.tenant).name if question.tenant is not None else full_name
    target = _target(question, state)
    assumed = assume(target, read.whole, moment, of_file(question.config), live=question.live)
    try:
        engine = engine_of(state, assumed.chosen.settings, assumed.rules.minor)
        made = engine.plan(target, moment.at, namer)
    except PodiumError as error:
        # Between two readings of a live cluster the pod was bound, or deleted.
        return WhyAnswer(_without_plan(account, str(error)))
    basis = assumed.basis("")
    foreign = (basis.approximation,) if basis.approximation else ()
    unknown = dict.fromkeys((*foreign, *account.unknown, *basis.unknown))
    account = msgspec.structs.replace(account, prospect=explain.prospect(made), unknown=tuple(unknown))
    lacking = devices.lacking_devices(engine, target) if made.outcome is not Outcome.FITS else None
    if lacking is not None:
        account = msgspec.structs.replace(
            account,
            waiting=(*account.waiting, *devices.device_waits(lacking)),
            devices=devices.request_devices(lacking),
        )
    return WhyAnswer(account, ProspectPlan(made, target, assumed))


def _is_planned(target: Target, view: ClusterReader) -> bool:
    """Return whether plans know a target: PodGroups of other projects are none of theirs."""
    if not isinstance(target, GroupKey):
        return True
    return group_at(view, target) is not None or bool(members_below(view, target))


def _without_plan(account: "Account", why_not: str) -> "Account":
    unknown = (*account.unknown, f"plan not made: {why_not}")
    return msgspec.structs.replace(account, unknown=unknown)


def account_input(question: WhyQuery, read: "WhyData", rules: ChosenSemantics, now: datetime) -> "WhyInput":
    """Return the input of an account at a time."""
    from podium.answers.accounts.claims import awaits_claims  # noqa: PLC0415 - numpy takes 0.1 s to import
    from podium.answers.accounts.effectivepriority import PriorityRules  # noqa: PLC0415 - numpy takes 0.1 s to import
    from podium.answers.accounts.explain import WhyInput, names  # noqa: PLC0415 - numpy takes 0.1 s to import
    from podium.api.schedulable import Schedulable  # noqa: PLC0415 - as below
    from podium.groups.messages import ServerInfo  # noqa: PLC0415 - numpy takes 0.1 s to import

    state, tenant = read.near.state, question.tenant
    classes = None if Kind.PRIORITY_CLASS in state.unread else state.classes
    server = ServerInfo(rules.minor, f"1.{rules.minor}")
    target = _target(question, state)
    scheduler = whatifinput.scheduler(target, state)
    chosen = choose_settings(rules.semantics, scheduler, read.near, of_file(question.config))
    pods = [pod for pod in _pods(target, state) if isinstance(pod, Schedulable)]
    claims = whatifinput.claims_for(pods, read.near)
    if awaits_claims(pods, state):
        claims = (*claims, Kind.CLAIM_TEMPLATE)
    if any(foreign_key(pod) is not None for pod in pods):
        claims = (*claims, Kind.FOREIGN_GROUP)
    views = [state] if read.whole is None or read.whole is read.near else [state, read.whole.state]
    return WhyInput(
        view=state,
        unread=frozenset(kind for kind in Kind if whatifinput.not_known(read.near, (kind,))),
        past=read.past,
        known=tenant.__eq__ if tenant is not None else read.known,
        name_of=names(views),
        unknown=(*read.unknown, *whatifinput.not_known(read.near, (*_FACTS, *claims))),
        rules=PriorityRules(chosen.settings, server, classes),
        settings=chosen.sentence,
        minor=rules.minor,
        now=now,
        cluster=read.whole.state if read.whole is not None else None,
        owners_read=not question.live or bool(state.owners),
    )


def _target(question: WhyQuery, view: ClusterReader) -> Target:
    """Return the queried object; a missing group is assumed to be a Podium group."""
    if question.kind == "pod":
        return question.name
    return whatifinput.find_group(view, question.name) or GroupKey(False, *question.name)


def _pods(target: Target, view: ClusterReader) -> list[Pod]:
    """Return a pod, or the pods of a group; none if there is no such pod."""
    if isinstance(target, GroupKey):
        return list(members_below(view, target))
    return [view.pods[target]] if target in view.pods else []


def not_found_message(question: WhyQuery, read: "WhyData") -> str:
    """Return an error for an unknown name, with similar names and the data that could not be read."""
    what = {"pod": "pod", "group": "PodGroup"}
    wanted = "/".join(filter(None, question.name))
    message = f"{what[question.kind]} {wanted} not found, and no record of it"
    unknown = (*read.unknown, *whatifinput.not_known(read.near, _FACTS))
    unread = f" ({'; '.join(unknown)})" if unknown else ""
    hints = list(_hints(question, read.near.state))
    return f"{message}{unread}{'; ' if hints else ''}{'; '.join(hints)}"


def _hints(question: WhyQuery, view: ClusterReader) -> Iterator[str]:
    namespace, name = question.name
    pods = set(view.pods)
    groups = {(key.namespace, key.name) for key in (*view.groups, *view.referenced_groups())}
    own, other = (pods, groups) if question.kind == "pod" else (groups, pods)
    if any(each == name and namespace in ("", where) for where, each in other):
        kind, what = ("group", "PodGroup") if question.kind == "pod" else ("pod", "pod")
        yield f"a {what} has this name: podium why {kind} {'/'.join(filter(None, question.name))}"
    near = get_close_matches(name, [each for where, each in own if namespace in ("", where)], n=_OFFERED)
    if near:
        yield f"did you mean {some(near, _OFFERED)}?"
    elsewhere = sorted(where for where, each in own if each == name)
    if elsewhere and question.tenant is None:
        yield f"found in {some(elsewhere, _OFFERED)}"
