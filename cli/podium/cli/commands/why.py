"""`podium why`: why a pod or group waits, its effective priority, and what evicted it.

podium.why computes the answer from values. This module reads, chooses the semantics as `podium whatif` does,
and shows the result.
"""

import functools
from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from podium.api.membership import GroupKey
from podium.api.reads import Kind
from podium.cli import inputs, naming, whatifinput
from podium.cli.config.schedulersettings import choose_settings, of_file
from podium.cli.main import examples
from podium.cli.render.data import as_builtins, document
from podium.cli.render.output import Output, output_options
from podium.cli.whatifinput import Assumptions, ChosenSemantics, assume
from podium.cluster.reader import ClusterReader, Name, Target
from podium.documents.load import collector_paused
from podium.errors import PodiumError
from podium.text import some

if TYPE_CHECKING:
    from podium.cli.whyinput import WhyData
    from podium.schedulerplugin.preemption.outcome import Plan
    from podium.why.explain import Begin, WhyInput
    from podium.why.model import Account

# The kinds that an account needs beside pods; a plan needs more.
_FACTS = (Kind.POD_GROUP, Kind.PRIORITY_CLASS)
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


@click.command(
    epilog=examples(
        ("Explain a group in a dump", "podium why group team-vision/ablation -f cluster.json.gz"),
        ("Explain a pod of the live cluster", "podium why pod trainer -n team-a"),
    )
)
@click.argument("kind", type=naming.KindChoice(with_name=True))
@click.argument("name", metavar="[NAMESPACE/]NAME", required=False)
@naming.within_option
@inputs.file_options
@inputs.server_options()
@click.option(
    "--config", metavar="FILE", help="File with a WhatIfConfiguration (budgets, victims, divergence)."
)
@click.option(
    "--tenant",
    metavar="NS",
    help="Namespace of the reader; objects of other namespaces are shown by UID only.",
)
@output_options("table", "json", "yaml")
def command(
    *,
    kind: str,
    name: str | None,
    within: str | None,
    files: inputs.InputFiles,
    kube: inputs.KubeOptions,
    config: str | None,
    tenant: str | None,
    output: Output,
) -> None:
    """Show why a pod or group waits, its effective priority, and which workload preempted it.

    Reads files (-f) or the live cluster with get and list requests only.

    Exit code: 0 explained, 2 usage error, 1 pod or group not found, or the command failed. All formats give
    the same exit code.
    """
    kind, slash, named_so = kind.partition("/")
    if (name is not None) == bool(slash):
        raise click.UsageError("Name one pod or group, such as pod team-a/trainer or pod/trainer -n team-a.")
    named = naming.Naming(within, tenant, kube, live=not files.names).full(kind, name or named_so)
    inputs.stdin_once([*files.names, config or ""])
    question = WhyQuery(kind, named, config, tenant, live=not files.names)
    read = _read(question, files, kube)
    with collector_paused(), read.near.origins.placed():
        account = explain_query(question, read, datetime.now(UTC)).account
    if account is None:
        raise PodiumError(not_found_message(question, read))
    from podium.cli.render.why_table import why_table  # noqa: PLC0415 - numpy, as below

    now = datetime.now(UTC) if question.live else None
    output.report(
        functools.partial(why_table, account, now), lambda: document("WhyReport", **as_builtins(account))
    )


def _read(question: WhyQuery, files: inputs.InputFiles, kube: inputs.KubeOptions) -> "WhyData":
    """Return the content of files, or the needed part of a cluster. Raises PodiumError."""
    from podium.cli import whyinput  # noqa: PLC0415 - numpy, as below
    from podium.why import explain  # noqa: PLC0415 - as above

    if files.names:
        return whyinput.from_files(files, kube.scope_of_files())

    def others(read: "WhyData") -> set[str]:
        account = _draft(question, read._replace(known=lambda _namespace: True))
        return explain.namespaces(account) if account is not None and question.tenant is None else set()

    def whole(read: "WhyData") -> bool:
        account = _draft(question, read)
        if account is None:
            return False
        return explain.wants_room(account) or (question.tenant is None and explain.unnamed(account))

    return whyinput.from_cluster(kube._replace(namespace=question.name[0]), whyinput.Asks(others, whole))


def _draft(question: WhyQuery, read: "WhyData", begin: "Begin | None" = None) -> "Account | None":
    """Return the account from the data read so far."""
    from podium.why import explain  # noqa: PLC0415 - as above

    target = _target(question, read.near.state)
    rules = whatifinput.choose_rules(None, target, read.near, live=question.live)
    found = reading(question, read, rules)
    found = found if begin is None else found._replace(engine=begin)
    return explain.explain_target(target, found)


