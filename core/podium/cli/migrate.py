"""`podium migrate`: move groups from Podium's resources to the native ones of the same cluster, or back.

Without --apply it only reads. With it every copy is created before its original is deleted, so the next run
completes an interrupted one.
"""

import sys
from typing import TYPE_CHECKING

import click
import msgspec

from podium.api.reads import Kind
from podium.audit import MINORS, choose_minor
from podium.cli import inputs
from podium.cli.main import EXIT_FINDINGS
from podium.cli.render.data import as_json, as_yaml, document
from podium.cli.render.migrate_table import migrate_table
from podium.cli.render.output import deliver, layout, write_manifests
from podium.cli.render.text import Layout
from podium.errors import PodiumError
from podium.ops.migrate import Api, Item, Migration, State, plan, target_version

if TYPE_CHECKING:
    from podium.cli.inputs import Scope
    from podium.findings import ObjectRef
    from podium.kube.connection import Connection
    from podium.kube.listing import Watcher
    from podium.ops.migrating import Done

# The kinds that must be read completely to know which groups are in use.
_NEEDED = (Kind.POD, Kind.POD_GROUP)
_NEEDED_TO_WRITE = (*_NEEDED, Kind.WORKLOAD, Kind.OWNER)


@click.command("migrate", short_help="Move groups between Podium's resources and the native ones.")
@inputs.file_options
@inputs.kube_options
@click.option(
    "--to",
    required=True,
    type=click.Choice([str(api) for api in Api]),
    help="Whose resources the groups shall be.",
)
@click.option("--apply", "applies", is_flag=True, help="Carry it out; without this nothing is written.")
@click.option(
    "--output-dir",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Write the new manifests there: moved/ of what moves, held/ of what is in use.",
)
@inputs.output_options("table", "wide", "json", "yaml")
def command(
    *,
    filenames: tuple[str, ...],
    strict: bool,
    kube: inputs.KubeOptions,
    to: str,
    applies: bool,
    output_dir: str | None,
    output: str,
    output_file: str | None,
) -> None:
    """Move the PodGroups and Workloads that nobody uses to the other API, and say who uses the others.

    No pod is deleted. Exit code: 0 all moves, or has moved; 3 something is left for a person, 2 usage, 1 the
    tool failed; the same in every format.
    """
    if applies and filenames:
        raise click.UsageError("--apply changes a live cluster; it does not go with -f.")
    if kube.selector:
        raise click.UsageError("-l would hide pods, and so who uses a group; choose a namespace with -n.")
    loaded = inputs.load(filenames, kube, strict=strict, keep=(Kind.POD_GROUP, Kind.WORKLOAD))
    migration, target = _plan(loaded, Api(to), live=not filenames, applies=applies)
    if output_dir is not None:
        write_manifests(output_dir, migration.manifests)
    items = migration.items
    if applies:
        done = _carry_out(kube, migration)
        items = [_after(each, done.get(each.object)) for each in items]
    if output in ("table", "wide"):
        lines = layout(to_file=output_file is not None)
        lines = lines if output == "table" else Layout(width=None, colour=lines.colour)
        source = inputs.source(filenames, loaded)
        text = migrate_table(items, lines, target=target, source=source, folder=output_dir)
    else:
        whole = document("MigrationReport", target=target, items=msgspec.to_builtins(items))
        text = as_json(whole) if output == "json" else as_yaml(whole)
    deliver(text, output_file)
    if any(each.failed or each.state in (State.USED, State.STAYS) for each in items):
        sys.exit(EXIT_FINDINGS)


def _plan(loaded: inputs.Loaded, to: Api, *, live: bool, applies: bool) -> tuple[Migration, str]:
    """Return the plan, and the version to move to. Raises PodiumError if the input is not sufficient."""
    state = loaded.state
    for kind in _NEEDED_TO_WRITE if applies else _NEEDED:
        if kind in state.unread and not _is_absent(kind, state.unread[kind]):
            raise PodiumError(f"{kind}: {state.unread[kind]}; without it nobody can tell what is in use")
    if live and to is Api.NATIVE and not state.native_served:
        raise PodiumError(
            "the native Workload API is not served by this cluster; docs/upgrade.md says how it is"
        )
    if state.groups and not loaded.documents:
        raise PodiumError(
            "a dump holds of an object what Podium reads, and no copy can be made of that; run this on the "
            "cluster, or on what kubectl get -o yaml gives"
        )
    minor, _ = choose_minor(state.nodes.values(), loaded.server)
    target = target_version(to, MINORS[minor])
    with loaded.origins.placed():
        return plan(state, loaded.documents, target, MINORS[minor]), target


def _is_absent(kind: Kind, why: str) -> bool:
    """Return whether a kind was not read because it is not served, so no object of it uses a group."""
    from podium.kube.discovery import NOT_SERVED  # noqa: PLC0415 - `--help` does not need it

    return kind is not Kind.POD and why == NOT_SERVED


def _carry_out(kube: inputs.KubeOptions, migration: Migration) -> "dict[ObjectRef, Done]":
    """Write the changes of a plan. Raises PodiumError if the server does not answer."""

    async def run(connection: "Connection", _: "Scope", watcher: "Watcher") -> "dict[ObjectRef, Done]":
        from podium.kube.discovery import discover  # noqa: PLC0415 - a plan does not need it
        from podium.ops.migrating import Migrator  # noqa: PLC0415 - as above

        migrator = Migrator(connection, await discover(connection), watcher)
        try:
            await migrator.migrate(migration.moves)
        except PodiumError as error:
            done = f"{len(migrator.done)} of {len(migration.moves)} objects were seen to"
            raise PodiumError(f"{error}; {done}, run this again to go on") from None
        return migrator.done

    return inputs.ask_live(kube, run)


def _after(item: Item, done: "Done | None") -> Item:
    return item if done is None else msgspec.structs.replace(item, done=done.text, failed=done.failed)
