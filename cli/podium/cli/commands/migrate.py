"""`podium migrate`: move groups from Podium's resources to the native ones of the same cluster, or back.

Without --apply it only reads. With it every copy is created before its original is deleted, so the next run
completes an interrupted one.
"""

import functools
import sys
from collections import Counter
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

import click
import msgspec

from podium.answers.audits.run import MINORS, choose_minor
from podium.api.findings import group_of
from podium.api.groups import NATIVE_GROUP
from podium.api.reads import Kind
from podium.cli import inputs, kubeoptions, progress
from podium.cli.live import ask_live
from podium.cli.main import EXIT_FINDINGS, examples
from podium.cli.render.data import document
from podium.cli.render.output import Output, output_options, write_manifests
from podium.cli.render.text import Layout
from podium.documents.load import NOT_SERVED
from podium.documents.reading import source_words
from podium.errors import PodiumError
from podium.ops.migrate import (
    FIELD,
    HELD,
    LABEL,
    Api,
    Item,
    Migration,
    MigrationState,
    plan_migration,
    target_version,
)
from podium.text import count, some, visible

if TYPE_CHECKING:
    from podium.api.findings import ObjectRef
    from podium.cli.inputs import Scope
    from podium.kube.connection import Connection
    from podium.kube.listing import ReadProgress
    from podium.ops.migrating import Done

# The kinds that must be read completely to know which groups are in use.
_NEEDED = (Kind.POD, Kind.POD_GROUP, Kind.COMPOSITE_GROUP)
_NEEDED_TO_WRITE = (*_NEEDED, Kind.WORKLOAD, Kind.OWNER)


@click.command(
    epilog=examples(
        ("List the groups that can move to the native API", "podium migrate -A --to native"),
        ("Move them", "podium migrate -A --to native --apply"),
    )
)
@inputs.file_options
@kubeoptions.kube_options
@click.option("--to", required=True, type=click.Choice([str(api) for api in Api]), help="Target API.")
@click.option(
    "--apply", "applies", is_flag=True, help="Carry out the migration. Without it nothing is written."
)
@click.option(
    "--output-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Output folder of the new manifests: moved/ for objects that move, held/ for objects in use.",
)
@output_options("table", "json", "yaml")
def command(
    *,
    files: inputs.InputFiles,
    kube: kubeoptions.KubeOptions,
    to: str,
    applies: bool,
    output_dir: str | None,
    output: Output,
) -> None:
    """Move unused groups and Workloads to the other API, and list the pods that use the rest.

    No pod is deleted. Without --apply nothing is written.

    Exit code: 0 every object moves or has moved; 3 some objects need a manual step; 2 usage error, 1 the
    command failed. All formats give the same exit code.
    """
    if applies and files.names:
        raise click.UsageError("--apply changes a live cluster and excludes -f.")
    if kube.selector:
        raise click.UsageError("-l would hide pods that use a group. Use -n to choose a namespace.")
    loaded = inputs.load(files, kube, keep=(Kind.POD_GROUP, Kind.COMPOSITE_GROUP, Kind.WORKLOAD))
    migration, target = _plan_migration(loaded, Api(to), live=not files.names, applies=applies)
    if output_dir is not None:
        write_manifests(output_dir, migration.manifests)
    items = migration.items
    if applies:
        done = _carry_out(kube, migration)
        items = [
            msgspec.structs.replace(item, **done[item.object]._asdict()) if item.object in done else item
            for item in items
        ]
    source = source_words(files, loaded)
    table = functools.partial(migrate_table, items, target=target, source=source, folder=output_dir)
    whole = document("MigrationReport", target=target, items=msgspec.to_builtins(items))
    output.report(table, lambda: whole)
    if any(item.failed or item.state in (MigrationState.USED, MigrationState.STAYS) for item in items):
        sys.exit(EXIT_FINDINGS)


def _plan_migration(loaded: inputs.Loaded, to: Api, *, live: bool, applies: bool) -> tuple[Migration, str]:
    """Return the plan, and the version to move to. Raises PodiumError if the input is not sufficient."""
    state = loaded.state
    for kind in _NEEDED_TO_WRITE if applies else _NEEDED:
        if kind in state.unread and not _is_absent(kind, state.unread[kind]):
            raise PodiumError(f"{kind}: {state.unread[kind]}. It is needed to find the groups in use")
    if live and to is Api.NATIVE and not state.native_served:
        raise PodiumError(
            "the cluster does not serve the native Workload API. Enable it first: docs/upgrade.md"
        )
    if state.groups and not loaded.documents:
        raise PodiumError(
            "a dump does not hold whole objects. Run this on the live cluster, or on the output of "
            "kubectl get -o yaml"
        )
    minor, _ = choose_minor(state, loaded.server)
    target = target_version(to, MINORS[minor])
    with loaded.origins.placed(), progress.working("planning the migration"):
        return plan_migration(state, loaded.documents, target, MINORS[minor]), target


