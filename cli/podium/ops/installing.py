"""Carry out an install: preview it on the server, wait for each condition, and undo it if it fails.

Nothing is written before the server has accepted every document in a dry run. An install that fails undoes
its steps in reverse order. It deletes what it created, by UID, and restores the fields that it changed in
existing objects. Custom resources that users created in the meantime stay.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any

from podium import jsontext
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, get_or_none
from podium.kube.paging import Pager
from podium.kube.reading import decode
from podium.kube.timeouts import within
from podium.ops.deletion import remaining
from podium.ops.install import (
    MANAGED_BY,
    MANAGER,
    OURS,
    Action,
    Apply,
    Await,
    Document,
    InstallOutcome,
    Key,
    RemoveObject,
    Until,
    action,
    key_of,
    lacking,
    manifests,
    objects_path,
    plan_install,
)
from podium.ops.restoring import restoring
from podium.ops.rolling import NO_ROLLOUT, RolloutReport, evidence, read_rollout
from podium.ops.rollout import CauseLimits, Rollout

_GLANCE_SECONDS = 0.5
# The kind and the name of the Deployment that writes the caBundles.
_WEBHOOK = ("Deployment", "podium-webhook")
# How long restored Deployments may take to be available again before they are reported.
_RESTORED_SECONDS = 30.0
# How long deleted objects may take to disappear before they are reported as left. A definition without
# objects has been seen to take more than a minute on a busy server.
_GONE_SECONDS = 180.0

Echo = Callable[[str], None]


async def read(connection: Connection, path: str) -> Document | None:
    """Return the object at a path, or None if there is none. Raises PodiumError."""
    body = await get_or_none(connection, path)
    return None if body is None else decode(body, dict[str, Any])


async def inventory(connection: Connection) -> list[Document]:
    """Return the existing objects that installs created, of any version and mode. Raises PodiumError."""
    kinds = sorted({key_of(each)._replace(name="") for each in manifests("scheduler", None)})
    selector = f"{MANAGED_BY}={MANAGER}"

    async def made(key: Key) -> list[Document]:
        kind = {"apiVersion": key.api_version, "kind": key.kind}
        return [{**kind, **each} async for each in items(connection, key.collection, labelSelector=selector)]

    return [each for found in await asyncio.gather(*map(made, kinds)) for each in found]


async def preview(
    connection: Connection, documents: Sequence[Document], *, force: bool
) -> list[InstallOutcome]:
    """Return what applying each document would do, from a dry run; nothing is written.

    A ConfigMap that another manager changed belongs to the administrator. It is kept unless `force` is set.
    Raises PodiumError if the server does not answer; a refusal is an outcome.
    """
    keys = [key_of(each) for each in documents]
    found = await asyncio.gather(*(read(connection, key.path) for key in keys))
    new = {key.name for key, there in zip(keys, found, strict=True) if key.kind == "Namespace" and not there}
    asked = [
        _tried(connection, document, before, new=new, force=force)
        for document, before in zip(documents, found, strict=True)
    ]
    return await asyncio.gather(*asked)


async def _tried(
    connection: Connection, document: Document, before: Document | None, *, new: set[str], force: bool
) -> InstallOutcome:
    """Apply a document in a dry run, except in `new` namespaces, where the server refuses dry runs."""
    key = key_of(document)
    if key.namespace in new:
        return InstallOutcome(key, Action.CREATED, None, document)
    try:
        forced = force or key.kind in OURS
        body = await connection.apply(key.path, document, manager=MANAGER, force=forced, dryRun="All")
    except RefusedError as refused:
        kept = key.kind == "ConfigMap" and before is not None and refused.code == 409
        done = Action.KEPT if kept else Action.REFUSED
        return InstallOutcome(key, done, before, before, refused.message)
    after = jsontext.parse(body, dict[str, Any])
    return InstallOutcome(key, action(before, after), before, after if before else document)


class Installer:
    """An install on one server; `echo` receives a line for each step."""

    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float,
        force: bool,
        echo: Echo,
    ) -> None:
        """Create an installer; `timeout` is in seconds, for all waits together."""
        self._connection = connection
        self._deadline = time.monotonic() + timeout
        self._force = force
        self._echo = echo
        # The changes so far: the object before and after, None if it did not exist.
        self._done: list[tuple[Key, Document | None, Document | None]] = []
        self._webhook: Key | None = None

    async def install(self, outcomes: Sequence[InstallOutcome], documents: Sequence[Document]) -> None:
        """Install the documents that `preview` checked, and wait until all of them work.

        Raises PodiumError if that fails, after the undo. Its message lists what is left.
        """
        there = {each.key: each.before for each in outcomes if each.before is not None}
        kept = {each.key for each in outcomes if each.action is Action.KEPT}
        surplus = [each.before for each in outcomes if each.action is Action.REMOVED and each.before]
        wanted = [each for each in documents if key_of(each) not in kept]
        keys = map(key_of, documents)
        self._webhook = next((each for each in keys if (each.kind, each.name) == _WEBHOOK), None)
        try:
            for step in plan_install(wanted, there, surplus):
                match step:
                    case Apply(document):
                        await _whole(self._apply(document))
                    case RemoveObject(document):
                        await _whole(self._remove(document))
                    case Await():
                        await self._await(step)
        except PodiumError as error:
            raise PodiumError(f"not installed: {error}; {await self._undo()}") from None
        except asyncio.CancelledError:
            self._echo(await within(None, self._undo()))
            raise

    async def _apply(self, document: Document) -> None:
        key = key_of(document)
        before = await read(self._connection, key.path)
        try:
            force = self._force or key.kind in OURS
            body = await self._connection.apply(key.path, document, manager=MANAGER, force=force)
        except PodiumError as error:
            # Without an answer the server may still have done the write.
            if not isinstance(error, RefusedError):
                self._done.append((key, before, await read(self._connection, key.path)))
            raise
        after = jsontext.parse(body, dict[str, Any])
        done = action(before, after)
        if done is not Action.UNCHANGED:
            self._done.append((key, before, after))
            self._echo(f"{done} {key}")

    async def _remove(self, document: Document) -> None:
        key = key_of(document)
        self._done.append((key, document, None))
        await delete(self._connection, key, document["metadata"]["uid"])
        self._echo(f"removed {key}")

    async def _await(self, wanted: Await) -> None:
        """Wait for a condition. Raises PodiumError at the deadline, or if a cause is permanent before."""
        shown, limits = "", CauseLimits()
        while True:
            document = await read(self._connection, wanted.key.path)
            what = lacking(document, wanted.until)
            if not what:
                break
            if document is None:
                raise PodiumError(f"{wanted.key} {what}: deleted during install")
            report = await self._report(wanted, document)
            what = _worded(what, report.state)
            if what != shown:
                self._echo(f"waiting: {wanted.key} {what}")
                shown = what
            now = time.monotonic()
            permanent = limits.permanent(report.state.causes, now)
            if permanent or now > self._deadline:
                for line in await evidence(self._connection, report):
                    self._echo(line)
                limit = "" if permanent else ": time limit reached (--timeout)"
                raise PodiumError(f"{wanted.key} {what}{limit}")
            await asyncio.sleep(_GLANCE_SECONDS)
        self._echo(f"{wanted.key} is {wanted.until}")

    async def _report(self, wanted: Await, document: Document) -> RolloutReport:
        """Return the state of the Deployment that a condition needs; the webhook writes the caBundles."""
        deployment: Document | None = None
        if wanted.until is Until.AVAILABLE:
            deployment = document
        elif wanted.until is Until.TRUSTED and self._webhook is not None:
            deployment = await read(self._connection, self._webhook.path)
        return NO_ROLLOUT if deployment is None else await read_rollout(self._connection, deployment)

    async def _undo(self) -> str:
        """Undo the changes in reverse order, and return a sentence on what is left."""
        self._echo("undoing the changes; after an interruption run this again, or podium uninstall")
        left = []
        gone: list[Key] = []
        for key, before, after in reversed(self._done):
            try:
                if before is not None:
                    await self._put_back(key, before, after)
                elif after is not None and await _holds_objects(self._connection, key):
                    left.append(f"{key}, because it has objects")
                elif after is not None:
                    await delete(self._connection, key, after["metadata"]["uid"])
                    gone.append(key)
                    self._echo(f"removed {key}")
            except PodiumError as error:
                left.append(f"{key}: {error}")
        try:
            left += await still_there(self._connection, gone)
            left += await self._unavailable()
        except PodiumError as error:
            left.append(f"the objects cannot be read after the undo: {error}")
        if left:
            return f"left: {'; '.join(left)}"
        return "all changes were undone" if self._done else "nothing was changed"

    async def _unavailable(self) -> list[str]:
        """Wait for a limited time until restored Deployments run, and describe those that do not."""
        deadline = time.monotonic() + _RESTORED_SECONDS
        keys = [key for key, before, _ in self._done if before is not None and key.kind == "Deployment"]
        while True:
            found = {
                key: each for key in keys if (each := await read(self._connection, key.path)) is not None
            }
            states = {key: (await read_rollout(self._connection, each)).state for key, each in found.items()}
            left = {key: state for key, state in states.items() if state.lacks}
            if not left or time.monotonic() > deadline:
                return [f"{key}, restored: it {_worded(state.lacks, state)}" for key, state in left.items()]
            await asyncio.sleep(_GLANCE_SECONDS)

    async def _put_back(self, key: Key, before: Document, after: Document | None) -> None:
        """Restore the old values of the fields of an object that existed before."""
        now = await read(self._connection, key.path)
        uid = before["metadata"]["uid"]
        if after is not None and (now is None or now["metadata"]["uid"] != uid):
            return  # The object was deleted in the meantime.
        await self._connection.apply(key.path, restoring(before, after), manager=MANAGER, force=True)
        self._echo(f"restored {key}")


def _worded(what: str, state: Rollout) -> str:
    """Return what an object lacks, and why."""
    return f"{what}: {state.why}" if state.why else what


async def _whole(writing: Coroutine[Any, Any, None]) -> None:
    """Let a write finish before cancellation, so that its effect is known."""
    task = asyncio.ensure_future(writing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


async def delete(connection: Connection, key: Key, uid: str, *, policy: str = "Background") -> None:
    """Delete an object and its dependents; a missing or replaced object is ignored. Raises PodiumError.

    With the policy `Foreground` the object exists until all its dependents are gone.
    """
    options = {"preconditions": {"uid": uid}, "propagationPolicy": policy}
    try:
        await connection.send("DELETE", key.path, options)
    except RefusedError as refused:
        if refused.code not in (404, 409):
            raise


async def still_there(connection: Connection, keys: Iterable[Key]) -> list[str]:
    """Wait for a limited time until deleted objects are gone, and describe those that are not."""
    deadline = time.monotonic() + _GONE_SECONDS
    left = list(keys)
    while True:
        found = {key: each for key in left if (each := await read(connection, key.path)) is not None}
        if not found or time.monotonic() > deadline:
            return [await _remaining(connection, key, each) for key, each in found.items()]
        left = list(found)
        await asyncio.sleep(_GLANCE_SECONDS)


async def _remaining(connection: Connection, key: Key, document: Document) -> str:
    """Return an object that is still being deleted, and what it waits for."""
    pods: Sequence[Document] = ()
    if key.kind == "Deployment":
        pods = (await read_rollout(connection, document)).pods
    why = remaining(document, pods)
    return f"{key} is still being deleted{f' ({why})' if why else ''}"


async def _holds_objects(connection: Connection, key: Key) -> bool:
    """Return whether deleting a custom resource's definition would delete objects."""
    definition = await read(connection, key.path) if key.kind == "CustomResourceDefinition" else None
    if definition is None:
        return False
    async for _ in items(connection, objects_path(definition), most=1):
        return True
    return False


async def items(
    connection: Connection, path: str, *, most: int | None = None, **query: str
) -> AsyncIterator[Document]:
    """Yield the items of a list, in pages of at most `most`; none if there is no such list.

    Raises PodiumError.
    """
    pager = Pager(connection, path, query, most)
    token = ""
    while True:
        try:
            answer = decode(await pager.page(token), dict[str, Any])
        except RefusedError as refused:
            if refused.code == 404:
                return
            raise
        for each in answer["items"]:
            yield each
        token = answer["metadata"].get("continue")
        if not token:
            return
