"""An install carried out: asked of the server beforehand, waited for, and undone when it fails half way.

Nothing is written before the server was asked, in a dry run, whether it takes every document. An install
that fails undoes what it did, the last first: what it made goes, by UID; what was there before gets back the
fields that were written. Custom resources that somebody made meanwhile stay.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError, Sleep
from podium.kube.paging import Pager
from podium.kube.reading import decode
from podium.ops.install import (
    MANAGED_BY,
    MANAGER,
    OURS,
    Action,
    Apply,
    Await,
    Document,
    Key,
    Outcome,
    Remove,
    action,
    key_of,
    lacking,
    manifests,
    objects_path,
    plan,
)
from podium.ops.restoring import restoring

_GLANCE_SECONDS = 0.5
# How long what was taken away may take to be gone before it is named as left. A definition has been seen to
# take more than a minute on a busy server, with no object of its own left.
_GONE_SECONDS = 180.0

Say = Callable[[str], None]


async def read(connection: Connection, path: str) -> Document | None:
    """Give what is at a path; None where there is nothing. Raises PodiumError."""
    try:
        document: Document = decode(await connection.get(path), dict[str, Any])
    except RefusedError as refused:
        if refused.code == 404:
            return None
        raise
    return document


async def inventory(connection: Connection) -> list[Document]:
    """List what installs have made that is there now, of any version and mode. Raises PodiumError."""
    kinds = sorted({key_of(each)._replace(name="") for each in manifests("scheduler", None)})
    selector = f"{MANAGED_BY}={MANAGER}"

    async def made(key: Key) -> list[Document]:
        kind = {"apiVersion": key.api_version, "kind": key.kind}
        return [{**kind, **each} async for each in items(connection, key.collection, labelSelector=selector)]

    return [each for found in await asyncio.gather(*map(made, kinds)) for each in found]


async def preview(connection: Connection, documents: Sequence[Document], *, force: bool) -> list[Outcome]:
    """Ask the server in a dry run what applying each document would do; nothing is written.

    A ConfigMap that somebody else has changed is the administrator's, and kept, unless `force` takes it.
    Raises PodiumError when the server cannot be asked; what it refuses is an outcome.
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
) -> Outcome:
    """Apply a document in a dry run, but for those in `new` namespaces: the server takes none into them."""
    key = key_of(document)
    if key.namespace in new:
        return Outcome(key, Action.CREATED, None, document)
    try:
        forced = force or key.kind in OURS
        body = await connection.apply(key.path, document, manager=MANAGER, force=forced, dryRun="All")
    except RefusedError as refused:
        kept = key.kind == "ConfigMap" and before is not None and refused.code == 409
        done = Action.KEPT if kept else Action.REFUSED
        return Outcome(key, done, before, before, refused.message)
    after = msgspec.json.decode(body, type=dict[str, Any])
    return Outcome(key, action(before, after), before, after if before else document)


class _Done(NamedTuple):
    """What was done to an object: as it was and as it is then, None where there is nothing."""

    key: Key
    before: Document | None
    after: Document | None


