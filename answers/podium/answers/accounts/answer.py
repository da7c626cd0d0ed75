"""Why a pod or group waits, its effective priority, and what evicted it, with a plan if it waits for room.

`explain` computes an account from values. This module chooses the semantics and the settings as a plan does.
"""

from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from typing import NamedTuple

import msgspec

from podium.answers.accounts import explain
from podium.answers.accounts.effectivepriority import PriorityRules
from podium.answers.accounts.explain import WhyInput
from podium.answers.accounts.model import Account
from podium.answers.accounts.pending import awaits_claims, device_waits, lacking_devices, request_devices
from podium.answers.assumptions import (
    Assumptions,
    Choices,
    assume,
    choose_rules,
    claims_for,
    moment,
    not_known,
    scheduler,
)
from podium.answers.schedulersettings import OverridingSettings, choose_settings
from podium.answers.targets import find_group, group_names, with_namespace
from podium.answers.whatifreport import ChosenSemantics
from podium.api.core import Pod
from podium.api.foreigngroups import foreign_key
from podium.api.membership import GroupKey
from podium.api.reads import Kind
from podium.api.schedulable import Schedulable
from podium.cluster.reader import ClusterReader, Name, Target
from podium.documents.load import collector_paused
from podium.documents.reading import ClusterReading
from podium.errors import PodiumError
from podium.groups.divergence import ServerInfo
from podium.groups.trees import group_at, members_below
from podium.planner.engine import Engine, MakeEngine
from podium.planner.preemption.outcome import Outcome, Plan, TenantNames, full_name
from podium.planner.settings import Settings
from podium.text import some

# The kinds that an account needs beside pods; a plan needs more.
_FACTS = (Kind.POD_GROUP, Kind.COMPOSITE_GROUP, Kind.PRIORITY_CLASS)
# Maximum number of suggested names in an error.
_OFFERED = 3


class WhyQuery(NamedTuple):
    """The queried pod or group (`kind`), with settings that override its scheduler's.

    Other namespaces than that of the `tenant` are hidden, if there is one.
    """

    kind: str
    name: Name
    settings: OverridingSettings | None = None
    tenant: str | None = None


class ProspectPlan(NamedTuple):
    """A plan with its target and assumptions."""

    plan: Plan
    target: Target
    assumed: Assumptions


class WhyAnswer(NamedTuple):
    """The account of one pod or group, and the plan behind its prospect."""

    account: Account
    planned: ProspectPlan | None = None


def why(
    cluster: ClusterReading,
    name: Name,
    kind: str,
    *,
    settings: OverridingSettings | None = None,
    tenant: str | None = None,
    engine: MakeEngine = Engine,
) -> WhyAnswer:
    """Return why a pod or group waits, its effective priority and evictions, with a plan if it needs room.

    `cluster` is a reading with its events and records. `name` is (namespace, name), and `kind` is `pod` or
    `group`. An empty namespace means the only one with such an object, event or record. `settings` override
    those of the object's scheduler, names outside the namespace `tenant` are hidden, and `engine` makes an
    engine. The plan is for the time of the reading of a live cluster, else for the newest
    time of the input. The answer names the kinds that were not read.

    Raises QuestionError for the field `kind` if the name is in several namespaces, and PodiumError if nothing
    is known of the object.
    """
    query = _with_namespace(WhyQuery(kind, name, settings, tenant), cluster)
    with collector_paused(), cluster.near.origins.placed():
        return _explained(query, cluster, engine)


def _with_namespace(query: WhyQuery, cluster: ClusterReading) -> WhyQuery:
    """Return a query with the namespace of its name, which may be that of events and records alone.

    Raises AmbiguousNameError if the name is in several namespaces.
    """
    if query.name[0]:
        return query
    view, is_pod = cluster.near.state, query.kind == "pod"
    stored = view.pods if is_pod else group_names(view)
    name = with_namespace(query.kind, query.name, stored)
    if not name[0]:
        kinds = ("Pod",) if is_pod else ("PodGroup", "CompositePodGroup")
        events, records = cluster.past
        plans = [plan for record in records for plan in record.plans]
        parties = (party for plan in plans for party in (plan.preemptor, *plan.units))
        past = [(party.namespace, party.name) for party in parties if party.kind in kinds]
        past += [
            (about.namespace or "", about.name or "")
            for about in (event.involvedObject for event in events)
            if about.kind in kinds
        ]
        name = with_namespace(query.kind, name, past)
    return query._replace(name=name)


def draft_account(query: WhyQuery, cluster: ClusterReading, engine: MakeEngine = Engine) -> Account | None:
    """Return the account from the data read so far, at the time of the answer; None if nothing is known."""
    now = moment(_of_plan(cluster), Choices()).at
    target = target_of(query, cluster.near.state)
    rules = choose_rules(cluster, target, Choices())
    return explain.explain_target(target, account_input(query, cluster, rules, now)._replace(engine=engine))


def _of_plan(cluster: ClusterReading) -> ClusterReading:
    """Return the reading that a plan reads, which is the whole cluster if that was read."""
    return cluster if cluster.whole is None else cluster._replace(near=cluster.whole)


