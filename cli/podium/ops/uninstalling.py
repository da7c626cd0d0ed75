"""Carry out an uninstall step by step.

After a failure it can be run again, because it starts from what exists.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from podium.api.groups import FINALIZER, NATIVE_GROUP
from podium.api.reads import READS, Kind
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError
from podium.kube.discovery import discover, server_version
from podium.ops import allowed
from podium.ops.doctor.facts import Right
from podium.ops.install import MANAGER, Document, key_of, objects_path
from podium.ops.installing import Echo, delete, inventory, items, read, still_there
from podium.ops.uninstall import (
    Close,
    DeleteStep,
    ReleaseStep,
    Retract,
    UninstallPlan,
    closed,
    installed,
    is_protected,
    outdated,
    plan_uninstall,
)
from podium.text import count

# Another client wrote in between, or the API server still calls a webhook that was just removed.
_AGAIN = (409, 422, 500)
_ATTEMPTS = 10
_PAUSE_SECONDS = 0.5
# The rights to find the groups with our finalizer, and to remove it.
_RELEASING = ("list", "get", "update")
# Maximum number of concurrent writes to groups.
_AT_ONCE = 16
_NATIVE_GROUPS = {
    kind: read
    for kind, read in READS.items()
    if read.kind is Kind.POD_GROUP and kind[0].startswith(f"{NATIVE_GROUP}/")
}


async def look(connection: Connection, *, delete_groups: bool) -> UninstallPlan:
    """Read what exists of Podium, of any version, and return the plan to remove it. Raises PodiumError."""
    # Raises an error if the address is not an API server.
    await server_version(connection)
    await allowed.require_rights(
        connection, _rights(delete_groups=delete_groups), "Ask a cluster-admin to run it"
    )
    discovery = await discover(connection, _NATIVE_GROUPS)
    looked = await asyncio.gather(*(read(connection, key.path) for key in installed()))
    found = [each for each in looked if each is not None]
    known = {key_of(each) for each in found}
    found += [each for each in await inventory(connection) if key_of(each) not in known]
    resources = {
        each["metadata"]["name"]: [item async for item in items(connection, objects_path(each))]
        for each in found
        if each["kind"] == "CustomResourceDefinition"
    }
    native: dict[str, int] = {}
    unseen = []
    for path in [each.path("") for each in discovery.served]:
        try:
            native[path] = len(await _paths(connection, path, outdated))
        except RefusedError as refused:
            native[path] = 0
            unseen.append(f"conditions of groups, which cannot be listed: {refused}")
    planned = plan_uninstall(found, resources, native, delete_groups=delete_groups)
    return planned._replace(kept=(*planned.kept, *unseen))


async def carry_out(
    connection: Connection,
    planned: UninstallPlan,
    *,
    echo: Echo,
) -> list[str]:
    """Carry out the plan; an object that is not gone in time ends it. Raises PodiumError.

    If the server refuses a change to the conditions of groups, the uninstall continues. The result lists
    these refusals, one line each.
    """
    left: list[str] = []
    for step in planned.steps:
        done = ", ".join(str(step).splitlines())
        match step:
            case Close(key):
                await _rewritten(connection, key.path, closed)
            case ReleaseStep(lists):
                paths = [path for each in lists for path in await _paths(connection, each, is_protected)]
                refused = await _at_once(paths, lambda path: _rewritten(connection, path, _release))
                if refused:
                    raise refused[0]
                done = f"released {count(len(paths), 'group')} from the finalizer {FINALIZER}"
            case Retract(lists):
                retracted, left = await _retract(connection, lists)
                done = f"removed conditions of {count(retracted, 'group')}"
            case DeleteStep():
                await _remove(connection, step)
        echo(f"done: {done}")
    return left


def _rights(*, delete_groups: bool) -> list[Right]:
    """Return all rights that an uninstall may need, whatever exists."""
    keys = installed()
    definitions = [each for each in keys if each.kind == "CustomResourceDefinition"]
    going = [each for each in keys if delete_groups or each not in definitions]
    resources = [each.name.split(".", 1) for each in definitions]
    return [
        *allowed.rights(keys, "list", "get"),
        *allowed.rights(going, "delete"),
        *allowed.rights(definitions, "update"),
        *(Right("", "", group, name, "", verb) for name, group in resources for verb in _RELEASING),
    ]


async def _remove(connection: Connection, step: DeleteStep) -> None:
    for key, uid in step.objects:
        await delete(connection, key, uid, policy="Foreground" if key.kind == "Deployment" else "Background")
    left = await still_there(connection, [key for key, _ in step.objects])
    if left:
        raise PodiumError(f"{'; '.join(left)}. Remove what it waits for, then run this again")


async def _retract(connection: Connection, lists: Iterable[str]) -> tuple[int, list[str]]:
    """Remove outdated conditions; return the number of groups, and a line for each refusal."""
    done, left = 0, []
    for each in lists:
        try:
            paths = await _paths(connection, each, outdated)
        except RefusedError as refused:
            left.append(f"conditions of groups stay, because groups cannot be listed: {refused}")
            continue
        refusals = await _at_once(paths, lambda path: _retracted(connection, path))
        done += len(paths) - len(refusals)
        if refusals:
            left.append(f"conditions of {count(len(refusals), 'group')} stay: {refusals[0]}")
    return done, left


async def _paths(connection: Connection, path: str, wanted: Callable[[Document], object]) -> list[str]:
    """Return the paths of the wanted groups of a list."""
    api, _, plural = path.rpartition("/")
    metadata = [each["metadata"] async for each in items(connection, path) if wanted(each)]
    return [f"{api}/namespaces/{each['namespace']}/{plural}/{each['name']}" for each in metadata]


async def _at_once(paths: Iterable[str], write: Callable[[str], Awaitable[None]]) -> list[RefusedError]:
    """Write several objects concurrently, and return the refusals.

    Raises PodiumError if there is no answer.
    """
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(path: str) -> RefusedError | None:
        async with room:
            try:
                await write(path)
            except RefusedError as refused:
                return refused
        return None

    return [each for each in await asyncio.gather(*map(one, paths)) if each is not None]


def _release(document: Document) -> Document:
    metadata = document["metadata"]
    left = [each for each in metadata.get("finalizers", ()) if each != FINALIZER]
    return {**document, "metadata": {**metadata, "finalizers": left}}


async def _rewritten(connection: Connection, path: str, change: Callable[[Document], Document]) -> None:
    """Read an object, change it and write it, if it exists."""

    async def write() -> None:
        document = await read(connection, path)
        if document is not None:
            await connection.send("PUT", path, change(document), fieldManager=MANAGER)

    await _write_with_retries(write)


async def _retracted(connection: Connection, path: str) -> None:
    """Remove the outdated conditions of a group, if it exists.

    An apply removes the conditions that only its manager owns.
    """

    async def write() -> None:
        while (group := await read(connection, path)) is not None and (found := outdated(group)) is not None:
            manager, lasting = found
            metadata = group["metadata"]
            document = {
                "apiVersion": group["apiVersion"],
                "kind": group["kind"],
                "metadata": {name: metadata[name] for name in ("uid", "resourceVersion")},
                # An API server refuses an empty status for a custom resource without any other status field.
                **({"status": {"conditions": lasting}} if lasting else {}),
            }
            await connection.apply(f"{path}/status", document, manager=manager)

    await _write_with_retries(write)


async def _write_with_retries(write: Callable[[], Awaitable[None]]) -> None:
    """Write, with retries after conflicts; an object that is gone needs no write."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await write()
        except RefusedError as refused:
            if refused.code == 404:
                return None
            if refused.code not in _AGAIN or attempt == _ATTEMPTS:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)
    return None