def explain_query(
    question: WhyQuery, read: "WhyData", clock: datetime, begin: "Begin | None" = None
) -> WhyAnswer:
    """Return the account from all data, with a plan if that adds information.

    `begin` makes engines; without it they are created here. Raises PodiumError.
    """
    from podium.schedulerplugin.engine import Engine  # noqa: PLC0415 - as above
    from podium.schedulerplugin.preemption.outcome import TenantNames, full_name  # noqa: PLC0415 - as above
    from podium.why import explain  # noqa: PLC0415 - as above

    account = _draft(question, read, begin)
    if account is None or not explain.wants_room(account):
        return WhyAnswer(account)
    if read.whole is None:
        return WhyAnswer(_without_plan(account, read.why_not))
    state = read.whole.state
    namer = TenantNames(state, question.tenant).name if question.tenant is not None else full_name
    moment = whatifinput.moment(None, state, clock, live=question.live)
    target = _target(question, state)
    assumed = assume(target, read.whole, moment, of_file(question.config), live=question.live)
    try:
        engine = (begin or Engine)(state, assumed.chosen.settings, assumed.rules.minor)
        made = engine.plan(target, moment.at, namer)
    except PodiumError as error:
        # Between two readings of a live cluster the pod was bound, or deleted.
        return WhyAnswer(_without_plan(account, str(error)))
    basis = assumed.basis("", read.whole)
    foreign = (basis.approximation,) if basis.approximation else ()
    unknown = dict.fromkeys((*foreign, *account.unknown, *basis.unknown))
    account = msgspec.structs.replace(account, prospect=explain.prospect(made), unknown=tuple(unknown))
    return WhyAnswer(account, ProspectPlan(made, target, assumed))


def _without_plan(account: "Account", why_not: str) -> "Account":
    unknown = (*account.unknown, f"plan not made: {why_not}")
    return msgspec.structs.replace(account, unknown=unknown)


def reading(question: WhyQuery, read: "WhyData", rules: ChosenSemantics) -> "WhyInput":
    """Return the input of an account."""
    from podium.groups.messages import ServerInfo  # noqa: PLC0415 - as above
    from podium.why.effectivepriority import Law  # noqa: PLC0415 - as above
    from podium.why.explain import WhyInput, names  # noqa: PLC0415 - as above

    state, tenant = read.near.state, question.tenant
    classes = None if Kind.PRIORITY_CLASS in state.unread else state.classes
    server = ServerInfo(rules.minor, f"1.{rules.minor}")
    scheduler = whatifinput.scheduler(_target(question, state), state)
    chosen = choose_settings(rules, scheduler, read.near, of_file(question.config))
    views = [state] if read.whole is None or read.whole is read.near else [state, read.whole.state]
    return WhyInput(
        view=state,
        unread=frozenset(kind for kind in Kind if whatifinput.not_known(read.near, (kind,))),
        past=read.past,
        known=read.known if tenant is None else tenant.__eq__,
        name_of=names(views),
        unknown=(*read.unknown, *whatifinput.not_known(read.near, _FACTS)),
        law=Law(chosen.settings, server, classes),
        settings=chosen.sentence,
        minor=rules.minor,
        owners_read=not question.live or bool(state.owners),
    )


def _target(question: WhyQuery, view: ClusterReader) -> Target:
    """Return the queried object; a missing group is assumed to be a Podium group."""
    if question.kind == "pod":
        return question.name
    return whatifinput.find_group(view, question.name) or GroupKey(False, *question.name)


def not_found_message(question: WhyQuery, read: "WhyData") -> str:
    """Return an error for an unknown name, with similar names and the data that could not be read."""
    what = {"pod": "pod", "group": "PodGroup"}
    wanted = "/".join(question.name)
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
    if question.name in other:
        kind, what = ("group", "PodGroup") if question.kind == "pod" else ("pod", "pod")
        yield f"a {what} has this name: podium why {kind} {namespace}/{name}"
    near = get_close_matches(name, [each for where, each in own if where == namespace], n=_OFFERED)
    if near:
        yield f"did you mean {some(near, _OFFERED)}?"
    elsewhere = sorted(where for where, each in own if each == name)
    if elsewhere and question.tenant is None:
        yield f"found in {some(elsewhere, _OFFERED)}"
