"""`podium why`: why a pod or group waits, its effective priority, and what evicted it.

podium.why computes the answer from values. This module reads, chooses the semantics as `podium whatif` does,
and shows the result.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from podium.api.membership import GroupKey
from podium.api.reads import Kind
from podium.cli import inputs, naming, whatifinput
from podium.cli.render.data import as_json, as_yaml, document
from podium.cli.render.output import deliver, layout
from podium.cli.schedulersettings import Chosen, choose_settings, of_file
from podium.cli.whatifinput import Moment, Rules, Target
from podium.documents.load import Loaded, collector_paused
from podium.errors import PodiumError
from podium.view import Name, View
from podium.wording import some

if TYPE_CHECKING:
    from podium.cli.whyinput import Read
    from podium.schedulerplugin.preemption.outcome import Plan
    from podium.why.account import Account
    from podium.why.telling import Begin, Reading

# The kinds that an account needs beside pods; a plan needs more.
_FACTS = (Kind.POD_GROUP, Kind.PRIORITY_CLASS)
# Maximum number of suggested names in an error.
_OFFERED = 3


class Question(NamedTuple):
    """The queried pod or group, and the options; `tenant` is a namespace, None for all names."""

    kind: str
    name: Name
    config: str | None
    tenant: str | None
    live: bool


class Planned(NamedTuple):
    """A plan with its target, semantics, settings and time."""

    plan: "Plan"
    target: Target
    rules: Rules
    moment: Moment
    chosen: Chosen


class Told(NamedTuple):
    """The account of one pod or group, None if nothing is known, and the plan behind its prospect."""

    account: "Account | None"
    planned: Planned | None = None


@click.command("why", short_help="Say why a pod or group waits, and who preempted it.")
@click.argument("kind", type=click.Choice(["pod", "group"]))
@click.argument("name", metavar="[NAMESPACE/]NAME")
@naming.within_option
@inputs.file_options
@inputs.server_options()
@click.option("--config", metavar="FILE", help="A WhatIfConfiguration: budgets, victims, divergence.")
@click.option("--tenant", metavar="NS", help="Show objects of other namespaces by UID only.")
@inputs.output_options("table", "json", "yaml")
def command(
    *,
    kind: str,
    name: str,
    within: str | None,
    filenames: tuple[str, ...],
    strict: bool,
    kube: inputs.KubeOptions,
    config: str | None,
    tenant: str | None,
    output: str,
    output_file: str | None,
) -> None:
    """Say why a pod or group waits, which priority counts for it, who preempted it and for whom.

    The cluster is read from files (-f) or live, by get and list only. Exit code: 0 it was told, 2 usage, 1
    there is no such pod or group, or the tool failed; the same in every format.
    """
    named = naming.Naming(within, tenant, kube, live=not filenames).full(kind, name)
    inputs.stdin_once([*filenames, config or ""])
    question = Question(kind, named, config, tenant, live=not filenames)
    read = _read(question, filenames, kube, strict=strict)
    with collector_paused(), read.near.origins.placed():
        account = tell(question, read, datetime.now(UTC)).account
    if account is None:
        raise PodiumError(nobody(question, read))
    if output == "table":
        from podium.cli.render.why_table import why_table  # noqa: PLC0415 - json and yaml do not need it

        now = datetime.now(UTC) if question.live else None
        text = why_table(account, now, layout(to_file=output_file is not None))
    else:
        # Converted through JSON, which has only lists.
        whole = document("WhyReport", **msgspec.json.decode(msgspec.json.encode(account)))
        text = as_json(whole) if output == "json" else as_yaml(whole)
    deliver(text, output_file)


def _read(question: Question, filenames: Sequence[str], kube: inputs.KubeOptions, *, strict: bool) -> "Read":
    """Return the content of files, or the needed part of a cluster. Raises PodiumError."""
    from podium.cli import whyinput  # noqa: PLC0415 - numpy, as below
    from podium.why import telling  # noqa: PLC0415 - `--help` does not need numpy

    if filenames:
        kube.refuse_with_files()
        return whyinput.from_files(filenames, strict=strict)

    def others(read: "Read") -> set[str]:
        account = _draft(question, read._replace(known=lambda _namespace: True))
        return telling.namespaces(account) if account is not None and question.tenant is None else set()

    def whole(read: "Read") -> bool:
        account = _draft(question, read)
        if account is None:
            return False
        return telling.wants_room(account) or (question.tenant is None and telling.unnamed(account))

    return whyinput.from_cluster(kube._replace(namespace=question.name[0]), whyinput.Asks(others, whole))


def _draft(question: Question, read: "Read", begin: "Begin | None" = None) -> "Account | None":
    """Return the account from the data read so far."""
    from podium.why import telling  # noqa: PLC0415 - as above

    found = reading(question, read, rules_of(question, read.near))
    found = found if begin is None else found._replace(engine=begin)
    return telling.tell(_target(question, read.near.state), found)


def tell(question: Question, read: "Read", clock: datetime, begin: "Begin | None" = None) -> Told:
    """Return the account from all data, with a plan if that adds information.

    `begin` makes engines; without it they are created here. Raises PodiumError.
    """
    from podium.schedulerplugin.engine import Engine  # noqa: PLC0415 - as above
    from podium.schedulerplugin.preemption.naming import Veil, plainly  # noqa: PLC0415 - as above
    from podium.why import telling  # noqa: PLC0415 - as above

    account = _draft(question, read, begin)
    if account is None or not telling.wants_room(account):
        return Told(account)
    if read.whole is None:
        return Told(_without_plan(account, read.why_not))
    state, rules = read.whole.state, rules_of(question, read.whole)
    said = Veil(state, question.tenant).said if question.tenant is not None else plainly
    moment = whatifinput.moment(None, state, clock, live=question.live)
    target = _target(question, state)
    chosen = _settings(question, rules, read.whole)
    try:
        made = (begin or Engine)(state, chosen.settings, rules.minor).plan(target, moment.at, said)
    except PodiumError as error:
        # Between two readings of a live cluster the pod was bound, or deleted.
        return Told(_without_plan(account, str(error)))
    unknown = dict.fromkeys((*account.unknown, *whatifinput.not_known(read.whole)))
    account = msgspec.structs.replace(account, prospect=telling.prospect(made), unknown=tuple(unknown))
    return Told(account, Planned(made, target, rules, moment, chosen))


def _without_plan(account: "Account", why_not: str) -> "Account":
    unknown = (*account.unknown, f"what it would take: {why_not}")
    return msgspec.structs.replace(account, unknown=unknown)


def reading(question: Question, read: "Read", rules: Rules) -> "Reading":
    """Return the input of an account."""
    from podium.explain import Server  # noqa: PLC0415 - as above
    from podium.why.counted import Law  # noqa: PLC0415 - as above
    from podium.why.telling import Reading, names  # noqa: PLC0415 - as above

    state, tenant = read.near.state, question.tenant
    classes = None if Kind.PRIORITY_CLASS in state.unread else state.classes
    server = Server(rules.minor, f"1.{rules.minor}")
    chosen = _settings(question, rules, read.near)
    views = [state] if read.whole is None or read.whole is read.near else [state, read.whole.state]
    return Reading(
        view=state,
        unread=frozenset(kind for kind in Kind if whatifinput.not_known(read.near, (kind,))),
        past=read.past,
        known=read.known if tenant is None else tenant.__eq__,
        name_of=names(views),
        unknown=(*read.unknown, *whatifinput.not_known(read.near, _FACTS)),
        law=Law(chosen.settings, server, classes),
        settings=chosen.sentence,
        minor=rules.minor,
    )


def rules_of(question: Question, loaded: Loaded) -> Rules:
    """Return the semantics for the queried object."""
    return whatifinput.choose_rules(None, _target(question, loaded.state), loaded, live=question.live)


def _settings(question: Question, rules: Rules, loaded: Loaded) -> Chosen:
    """Return the settings of the queried object's scheduler."""
    scheduler = whatifinput.scheduler(_target(question, loaded.state), loaded.state)
    return choose_settings(rules, scheduler, loaded, of_file(question.config))


