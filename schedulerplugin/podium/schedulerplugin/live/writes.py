"""All writes of the scheduler, one method each: fenced by the lease, bounded, about one pod or group.

Every write names the UID, so it cannot hit a later pod of the same name. Every write may be sent twice
without harm, so it is repeated if a busy or silent server leaves the result open. The exception is a binding,
because the second one is refused; there the pod is read to learn whether the first one succeeded.

No decision waits for a delete, a mark or a nomination. A failure that lasts is raised as it is, and the
caller handles it.

The pods of one decision are bound at the same time (`bind_all`). All of them are assumed on their nodes
already, so nothing waits for a bind. A bind that fails does not stop the others. Bound members stay bound
(they are never evicted to undo a decision), and more bound members are better than fewer.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import msgspec

from podium.api.findings import ObjectRef
from podium.api.groups import SCHEDULER_MANAGER
from podium.api.meta import Condition
from podium.api.saving import SAVE_REQUESTED
from podium.errors import PodiumError
from podium.kube.backoff import Backoff
from podium.kube.connection import Connection, RefusedError, Sleep
from podium.kube.preconditions import (
    LeaseOverError,
    StaleError,
    condition_value,
    conditions_document,
    fenced,
    group_path,
)
from podium.kube.reading import decode
from podium.planner.liveplugin import ChangedError, GoneError
from podium.planner.preemption.inflight import DISRUPTION_TARGET
from podium.schedulerplugin.scheduling.effects import Bind, PodRef

_ATTEMPTS = 5
# Status codes of a server that is in trouble or too busy. Every other answer is final.
_AGAIN = (429, 500, 502, 503, 504)
_INVALID = 422
# Refusals that say nothing about the object: the credential, the server's load, another writer.
_PASSING = (401, 408, 409, 429)
# Parts of an API server's answer 500 about an object that is too large for etcd or for its client.
_TOO_LARGE = ("request is too large", "message larger than max")
_STRATEGIC = "application/strategic-merge-patch+json"
_MERGE = "application/merge-patch+json"

# Removes the condition from a pod's status.
_NOT_SCHEDULED = {"$patch": "delete", "type": "PodScheduled"}
# Part of the answer to a dry run if a webhook would have to be called that has side effects.
_NO_DRY_RUN = "does not support dry run"
# Parts of the answers of 1.36 and 1.37 to a delete of an object that was replaced.
_OTHER_UID = ("UID in precondition", "UID in the precondition")

# The kinds of writes, and their possible results, as the metrics count them.
WRITES = ("bind", "claim", "nominate", "mark", "delete", "group")
_EVICTING = ("mark", "delete")
RESULTS = ("written", "gone", "taken", "failed")
Counted = Callable[[str, str], None]


class TakenError(PodiumError):
    """The pod is already bound to `node`, which is not the wanted one."""

    def __init__(self, pod: PodRef, node: str) -> None:
        super().__init__(f"pod {pod.namespace}/{pod.name} is bound already, to node {node}")
        self.node = node


def is_too_large(error: PodiumError) -> bool:
    """Return whether a write was refused because the object would be larger than the API server stores."""
    if not isinstance(error, RefusedError):
        return False
    return error.code == 413 or (error.code == 500 and any(text in error.message for text in _TOO_LARGE))


def is_final(error: PodiumError) -> bool:
    """Return whether a write was refused for a reason of its object or a policy, so a repetition is, too."""
    if not isinstance(error, RefusedError):
        return False
    own = 400 <= error.code < 500 and error.code not in _PASSING
    return own or error.by_webhook or is_too_large(error)


class StoredMetadata(msgspec.Struct):
    """The identity of an object as it is stored."""

    uid: str = ""
    resourceVersion: str = ""
    deletionTimestamp: str | None = None


class _StoredSpec(msgspec.Struct):
    nodeName: str | None = None


class _StoredPod(msgspec.Struct):
    metadata: StoredMetadata
    spec: _StoredSpec


class StoredObject(msgspec.Struct):
    """An object as it is stored; its spec is JSON."""

    metadata: StoredMetadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class Writes:
    """Writes for as long as `remaining` (seconds) allows, at most `limit` at the same time.

    Each method raises LeaseOverError if the lease ended first, and GoneError as its docstring says. It raises
    RefusedError if the server refuses, and PodiumError if the server gives no answer, both after retries.
    """

    def __init__(
        self,
        connection: Connection,
        remaining: Callable[[], float],
        *,
        limit: int = 64,
        sleep: Sleep,
        random: Callable[[], float],
        counted: Counted,
    ) -> None:
        """`random` returns numbers from 0 up to 1; `counted` takes one of WRITES and one of RESULTS."""
        assert limit > 1
        self.limit = limit
        self._connection = connection
        self._remaining = remaining
        self._slots = asyncio.Semaphore(limit)
        # An eviction of thousands of pods leaves slots for binds: it gets at most three quarters.
        self._eviction_slots = asyncio.Semaphore(limit - max(1, limit // 4))
        self._sleep = sleep
        self._random = random
        self._counted = counted

    @property
    def busy(self) -> bool:
        """Whether a write would have to wait for a slot now."""
        return self._slots.locked() or self._eviction_slots.locked()

    async def bind(self, pod: PodRef, node: str) -> None:
        """Bind a pod to a node.

        Raises GoneError, also when the pod is being deleted, and TakenError.
        """
        path = _path(pod)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        document = {"metadata": {"name": pod.name, "uid": pod.uid}, "target": target}

        async def attempt() -> None:
            try:
                await self._send("POST", f"{path}/binding", document)
            except StaleError as error:
                if error.gone or not await self._is_bound(pod, node):
                    raise
            except LeaseOverError:
                raise
            except PodiumError as error:
                # A 429 means that nothing was done. After any other answer only the pod shows the result.
                if isinstance(error, RefusedError) and error.code not in _AGAIN[1:]:
                    raise
                if not await self._is_bound(pod, node):
                    raise

        await self.perform("bind", attempt)

    async def nominate(self, pod: PodRef, node: str | None, condition: Condition | None) -> None:
        """Set the nominated node of a pod (None clears it) and a condition.

        Raises GoneError, also when the pod was bound meanwhile: the API server refuses a nomination then.
        """
        status: dict[str, Any] = {"nominatedNodeName": node}
        if condition is not None:
            status["conditions"] = [condition_value(condition)]

        async def attempt() -> None:
            try:
                await self._patch(pod, status)
            except RefusedError as error:
                if error.code != _INVALID or "already bound" not in str(error):
                    raise
                raise GoneError(str(error)) from None

        await self.perform("nominate", attempt)

    async def mark(
        self, pod: PodRef, condition: Condition, version: str | None = None, *, requested: str = ""
    ) -> None:
        """Set a condition of a pod, if the pod still has that version. Raises GoneError and ChangedError.

        The mark of a victim may ask it to save its work too: `requested` is the time of that. A mark that is
        withdrawn takes the request back.
        """
        status = {"conditions": [condition_value(condition)]}
        annotations: dict[str, str | None] = {}
        if requested or (condition.type, condition.status) == (DISRUPTION_TARGET, "False"):
            annotations[SAVE_REQUESTED] = requested or None

        async def attempt() -> None:
            try:
                await self._patch(pod, status, version, annotations)
            except StaleError as error:
                if version is None or error.gone:
                    raise
                raise ChangedError(str(error)) from None

        await self.perform("mark", attempt)

    async def delete(self, pod: PodRef) -> None:
        """Delete a pod with its own grace period; a pod that is gone counts as deleted.

        Any delete first adds a dozen bytes to the pod, which a pod that is full to the size limit does not
        take. Our condition PodScheduled makes room for them.
        """

        async def delete_once() -> None:
            try:
                await self.remove(_path(pod), pod.uid)
            except RefusedError as error:
                if not is_too_large(error):
                    raise
                await self._shrink_and_delete(pod)

        await self.perform("delete", delete_once)

    async def try_delete(self, pod: PodRef) -> None:
        """Let the API server and admission webhooks judge the deletion of a pod, which is not deleted.

        A webhook that cannot judge without side effects is not asked.
        """

        async def try_once() -> None:
            try:
                await self.remove(_path(pod), pod.uid, dryRun=["All"])
            except RefusedError as error:
                if _NO_DRY_RUN not in error.message:
                    raise

        await self._retry("delete", try_once)

    async def apply_group(self, ref: ObjectRef, uid: str, conditions: Sequence[Condition]) -> None:
        """Apply all conditions of ours that a PodGroup or CompositePodGroup shall have. Raises GoneError."""
        path = f"{group_path(ref)}/status"
        document = conditions_document(ref, uid, conditions)

        async def attempt() -> None:
            await fenced(
                self._remaining,
                lambda: self._connection.apply(
                    path, document, manager=SCHEDULER_MANAGER, force=True, patient=False
                ),
            )

        await self.perform("group", attempt)

    async def patch_status(self, pod: PodRef, status: dict[str, Any]) -> None:
        """Set fields of the status of a pod before its bind. Raises GoneError."""

        async def patch_once() -> None:
            await self._patch(pod, status)

        await self.perform("claim", patch_once)

    async def create(self, path: str, document: Any) -> bytes:
        """Create an object once, and return it as stored; raises StaleError if its name is taken."""
        return await self._send("POST", path, document)

    async def merge(self, path: str, document: Any) -> StoredObject:
        """Send a merge patch once; return the object as it is then.

        Raises StaleError if the object has another version than the patch names.
        """
        stored: StoredObject = decode(await self._send("PATCH", path, document, _MERGE), StoredObject)
        return stored

    async def remove(self, path: str, uid: str, **options: Any) -> None:
        """Delete an object once; an object that is gone, or replaced, counts as deleted.

        `options` are further DeleteOptions. Raises StaleError for a conflict other than another UID.
        """
        document = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}, **options}
        try:
            await self._send("DELETE", path, document)
        except StaleError as error:
            if not error.gone and not any(text in str(error) for text in _OTHER_UID):
                raise

    async def perform(self, kind: str, attempt: Callable[[], Awaitable[None]]) -> None:
        """Repeat a write of one of WRITES as long as that may help, and count its result."""
        try:
            await self._retry(kind, attempt)
        except StaleError as error:
            self._counted(kind, "gone" if error.gone else "failed")
            if error.gone:
                raise GoneError(str(error)) from None
            raise
        except GoneError:
            self._counted(kind, "gone")
            raise
        except TakenError:
            self._counted(kind, "taken")
            raise
        except PodiumError:
            self._counted(kind, "failed")
            raise
        self._counted(kind, "written")

    async def _retry(self, kind: str, attempt: Callable[[], Awaitable[None]]) -> None:
        """Repeat a write for a while if the server may answer differently, after the pause it asks for."""
        backoff = Backoff(self._random)
        for _ in range(_ATTEMPTS - 1):
            try:
                async with self._slot(kind):
                    return await attempt()
            except (GoneError, TakenError, ChangedError, LeaseOverError):
                raise
            except StaleError as error:
                if error.gone:
                    raise
                # The write names no resourceVersion, so the conflict is between the server and too many other
                # writes.
                pause = backoff.next()
            except RefusedError as error:
                if error.code not in _AGAIN or is_final(error):
                    raise
                # Never longer than our longest pause, whatever the server asks for: see Connection.
                pause = error.retry_after or backoff.next()
            except PodiumError:
                pause = backoff.next()
            await self._sleep(pause)
        async with self._slot(kind):
            return await attempt()

    @asynccontextmanager
    async def _slot(self, kind: str) -> AsyncIterator[None]:
        """Hold one of the slots that this kind of write may use."""
        async with self._eviction_slots if kind in _EVICTING else nullcontext(), self._slots:
            yield

    async def _patch(
        self,
        pod: PodRef,
        status: dict[str, Any],
        version: str | None = None,
        annotations: Mapping[str, str | None] = MappingProxyType({}),
    ) -> bytes:
        metadata: dict[str, Any] = {"uid": pod.uid}
        if version is not None:
            metadata["resourceVersion"] = version
        if annotations:
            metadata["annotations"] = annotations
        document = {"metadata": metadata, "status": status}
        return await self._send("PATCH", f"{_path(pod)}/status", document, _STRATEGIC)

    async def _send(
        self, method: str, path: str, document: Any, content_type: str = "application/json"
    ) -> bytes:
        return await fenced(
            self._remaining,
            lambda: self._connection.send(
                method,
                path,
                document,
                content_type=content_type,
                patient=False,
                fieldManager=SCHEDULER_MANAGER,
                # Validation would only warn of unknown fields, and costs a twentieth of a patch.
                fieldValidation="Ignore",
            ),
        )

    async def _shrink_and_delete(self, pod: PodRef) -> None:
        """Delete a pod without our condition. Raises StaleError if it was changed meanwhile."""
        try:
            body = await self._patch(pod, {"conditions": [_NOT_SCHEDULED]})
        except StaleError as error:
            if error.gone:
                return
            raise
        stored: StoredObject = decode(body, StoredObject)
        # Without the version, the API server may begin with the larger pod in its cache.
        version = {"resourceVersion": stored.metadata.resourceVersion}
        await self.remove(_path(pod), pod.uid, preconditions={"uid": pod.uid, **version})

    async def _is_bound(self, pod: PodRef, node: str) -> bool:
        """Return whether a pod is bound to a node, as stored now. Raises GoneError and TakenError."""
        body = await fenced(self._remaining, lambda: self._connection.get(_path(pod)))
        stored: _StoredPod = decode(body, _StoredPod)
        if stored.metadata.uid != pod.uid or stored.metadata.deletionTimestamp is not None:
            raise GoneError(f"pod {pod.namespace}/{pod.name} (UID {pod.uid}) is gone or terminating")
        bound = stored.spec.nodeName or ""
        if bound not in ("", node):
            raise TakenError(pod, bound)
        return bound == node


def _path(pod: PodRef) -> str:
    return f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}"


Job = Callable[[], Awaitable[None]]


async def together(jobs: Sequence[Job], width: int) -> PodiumError | None:
    """Run jobs in order, up to `width` at a time; return the first error, after which no job starts.

    Jobs that are running by then are awaited, because their result is known only at their end.
    """
    left = iter(jobs)
    failed: PodiumError | None = None

    async def work() -> None:
        nonlocal failed
        for job in left:
            try:
                await job()
            except PodiumError as error:
                failed = failed or error
            if failed is not None:
                return

    workers = min(len(jobs), width)
    if workers == 1:
        await work()
    elif workers:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(workers):
                tasks.create_task(work())
    return failed


Done = Callable[[PodRef, str, PodiumError | None], None]


async def bind_all(writes: Writes, bind: Bind, done: Done) -> None:
    """Bind the pods.

    `done` is called with each pod, its node and the error (None if bound), as soon as they are known.
    """

    def job(pod: PodRef, node: str) -> Job:
        async def work() -> None:
            failed: PodiumError | None = None
            try:
                await writes.bind(pod, node)
            except PodiumError as error:
                failed = error
            done(pod, node, failed)

        return work

    await together([job(pod, node) for pod, node in bind.pods], writes.limit)