def _explained(query: WhyQuery, cluster: ClusterReading, begin: MakeEngine) -> WhyAnswer:
    """Return the account from all data, with a plan if that adds information. Raises PodiumError."""
    engines: dict[tuple[int, Settings, int], Engine] = {}

    def engine_of(view: ClusterReader, settings: Settings, minor: int) -> Engine:
        """Return one engine for the account and the plan, because making one takes seconds."""
        key = id(view), settings, minor
        if key not in engines:
            engines[key] = begin(view, settings, minor)
        return engines[key]

    account = draft_account(query, cluster, engine_of)
    if account is None:
        raise PodiumError(_not_found(query, cluster))
    target = target_of(query, cluster.near.state)
    if not explain.wants_room(account) or not _is_planned(target, cluster.near.state):
        return WhyAnswer(account)
    if cluster.whole is None:
        return WhyAnswer(_without_plan(account, cluster.why_not))
    whole, choices = _of_plan(cluster), Choices(settings=query.settings)
    state = whole.near.state
    namer = TenantNames(state, query.tenant).name if query.tenant is not None else full_name
    target = target_of(query, state)
    at = moment(whole, choices)
    assumed = assume(whole, target, at, choices)
    try:
        engine = engine_of(state, assumed.chosen.settings, assumed.rules.minor)
        made = engine.plan(target, at.at, namer)
    except PodiumError as error:
        # Between two readings of a live cluster the pod was bound, or deleted.
        return WhyAnswer(_without_plan(account, str(error)))
    basis = assumed.basis("")
    foreign = (basis.approximation,) if basis.approximation else ()
    unknown = dict.fromkeys((*foreign, *account.unknown, *basis.unknown))
    account = msgspec.structs.replace(account, prospect=explain.prospect(made), unknown=tuple(unknown))
    lacking = lacking_devices(engine, target) if made.outcome is not Outcome.FITS else None
    if lacking is not None:
        account = msgspec.structs.replace(
            account,
            waiting=(*account.waiting, *device_waits(lacking)),
            devices=request_devices(lacking),
        )
    return WhyAnswer(account, ProspectPlan(made, target, assumed))


def _is_planned(target: Target, view: ClusterReader) -> bool:
    """Return whether plans know a target: PodGroups of other projects are none of theirs."""
    if not isinstance(target, GroupKey):
        return True
    return group_at(view, target) is not None or next(iter(members_below(view, target)), None) is not None


def _without_plan(account: Account, why_not: str) -> Account:
    unknown = (*account.unknown, f"plan not made: {why_not}")
    return msgspec.structs.replace(account, unknown=unknown)


def account_input(
    query: WhyQuery, cluster: ClusterReading, rules: ChosenSemantics, now: datetime
) -> WhyInput:
    """Return the input of an account at a time."""
    state, tenant = cluster.near.state, query.tenant
    classes = None if Kind.PRIORITY_CLASS in state.unread else state.classes
    server = ServerInfo(rules.minor, f"1.{rules.minor}")
    target = target_of(query, state)
    chosen = choose_settings(rules.semantics, scheduler(target, state), cluster.near, query.settings)
    pods = [pod for pod in _pods(target, state) if isinstance(pod, Schedulable)]
    claims = claims_for(pods, cluster.near)
    if awaits_claims(pods, state):
        claims = (*claims, Kind.CLAIM_TEMPLATE)
    if any(foreign_key(pod) is not None for pod in pods):
        claims = (*claims, Kind.FOREIGN_GROUP)
    whole = cluster.whole.state if cluster.whole is not None else None
    views = [state] if whole is None or whole is state else [state, whole]
    return WhyInput(
        view=state,
        unread=frozenset(kind for kind in Kind if not_known(cluster.near, (kind,))),
        past=cluster.past,
        known=tenant.__eq__ if tenant is not None else cluster.known,
        name_of=explain.names(views),
        unknown=(*cluster.unknown, *not_known(cluster.near, (*_FACTS, *claims))),
        rules=PriorityRules(chosen.settings, server, classes),
        settings=chosen.sentence,
        minor=rules.minor,
        now=now,
        cluster=whole,
        owners_read=not cluster.live or bool(state.owners),
    )


def target_of(query: WhyQuery, view: ClusterReader) -> Target:
    """Return the queried object; a missing group is assumed to be a Podium group."""
    if query.kind == "pod":
        return query.name
    return find_group(view, query.name) or GroupKey(False, *query.name)


def _pods(target: Target, view: ClusterReader) -> list[Pod]:
    """Return a pod, or the pods of a group; none if there is no such pod."""
    if isinstance(target, GroupKey):
        return list(members_below(view, target))
    return [view.pods[target]] if target in view.pods else []


def _not_found(query: WhyQuery, cluster: ClusterReading) -> str:
    """Return an error for an unknown name, with similar names and the data that could not be cluster."""
    kinds = {"pod": "pod", "group": "PodGroup"}
    shown = "/".join(filter(None, query.name))
    message = f"{kinds[query.kind]} {shown} not found, and no record of it"
    unknown = (*cluster.unknown, *not_known(cluster.near, _FACTS))
    unread = f" ({'; '.join(unknown)})" if unknown else ""
    hints = list(_hints(query, cluster.near.state))
    return f"{message}{unread}{'; ' if hints else ''}{'; '.join(hints)}"


def _hints(query: WhyQuery, view: ClusterReader) -> Iterator[str]:
    namespace, name = query.name
    pods = set(view.pods)
    groups = {(key.namespace, key.name) for key in (*view.groups, *view.referenced_groups())}
    own, rest = (pods, groups) if query.kind == "pod" else (groups, pods)
    if any(known == name and namespace in ("", where) for where, known in rest):
        kind, label = ("group", "PodGroup") if query.kind == "pod" else ("pod", "pod")
        yield f"a {label} has this name: podium why {kind} {'/'.join(filter(None, query.name))}"
    near = get_close_matches(name, [known for where, known in own if namespace in ("", where)], n=_OFFERED)
    if near:
        yield f"did you mean {some(near, _OFFERED)}?"
    elsewhere = sorted(where for where, known in own if known == name)
    if elsewhere and query.tenant is None:
        yield f"found in {some(elsewhere, _OFFERED)}"