def _target(question: Question, view: View) -> Target:
    """Return the queried object; a missing group is assumed to be a Podium group."""
    if question.kind == "pod":
        return question.name
    return whatifinput.find_group(view, question.name) or GroupKey(False, *question.name)


def nobody(question: Question, read: "Read") -> str:
    """Return an error for an unknown name, with similar names and the data that could not be read."""
    what = {"pod": "pod", "group": "PodGroup"}
    wanted = "/".join(question.name)
    said = f"there is no {what[question.kind]} {wanted}, and nothing is known of one"
    unknown = (*read.unknown, *whatifinput.not_known(read.near, _FACTS))
    unread = f" ({'; '.join(unknown)})" if unknown else ""
    hints = list(_hints(question, read.near.state))
    return f"{said}{unread}{'; ' if hints else ''}{'; '.join(hints)}"


def _hints(question: Question, view: View) -> Iterator[str]:
    namespace, name = question.name
    pods = set(view.pods)
    groups = {(key.namespace, key.name) for key in (*view.groups, *view.referenced_groups())}
    own, other = (pods, groups) if question.kind == "pod" else (groups, pods)
    if question.name in other:
        kind, what = ("group", "PodGroup") if question.kind == "pod" else ("pod", "pod")
        yield f"there is a {what} of that name: podium why {kind} {namespace}/{name}"
    near = get_close_matches(name, [each for where, each in own if where == namespace], n=_OFFERED)
    if near:
        yield f"did you mean {some(near, _OFFERED)}?"
    elsewhere = sorted(where for where, each in own if each == name)
    if elsewhere and question.tenant is None:
        yield f"there is one in {some(elsewhere, _OFFERED)}"