def _is_absent(kind: Kind, why: str) -> bool:
    """Return whether a kind was not read because it is not served, so no object of it uses a group."""
    return kind is not Kind.POD and why == NOT_SERVED


def _carry_out(kube: kubeoptions.KubeOptions, migration: Migration) -> "dict[ObjectRef, Done]":
    """Write the changes of a plan. Raises PodiumError if the server does not answer."""

    async def run(connection: "Connection", _: "Scope", watcher: "ReadProgress") -> "dict[ObjectRef, Done]":
        from podium.kube.discovery import discover  # noqa: PLC0415 - a plan does not need it
        from podium.ops.migrating import Migrator  # noqa: PLC0415 - as above

        migrator = Migrator(connection, await discover(connection), watcher)
        try:
            await migrator.migrate(migration.moves)
        except PodiumError as error:
            done = f"{len(migrator.done)} of {len(migration.moves)} objects are done"
            raise PodiumError(f"{error}; {done}. Run this again to continue") from None
        return migrator.done

    return ask_live(kube, run)


# `podium migrate` on a terminal: what moves, what does not, which users block it and what to do about it.


# Maximum number of items of one state in the table; docs/upgrade.md states it.
ITEMS = 20
USERS = 3

_HEADINGS = {
    MigrationState.MOVES: "Moves",
    MigrationState.COPIED: "Already copied, to be deleted",
    MigrationState.USED: "In use",
    MigrationState.STAYS: "Cannot move",
    MigrationState.LEAVING: "Being deleted",
}


def migrate_table(
    items: Sequence[Item], layout: Layout, *, target: str, source: str, folder: str | None
) -> str:
    """Return the items of a migration to a version, planned or carried out, in the layout's width.

    `source` names the input, `folder` is the place of the manifests, if they were written.
    """
    done = any(item.done for item in items)
    layout.paragraph(_headline(items, target, done=done), style="bold")
    layout.paragraph(f"From {visible(source)}.")
    for state, heading in _HEADINGS.items():
        _items(layout, heading, [item for item in items if item.state is state])
    _steps(layout, items, target, folder, done=done)
    return layout.text()


def _headline(items: Sequence[Item], target: str, *, done: bool) -> str:
    if not items:
        return f"No object is left to move to {target}."
    states = Counter(item.state for item in items)
    moving = states[MigrationState.MOVES] + states[MigrationState.COPIED]
    failed = sum(item.failed for item in items)
    parts = []
    if moving:
        verb = "moved" if done else "can move"
        parts.append(f"{count(moving - failed, 'object')} {verb} to {target}")
    parts += [f"{failed:,} did not"] if failed else []
    words = {
        MigrationState.USED: "in use",
        MigrationState.STAYS: "cannot move",
        MigrationState.LEAVING: "being deleted",
    }
    parts += [f"{states[state]:,} {word}" for state, word in words.items() if states[state]]
    return f"{', '.join(parts)}."


def _items(layout: Layout, heading: str, items: Sequence[Item]) -> None:
    layout.listing(
        heading,
        ("OBJECT", "LIVE PODS", ""),
        items,
        lambda item: (str(item.object), f"{item.pods:,}" if item.pods else "", _explanation(layout, item)),
        limit=ITEMS,
        right=(1,),
    )


def _explanation(layout: Layout, item: Item) -> str:
    users = some(item.users, len(item.users) if layout.width is None else USERS)
    return "; ".join(text for text in (item.done, item.why, users) if text)


def _steps(layout: Layout, items: Sequence[Item], target: str, folder: str | None, *, done: bool) -> None:
    steps = []
    if not done and any(item.state in (MigrationState.MOVES, MigrationState.COPIED) for item in items):
        steps.append("run the same command with --apply")
    used = [item for item in items if item.state is MigrationState.USED and item.object.kind == "PodGroup"]
    if used:
        old, new = (LABEL, FIELD) if group_of(target) == NATIVE_GROUP else (FIELD, LABEL)
        manifests = f"{quote(folder)}/{HELD}" if folder else f"DIR/{HELD} (--output-dir DIR writes it)"
        owners = {user for item in used for user in item.users}
        if not all(item.copied for item in used):
            steps.append(f"create the new groups of the objects in use: kubectl create -f {manifests}")
        steps += [
            f"name the group in {new}, not in {old}, in the pod templates of {some(owners)}",
            "restart them; delete and recreate a Job",
            "run this again: it deletes the objects that are no longer in use",
        ]
    if steps:
        layout.heading("What to do")
    for number, step in enumerate(steps, 1):
        layout.paragraph(f"{number:>2}. {visible(step)}", hang="    ")