class Installer:
    """One install on one server; `say` is told each step in a line."""

    def __init__(
        self,
        connection: Connection,
        *,
        timeout: float,
        force: bool,
        say: Say,
        clock: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`timeout` is in seconds, for all that is waited for together."""
        self._connection = connection
        self._deadline = clock() + timeout
        self._force = force
        self._say = say
        self._clock = clock
        self._sleep = sleep
        self._done: list[_Done] = []

    async def install(self, outcomes: Sequence[Outcome], documents: Sequence[Document]) -> None:
        """Install what `preview` was asked about, until all of it works.

        Raises PodiumError when it does not, after undoing it; the line says what is left.
        """
        there = {each.key: each.before for each in outcomes if each.before is not None}
        kept = {each.key for each in outcomes if each.action is Action.KEPT}
        surplus = [each.before for each in outcomes if each.action is Action.REMOVED and each.before]
        wanted = [each for each in documents if key_of(each) not in kept]
        try:
            for step in plan(wanted, there, surplus):
                match step:
                    case Apply(document):
                        await _whole(self._apply(document))
                    case Remove(document):
                        await _whole(self._remove(document))
                    case Await():
                        await self._await(step)
        except PodiumError as error:
            raise PodiumError(f"not installed: {error}; {await self._undo()}") from None
        except asyncio.CancelledError:
            self._say(await self._undo())
            raise

    async def _apply(self, document: Document) -> None:
        key = key_of(document)
        before = await read(self._connection, key.path)
        try:
            force = self._force or key.kind in OURS
            body = await self._connection.apply(key.path, document, manager=MANAGER, force=force)
        except PodiumError as error:
            # No answer does not mean that the server did nothing.
            if not isinstance(error, RefusedError):
                self._done.append(_Done(key, before, await read(self._connection, key.path)))
            raise
        after = msgspec.json.decode(body, type=dict[str, Any])
        done = action(before, after)
        if done is not Action.UNCHANGED:
            self._done.append(_Done(key, before, after))
            self._say(f"{done} {key}")

    async def _remove(self, document: Document) -> None:
        key = key_of(document)
        self._done.append(_Done(key, document, None))
        await delete(self._connection, key, document["metadata"]["uid"])
        self._say(f"removed {key}")

    async def _await(self, wanted: Await) -> None:
        told = ""
        while True:
            document = await read(self._connection, wanted.key.path)
            what = lacking(document, wanted.until)
            if not what:
                break
            if document is None:
                raise PodiumError(f"{wanted.key} {what}: somebody has taken it away")
            if what != told:
                self._say(f"waiting: {wanted.key} {what}")
                told = what
            if self._clock() > self._deadline:
                raise PodiumError(f"{wanted.key} {what}, and the time is over (--timeout)")
            await self._sleep(_GLANCE_SECONDS)
        self._say(f"{wanted.key} is {wanted.until}")

    async def _undo(self) -> str:
        """Undo what was done, the last first; say what is left."""
        self._say("undoing what was done; who interrupts this runs it again, or podium uninstall")
        left = []
        gone: list[Key] = []
        for done in reversed(self._done):
            try:
                if done.before is not None:
                    await self._put_back(done.key, done.before, done.after)
                elif done.after is not None and await _holds_objects(self._connection, done.key):
                    left.append(f"{done.key}, for it has objects")
                elif done.after is not None:
                    await delete(self._connection, done.key, done.after["metadata"]["uid"])
                    gone.append(done.key)
                    self._say(f"took away {done.key}")
            except PodiumError as error:
                left.append(f"{done.key}: {error}")
        try:
            going = await still_there(self._connection, gone, self._clock, self._sleep)
        except PodiumError as error:
            left.append(f"what is being deleted cannot be seen: {error}")
        else:
            left += [f"{key}, which is still being deleted" for key in going]
        if left:
            return f"left: {'; '.join(left)}"
        return "all that it had done was undone" if self._done else "nothing was changed"

    async def _put_back(self, key: Key, before: Document, after: Document | None) -> None:
        """Give an object that was there the fields as they were."""
        now = await read(self._connection, key.path)
        uid = before["metadata"]["uid"]
        if after is not None and (now is None or now["metadata"]["uid"] != uid):
            return  # somebody has taken it away since
        await self._connection.apply(key.path, restoring(before, after), manager=MANAGER, force=True)
        self._say(f"put back {key}")


async def _whole(writing: Coroutine[Any, Any, None]) -> None:
    """Let a write end, so that it is known what it did, before being cancelled."""
    task = asyncio.ensure_future(writing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


async def delete(connection: Connection, key: Key, uid: str, *, policy: str = "Background") -> None:
    """Delete an object and what it made; one that is gone, or another by now, is fine. Raises PodiumError.

    With the policy `Foreground` it is there until all that it made is gone.
    """
    options = {"preconditions": {"uid": uid}, "propagationPolicy": policy}
    try:
        await connection.send("DELETE", key.path, options)
    except RefusedError as refused:
        if refused.code not in (404, 409):
            raise


async def still_there(
    connection: Connection, keys: Iterable[Key], clock: Callable[[], float], sleep: Sleep
) -> list[Key]:
    """Wait, not for ever, until deleted objects are gone; give those that are not."""
    deadline = clock() + _GONE_SECONDS
    left = list(keys)
    while left := [key for key in left if await read(connection, key.path) is not None]:
        if clock() > deadline:
            return left
        await sleep(_GLANCE_SECONDS)
    return []


async def _holds_objects(connection: Connection, key: Key) -> bool:
    """Say whether a custom resource's definition would take objects with it."""
    definition = await read(connection, key.path) if key.kind == "CustomResourceDefinition" else None
    if definition is None:
        return False
    async for _ in items(connection, objects_path(definition), most=1):
        return True
    return False


async def items(
    connection: Connection, path: str, *, most: int | None = None, **query: str
) -> AsyncIterator[Document]:
    """Give the items of a list, read by pages of `most` at most; none where there is no such list.

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
