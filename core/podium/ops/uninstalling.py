"""An uninstall carried out, step by step; one that fails is run again, for it begins with what is there."""

import asyncio
from collections.abc import Callable
from typing import Any

from podium.api.groups import FINALIZER
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, Sleep
from podium.kube.discovery import server_version
from podium.ops import allowed
from podium.ops.doctor.facts import Right
from podium.ops.install import MANAGER, key_of
from podium.ops.installing import Say, delete, inventory, objects, read, still_there
from podium.ops.uninstall import Close, Plan, Release, Remove, closed, installed, plan

# Somebody wrote in between, or a webhook that was just taken away is still asked.
_AGAIN = (409, 422, 500)
_ATTEMPTS = 10
_PAUSE_SECONDS = 0.5
# To find what has our finalizer, and to take it away.
_RELEASING = ("list", "get", "update")


async def look(connection: Connection, *, delete_groups: bool) -> Plan:
    """See what of Podium is there, of whatever version, and plan to take it away. Raises PodiumError."""
    # What is no API server says so here.
    await server_version(connection)
    await allowed.check(connection, _rights(delete_groups=delete_groups), "have a cluster-admin do it")
    looked = await asyncio.gather(*(read(connection, key.path) for key in installed()))
    found = [each for each in looked if each is not None]
    known = {key_of(each) for each in found}
    found += [each for each in await inventory(connection) if key_of(each) not in known]
    resources = {
        each["metadata"]["name"]: await objects(connection, each)
        for each in found
        if each["kind"] == "CustomResourceDefinition"
    }
    return plan(found, resources, delete_groups=delete_groups)


async def carry_out(
    connection: Connection,
    planned: Plan,
    *,
    say: Say,
    clock: Callable[[], float],
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Do what is planned; what does not go in time ends it. Raises PodiumError."""
    for step in planned.steps:
        match step:
            case Close(key):
                await _rewritten(connection, key.path, sleep, closed)
            case Release(paths):
                for path in paths:
                    await _rewritten(connection, path, sleep, _release)
            case Remove():
                await _remove(connection, step, clock, sleep)
        say(f"done: {', '.join(str(step).splitlines())}")


def _rights(*, delete_groups: bool) -> list[Right]:
    """Give all that it may take, whatever is there."""
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


async def _remove(connection: Connection, step: Remove, clock: Callable[[], float], sleep: Sleep) -> None:
    for key, uid in step.objects:
        await delete(connection, key, uid, policy="Foreground" if key.kind == "Deployment" else "Background")
    left = await still_there(connection, [key for key, _ in step.objects], clock, sleep)
    if left:
        names = ", ".join(map(str, left))
        raise PodiumError(f"{names}: still being deleted: see its finalizers, and run this again")


def _release(document: dict[str, Any]) -> dict[str, Any]:
    metadata = document["metadata"]
    left = [each for each in metadata.get("finalizers", ()) if each != FINALIZER]
    return {**document, "metadata": {**metadata, "finalizers": left}}


async def _rewritten(
    connection: Connection,
    path: str,
    sleep: Sleep,
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """Read an object and write it changed, again where somebody else wrote meanwhile."""
    for attempt in range(1, _ATTEMPTS + 1):
        document = await read(connection, path)
        if document is None:
            return
        try:
            await connection.send("PUT", path, change(document), fieldManager=MANAGER)
        except RefusedError as refused:
            if refused.code not in _AGAIN or attempt == _ATTEMPTS:
                raise
            await sleep(_PAUSE_SECONDS)
        else:
            return
